"""Inline markup: where the tags of a source sentence go in its translation.

    place("Press the red button.", tags, "Drück den roten Knopf.", alignment)      → Placed(tags, by_position=False)

Words are those of `inline_tree.word_spans`; an alignment is a list of (source word, target word). Whatever it says:
no tag is lost or doubled, tags stay properly nested, tags around all words stay around all words, empty elements
keep their order, and no word is cut but one that is the same in the source and cut there too; an empty element splits
characters without a blank between them only if it did so in the source. If the translation equals the source, every tag
stays where it was.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tram.filetypes.base import Tag, is_placeholder
from tram.filetypes.inline_tree import Node, depth_in_run, find_partners, first_word, parse, word_spans

Alignment = Sequence[tuple[int, int]]

MAX_DEPTH = 60  # of nested tags that are moved with their words
MAX_WORK = 1 << 22  # tags times length
QUOTES = dict.fromkeys("“”„«»‘’‚'", '"')  # languages have their own
BRIDGE = -0.1  # an unaligned word costs little between two words that belong to a tag, and is left out at the edges


@dataclass(frozen=True, slots=True)
class Placed:
    """The tags of a translation; `by_position` warns that some were placed without an alignment."""

    tags: tuple[Tag, ...]
    by_position: bool


def place(source: str, tags: Sequence[Tag], target: str, alignment: Alignment | None) -> Placed:
    """Put the tags of a source sentence into its translation.

    alignment: (source word, target word) pairs, or None to place tags by relative position.
    A tag without its partner belongs to markup that starts before or ends after the sentence.
    """
    if not tags or source == target:
        return Placed(tuple(tags), by_position=False)
    words = word_spans(target)
    if _depth(tags) > MAX_DEPTH or len(tags) * (len(words) + len(source)) > MAX_WORK:
        return Placed(_in_order(source, tags, target, words), by_position=True)
    inside = _inside_words(source, tags, target, words)
    others = [tag for i, tag in enumerate(tags) if i not in inside]
    placing = _Placing(target, words, _links(source, target, words, alignment))
    root = parse(source, others)
    root.end = len(target)
    placing.lay_out(root, 0, len(words))
    result: list[Tag] = []
    _emit(root, result)
    return Placed(tuple(_merged(result, inside)), by_position=alignment is None and bool(others))


def _inside_words(
    source: str, tags: Sequence[Tag], target: str, words: list[tuple[int, int]]
) -> dict[int, tuple[int, Tag]]:
    """Return the tags of pairs inside a word that the translation has too, as in H<sub>2</sub>O, in their new places.

    By the index of the tag; with the start of the word in the translation.
    """
    spans = word_spans(source)
    partners = find_partners(tags)
    found: dict[int, list[int]] = {}  # tags by source word
    for i, tag in enumerate(tags):
        partner = partners.get(i, -1)
        if tag.kind == "open" and partner >= 0:
            word, stop = first_word(spans, tag.position), tags[partner].position
            start, end = spans[word] if word < len(spans) else (0, 0)
            if start <= tag.position < stop <= end and (tag.position, stop) != (start, end):
                found.setdefault(word, []).extend((i, partner))
    if not found:
        return {}
    places: dict[str, list[int]] = {}
    for start, end in words:
        places.setdefault(target[start:end].lower(), []).append(start)
    result: dict[int, tuple[int, Tag]] = {}
    seen: dict[str, int] = {}
    for word, (start, end) in enumerate(spans):
        text = source[start:end].lower()  # a first word may have got a capital
        number = seen[text] = seen.get(text, -1) + 1
        indices = sorted(found.get(word, ()))
        is_whole = bool(indices) and indices[-1] - indices[0] + 1 == len(indices)  # nothing else is among them
        if is_whole and number < len(places.get(text, ())):
            new = places[text][number]
            for i in indices:
                result[i] = new, Tag(tags[i].kind, tags[i].key, new + tags[i].position - start)
    return result


def _merged(tags: list[Tag], inside: dict[int, tuple[int, Tag]]) -> list[Tag]:
    """Put tags inside of words behind all others that are at the start of the word or before it."""
    result: list[Tag] = []
    waiting = [inside[i] for i in sorted(inside, key=lambda i: (inside[i][0], i))]
    for tag in tags:
        while waiting and waiting[0][0] < tag.position:
            result.append(waiting.pop(0)[1])
        result.append(tag)
    return [*result, *(tag for _, tag in waiting)]


def _depth(tags: Sequence[Tag]) -> int:
    """Return how many tags are open at once, at most; tags without a partner count as well."""
    closing, opening = (sum(tag.kind == kind for tag in tags) for kind in ("close", "open"))
    depth = deepest = max(closing - opening, 0)
    for tag in tags:
        depth += {"open": 1, "close": -1}.get(tag.kind, 0)
        deepest = max(deepest, depth)
    return deepest


def _in_order(source: str, tags: Sequence[Tag], target: str, words: list[tuple[int, int]]) -> tuple[Tag, ...]:
    """Place tags by relative position without a change of their order: for sentences with masses of tags."""
    spans = word_spans(source)
    borders = [border for border in _borders(target, words) if depth_in_run(target, border) == 0]
    result = []
    for tag in tags:
        if not spans or tag.position <= spans[0][0]:
            position = 0
        elif tag.position >= spans[-1][1]:
            position = len(target)
        else:
            position = _nearest(borders, tag.position / len(source) * len(target))
        result.append(Tag(tag.kind, tag.key, position))
    return tuple(result)


def _borders(target: str, words: list[tuple[int, int]]) -> list[int]:
    """Return where tags may be, in order."""
    return sorted({0, len(target), *(border for word in words for border in word)})


def _nearest(sorted_values: Sequence[float], wanted: float) -> Any:
    """Return the value that is nearest to the one that is wanted."""
    at = bisect_left(sorted_values, wanted)
    return min(sorted_values[max(at - 1, 0) : at + 1], key=lambda value: abs(value - wanted))


def _links(source: str, target: str, words: list[tuple[int, int]], alignment: Alignment | None) -> list[list[int]]:
    """Return the source words of each target word."""
    sources = word_spans(source)
    if alignment is None:
        pairs = _by_position(sources, words, len(source), len(target))
    else:
        pairs = {(s, t) for s, t in alignment if 0 <= s < len(sources) and 0 <= t < len(words)}
    placeholders = {source[start]: s for s, (start, _) in enumerate(sources) if is_placeholder(source[start])}
    exact = {placeholders[target[start]]: t for t, (start, _) in enumerate(words) if target[start] in placeholders}
    fixed = set(exact.values())
    pairs = {(s, t) for s, t in pairs if s not in exact and t not in fixed} | set(exact.items())
    pairs |= set(_signs_beside(source, sources, target, words, pairs))
    pairs |= _same_words(source, sources, target, words, pairs)
    pairs |= set(_signs_beside(source, sources, target, words, pairs))
    links: list[list[int]] = [[] for _ in words]
    for s, t in sorted(pairs):
        links[t].append(s)
    return links


def _same_words(
    source: str,
    sources: list[tuple[int, int]],
    target: str,
    targets: list[tuple[int, int]],
    pairs: set[tuple[int, int]],
) -> set[tuple[int, int]]:
    """Link the words without links, such as those of numbers that were copied, that are the same on both sides."""
    linked = [{pair[side] for pair in pairs} for side in (0, 1)]
    found: list[dict[str, list[int]]] = [{}, {}]
    for side, (text, spans) in enumerate(((source, sources), (target, targets))):
        for i, (start, end) in enumerate(spans):
            if i not in linked[side]:
                found[side].setdefault(text[start:end], []).append(i)
    return {(found[0][word][0], at[0]) for word, at in found[1].items() if len(at) == len(found[0].get(word, ())) == 1}


def _signs_beside(
    source: str,
    sources: list[tuple[int, int]],
    target: str,
    targets: list[tuple[int, int]],
    pairs: set[tuple[int, int]],
) -> Iterator[tuple[int, int]]:
    """Link the signs without links beside linked words, such as quotation marks and $, that are the same there too."""
    linked = [{pair[side] for pair in pairs} for side in (0, 1)]
    for pair in sorted(pairs):
        for step in (-1, 1):
            s, t = pair[0] + step, pair[1] + step
            while 0 <= s < len(sources) and 0 <= t < len(targets) and s not in linked[0] and t not in linked[1]:
                one, other = source[slice(*sources[s])], target[slice(*targets[t])]
                if one.isalnum() or QUOTES.get(one, one) != QUOTES.get(other, other):
                    break
                yield s, t
                linked[0].add(s)
                linked[1].add(t)
                s, t = s + step, t + step


def _by_position(
    sources: list[tuple[int, int]], targets: list[tuple[int, int]], source_length: int, target_length: int
) -> set[tuple[int, int]]:
    """Link each word to the one at the same share of the sentence, in both directions."""
    if not sources or not targets:
        return set()
    scale = target_length / source_length
    middles, others = ([sum(span) / 2 for span in spans] for spans in (sources, targets))
    forward = {(s, bisect_left(others, _nearest(others, middle * scale))) for s, middle in enumerate(middles)}
    backward = {(bisect_left(middles, _nearest(middles, middle / scale)), t) for t, middle in enumerate(others)}
    covered = {t for _, t in forward}
    return forward | {(s, t) for s, t in backward if t not in covered}


class _Placing:
    """One sentence's words and links, and the layout of tags over them."""

    def __init__(self, target: str, words: list[tuple[int, int]], links: list[list[int]]) -> None:
        self.words = words
        self.links = links
        self.depths = {border: depth_in_run(target, border) for border in _borders(target, words)}

    def lay_out(self, parent: Node, first: int, last: int) -> None:
        """Place the children of a node that covers the target words first … last - 1."""
        self._pairs(parent, first, last)
        self._points(parent, first, last)

    def _pairs(self, parent: Node, first: int, last: int) -> None:
        """Give each child that covers words a run of target words that no other child has."""
        pairs = [child for child in parent.children if child.covers_words]
        owners: list[Node | None] = [None] * len(self.words)
        # Children whose order matters come first; then small ones, which have fewer places to go.
        # Of those that share a word, the longer one goes first.
        others = sorted((c for c in pairs if not c.is_ordered), key=lambda c: (c.words[1] - c.words[0], -c.length))
        low = first
        for child in [*(c for c in pairs if c.is_ordered), *others]:
            begin = low if child.is_ordered else first
            start, end = self._run(child, parent, owners, begin, last)
            owners[start:end] = [child] * (end - start)
            low = end if child.is_ordered else low
            self._span(child, parent, start, end)
            self.lay_out(child, start, end)

    def _span(self, child: Node, parent: Node, first: int, last: int) -> None:
        """Set the characters that a child covers, within its parent's."""
        if first < last:
            start, end = self.words[first][0], self.words[last - 1][1]
        else:
            start = end = self.words[first - 1][1] if first else parent.start
        start = parent.start if child.from_start else max(start, parent.start)
        child.start, child.end = min(start, parent.end), parent.end if child.to_end else max(end, start)

    def _run(self, child: Node, parent: Node, owners: list[Node | None], low: int, high: int) -> tuple[int, int]:
        """Return the run of free words that fits a child's source words best; an empty run if none is free."""
        free = [owner is None for owner in owners[low:high]]
        if child.words == parent.words and all(free):
            return low, high
        values = [self._value(word, child) for word in range(low, high)]
        if child.from_start or child.to_end:
            size = _edge_run(values if child.from_start else values[::-1], free if child.from_start else free[::-1])
            return (low, low + size) if child.from_start else (high - size, high)
        best = _best_run([value if is_free else float("-inf") for value, is_free in zip(values, free, strict=True)])
        if best is None and (sharing := _sharing(child, parent, owners)) is not None:
            return sharing, sharing
        if best is None:
            length = max(parent.words[1] - parent.words[0], 1)
            middle = low + (sum(child.words) / 2 - parent.words[0]) / length * (high - low)
            return _nearest_free(middle, owners, low, high)
        return low + best[0], low + best[1]

    def _value(self, word: int, child: Node) -> float:
        """Between 1, if a target word is linked only into a child, and -1, if only to other words."""
        links = self.links[word]
        if not links:
            return BRIDGE
        inside = sum(child.words[0] <= s < child.words[1] for s in links)
        return 2 * inside / len(links) - 1 if inside else -1.0

    def _points(self, parent: Node, first: int, last: int) -> None:
        """Place the children that are points, in their order and outside of their siblings."""
        fixed = [child for child in parent.children if child.covers_words]
        ordered = [child for child in fixed if child.is_ordered]
        points = [child for child in parent.children if not child.covers_words]
        low = parent.start
        for point in points:
            low = max([low, *(child.end for child in ordered if child.order < point.order)])
            high = min([parent.end, *(child.start for child in ordered if child.order > point.order)])
            position = min(max(self._point(point, first, last), low), high)
            for sibling in fixed:
                if sibling.start < position < sibling.end:
                    edges = (
                        [sibling.end, sibling.start] if sibling.order < point.order else [sibling.start, sibling.end]
                    )
                    position = next(edge for edge in edges if low <= edge <= high)
            low = self._outside_runs(point, position, low, high, fixed)
            _collapse(point, low)

    def _outside_runs(self, point: Node, position: int, low: int, high: int, siblings: list[Node]) -> int:
        """Return a position from low to high, outside of siblings, that is no deeper in a run than in the source."""
        if self.depths[position] <= point.depth:
            return position
        places = [place for place in self.depths if low <= place <= high and self.depths[place] <= point.depth]
        places.sort(key=lambda place: ((place > position) != point.left, abs(place - position)))
        return next((p for p in places if not any(each.start < p < each.end for each in siblings)), high)

    def _point(self, point: Node, first: int, last: int) -> int:
        """Return the position next to the target word that a point's neighbour is linked to."""
        neighbour = point.words[0] - 1 if point.left else point.words[0]
        linked = [word for word in range(first, last) if neighbour in self.links[word]]
        if linked:
            return self.words[linked[-1]][1] if point.left else self.words[linked[0]][0]
        known = [word for word in range(first, last) if any(s <= neighbour for s in self.links[word])]
        if known:  # behind the words of everything before it
            return self.words[known[-1]][1]
        return self.words[first][0] if first < last else 0


