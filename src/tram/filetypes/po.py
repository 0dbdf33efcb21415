"""Gettext PO files: empty and fuzzy entries are translated, all others are context; only `msgstr` fields change.

polib checks the syntax and unescapes; the places of fields come from a scan of the lines, so that everything else
(comments, wrapping, order, obsolete entries) stays byte for byte.
"""

import gettext
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tram.errors import InputError
from tram.filetypes.accelerators import with_accelerator, without_accelerator
from tram.filetypes.base import FileDocument, FileType, ReadOptions, Translation, Translations
from tram.filetypes.blocks import Block, Event, Item
from tram.filetypes.encoding import Decoded, beginning, decode
from tram.filetypes.extras import load
from tram.filetypes.format_directives import numbered, restored
from tram.filetypes.languages import check_target
from tram.filetypes.markup_text import marked_up_items, reread
from tram.filetypes.message_forms import message_items

LINE = re.compile(r"[^\n]*\n|[^\n]+")
START = re.compile(rb'(?:#[^\n]*\n|\s+)*+(?:msgctxt\s+".*\n\s*(?:".*\n\s*)*+)?msgid\s+"')
KEYWORD = re.compile(r"\s*(msgctxt|msgid_plural|msgid|msgstr(?:\[(\d+)\])?)\s*(?=\")")
STRING = re.compile(r'"(?:[^"\\]|\\.)*+"\s*\Z')
# Comments without a blank behind their mark, which gettext reads but polib does not.
NARROW_COMMENT = re.compile(r"^([ \t]*#(?:~\||[~.,:|]|))(?=[^\s~.,:|])", re.M)
LANGUAGE = re.compile(r"^Language:[ \t]*(\S+)[ \t]*$", re.M)
CHARSET = re.compile(rb"charset=([\w.:-]+)")
# Plural forms by language, for headers that have none; English and everything else that is not listed has two.
PLURAL_FORMS = {
    "ja ko zh vi th id ms": "nplurals=1; plural=0;",
    "fr pt_BR": "nplurals=2; plural=(n > 1);",
    "cs sk": "nplurals=3; plural=(n==1) ? 0 : (n>=2 && n<=4) ? 1 : 2;",
    "ru uk be sr hr bs": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20)"
    " ? 1 : 2);",
    "pl": "nplurals=3; plural=(n==1 ? 0 : n%10>=2 && n%10<=4 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "lt": "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && (n%100<10 || n%100>=20) ? 1 : 2);",
    "ro": "nplurals=3; plural=(n==1 ? 0 : (n==0 || (n%100 > 0 && n%100 < 20)) ? 1 : 2);",
    "sl": "nplurals=4; plural=(n%100==1 ? 0 : n%100==2 ? 1 : n%100==3 || n%100==4 ? 2 : 3);",
    "ar": "nplurals=6; plural=(n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 ? 4 : 5);",
}
CHECKED = 1001  # numbers that `msgfmt --check` tries an expression with
DEFAULT_FORMS = "nplurals=2; plural=(n != 1);"
ACCELERATOR = "accelerator"
# Messages, and contexts of messages, in whose place translators put their names and addresses.
CREDITS = frozenset({"translator-credits", "translator_credits", "NAME OF TRANSLATORS", "EMAIL OF TRANSLATORS"})


@dataclass
class _Entry:
    """The fields of an entry: their texts, and where they are in the file."""

    start: int
    texts: dict[str, str] = field(default_factory=dict)
    flags: list[tuple[int, int]] = field(default_factory=list)  # lines with flags
    previous: list[tuple[int, int]] = field(default_factory=list)  # lines with the message before it changed
    first: int = 0  # start of msgstr
    end: int = 0
    blocks: list[Block] = field(default_factory=list)

    kinds: set[str] = field(default_factory=set)  # flags such as c-format

    @property
    def is_fuzzy(self) -> bool:
        """Whether its translation is that of an earlier message."""
        return "fuzzy" in self.kinds

    @property
    def is_credits(self) -> bool:
        """Whether its translation is the names of its translators."""
        return self.texts["msgid"] in CREDITS or self.texts.get("msgctxt") in CREDITS

    @property
    def sources(self) -> list[str]:
        return [self.texts[key] for key in ("msgid", "msgid_plural") if key in self.texts]

    @property
    def targets(self) -> list[str]:
        return [text for key, text in self.texts.items() if key.startswith("msgstr")]


