"""The inline tags of a sentence as a tree over its words."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from tram.filetypes.base import Tag
from tram.text.verbatim import RESERVED

# A word, or one sign. Scripts without blanks between words have one word per character.
IDEOGRAPHS = (
    "\u2e80-\u2fff\u3005-\u3007\u3040-\u30ff\u31c0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
WORD = re.compile(rf"[{RESERVED}{IDEOGRAPHS}]|[^\W{IDEOGRAPHS}]+(?:['’·.][^\W{IDEOGRAPHS}]+)*|[^\w\s]")
IDEOGRAPH = re.compile(f"[{IDEOGRAPHS}]")
# A longer run of signs is no end of a word, and is not searched to its end again from each of its signs.
WORD_END = re.compile(r"""[.,;:!?…)\]»“”"']{0,40}+(?:\s|$)""")


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each word and each sign."""
    return [match.span() for match in WORD.finditer(text)]


def depth_in_run(text: str, position: int) -> int:
    """Return how deep inside a run of characters without a blank a position is.

    0: at an end of the run, or beside a character of a script without blanks; 1: before the signs that close it;
    2: anywhere else.
    """
    before, after = text[max(position - 1, 0) : position], text[position : position + 1]
    if not before or not after.strip() or IDEOGRAPH.match(before) or IDEOGRAPH.match(after):
        return 0
    if WORD_END.match(text, position):
        return 1
    return 2 if before.strip() else 0


@dataclass(slots=True, eq=False)
class Node:
    """A pair of tags with everything inside it, or a single tag.

    words: the source words (first, behind the last) that it covers.
    left: a tag without content follows a word directly and moves with that word.
    depth: how deep inside a run of characters it may be without content; all inside it is then in the same place.
    start, end: character positions in the target.
    """

    opening: Tag | None
    closing: Tag | None
    words: tuple[int, int]
    order: int = 0
    left: bool = True
    depth: int = 0
    pair: bool = True
    from_start: bool = False  # its opening tag is in an earlier sentence
    to_end: bool = False
    children: list["Node"] = field(default_factory=list)
    start: int = 0
    end: int = 0

    @property
    def length(self) -> int:
        """How many characters of the source it is around."""
        return self.closing.position - self.opening.position if self.opening and self.closing else 0

    @property
    def covers_words(self) -> bool:
        """Whether it is around something, as opposed to a point between words."""
        return self.pair and self.words[0] < self.words[1]

    @property
    def has_points(self) -> bool:
        """Whether it contains a tag that must keep its place in the order of empty elements."""
        return not self.covers_words or any(child.has_points for child in self.children)

    @property
    def is_ordered(self) -> bool:
        """Whether it must keep its place among its siblings."""
        return self.has_points or self.from_start or self.to_end


def parse(source: str, tags: Sequence[Tag]) -> Node:
    """Return the tags as a tree. Tags that are not properly nested become points, like empty elements."""
    spans = word_spans(source)
    partners = find_partners(tags)
    unopened = [i for i, tag in enumerate(tags) if tag.kind == "close" and partners.get(i) == -1]
    root = Node(None, None, (0, len(spans)))
    stack = [root]
    for i in reversed(unopened):
        node = Node(None, tags[i], (0, 0), order=-1, from_start=True)
        stack[-1].children.append(node)
        stack.append(node)
    for order, tag in enumerate(tags):
        if tag.kind == "open" and order in partners:
            node = Node(tag, None, (first_word(spans, tag.position), 0), order, to_end=partners[order] == -1)
            stack[-1].children.append(node)
            stack.append(node)
        elif tag.kind == "close" and order in partners:
            node = stack.pop()
            node.closing = tag
            last = last_word(spans, tag.position)
            start = node.opening.position if node.opening else 0
            node.words = (node.words[0] if source[start : tag.position].strip() else last, last)
            node.left = _follows_word(source, tag.position)
            node.depth = min([depth_in_run(source, tag.position), *(child.depth for child in node.children)])
        else:
            where, left = last_word(spans, tag.position), _follows_word(source, tag.position)
            depth = depth_in_run(source, tag.position)
            point = Node(tag, None, (where, where), order, left, depth, pair=False)
            stack[-1].children.append(point)
    for node in stack[1:]:
        node.words = (node.words[0], len(spans))
    return root


def find_partners(tags: Sequence[Tag]) -> dict[int, int]:
    """Return the index of each tag's partner; -1 if it is in another sentence; nothing for tags that cross pairs."""
    partners: dict[int, int] = {}
    stack: list[int] = []
    opened: dict[int, list[int]] = {}  # the tags on the stack by key
    crossing: set[int] = set()  # those of them that count no longer
    for i, tag in enumerate(tags):
        if tag.kind == "open":
            stack.append(i)
            opened.setdefault(tag.key, []).append(i)
        elif tag.kind == "close":
            while stack and stack[-1] in crossing:
                stack.pop()
            if stack and tags[stack[-1]].key == tag.key:
                partners[i] = stack.pop()
                partners[opened[tag.key].pop()] = i
            elif not stack:
                partners[i] = -1
            else:  # crosses the pair on top of the stack: both tags of the crossing one are points
                crossing.update(opened.pop(tag.key, ()))
    return partners | {i: -1 for i in stack if i not in crossing}


def first_word(spans: list[tuple[int, int]], position: int) -> int:
    """Return the first word that ends behind a position."""
    return bisect_right(spans, position, key=lambda span: span[1])


def last_word(spans: list[tuple[int, int]], position: int) -> int:
    """Return the index behind the last word that starts before a position."""
    return bisect_left(spans, position, key=lambda span: span[0])


def _follows_word(source: str, position: int) -> bool:
    """Whether a point moves with the word before it rather than the word after it."""
    before, after = source[max(position - 1, 0) : position], source[position : position + 1]
    return bool(before.strip()) or not after.strip()
