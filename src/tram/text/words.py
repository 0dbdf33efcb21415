"""Words separated by white space, and word alignments between a sentence and its translation."""

import re
from collections.abc import Sequence

Alignment = list[tuple[int, int]]  # (source word, target word)


def words_by_blanks(sentence: str) -> list[tuple[int, int]]:
    """Return start and end of every word of a sentence."""
    return [match.span() for match in re.finditer(r"\S+", sentence)]


def pharaoh(alignment: Sequence[tuple[int, int]]) -> str:
    """Return an alignment as a Pharaoh line: `0-0 1-2`."""
    return " ".join(f"{source}-{target}" for source, target in alignment)


def filled_alignment(
    alignment: Sequence[tuple[int, int]],
    source: str,
    source_contents: dict[str, str],
    target: str,
    target_contents: dict[str, str],
) -> Alignment:
    """Return the word alignment after stand-in characters in both texts were replaced by their contents.

    If a word becomes several words, its links are distributed over them in order.
    """
    sources, targets = word_ranges(source, source_contents), word_ranges(target, target_contents)
    links = []
    for source_word, target_word in alignment:
        old, new = sources[source_word], targets[target_word]
        links += [(old[i * len(old) // len(new)], word) for i, word in enumerate(new) if old]
    return links


def word_ranges(text: str, contents: dict[str, str]) -> list[range]:
    """Return, for every word of a text, the range of words that replaces it when the contents are inserted."""
    ranges, start = [], 0
    for begin, end in words_by_blanks(text):
        size = len("".join(contents.get(character, character) for character in text[begin:end]).split())
        ranges.append(range(start, start + size))
        start += size
    return ranges