def read(name: str, content: bytes, options: ReadOptions) -> FileDocument:
    """Read a PO file as one document."""
    polib = load("polib", name)
    charset = CHARSET.search(content[:8192])
    encoding = charset[1].decode() if charset and charset[1] != b"CHARSET" else None
    decoded = decode(name, content, encoding)
    # Characters at which polib would see the end of a line.
    text = re.sub("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]", " ", decoded.text)
    text = NARROW_COMMENT.sub(r"\1 ", text.replace("\r\n", "\n"))
    try:
        parsed = polib.pofile(text + "\n", encoding="utf-8")
    except (OSError, ValueError, IndexError, AttributeError) as error:
        line = re.search(r"line (\d+)", str(error))
        where = f":{line[1]}" if line else ""
        raise InputError(f"{name}{where}: is not a valid PO file; check it with `msgfmt --check`") from None
    entries = list(_entries(name, decoded.text, polib.unescape))
    if len(entries) != sum(not entry.obsolete for entry in parsed) + bool(parsed.metadata):
        entries = [entry for entry in entries if "msgid" in entry.texts]
    if any("msgid" not in entry.texts or not entry.targets for entry in entries):
        raise InputError(f"{name}: is not a valid PO file; check it with `msgfmt --check`")
    return _PoDocument(decoded, entries, options, polib.escape)


def _entries(name: str, text: str, unescape: Callable[[str], str]) -> Iterator[_Entry]:
    """Yield the entries of a file that are not obsolete."""
    entry, key = _Entry(0), ""
    for match in LINE.finditer(text):
        start, end = match.span()
        line = match[0].strip()
        keyword = KEYWORD.match(match[0])
        begins = line.startswith("#") or (keyword and keyword[1] in ("msgid", "msgctxt") and keyword[1] in entry.texts)
        if entry.targets and (begins or (keyword and keyword[1] in ("msgid", "msgctxt"))):
            yield entry
            entry, key = _Entry(start), ""
        if line.startswith("#"):
            key = ""
            if line.startswith("#,"):
                entry.flags.append((start, end))
                entry.kinds.update(re.split(r"[,\s]+", line.removeprefix("#,")))
            elif line.startswith("#|"):
                entry.previous.append((start, end))
        elif keyword or (line.startswith('"') and key):
            if keyword:
                key = keyword[1]
                if key in entry.texts:
                    raise _invalid(name, text, start, f"a second {key} in one entry")
                entry.start = start if not entry.texts else entry.start
                entry.first = start + len(match[0]) - len(match[0].lstrip()) if not entry.targets else entry.first
            string = STRING.match(line, line.index('"'))
            if string is None:
                raise _invalid(name, text, start, "a string without an end")
            entry.texts[key] = entry.texts.get(key, "") + unescape(string[0].rstrip()[1:-1])
            entry.end = start + len(match[0].rstrip())
        elif line:  # the second line of a comment, for example
            raise _invalid(name, text, start, "a line that belongs to no entry")
    if entry.texts:
        yield entry


def _invalid(name: str, text: str, start: int, problem: str) -> InputError:
    line = text.count("\n", 0, start) + 1
    return InputError(f"{name}:{line}: has {problem}; check it with `msgfmt --check`")


