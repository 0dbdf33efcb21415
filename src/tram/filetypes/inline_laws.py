"""The laws of inline markup, checked after tags were placed."""

from collections.abc import Iterable, Iterator, Sequence

from tram.filetypes.base import Tag
from tram.filetypes.inline_tree import depth_in_run, find_partners, first_word, last_word, word_spans


def violations(source: str, tags: Sequence[Tag], target: str, placed: Iterable[Tag]) -> list[str]:
    """Return which laws a placement breaks; for tests and as a last check before a file is written."""
    placed = list(placed)
    problems = []
    if sorted((t.kind, t.key) for t in tags) != sorted((t.kind, t.key) for t in placed):
        problems.append("a tag is lost or doubled")
    if [t.key for t in tags if t.kind == "empty"] != [t.key for t in placed if t.kind == "empty"]:
        problems.append("empty elements change their order")
    positions = [t.position for t in placed]
    if positions != sorted(positions) or any(not 0 <= p <= len(target) for p in positions):
        problems.append("positions are not in order")
    if _is_nested(tags) and not _is_nested(placed):
        problems.append("tags are not nested")
    if source != target:
        if not _cuts(target, placed) <= _cuts(source, tags):
            problems.append("a word is cut")
        if any(_splitting(source, tags, target, placed)):
            problems.append("an empty element splits characters that belong together")
        if word_spans(source) and not _around_all(source, tags) <= _around_all(target, placed):
            problems.append("a tag around the whole sentence does not stay around it")
    return problems


def _cuts(text: str, tags: Iterable[Tag]) -> set[tuple[str, int]]:
    """Return the words that tags are inside of, and where in the word."""
    spans = word_spans(text)
    result = set()
    for tag in tags:
        word = first_word(spans, tag.position)
        if word < last_word(spans, tag.position):
            start, end = spans[word]
            result.add((text[start:end].lower(), tag.position - start))
    return result


def _splitting(source: str, tags: Sequence[Tag], target: str, placed: Sequence[Tag]) -> Iterator[bool]:
    """Yield for each empty element whether it is deeper inside a run of characters than in the source.

    Where a pair of tags around words begins or ends, an empty element inside or beside the pair may be, too.
    """
    allowed = {tag.key: depth_in_run(source, tag.position) for tag in tags if tag.kind == "empty"}
    partners = find_partners(tags)
    around = {tag.key for i, tag in enumerate(tags) if i in partners and _is_around_text(source, tags, i, partners[i])}
    edges = {tag.position for tag in placed if tag.kind != "empty" and tag.key in around}
    for tag in placed:
        if tag.kind == "empty" and tag.position not in edges:
            yield depth_in_run(target, tag.position) > allowed.get(tag.key, 0)


def _is_around_text(source: str, tags: Sequence[Tag], tag: int, partner: int) -> bool:
    if partner < 0:
        return True
    start, end = sorted((tags[tag].position, tags[partner].position))
    return source[start:end].strip() != ""


def _is_nested(tags: Sequence[Tag]) -> bool:
    return len(find_partners(tags)) == sum(tag.kind != "empty" for tag in tags)


def _around_all(text: str, tags: Sequence[Tag]) -> set[int]:
    """Return the keys of pairs that are around all words."""
    spans = word_spans(text)
    partners = find_partners(tags)
    if not spans:
        return {tag.key for i, tag in enumerate(tags) if i in partners and partners[i] >= 0}
    return {
        tag.key
        for i, tag in enumerate(tags)
        if tag.kind == "open"
        and partners.get(i, -1) >= 0
        and tag.position <= spans[0][0]
        and tags[partners[i]].position >= spans[-1][1]
    }
