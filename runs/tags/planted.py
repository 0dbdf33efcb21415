"""Measure tag placement: one noun per sentence is tagged, and a dictionary judges the word tagged in the translation.

python runs/tags/planted.py DATA/train DATA/dev [--model DIR] [--sentences 500] [--output report.json]

DATA/train stands for DATA/train.en and DATA/train.de (or .en.xz, .en.gz), in the languages of the model. The dictionary
is built from the training pairs: the target nouns that occur with a source word, with a Dice coefficient of at least
0.45 for the best. Nouns are recognised by their capital, so the target language is German. References are not used.
Each sentence is translated by tram.filetypes as a paragraph of an HTML page. Only sentences are counted in whose
translation exactly one word is a known translation of the tagged noun. A tag is right if it is on that word, and on no
other except an article or the like; it is alone if it is on no other word at all. The baseline is the same translations
with tags placed by relative position; "all links" also uses the weak ones that `tram.filetypes.batch` leaves out.
"""

import argparse
import html
import random
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

from tram.data.corpus import read_parallel
from tram.files import write_json
from tram.filetypes import ReadOptions, Segment
from tram.filetypes.batch import translate_opened
from tram.filetypes.inline import Alignment, place
from tram.filetypes.inline_tree import word_spans
from tram.filetypes.registry import read_bytes
from tram.splice.dictionary import Dictionary
from tram.splice.words import Pair, Tokenized, is_capitalized, spans, words
from tram.translation.translator import Translator

BEST, OTHERS = 0.45, 0.1  # Dice of the best translation, and of others that count as right
LEAST_PAIRS = 5
PAGE = 10  # sentences of a page; pages are translated side by side
SHORT = 4  # letters of a word that may be tagged together with the noun, such as an article
STEM = 5  # letters that two forms of a noun share: Datei, Dateien


@dataclass(frozen=True)
class Counts:
    """Counts of tags on the right word, on that word alone, on a run of words with it, and of all sentences."""

    right: int
    alone: int
    right_or_more: int
    sentences: int


def pairs(name: Path, languages: tuple[str, str]) -> Iterator[Pair]:
    """Yield the pairs of a corpus that is stored as NAME.LANGUAGE, compressed or not."""
    paths = [next(name.parent.glob(f"{name.name}.{language}*")) for language in languages]
    for document in read_parallel(*paths):
        yield from (Pair(*pair, 0) for pair in zip(document.source, document.target, strict=True))


def nouns(dictionary: Dictionary) -> dict[str, set[str]]:
    """Return the source words that are nouns, with their translations."""
    scores: dict[str, dict[str, float]] = {}
    for (word, noun), together in dictionary.translations().items():
        if together >= LEAST_PAIRS and len(noun) >= STEM and len(word) >= STEM:
            scores.setdefault(word, {})[noun] = dictionary.dice(word, noun)
    return {
        word: {noun for noun, score in found.items() if score >= OTHERS}
        for word, found in scores.items()
        if max(found.values()) >= BEST
    }


def planted(sentences: Iterable[str], known: dict[str, set[str]], rng: random.Random) -> Iterator[tuple[str, str]]:
    """Yield a paragraph with a tagged noun, and the noun."""
    for sentence in sentences:
        found = [sentence[start:end].lower() for start, end in spans(sentence)]
        nouns = [i for i, word in enumerate(found) if word in known and found.count(word) == 1]
        if nouns and len(found) >= 6:
            at = rng.choice(nouns)
            start, end = spans(sentence)[at]
            before, noun, after = map(html.escape, (sentence[:start], sentence[start:end], sentence[end:]))
            yield f"<p>{before}<b>{noun}</b>{after}</p>\n", found[at]


def is_translation(word: str, translations: set[str]) -> bool:
    """Return whether a word is one of these, another form of it, or a compound that ends in it."""
    return is_capitalized(word) and any(
        word == noun or word[:-1].startswith(noun[: max(STEM, len(noun) - 2)]) or word.lower().endswith(noun.lower())
        for noun in translations
    )


def tagged(segment: Segment, text: str, alignment: Alignment | None) -> list[str]:
    """Return the words of a translation inside the tag."""
    tags = place(segment.text, segment.tags, text, alignment).tags
    start, end = (next(tag.position for tag in tags if tag.kind == kind) for kind in ("open", "close"))
    return words(text[start:end])


def judge(found: list[list[str]], right: list[str]) -> Counts:
    """Count how often the tag is on the correct word."""
    on = [word in run for run, word in zip(found, right, strict=True)]
    only = [
        is_on and all(w == word or len(w) <= SHORT for w in run)
        for is_on, run, word in zip(on, found, right, strict=True)
    ]
    alone = [run == [word] for run, word in zip(found, right, strict=True)]
    return Counts(sum(only), sum(alone), sum(on), len(right))


def measure(translator: Translator, train: Path, dev: Path, wanted: int, seed: int) -> dict[str, Counts]:
    """Translate sentences with a tagged noun and count where the tags are."""
    languages = (translator.text.source_language, translator.text.target_language)
    dictionary = Dictionary()
    for pair in pairs(train, languages):
        dictionary.add(Tokenized(pair))
    known = nouns(dictionary)
    sentences = [pair.source for pair in pairs(dev, languages)]
    rng = random.Random(seed)
    rng.shuffle(sentences)
    runs: dict[str, list[list[str]]] = {"by alignment": [], "by all links": [], "by relative position": []}
    right: list[str] = []
    stream = planted(sentences, known, rng)
    while len(right) < wanted and (some := list(islice(stream, wanted))):
        pages = ["".join(paragraph for paragraph, _ in some[i : i + PAGE]) for i in range(0, len(some), PAGE)]
        files = [read_bytes("planted.html", page.encode(), options=ReadOptions(*languages)) for page in pages]
        tagged_nouns = iter(noun for _, noun in some)
        for document, rows in translate_opened(translator, files):
            for segment, rendition in zip(document.documents[0], rows[0], strict=True):
                if len(segment.tags) != 2 or rendition is None:
                    continue
                noun = next(tagged_nouns)
                possible = [word for word in words(rendition.text) if is_translation(word, known[noun])]
                if len(possible) == 1 and len(right) < wanted:
                    right.append(possible[0])
                    runs["by alignment"].append(tagged(segment, rendition.text, rendition.alignment))
                    (all_links,) = translator.align([segment.text], [rendition.text], word_spans)
                    runs["by all links"].append(tagged(segment, rendition.text, all_links))
                    runs["by relative position"].append(tagged(segment, rendition.text, None))
    return {name: judge(found, right) for name, found in runs.items()}


def main() -> None:
    """Print the shares of correct tags."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train", type=Path)
    parser.add_argument("dev", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    translator = Translator.load(given.model, beam=given.beam)
    results = measure(translator, given.train, given.dev, given.sentences, given.seed)
    for name, counts in results.items():
        shares = (100 * n / max(counts.sentences, 1) for n in (counts.right, counts.alone, counts.right_or_more))
        right, alone, more = (f"{share:.1f}%" for share in shares)
        print(f"{name}: {right} on the right word, {alone} alone, {more} with others, {counts.sentences} sentences")
    if given.output:
        write_json(given.output, {name: asdict(counts) for name, counts in results.items()})


if __name__ == "__main__":
    main()