class _PoDocument(FileDocument):
    def __init__(
        self, decoded: Decoded, entries: list[_Entry], options: ReadOptions, escape: Callable[[str], str]
    ) -> None:
        self.decoded = decoded
        self.escape = escape
        self.header = next((e for e in entries if e.texts["msgid"] == "" and "msgctxt" not in e.texts), None)
        self.entries = [entry for entry in entries if entry is not self.header]
        language = LANGUAGE.search(self.header.targets[0]) if self.header else None
        if language:
            check_target(decoded.name, language[1], options)
        self.header_text = self._header(options)
        forms = re.search(r"nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\n]+)", self.header_text)
        if forms and not re.fullmatch("0?[1-9]|[1-9][0-9]", forms[1]):
            raise InputError(f"{decoded.name}: its header has an unusable number of plural forms; correct Plural-Forms")
        self.nplurals = int(forms[1]) if forms else 2
        self.form = _plural(forms[2] if forms else "n != 1", self.nplurals)
        for entry in self.entries:
            entry.blocks = list(self._blocks(entry, options))
        self.documents = [[segment for e in self.entries for block in e.blocks for segment in block.segments]]

    def _header(self, options: ReadOptions) -> str:
        """Return the header with language, encoding and plural forms where it lacks them."""
        text = self.header.targets[0] if self.header else ""
        if options.target_language is None or not text:
            return text
        fields = {"Language": options.target_language}
        if any("msgid_plural" in entry.texts for entry in self.entries):
            fields["Plural-Forms"] = plural_forms(options.target_language)
        text = text.replace("charset=CHARSET", "charset=UTF-8")
        for name, value in fields.items():
            # Empty, a placeholder, or the source language: what a template has.
            old = rf"(?:nplurals=INTEGER.*|{re.escape(options.source_language)}(?:[-_@]\S*)?[ \t]*)?"
            if re.search(rf"^{name}:[ \t]*{old}$", text, re.M):
                text = re.sub(rf"^{name}:.*$", f"{name}: {value}", text, flags=re.M)
            elif not re.search(rf"^{name}:", text, re.M):
                text = text.rstrip("\n") + f"\n{name}: {value}\n"
        return text

    def _blocks(self, entry: _Entry, options: ReadOptions) -> Iterator[Block]:
        done = all(entry.targets) and not entry.is_fuzzy
        targets = [entry.targets[self.form(n) if len(entry.targets) > self.form(n) else -1] for n in (1, 5)]
        for source, target in zip(entry.sources, targets, strict=False):
            yield Block(
                list(_items(source if done else numbered(source, entry.kinds))),
                options.source_language,
                entry.first,
                entry.end,
                target=list(_items(target)) if done else None,
                target_language=options.target_language,
                translate=not entry.is_credits,
                bilingual=True,
            )

    def write(self, translations: Translations) -> bytes:
        """Return the file with the fields of the entries that were translated."""
        self.check(translations)
        given = iter(translations[0])
        edits: list[tuple[int, int, str]] = []
        if self.header and self.header_text != self.header.targets[0]:
            edits.append((self.header.first, self.header.end, self._field("msgstr", self.header_text)))
        for entry in self.entries:
            found = [[next(given) for _ in block.segments] for block in entry.blocks]
            flat = [translation for row in found for translation in row]
            if flat and None not in flat:
                edits += self._edits(entry, found)
        text, position, parts = self.decoded.text, 0, []
        for start, end, new in sorted(edits):
            parts += [text[position:start], new]
            position = end
        return self.decoded.encode("".join([*parts, text[position:]]))

    def _edits(self, entry: _Entry, found: list[list[Translation | None]]) -> Iterator[tuple[int, int, str]]:
        texts = [_text(block.events(row)) for block, row in zip(entry.blocks, found, strict=True)]
        pairs = [restored(*pair, entry.kinds) for pair in zip(entry.sources, texts, strict=True)]
        new = [text for text, _ in pairs]
        if "msgid_plural" in entry.texts:
            singular = self._singular(entry)
            forms = [new[0] if i == singular else new[-1] for i in range(self.nplurals)]
            if not entry.is_fuzzy:  # forms that are translated already stay
                forms = [entry.texts.get(f"msgstr[{i}]") or form for i, form in enumerate(forms)]
            written = self.newline.join(self._field(f"msgstr[{i}]", form) for i, form in enumerate(forms))
        else:
            written = self._field("msgstr", new[0])
        yield entry.first, entry.end, written
        doubtful = any(translation and translation.doubtful for row in found for translation in row)
        doubtful = doubtful or not all(is_consistent for _, is_consistent in pairs)
        if doubtful and not entry.is_fuzzy:
            yield entry.start, entry.start, f"#, fuzzy{self.newline}"
        elif entry.is_fuzzy and not doubtful:
            for start, end in entry.flags:
                flags = [
                    flag for flag in re.split(r"[,\s]+", self.decoded.text[start:end]) if flag not in ("", "#", "fuzzy")
                ]
                yield start, end, f"#, {', '.join(flags)}{self.newline}" if flags else ""
            yield from ((start, end, "") for start, end in entry.previous)

    def _singular(self, entry: _Entry) -> int:
        """Return the form that takes the singular; -1 if that form has other numbers too, which the text lacks."""
        form = self.form(1)
        only_one = all(self.form(n) != form for n in range(200) if n != 1)
        same = sorted(re.findall(r"%[\w(]|\{", entry.sources[0])) == sorted(re.findall(r"%[\w(]|\{", entry.sources[1]))
        return form if self.nplurals > 1 and (only_one or same) else -1

    @property
    def newline(self) -> str:
        return "\r\n" if "\r\n" in self.decoded.text[:1000] else "\n"

    def _field(self, name: str, text: str) -> str:
        """Return a field as gettext writes it: one line of the file for each line of the text."""
        lines = re.findall(r"[^\n]*\n|[^\n]+", text)
        quoted = [f'"{self.escape(line)}"' for line in lines] or ['""']
        return f"{name} " + self.newline.join(['""', *quoted] if len(quoted) > 1 else quoted)


