"""The inline content of a Markdown block: which piece of the file each token of markdown-it-py comes from.

markdown-it-py has no positions inside a block. `inline_items` follows its tokens through the content character by
character; where that fails (it has not on any file seen), the block is left untranslated rather than guessed at.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from markdown_it import MarkdownIt
from markdown_it.common.utils import unescapeAll
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.amsmath import RE_OPEN, amsmath_block

from tram.filetypes.blocks import Item
from tram.filetypes.html_tags import OPAQUE, html_tag

# Text that is markup to the tools around Markdown. `start` only begins a block, `line` and `definition` only a line.
EXTENSIONS = re.compile(
    r"""(?P<empty> \[\^[^\[\]\s]+\]:? | \^\[[^\[\]\n]+\]  # notes
               | \{[#.:][^{}\n]*\} | \{\{[<%][^{}\n]*[>%]\}\} | \{%[^{}%\n]*%\})  # templates
      | (?P<mark> (?<![=\w])==(?=[^\s=]) | (?<=[^\s=])==(?![=\w]))  # highlighted text
      | (?P<opaque> (?<![\w:]):(?:[a-z][a-z0-9_+-]*|[+-]1):(?![\w:])  # emoji
               | \{\{[^{}\n]*\}\} | \[\[[^\[\]\n]+\]\])  # variables, links of wikis
      | (?P<start> \[[ xX]\](?=\s) | \[![A-Za-z]+\][+-]?)  # task lists, alerts
      | (?P<line> :{3,}.* | (?:!!!|\?\?\?\+?)\s.*)  # fences of admonitions
      | (?P<definition> :[ \t]+)""",
    re.VERBOSE,
)
ALERT = re.compile(r"\[![A-Za-z]+\]")
BOLD_LINE = re.compile(r"\s*(\*\*|__)(?:(?!\1).)+\1:?\s*")  # a title above text
# Prices and shell variables are not formulas: no word follows a formula, and none that begins with a number has words.
FORMULA = re.compile(r"\$\$(?:[^$\\`]|\\.)+\$\$|(?<![\w$])\$(?=[^\s$])(?:[^$\\`]|\\.)+(?<!\s)\$(?![\w$])", re.DOTALL)
PRICE = re.compile(r"\$\d.*(?<![\\A-Za-z])[A-Za-z]{2}", re.DOTALL)
LABEL = re.compile(r"\[(?:[^\[\]\\]|\\.)*\]", re.DOTALL)
FORMULA_ENDS = "formula ends"  # of the parser's environment: where the last end of each kind is in a text
SPACE = re.compile(r"[ \t\n]*")
NONBLANK = re.compile(r"\S")
TITLE_PIECE = re.compile(r"\\[!-/:-@\[-`{-~]|&#?\w+;|[^\\&]+|.")


@dataclass(frozen=True, slots=True)
class Content:
    """The inline content of a block; character i is at starts[i]:ends[i] of the file."""

    text: str
    starts: Sequence[int]
    ends: Sequence[int]

    def item(self, kind: str, start: int, end: int, text: str = "", name: str = "", data: object = None) -> Item:
        """Return an item for a slice of the content, which is kept for writing together with `data`."""
        first = self.starts[start] if start < len(self.starts) else self.ends[-1]
        last = self.starts[end] if end < len(self.starts) and self.text[end - 1] in "\n \t" else self.ends[end - 1]
        return Item(kind, first, max(first, last), text, name, (self.text[start:end], data))  # type: ignore[arg-type]

    def part(self, start: int, end: int) -> "Content":
        """Return a slice as content of its own."""
        return Content(self.text[start:end], self.starts[start:end], self.ends[start:end])


@dataclass(frozen=True, slots=True)
class LinkTitle:
    """A title in quotes (or brackets) behind the address of a link or an image; in_cell: of a table."""

    opening: str
    in_cell: bool = False

    @property
    def closing(self) -> str:
        """What ends it."""
        return ")" if self.opening == "(" else self.opening

    def escaped(self, text: str) -> str:
        """Return text as it is written in a title, but for bars in a cell."""
        text = re.sub(rf"[\\{re.escape(self.opening + self.closing)}]", r"\\\g<0>", text)
        return re.sub(r"&(?=#?\w+;)", "&amp;", text)


@dataclass(frozen=True, slots=True)
class Inner:
    """Text inside an item: the alternative text of an image, or a title."""

    items: list[Item]
    start: int
    end: int
    title: LinkTitle | None = None


def title_items(content: Content) -> list[Item]:
    """Return the text of a title."""
    found = TITLE_PIECE.finditer(content.text)
    return [replace(content.item("text", *each.span(), unescapeAll(each[0])), data=None) for each in found]


def formula(state: StateInline, silent: bool) -> bool:
    """Read `$…$` and `$$…$$` as a token of their own: a rule for markdown-it-py."""
    match = FORMULA.match(state.src, state.pos, state.posMax)
    if match is None or PRICE.match(match[0]):
        return False
    if not silent:
        state.push("formula", "", 0).content = match[0]
    state.pos = match.end()
    return True


def formulas(state: StateBlock, first: int, last: int, silent: bool) -> bool:
    """Read a formula of LaTeX: the rule of amsmath, which looks through the rest of the text for the end of each."""
    at = state.bMarks[first] + state.tShift[first]
    found = re.match(RE_OPEN, state.src[at : state.eMarks[first]])
    if found is None:
        return False
    text, ends = state.env.get(FORMULA_ENDS, ("", {}))
    if text is not state.src:
        ends = {}
        state.env[FORMULA_ENDS] = state.src, ends
    closing = f"\\end{{{found[1]}{found[2]}}}"
    if closing not in ends:
        lines = re.finditer(rf"{re.escape(closing)}[^\S\n]*$", state.src, re.MULTILINE)
        ends[closing] = max((match.start() for match in lines), default=-1)
    return ends[closing] > at and amsmath_block(state, first, last, silent)


class Lost(Exception):
    """A token that is not where the content says it should be."""


class _Walk:
    """One pass over the tokens of a block."""

    def __init__(self, md: MarkdownIt, content: Content) -> None:
        self.md = md
        self.content = content
        self.at = 0
        self.line = self.searched = 0  # where the present line begins; what was searched for its beginning
        self.labels: list[str | None] = []  # of the links that are open
        self.starts: list[int] = []
        self.inner: list[Inner] = []

    def items(self, tokens: Sequence[Token]) -> Iterator[Item]:
        i = 0
        while i < len(tokens):
            token = tokens[i]
            if token.type == "link_open" and token.info == "auto":
                yield self._take("opaque", self._through("<", ">"), tokens[i + 1].content)
                i += 3
                continue
            yield from self._one(token)
            i += 1
        if self.at != len(self.content.text):
            raise Lost

    def _one(self, token: Token) -> Iterator[Item]:
        if token.type == "text":
            yield from self._text(token.content)
        elif token.type == "text_special":
            yield self._take("text", self._expect(token.markup), token.content)
        elif token.type == "softbreak":
            start = self._line(self.at)
            line = self.content.text[start : self.at]
            end = self._match(re.compile(r"[ \t]*\n[ \t]*"))
            goes_on = self.content.text[end : end + 1].islower()
            is_title = (ALERT.match(line) and start == 0) or (BOLD_LINE.fullmatch(line) and not goes_on)
            yield self._take("break" if is_title else "text", end, " ")
        elif token.type == "hardbreak":
            yield self._take("line", self._match(re.compile(r"(?: *|\\)\n[ \t]*")))
        elif token.type == "code_inline":
            run = len(token.markup)
            close = re.compile(rf"(?<!`)`{{{run}}}(?!`)").search(self.content.text, self._expect(token.markup))
            yield self._take("opaque", close.end() if close else -1, token.content)
        elif token.type == "formula":
            yield self._take("opaque", self._expect(token.content), token.content)
        elif token.type == "html_inline":
            kind, name = html_tag(token.content)
            yield self._take(kind, self._expect(token.content), name=name)
        elif token.type == "link_open":
            self.labels.append(token.meta.get("label"))
            self.starts.append(self.at + 1)
            yield self._take("open", self._expect("["), name="link")
        elif token.type == "link_close":
            label, start = self.labels.pop(), self.starts.pop()
            end = self._link_end(label is not None)
            # A reference without a label of its own needs one as soon as its text changes.
            bare = self.content.text[self.at : end] in ("]", "][]")
            data = self.content.text[start : self.at] if bare and label is not None else None
            yield self._take("close", end, name="link", data=data)
        elif token.type == "image":
            yield self._image(token)
        elif token.type.endswith(("_open", "_close")):
            pair, _, side = token.type.rpartition("_")
            yield self._take(side, self._expect(token.markup), name=pair)
        else:
            raise Lost

    def _text(self, text: str) -> Iterator[Item]:
        """Take text; what is markup to other tools is not text, and escaped characters are items of their own."""
        end = self._expect(text)
        for match in EXTENSIONS.finditer(self.content.text, self.at, end):
            at_line = NONBLANK.search(self.content.text, self._line(match.start()), match.start()) is None
            starts_line = match["line"] or match["definition"]
            if (match["start"] and match.start()) or (starts_line and not at_line):
                continue
            yield from self._plain(match.start())
            if match["opaque"]:
                yield self._take("opaque", match.end(), match[0])
            else:
                yield self._take("break" if starts_line or "!" in match[0] else "empty", match.end())
        yield from self._plain(end)

    def _line(self, at: int) -> int:
        """Return where the line begins that a place is in; places are asked for in order."""
        self.line = max(self.line, self.content.text.rfind("\n", self.searched, at) + 1)
        self.searched = max(self.searched, at)
        return self.line

    def _plain(self, end: int) -> Iterator[Item]:
        starts, ends = self.content.starts, self.content.ends
        while self.at < end:
            stop = self.at + 1
            if ends[self.at] - starts[self.at] == 1:
                while stop < end and ends[stop] - starts[stop] == 1 and starts[stop] == ends[stop - 1]:
                    stop += 1
            yield replace(self._take("text", stop, self.content.text[self.at : stop]), data=None)

    def _image(self, token: Token) -> Item:
        start = self.at
        label_end = self._expect("![" + token.content)
        self.at = label_end
        reference = token.meta.get("label") is not None
        end = self._link_end(reference)
        is_label = reference and end - label_end <= len("][]")  # its own text is what it is found by
        if not is_label and token.children:
            inside = _Walk(self.md, self.content.part(start + 2, label_end))
            items = list(inside.items(token.children))
            if items:
                self.inner.append(Inner(items, items[0].start, items[-1].end))
        self.at = start
        return self._take("empty", end)

    def _link_end(self, reference: bool) -> int:
        """Return where a link or image ends whose text ends here, at its bracket."""
        text = self.content.text
        after = self._expect("]")
        if reference:
            label = LABEL.match(text, after)
            return label.end() if label else after
        at = self._space(self._expect("]("))
        destination = self.md.helpers.parseLinkDestination(text, at, len(text))
        if destination.ok:
            at = self._space(destination.pos)
            title = self.md.helpers.parseLinkTitle(text, at, len(text))
            if title.ok and at > destination.pos:
                self._title(at, title.pos)
                at = self._space(title.pos)
        if text[at : at + 1] != ")":
            raise Lost
        return at + 1

    def _title(self, start: int, end: int) -> None:
        """Remember a title that is in one line."""
        inside = self.content.part(start + 1, end - 1)
        if inside.text.strip() and "\n" not in inside.text:
            title = LinkTitle(self.content.text[start])
            self.inner.append(Inner(title_items(inside), inside.starts[0], inside.ends[-1], title))

    def _space(self, at: int) -> int:
        match = SPACE.match(self.content.text, at)
        return match.end() if match else at

    def _expect(self, text: str) -> int:
        if not self.content.text.startswith(text, self.at):
            raise Lost
        return self.at + len(text)

    def _match(self, pattern: re.Pattern[str]) -> int:
        match = pattern.match(self.content.text, self.at)
        return match.end() if match else -1

    def _through(self, first: str, last: str) -> int:
        return self.content.text.find(last, self._expect(first)) + 1

    def _take(self, kind: str, end: int, text: str = "", name: str = "", data: object = None) -> Item:
        if end <= self.at:
            raise Lost
        item = self.content.item(kind, self.at, end, text, name, data)
        self.at = end
        return item


def content_of(item: Item) -> str:
    """Return the inline content that an item was read from."""
    return item.text if item.data is None else item.data[0]


def _copied(items: list[Item]) -> Iterator[Item]:
    """Make one opaque item of an HTML element such as `<code>` and everything in it."""
    closing: dict[str, list[int]] = {}  # by name, the last one first
    for j in reversed(range(len(items))):
        if items[j].kind == "close":
            closing.setdefault(items[j].name, []).append(j)
    i = 0
    while i < len(items):
        end = i
        if items[i].kind == "open" and items[i].name in OPAQUE:
            ends = closing.get(items[i].name, [])
            while ends and ends[-1] < i:
                ends.pop()
            end = ends[-1] if ends else i
        if end > i:
            inside = items[i : end + 1]
            text, slices = "".join(item.text for item in inside), "".join(map(content_of, inside))
            yield replace(items[i], kind="opaque", end=items[end].end, text=text, data=(slices, None))
        else:
            yield items[i]
        i = end + 1


def inline_items(md: MarkdownIt, tokens: Sequence[Token], content: Content) -> tuple[list[Item], list[Inner]] | None:
    """Return the items of a block and the texts inside of them; None if tokens cannot be followed."""
    walk = _Walk(md, content)
    try:
        return list(_copied(list(walk.items(tokens)))), walk.inner
    except (Lost, IndexError):
        return None
