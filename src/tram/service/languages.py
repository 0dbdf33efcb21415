"""The languages of the service: one pair, as the model has it; their names, and which of the two a text is in."""

import re
from dataclasses import dataclass
from itertools import islice

from tram.service.errors import Problem
from tram.text.pipeline import TextPipeline

_NAMES = (
    "ar Arabic|az Azerbaijani|be Belarusian|bg Bulgarian|bn Bengali|bs Bosnian|ca Catalan|cs Czech|cy Welsh|da Danish|"
    "de German|el Greek|en English|eo Esperanto|es Spanish|et Estonian|eu Basque|fa Persian|fi Finnish|fr French|"
    "ga Irish|gl Galician|gu Gujarati|he Hebrew|hi Hindi|hr Croatian|hu Hungarian|hy Armenian|id Indonesian|"
    "is Icelandic|it Italian|ja Japanese|ka Georgian|kk Kazakh|km Khmer|ko Korean|ky Kyrgyz|la Latin|lt Lithuanian|"
    "lv Latvian|mk Macedonian|ml Malayalam|mn Mongolian|mr Marathi|ms Malay|mt Maltese|my Burmese|nb Norwegian Bokmål|"
    "ne Nepali|nl Dutch|nn Norwegian Nynorsk|no Norwegian|pa Punjabi|pl Polish|ps Pashto|pt Portuguese|ro Romanian|"
    "ru Russian|sk Slovak|sl Slovenian|sq Albanian|sr Serbian|sv Swedish|sw Swahili|ta Tamil|te Telugu|th Thai|"
    "tl Tagalog|tr Turkish|uk Ukrainian|ur Urdu|uz Uzbek|vi Vietnamese|zh Chinese|zu Zulu"
)
NAMES = dict(entry.split(" ", 1) for entry in _NAMES.split("|"))
WORD = re.compile(r"[^\W\d_]+")
MOST_WORDS = 1_000  # of a text whose language is guessed


@dataclass(frozen=True)
class Detection:
    """A language and how sure that is, from 0 to 100."""

    language: str
    confidence: float


class Languages:
    """The source and the target language of a text pipeline."""

    def __init__(self, text: TextPipeline) -> None:
        self.source = _base(text.source_language)
        self.target = _base(text.target_language)
        self._source_words = frozenset(text.source_truecaser.words)
        self._target_words = frozenset(text.target_truecaser.words)

    def check(self, source: str, target: str) -> None:
        """Refuse another pair, in LibreTranslate's words; `auto` is the model's source language."""
        known = (self.source, self.target)
        pair = (self.source if source == "auto" else _base(source), _base(target))
        for given, code in zip((source, target), pair, strict=True):
            if code not in known:
                raise Problem(400, f"{given} is not supported")
        if pair != known:
            of, to = pair
            raise Problem(400, f"{name(to)} ({to}) is not available as a target language from {name(of)} ({of})")

    def detect(self, text: str) -> list[Detection]:
        """Guess which language of the pair a text is in, by the words that only one of them has; best first."""
        words = [match[0] for match in islice(WORD.finditer(text), MOST_WORDS)]
        source = sum(word in self._source_words and word not in self._target_words for word in words)
        target = sum(word in self._target_words and word not in self._source_words for word in words)
        if not source + target:
            return [Detection(self.source, 0.0)]
        share = 100 * source / (source + target)
        found = [Detection(self.source, round(share, 1)), Detection(self.target, round(100 - share, 1))]
        return sorted((each for each in found if each.confidence), key=lambda each: -each.confidence)


def name(code: str) -> str:
    """Return the English name of a language."""
    return NAMES.get(code, code)


def _base(code: str) -> str:
    """Return a code without its region: de-AT and DE are de."""
    return re.split("[-_]", code)[0].lower()
