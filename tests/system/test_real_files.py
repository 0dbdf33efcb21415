"""Files that other people made: up to 50 of each type that this machine has come back undamaged.

Searches the installed system and Python packages; folders with more files can be named in TRAM_REAL_FILES, separated
by colons. With LibreOffice installed, its DOCX, ODT and EPUB files are tested too, and it must read the translations.
Results are also checked by the programs and libraries that are installed: msgfmt, epubcheck, the schemas of XLIFF (from
php-symfony-translation), pysubs2. Run with `-s` to see how many files there were.
"""

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from html import unescape
from itertools import islice
from pathlib import Path
from typing import Any

import lxml.html
import polib
import pysubs2
import pytest
import srt
import webvtt
from lxml import etree
from markdown_it import MarkdownIt
from mdit_py_plugins.admon import admon_plugin
from mdit_py_plugins.deflist import deflist_plugin
from mdit_py_plugins.footnote import footnote_plugin

from tram.errors import InputError
from tram.filetypes import FileDocument, ReadOptions, Rendition, Segment, Translation, by_sentences, translate_document
from tram.filetypes.blocks import BREAKABLE
from tram.filetypes.encoding import byte_order
from tram.filetypes.registry import read_bytes
from tram.text.verbatim import DIRECTION_MARKS

pytestmark = pytest.mark.slow

PLACES = [*filter(None, os.environ.get("TRAM_REAL_FILES", "").split(":")), "/usr/share", "/usr/lib", sys.prefix]
SCHEMAS = Path("/usr/share/php/Symfony/Component/Translation/Resources/schemas")
ACCENTS = str.maketrans("aeiouAEIOU", "äéíöüÄÉÍÖÜ")
# Without accents, and without characters that cannot be seen, which move with their words or belong to none.
PLAIN = str.maketrans("äéíöüÄÉÍÖÜ", "aeiouAEIOU", DIRECTION_MARKS + BREAKABLE)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKDOWN.use(admon_plugin).use(deflist_plugin).use(footnote_plugin)
DIRECTIVE = re.compile(r"(?P<directive>%(?:\(\w+\))?[-+ #0-9$.'hlLqjzt]*[a-zA-Z%]|\{\w*[^{}\s]*\})|[^%{]+|.", re.DOTALL)
TAG = re.compile(r"<[^<>]+>|\{\\[^{}]*\}")
# Elements of Word that are text: a hard hyphen is written as the character, and a soft one belongs to no translation.
WORD_TEXT = ("r", "t", "lastRenderedPageBreak", "noBreakHyphen", "softHyphen")
COUNT = 50
BILINGUAL = (".po", ".xlf", ".tmx")
TYPES = ["txt", "md", "html", "po", "srt", "vtt", "xlf", "tmx", "docx", "odt", "epub"]
LANGUAGE = re.compile(rb'"Language: (\w+)|(?:target-language|trgLang)="(\w+)|<tuv (?:xml:)?lang="(?!en\b)(\w+)')


def found(suffix: str, places: list[str]) -> Iterator[Path]:
    for place in places:
        paths = [Path(folder) / name for folder, _, names in os.walk(place) for name in names]
        wanted = sorted(path for path in paths if path.suffix == f".{suffix}" and path.is_file())
        random.Random(0).shuffle(wanted)
        yield from (path for path in wanted if 0 < path.stat().st_size < 500_000)


def options_of(content: bytes) -> ReadOptions:
    """The target language of a file that has one, else German."""
    language = LANGUAGE.search(content)
    found = next(filter(None, language.groups())).decode() if language else "de"
    return ReadOptions(target_language="de" if found == "en" else found)


