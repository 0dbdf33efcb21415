"""Measure copied spans: real sentences with emoji, Chinese, URLs, code and placeholders must keep every span once.

python runs/tags/verbatim.py SENTENCES [--model DIR] [--count 1000] [--output report.json]

SENTENCES: a text file, one sentence per line. Sentences that already have spans come first; one to three spans are
inserted between two words of the others. The script counts the sentences whose translation has each span as often as
the source, and how many of them were translated again, in parts, or are doubtful.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from tram.files import write_json
from tram.text.verbatim import VerbatimRules, find_spans
from tram.translation.translator import Translator

SPANS = {
    "emoji": ["😀", "👩‍👩‍👧", "🇩🇪", "⚠️", "❤️", "🎉🎉", "✅", "→"],
    "Chinese": ["你好", "文件夹", "北京大学", "打开文件"],
    "URL": ["https://example.org/a?b=c&d=1", "www.example.com", "http://localhost:8080/", "mail@example.org"],
    "code": [
        "`rm -rf build`",
        "get_name()",
        "my_variable",
        "<br/>",
        "std::vector",
        "/etc/fstab",
        "--help",
        "config.yaml",
    ],
    "placeholder": ["%s", "%1$d", "{name}", "{{ user.id }}", "${HOME}", "%(count)d", "$PATH", "{0}"],
    "number": ["25 %", "3.5 GB", "€ 99", "100 km/h", "v1.2.3"],
}
DOCUMENT = 10  # sentences


def with_spans(sentences: list[str], rng: random.Random) -> Iterator[str]:
    """Yield sentences that have spans, then sentences with inserted spans."""
    rules = VerbatimRules()
    own = [sentence for sentence in sentences if 20 < len(sentence) < 200 and find_spans(sentence, rules)]
    yield from own[: len(own) // 2]
    for sentence in sentences:
        words = sentence.split()
        if 4 <= len(words) <= 25 and not find_spans(sentence, rules):
            for kind in rng.sample(sorted(SPANS), rng.choice([1, 1, 2, 3])):
                words.insert(rng.randrange(1, len(words)), rng.choice(SPANS[kind]))
            yield " ".join(words)


def spans(sentence: str) -> Counter[str]:
    """Return the spans of a sentence."""
    return Counter(span.content for span in find_spans(sentence))


def main() -> None:
    """Translate the sentences and count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sentences", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    lines = [line for line in given.sentences.read_text(encoding="utf-8").splitlines() if line.strip()]
    rng.shuffle(lines)
    sources = list(islice(with_spans(lines, rng), given.count))
    translator = Translator.load(given.model, beam=given.beam)
    documents = [sources[i : i + DOCUMENT] for i in range(0, len(sources), DOCUMENT)]
    found = [each for row in translator.detailed(documents, verbatim=VerbatimRules()) for each in row]
    pairs = list(zip(sources, found, strict=True))
    lost = [
        {"source": source, "translation": each.text, "spans": sorted(spans(source) - _count(source, each.text))}
        for source, each in pairs
        if spans(source) != _count(source, each.text)
    ]
    warnings = Counter(warning for each in found for warning in each.warnings)
    total = sum(sum(spans(source).values()) for source in sources)
    print(f"{len(sources)} sentences, {total} spans; not every span once: {len(lost)} sentences; {dict(warnings)}")
    for each in lost[:20]:
        print(each)
    if given.output:
        write_json(given.output, {"sentences": len(sources), "spans": total, "lost": lost, "warnings": warnings})


def _count(source: str, translation: str) -> Counter[str]:
    """Return how often a translation has the spans of its source, longer ones first."""
    result: Counter[str] = Counter()
    for content in sorted(spans(source), key=len, reverse=True):
        number = translation.count(content)
        if number:
            result[content] = number
            translation = translation.replace(content, "\n")
    return result


if __name__ == "__main__":
    main()
