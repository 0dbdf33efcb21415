"""Training pairs for the reserved characters of a text pipeline: copy sentinels, separator and mask.

    random = Random(1)
    documents = (augmented(document, random) for document in read_parallel("train.en", "train.de"))

- In some pairs, up to three spans that occur exactly once on both sides, in the same form (numbers, URLs, paths, names,
  …), are replaced by consecutive sentinels in the order of the source.
- Some pairs are repeated, joined with the next pair of the document: "A ⟨separator⟩ B" on both sides.
- Some pairs are repeated with one word of the source masked.

Repeated pairs are appended to their document, so this is for sentence-level training, not for documents in order.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from random import Random

from tram.data.corpus import ParallelDocument
from tram.text.special_ids import MASK, SENTINELS, SEPARATOR

COPY_SHARE = 0.04  # share of the pairs that are searched for spans
MAX_SPANS = 3  # per pair
JOIN_SHARE = 0.005
MASK_SHARE = 0.005
MAX_CHARACTERS = 400  # of a joined side; more would be truncated in training

# Spans that a translation leaves unchanged, the most specific kinds first.
SPAN = re.compile(
    r"""
      (?P<url> \b (?: [a-z]{3,6}:// | www\. ) [^\s"'<>()\[\]{}„“”‚‘’«»]* [\w/\#=&] )
    | (?P<mail> [\w.+-]+ @ [\w-]+ (?: \.[\w-]+ )+ )
    | (?P<code> ` [^`]{1,60} ` )
    | (?P<path> (?<![\w/]) (?: [A-Za-z]:\\ | ~? / | \.{1,2}/ )? [\w.+@-]* \w (?: [/\\] [\w.+@-]* \w )+ /?
              | ~?(?<!\w)/\w[\w.+-]+ )
    | (?P<file> (?<![\w.-]) [\w-]{2,} (?: \.[\w-]+ )*? \. [A-Za-z][A-Za-z0-9]{1,4} )
    | (?P<option> (?<![\w-]) (?: --[A-Za-z][\w-]*\w (?: =\w+ )? | -[A-Za-z] ) )
    | (?P<variable> \$ \{? [A-Za-z_]\w+ \}? )
    | (?P<identifier> (?: [A-Za-z]\w*_\w+ | [A-Za-z]+\d\w* | \d+[A-Za-z]\w* | [A-Za-z]*[a-z][A-Z]\w+ ) (?: \(\) )? )
    | (?P<number> \d (?: [\d.,:/-]*\d )+ )
    | (?P<names> [A-ZÄÖÜ][^\W\d_]{3,} (?: [ ][A-ZÄÖÜ][^\W\d_]{3,} )* )
    """,
    re.VERBOSE,
)
NAME = re.compile(r"[^\W\d_]+")
# The text before the first word of a sentence, which is capitalised whether or not it is a name
SENTENCE_START = re.compile(r"""(?: ^ | [.:;!?…] ) [\s"'„“”‚‘’«»()\[\]*–-]* $""", re.VERBOSE)
LONG_WORD = re.compile(r"(?<![\w-])[^\W\d_]{4,}(?![\w-])")
INSIDE_BEFORE = re.compile(r"[\w$@/\\]$|\d[.,:-]$|[./-]-$")
INSIDE_AFTER = re.compile(r"[\w/\\@=]|[.,:-]\d|[.:@_]\w|\(\)")

Pair = tuple[str, str]
Range = tuple[int, int]


def augmented(document: ParallelDocument, random: Random) -> ParallelDocument:
    """Return a document with sentinels in some pairs, and joined and masked pairs appended."""
    pairs = list(zip(document.source, document.target, strict=True))
    result: list[Pair] = []
    extra: list[Pair | None] = []
    for number, pair in enumerate(pairs):
        copied = with_sentinels(pair, random) if random.random() < COPY_SHARE else None
        result.append(copied or pair)
        if not all(pair):
            continue
        if random.random() < JOIN_SHARE and number + 1 < len(pairs) and all(pairs[number + 1]):
            extra.append(joined(pair, pairs[number + 1]))
        if random.random() < MASK_SHARE:
            extra.append(masked(pair, random))
    result += [pair for pair in extra if pair]
    return ParallelDocument([source for source, _ in result], [target for _, target in result], document.id)


def with_sentinels(pair: Pair, random: Random) -> Pair | None:
    """Return the pair with one to three copied spans as sentinels, in the order of the source; None if it has none."""
    source, target = pair
    spans = copied_spans(source, target)
    if not spans:
        return None
    spans = sorted(random.sample(spans, min(len(spans), random.randint(1, MAX_SPANS))))
    # All sentinels are trained, the first ones most often
    first = random.randint(0, len(SENTINELS) - len(spans)) if random.random() < 0.5 else 0
    places = [(at := target.find(text), at + len(text)) for text in (source[slice(*span)] for span in spans)]
    if any(one[1] > other[0] for one, other in pairwise(sorted(places))):
        return None
    sentinels = SENTINELS[first : first + len(spans)]
    return _replaced(source, spans, sentinels), _replaced(target, places, sentinels)


def copied_spans(source: str, target: str) -> list[Range]:
    """Return the spans of the source that occur once, as whole words, on both sides."""
    return [
        span
        for span in _candidates(source)
        if _occurs_once(text := source[slice(*span)], source) and _occurs_once(text, target)
    ]


def _candidates(source: str) -> Iterator[Range]:
    for match in SPAN.finditer(source):
        if match.lastgroup != "names":
            yield match.span()
            continue
        for word in NAME.finditer(source, *match.span()):
            if not SENTENCE_START.search(source, 0, word.start()):
                yield word.span()


def _occurs_once(span: str, text: str) -> bool:
    """Return whether a span occurs once, and not inside a word, a path or a number."""
    at = text.find(span)
    if at < 0 or text.find(span, at + 1) >= 0:
        return False
    before, after = text[max(at - 2, 0) : at], text[at + len(span) : at + len(span) + 2]
    return not INSIDE_BEFORE.search(before) and not INSIDE_AFTER.match(after)


def joined(pair: Pair, following: Pair) -> Pair | None:
    """Return two pairs as one, with the separator between them; None if a side gets too long."""
    source, target = (f"{left} {SEPARATOR} {right}" for left, right in zip(pair, following, strict=True))
    return (source, target) if max(len(source), len(target)) <= MAX_CHARACTERS else None


def masked(pair: Pair, random: Random) -> Pair | None:
    """Return the pair with one longer word of the source masked; None if it has none."""
    words = [match.span() for match in LONG_WORD.finditer(pair[0])]
    return (_replaced(pair[0], [random.choice(words)], MASK), pair[1]) if words else None


def _replaced(text: str, spans: list[Range], characters: str) -> str:
    for (start, end), character in sorted(zip(spans, characters, strict=True), reverse=True):
        text = text[:start] + character + text[end:]
    return text