def accented(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
    return [[Rendition(s.text.translate(ACCENTS)) if s.translate else None for s in d] for d in documents]


def spared(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
    """The same without accents in directives such as %i, which gettext would refuse."""

    def translate(text: str) -> str:
        return DIRECTIVE.sub(lambda match: match[0] if match["directive"] else match[0].translate(ACCENTS), text)

    return [[Rendition(translate(s.text)) if s.translate else None for s in d] for d in documents]


# What a translation must not change, for each type; blanks are equal, and letters are compared without accents.


def decoded(content: bytes, errors: str = "replace") -> str:
    """The text of a file with or without a byte order mark."""
    mark, encoding = byte_order(content)
    return content.removeprefix(mark).decode(encoding or "utf-8", errors)


def text_of(content: bytes) -> str:
    """The words of a text without accents, however they are wrapped."""
    return " ".join(decoded(content).translate(PLAIN).split())


def page_of(content: bytes) -> tuple[str, Counter[str]]:
    """The letters of a page, and its tags, which may be on another side of a letter: no word is cut."""
    try:
        page = decoded(content, "strict")
    except UnicodeDecodeError:
        page = content.decode("latin-1")
    tags = Counter(" ".join(unescape(tag).translate(PLAIN).split()) for tag in TAG.findall(page))
    return "".join(unescape(TAG.sub("", page)).translate(PLAIN).split()), tags


def rendered(content: bytes) -> tuple[str, Counter[str]]:
    """A Markdown file as a page: marks, escapes and labels of links may be written in another way."""
    return page_of(MARKDOWN.render(content.decode()).encode())


def xml_of(content: bytes) -> tuple[Counter[str], str]:
    """The elements of a part of an ODT with their attributes, and its letters, those of comments last, which may move.

    A blank may be `<text:s/>` or not.
    """
    root = etree.fromstring(content, etree.XMLParser(resolve_entities=False))
    elements = (e for e in root.iter(etree.Element) if not e.tag.endswith("}s"))
    tags = Counter(f"{e.tag} {sorted((k, v.translate(PLAIN)) for k, v in e.attrib.items())}" for e in elements)
    comments = list(root.iter("{*}annotation"))
    said = "".join("".join(comment.itertext()) for comment in comments)
    for comment in comments:
        for each in comment.iter():
            each.text, each.tail = None, each.tail if each is comment else None
    return tags, "".join(("".join(root.itertext()) + said).translate(PLAIN).split())


def word_of(content: bytes) -> tuple[Counter[str], str]:
    """The elements of a part of a DOCX other than runs, whose number may change, and the text of all paragraphs."""
    root = etree.fromstring(content)
    for properties in list(root.iter("{*}rPr")):
        if properties.getparent().tag.endswith("}r"):
            properties.getparent().remove(properties)
    names = Counter(etree.QName(e).localname for e in root.iter(etree.Element))
    text = "".join("".join(e.itertext()) for e in root.iter("{*}t", "{*}delText", "{*}instrText"))
    kept = Counter({name: count for name, count in names.items() if name not in WORD_TEXT})
    return kept, "".join(text.replace("\u2011", "").translate(PLAIN).split())


def package_of(content: bytes, reader: Callable[[bytes], Any]) -> list[Any]:
    with zipfile.ZipFile(io.BytesIO(content)) as package:
        return [(name, _part(name, package.read(name), reader)) for name in package.namelist()]


def _part(name: str, content: bytes, reader: Callable[[bytes], Any]) -> Any:
    is_text = content.strip() and name.endswith((".xml", ".xhtml", ".html", ".ncx", ".opf"))
    return reader(content) if is_text else content


def xliff_of(content: bytes) -> list[str]:
    """Everything but targets and states."""
    root = etree.fromstring(content)
    for target in list(root.iter("{*}target")):
        if not target.getparent().tag.endswith("alt-trans"):
            target.tail = None
            target.getparent().remove(target)
    for element in root.iter(etree.Element):
        for name in ("state", "target-language", "trgLang"):
            element.attrib.pop(name, None)
    return etree.tostring(root, method="c14n").decode().split()


def tmx_of(content: bytes) -> list[list[str]]:
    """The English variant of each unit."""
    units = etree.fromstring(content).iter("{*}tu")
    return [[etree.tostring(v).decode().strip() for v in unit if "en" in "".join(v.attrib.values())] for unit in units]


def po_of(content: bytes) -> list[Any]:
    """Everything but new translations and the flag that they remove."""
    parsed = polib.pofile(content.decode("utf-8", "replace"))
    return [
        (e.msgctxt, e.msgid, e.msgid_plural, e.comment, e.tcomment, e.obsolete, set(e.flags) - {"fuzzy"})
        for e in parsed
    ]


def said(content: bytes) -> tuple[str, Counter[str]]:
    """What subtitles say, which may be cut in other places, and their tags."""
    text = decoded(content)
    cues = webvtt.from_string(text).captions if text.startswith("WEBVTT") else srt.parse(text)
    texts = [getattr(cue, "raw_text", "") or getattr(cue, "content", "") for cue in cues]
    return page_of("\n".join(texts).replace("…", "").encode())


def cues_of(content: bytes, suffix: str) -> list[Any]:
    """Number and timing of cues, as two libraries read them."""
    text = decoded(content)
    first: list[Any] = []
    if suffix == ".srt":
        first = [(cue.index, cue.start, cue.end, cue.proprietary) for cue in srt.parse(text)]
    elif text.startswith("WEBVTT"):  # without its first line, only one of the two reads it
        first = [(c.identifier, c.start, c.end, c.voice) for c in webvtt.from_string(text).captions]
    second = [(e.start, e.end) for e in pysubs2.SSAFile.from_string(text, suffix.removeprefix("."))]
    return [first, second]


SKELETONS: dict[str, Callable[[bytes], Any]] = {
    ".docx": lambda content: package_of(content, word_of),
    ".odt": lambda content: package_of(content, xml_of),
    ".epub": lambda content: package_of(content, page_of),
    ".html": page_of,
    ".md": rendered,
    ".srt": said,
    ".vtt": said,
    ".xlf": xliff_of,
    ".tmx": tmx_of,
    ".po": po_of,
}


def check(path: Path) -> bytes:
    """Test the laws on one file; return its translation."""
    content = path.read_bytes()
    options = options_of(content) if path.suffix == ".tmx" else None
    document = read_bytes(path.name, content, options=options)
    assert document.write([[None] * len(d) for d in document.documents]) == content
    identity = [[Translation(s.text, s.tags) if s.translate else None for s in d] for d in document.documents]
    bilingual = path.suffix in BILINGUAL
    assert bilingual or document.write(identity) == content
    written, report = translate_document(document, spared if path.suffix == ".po" else accented)
    assert report.repaired == 0
    skeleton = SKELETONS.get(path.suffix, text_of)
    assert skeleton(written) == skeleton(content)
    if path.suffix in (".srt", ".vtt"):
        assert cues_of(written, path.suffix) == cues_of(content, path.suffix)
    again = read_bytes(path.name, written, options=options)
    check_changed(document, again, path.suffix)
    # As users see it: with addresses, code and placeholders protected, and the language of the file set.
    document = read_bytes(path.name, content, options=options_of(content))
    return translate_document(document, by_sentences(lambda texts: [text.translate(ACCENTS) for text in texts]))[0]


def check_changed(document: FileDocument, again: FileDocument, suffix: str) -> None:
    """Test that everything that was to be translated was, and nothing else."""
    before, after = ([s for d in doc.documents for s in d] for doc in (document, again))
    if suffix in BILINGUAL:
        left = ([s.text for s in doc if not s.translate and s.target is None] for doc in (before, after))
        assert next(left) == next(left)  # what the file says is not to be translated
        assert not any(s.translate for s in after if any(c.isalpha() for c in s.text))
        kept = Counter(s.target for s in before if s.target is not None)
        assert not kept - Counter(s.target for s in after)
        return
    assert not any(set("aeiouAEIOU") & set(s.text) for s in after), [s.text for s in after][:5]
    # Sentences may be cut in another way: "Jan. 1" is an abbreviation, "Jän. 1" is not. So may lines of another width:
    # "b)" is the mark of a list at the start of a line.
    words = ([re.findall(r"[^\W\d]{2,}", s.text.translate(PLAIN)) for s in segments] for segments in (before, after))
    assert [word for row in next(words) for word in row] == [word for row in next(words) for word in row]


def check_all(paths: Iterator[Path], name: str, limit: int = COUNT) -> list[tuple[Path, bytes]]:
    results: list[tuple[Path, bytes]] = []
    refused: list[tuple[Path, str]] = []
    damaged: list[tuple[Path, str]] = []
    seen: set[bytes] = set()
    for path in paths:
        content = path.read_bytes()
        if content in seen or len(results) == limit:
            continue
        seen.add(content)
        try:
            results.append((path, check(path)))
        except InputError as error:  # a broken file is refused in one sentence
            refused.append((path, str(error)))
        except (AssertionError, ValueError) as error:
            damaged.append((path, repr(error)[:500]))
    print(f"\n{name}: {len(results)} files, {len(refused)} refused, {len(damaged)} damaged")
    for path, message in [*refused[:5], *damaged[:10]]:
        print(f"  {path}: {message}")
    assert not damaged
    assert all(path.name in message and "\n" not in message for path, message in refused)
    return results


@pytest.mark.parametrize("suffix", TYPES)
def test_files_of_this_machine_come_back_undamaged(suffix: str, tmp_path: Path) -> None:
    results = check_all(islice(found(suffix, PLACES), 3 * COUNT), suffix)
    if not results:
        pytest.skip(f"no .{suffix} files here")
    for path, written in results:
        new = tmp_path / f"new.{suffix}"
        new.write_bytes(written)
        if suffix == "html":
            # In any order: of two elements that share a word, as in <b>C</b><a>Entry</a>, one has the new word.
            trees = [lxml.html.fromstring(c) for c in (path.read_bytes(), written)]
            before, after = (Counter(str(element.tag) for element in tree.iter()) for tree in trees)
            assert before == after, path
        if suffix == "po" and shutil.which("msgfmt"):
            command = ["msgfmt", "--check", "-o", os.devnull]
            was_right = subprocess.run([*command, path], capture_output=True, check=False).returncode == 0
            now = subprocess.run([*command, new], capture_output=True, check=False)
            assert not was_right or now.returncode == 0, (path, now.stderr)
        if suffix == "xlf":
            assert xliff_problems(path.read_bytes()) >= xliff_problems(written), path
        if suffix == "epub" and shutil.which("epubcheck"):
            before, after = epub_problems(path, tmp_path), epub_problems(new, tmp_path)
            assert not after - before, path


def xliff_problems(content: bytes) -> Counter[str]:
    """What the schema of an XLIFF file finds wrong in it."""
    root = etree.fromstring(content)
    name = "xliff-core-2.0.xsd" if root.get("version", "").startswith("2") else "xliff-core-1.2-strict.xsd"
    if not (SCHEMAS / name).exists():
        return Counter()
    source = re.sub(
        r'schemaLocation="[^"]*/xml.xsd"', f'schemaLocation="{SCHEMAS / "xml.xsd"}"', (SCHEMAS / name).read_text()
    )
    schema = etree.XMLSchema(etree.fromstring(source.encode()))
    schema.validate(root)
    return Counter(re.sub(r"'[^']*'", "", entry.message) for entry in schema.error_log)


def epub_problems(path: Path, folder: Path) -> Counter[str]:
    """What epubcheck finds wrong in a book, by the number of the message."""
    report = folder / "report.json"
    program = str(shutil.which("epubcheck"))
    command = (
        ["java", "-jar", program] if Path(program).read_bytes().startswith(b"PK") else [program]
    )  # Debian has a jar
    subprocess.run([*command, str(path), "--json", str(report)], capture_output=True, check=False, timeout=600)
    messages = json.loads(report.read_text())["messages"]
    return Counter(m["ID"] for m in messages if m["severity"] in ("ERROR", "FATAL"))


def convert(paths: list[Path], target: str, folder: Path, *options: str) -> list[Path]:
    folder.mkdir(exist_ok=True)
    home = f"-env:UserInstallation=file://{folder.parent}/profile"
    command = ["soffice", home, "--headless", *options, "--convert-to", target, "--outdir", str(folder)]
    subprocess.run([*command, *map(str, paths)], capture_output=True, check=True, timeout=1200)
    return sorted(folder.iterdir())


@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice is not installed")
def test_libreoffice_reads_the_translations_of_its_own_files(tmp_path: Path) -> None:
    pages = list(islice((p for p in found("html", PLACES) if 8_000 < p.stat().st_size < 150_000), COUNT))
    sources = tmp_path / "pages"
    sources.mkdir()
    copies = [shutil.copy(page, sources / f"{i}.html") for i, page in enumerate(pages)]
    odt = convert(list(map(Path, copies)), "odt:writer8", tmp_path / "odt", "--infilter=HTML (StarWriter)")
    for suffix, files in (("odt", odt), ("docx", convert(odt, "docx", tmp_path / "docx"))):
        results = check_all(iter(files), f"{suffix} by LibreOffice")
        new = tmp_path / f"new-{suffix}"
        new.mkdir()
        for path, written in results:
            (new / path.name).write_bytes(written)
        plain = "txt:Text (encoded):UTF8"
        before = convert([path for path, _ in results], plain, tmp_path / f"{suffix}-before")
        after = convert(sorted(new.iterdir()), plain, tmp_path / f"{suffix}-after")
        assert [path.name for path in before] == [path.name for path in after]
        for old_text, new_text in zip(before, after, strict=True):
            words = [path.read_text("utf-8-sig").translate(PLAIN).split() for path in (old_text, new_text)]
            assert words[0] == words[1], old_text.name
    check_all(iter(convert(odt, "epub", tmp_path / "epub")), "epub by LibreOffice")
