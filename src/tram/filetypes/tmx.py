"""TMX translation memories: a variant in the target language is added to units that lack one; others are context."""

from collections.abc import Iterator, Sequence

from tram.errors import InputError
from tram.filetypes.base import FileType, ReadOptions, Translation
from tram.filetypes.blocks import Block, Event
from tram.filetypes.languages import is_same
from tram.filetypes.parts import PartsDocument, XmlPart
from tram.filetypes.xml_inline import inline_items
from tram.filetypes.xml_source import Element, Text, decode_xml, escape_xml, parse_xml, root_name


class _TmxPart(XmlPart):
    def write_block(self, block: Block, events: list[Event], translations: Sequence[Translation | None]) -> str:
        """Return the new variant."""
        prefix, suffix = block.data
        return prefix + super().write_block(block, events, translations) + suffix


def read(name: str, content: bytes, options: ReadOptions) -> PartsDocument:
    """Read a translation memory as one document."""
    decoded = decode_xml(name, content)
    root = parse_xml(name, decoded.text)
    if root.name != "tmx":
        raise InputError(f"{name}: is no TMX file; check its root element")
    if options.target_language is None:
        raise InputError(f"{name}: has many languages; name the one to translate to")
    part = _TmxPart(decoded.text, _blocks(decoded.text, root, options))
    languages = {_language(element) for element in root.walk() if element.name == "tuv"}
    if languages and not any(is_same(language, options.source_language) for language in languages):
        found = ", ".join(sorted(languages))
        raise InputError(f"{name}: has no text in {options.source_language!r}, only in {found}; use another model")
    return PartsDocument([[part]], lambda texts: decoded.encode(texts[0], references=True))


def _language(variant: Element) -> str:
    return variant.attributes.get("xml:lang", variant.attributes.get("lang", ""))


def _blocks(source: str, root: Element, options: ReadOptions) -> Iterator[Block]:
    target = options.target_language or ""
    for unit in root.walk():
        variants = [child for child in unit.children if child.name == "tuv"] if unit.name == "tu" else []
        original = next((v for v in variants if is_same(_language(v), options.source_language)), None)
        segment = original.find("seg") if original else None
        if original is None or segment is None:
            continue
        existing = next(
            (seg for v in variants if is_same(_language(v), target) and v is not original and (seg := v.find("seg"))),
            None,
        )
        keep_lines = unit.inherited("xml:space") == "preserve"
        translated = inline_items(source, existing, keep_lines, {}) if existing else []
        place = variants[-1].end, variants[-1].end
        if existing:  # it is filled if it is empty
            place = existing.start, existing.end
        yield Block(
            inline_items(source, segment, keep_lines, {}),
            options.source_language,
            *place,
            target=translated if any(item.text.strip() for item in translated) else None,
            target_language=target,
            bilingual=True,
            data=("<seg>", "</seg>") if existing else _variant(source, unit, variants[-1], target),
        )


def _variant(source: str, unit: Element, last: Element, language: str) -> tuple[str, str]:
    """Return what surrounds the segment of a new variant; it is indented like the last one."""
    before = unit.nodes[unit.nodes.index(last) - 1] if unit.nodes.index(last) else None
    blank = source[before.start : before.end] if isinstance(before, Text) else ""
    return f'{"" if blank.strip() else blank}<tuv xml:lang="{escape_xml(language)}"><seg>', "</seg></tuv>"


FILETYPE = FileType(
    "tmx",
    (".tmx",),
    matches=lambda content: root_name(content) == b"tmx",
    read=read,
)