def _items(text: str) -> Iterator[Item]:
    """Yield the items of a message; its accelerator is an empty element before the word that has it."""
    found = without_accelerator(text)
    if found is None:
        yield from reread(list(marked_up_items(text)), message_items)
        return
    plain, mark, start = found
    for item in marked_up_items(plain):
        at = start - item.start
        if item.kind == "text" and 0 <= at < len(item.text):
            yield from [replace(item, end=start, text=item.text[:at])] if at else []
            yield Item("empty", start, start, name=ACCELERATOR, data=mark)
            yield replace(item, start=start, text=item.text[at:])
        else:
            yield item


def _text(events: Sequence[Event]) -> str:
    """Return a message; an accelerator goes to a word, wherever the tags were put."""
    text, mark, at = "", "", 0
    for event in events:
        if isinstance(event, Item) and event.name == ACCELERATOR:
            mark, at = event.data, len(text)
        else:
            text += event if isinstance(event, str) else event.data or event.text
    return with_accelerator(text, mark, at) if mark else text


def plural_forms(language: str) -> str:
    """Return the Plural-Forms field of a language."""
    for names, forms in PLURAL_FORMS.items():
        if {language.replace("-", "_"), re.split("[-_]", language)[0]} & set(names.split()):
            return forms
    return DEFAULT_FORMS


def _plural(expression: str, forms: int) -> Callable[[int], int]:
    """Return which form a number takes; that of English if the expression is of no use."""
    compiled: Any
    try:
        compiled = gettext.c2py(expression.strip())
        if all(0 <= compiled(n) < forms for n in range(CHECKED)):
            return compiled
    except (ValueError, ArithmeticError, RecursionError):
        pass
    return gettext.c2py("n != 1")


FILETYPE = FileType(
    "po",
    (".po", ".pot"),
    matches=lambda content: START.match(beginning(content, 1 << 16)) is not None,
    read=read,
    aliases=("gettext", "pot"),
)