def _sharing(child: Node, parent: Node, owners: list[Node | None]) -> int | None:
    """Return the edge of a sibling that has all words of a child, as with pairs inside one word; None if none has."""
    for sibling in parent.children:
        if sibling is not child and sibling.words[0] <= child.words[0] and child.words[1] <= sibling.words[1]:
            places = [word for word, owner in enumerate(owners) if owner is sibling]
            if places:
                is_behind = (child.order > sibling.order and not sibling.to_end) or sibling.from_start
                return places[-1] + 1 if is_behind else places[0]
    return None


def _collapse(node: Node, position: int) -> None:
    """Put a node without words, and all inside it, at one position."""
    node.start = node.end = position
    for child in node.children:
        _collapse(child, position)


def _best_run(values: list[float]) -> tuple[int, int] | None:
    """Return the run with the greatest positive sum."""
    best, result = 0.0, None
    total, start = 0.0, 0
    for i, value in enumerate(values):
        if total <= 0:
            total, start = 0.0, i
        total += value
        if total > best:
            best, result = total, (start, i + 1)
    return result


def _edge_run(values: list[float], free: list[bool]) -> int:
    """Return how many words from the edge on have the greatest sum."""
    best, size, total = 0.0, 0, 0.0
    for count, (value, is_free) in enumerate(zip(values, free, strict=True), 1):
        if not is_free:
            break
        total += value
        if total > best:
            best, size = total, count
    return size


def _nearest_free(middle: float, owners: list[Node | None], low: int, high: int) -> tuple[int, int]:
    """Return the free word nearest to a position, or an empty run between two children if there is none."""
    free = [word for word in range(low, high) if owners[word] is None]
    if free:
        word = min(free, key=lambda i: abs(i + 0.5 - middle))
        return word, word + 1
    between = [word for word in range(low + 1, high) if owners[word - 1] is not owners[word]]
    first, last = (owners[low], owners[high - 1]) if low < high else (None, None)
    edges = [low] * (first is None or not first.from_start) + [high] * (last is None or not last.to_end)
    at = min([*between, *edges] or [high], key=lambda i: abs(i - middle))
    return at, at


def _emit(node: Node, result: list[Tag]) -> None:
    """Append the tags of a node in order; nesting follows from the tree."""
    if node.opening:
        result.append(Tag(node.opening.kind, node.opening.key, node.start))
    for child in sorted(node.children, key=lambda child: (child.start, child.end, child.order)):
        _emit(child, result)
    if node.closing:
        result.append(Tag(node.closing.kind, node.closing.key, node.end))
