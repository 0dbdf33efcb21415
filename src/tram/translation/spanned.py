"""Documents whose verbatim spans are kept out of the model's way, and the way back.

document = SpannedDocument(["See https://example.org."], VerbatimRules(), sentinels=False)
document.texts                                   # ["See X1."]: what is translated
document.join(translations)                      # one translation per sentence, spans put back
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tram.text.special_ids import SENTINELS
from tram.text.verbatim import Protected, VerbatimRules, Written, protect
from tram.text.words import Alignment, filled_alignment, word_ranges
from tram.translation.guards import Spans
from tram.translation.parts import Translation

# Placeholders for numbers, such as %d, %1$ld, %(count)d, %n, {count}, and tags of templates, which may be around one
NUMBER = re.compile(
    r"%(?:\d+\$|\(\w+\))?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|z|j|t|L)?[diufgen]|\{(?:n|num|number|count|total)\}|\{%.*%\}"
)


WORD = re.compile(r"[^\W\d_]+")
LONGEST_ABBREVIATION = 4  # letters
PRONOUN = re.compile(r"\bi\b")  # the only word of English that is a capital


class SpannedDocument:
    """A document as the model is given it; a sentence with masses of spans is several texts, one without words none.

    Words in capitals, as in headings and subtitles, are translated in small letters: models have seen few such
    words, and leave them in the source language.
    texts: to be translated; spans: of each text, None if it has none.
    """

    def __init__(self, sentences: Sequence[str], rules: VerbatimRules | None, sentinels: bool) -> None:
        """Protect the spans that the rules name; None: none. sentinels: whether the model copies its sentinels."""
        self.sentences = sentences
        self.texts: list[str] = []
        self.spans: list[Spans | None] = []
        self._rows: list[list[Protected]] | None = None
        if rules is None:
            self.texts = list(sentences)
            self.spans = [None] * len(sentences)
            return
        self._rows = [protect(sentence, rules) for sentence in sentences]
        for protected in (each for row in self._rows for each in row if each.needs_translation):
            given = _in_small_letters(protected) if _is_in_capitals(protected) else protected
            written = _written(given, sentinels)
            self.texts.append(written.text)
            self.spans.append(Spans(given, written) if given.contents else None)

    def join(self, translations: Sequence[Translation], alignment: bool = False) -> list[Translation]:
        """Return the translations of the sentences from those of the texts, which are aligned or not."""
        if self._rows is None:
            return list(translations)
        given = iter(zip(translations, self.spans, strict=True))
        return [_joined([_restored(protected, given, alignment) for protected in row]) for row in self._rows]


def _is_in_capitals(protected: Protected) -> bool:
    """Return whether a text is words in capitals, and not a short abbreviation alone."""
    words = WORD.findall(protected.text)
    lengths = [len(word) for word in words if len(word) > 1]
    return all(map(str.isupper, words)) and (len(lengths) > 1 or max(lengths, default=0) > LONGEST_ABBREVIATION)


def _in_small_letters(protected: Protected) -> Protected:
    text = PRONOUN.sub("I", protected.text.lower())
    return replace(protected, text=WORD.sub(lambda word: word[0][:1].upper() + word[0][1:], text, count=1))


def _written(protected: Protected, sentinels: bool) -> Written:
    if sentinels or not protected.contents:
        return protected.as_sentinels()
    return protected.as_names() or protected.as_plain() or protected.as_sentinels()


def _restored(
    protected: Protected, given: Iterator[tuple[Translation, Spans | None]], alignment: bool
) -> tuple[int, Translation]:
    """Return how many words the source has, and the translation with its spans put back."""
    translation, spans = next(given) if protected.needs_translation else (Translation(protected.text, 0.0), None)
    target = translation.text if spans is None else spans.written.with_sentinels(translation.text)
    if _is_in_capitals(protected):
        target = target.upper()
    target, protected = _without_hyphens(target, protected)
    restored = replace(translation, text=protected.restore(target).text)
    if not alignment:
        return 0, restored
    links = translation.alignment
    if links is None:  # not translated: every word is itself
        links = [(word, word) for word in range(len(target.split()))]
    sources, targets = (dict(zip(SENTINELS, each, strict=False)) for each in (protected.sources, protected.contents))
    words = sum(map(len, word_ranges(protected.text, sources)))
    return words, replace(restored, alignment=filled_alignment(links, protected.text, sources, target, targets))


def _without_hyphens(target: str, protected: Protected) -> tuple[str, Protected]:
    """Return a translation in which no placeholder for a number has become the first part of a compound.

    A stand-in such as X1 looks like a name: "X1 files" becomes "X1-Dateien", which is right of a name only.
    """
    contents = list(protected.contents)
    for i, (sentinel, content) in enumerate(zip(SENTINELS, contents, strict=False)):
        if NUMBER.fullmatch(content) and f"{sentinel}-" not in protected.text:
            target, count = re.subn(rf"{sentinel}-(?=[^\W\d_])", sentinel, target)
            contents[i] += " " * count
    return target, replace(protected, contents=tuple(contents))


def _joined(parts: list[tuple[int, Translation]]) -> Translation:
    """Return the parts of a sentence, with the number of words of their sources, as one translation."""
    if len(parts) == 1:
        return parts[0][1]
    alignment: Alignment = []
    first_source = first_target = 0
    for words, part in parts:
        alignment += [(first_source + source, first_target + target) for source, target in part.alignment or ()]
        first_source += words
        first_target += len(part.text.split())
    translations = [part for _, part in parts]
    translated = [part.score for part in translations if part.score] or [0.0]
    return Translation(
        " ".join(part.text for part in translations),
        sum(translated) / len(translated),
        alignment if any(part.alignment is not None for part in translations) else None,
        tuple(dict.fromkeys(warning for part in translations for warning in part.warnings)),
    )
