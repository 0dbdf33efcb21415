"""Strings that may contain tags, such as messages of programs and subtitles."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from tram.filetypes.blocks import Item, cut_item
from tram.filetypes.html_tags import TOKEN, VOID

NO_TEXT = "\x1f"  # stands for an item that is no text


def marked_up_items(text: str) -> Iterator[Item]:
    """Yield the items of a string with HTML-like tags; `data` of a tag is what to write.

    A tag without a partner, such as `<file>` in a message, is copied like a word.
    """
    matches = list(TOKEN.finditer(text, 0, text.rfind(">") + 1))  # no tag ends behind it
    paired = _paired([(m["name"] or "", m["close"] or "", m[0]) for m in matches])
    position = 0
    for number, match in enumerate(matches):
        if match.start() > position:
            yield Item("text", position, match.start(), text[position : match.start()])
        name, position = (match["name"] or "").lower(), match.end()
        raw = match[0]
        if number in paired:
            yield Item("close" if match["close"] else "open", match.start(), position, name=name, data=raw)
        elif name == "br":
            yield Item("line", match.start(), position, data=raw)
        elif not match["close"] and (raw.endswith("/>") or name in VOID):
            yield Item("empty", match.start(), position, data=raw)
        else:
            yield Item("opaque", match.start(), position, raw)
    if position < len(text):
        yield Item("text", position, len(text), text[position:])


def with_tags(items: Sequence[Item]) -> list[Item]:
    """Make tags of what is written as text between other items, such as `&lt;b&gt;` in a file for translators."""
    return reread(items, marked_up_items)


def reread(items: Sequence[Item], read: Callable[[str], Iterable[Item]]) -> list[Item]:
    """Read the text of items as other items, which may begin in one and end in another; items that are no text stay.

    read: makes items of the whole text, in which a character stands for what is no text.
    """
    text = "".join(item.text if item.kind == "text" else NO_TEXT for item in items)
    pieces = list(read(text))
    if all(piece.kind == "text" for piece in pieces):
        return list(items)
    owners = [(i, at) for i, item in enumerate(items) for at in range(len(item.text) if item.kind == "text" else 1)]
    result: list[Item] = []
    for piece in pieces:
        inside = owners[piece.start : piece.end]
        if piece.kind == "text":
            for i, group in groupby(inside, key=lambda owner: owner[0]):
                places = [at for _, at in group]
                is_whole = items[i].kind != "text" or len(places) == len(items[i].text)
                result.append(items[i] if is_whole else cut_item(items[i], places[0], places[-1] + 1))
        else:
            (first, start), (last, end) = inside[0], inside[-1]
            start, end = cut_item(items[first], start, start + 1).start, cut_item(items[last], end, end + 1).end
            result.append(replace(piece, start=start, end=end, data=items[first].data))
    return result


def _paired(tags: list[tuple[str, str, str]]) -> set[int]:
    """Return the indices of tags that have a partner."""
    opened: list[int] = []
    by_name: dict[str, list[int]] = {}  # the same
    result: set[int] = set()
    for i, (name, close, raw) in enumerate(tags):
        if close:
            partner = by_name[name][-1] if by_name.get(name) else i
            while opened and opened[-1] >= partner:  # it, and what was opened inside of it and has no end
                by_name[tags[opened.pop()][0]].pop()
            result |= {i, partner} if partner < i else set()
        elif name and not raw.endswith("/>"):
            opened.append(i)
            by_name.setdefault(name, []).append(i)
    return result
