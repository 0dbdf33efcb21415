# ruff: noqa: E501 (XML as programs write it)
"""One small file of each type with everything that the type should keep, for the tests of `tram.filetypes`."""

import dataclasses
import io
import zipfile
from collections.abc import Callable
from dataclasses import dataclass

from tram.filetypes import ReadOptions


@dataclass(frozen=True)
class Sample:
    """A file: its name, its content and some of the sentences that it must offer for translation."""

    name: str
    content: bytes
    sentences: tuple[str, ...]
    bilingual: bool = False
    options: ReadOptions = dataclasses.field(default_factory=ReadOptions)


def plain_text() -> Sample:
    text = "Dear Ms Smith,\r\n\r\n- The first item. And more.\r\n- The second item\r\n\r\n***\r\n"
    return Sample("letter.txt", b"\xef\xbb\xbf" + text.encode(), ("The first item.", "And more.", "The second item"))


MARKDOWN = """---
title: Not translated
---

Guide to *everything* #1
========================

## Second **level** ##

> A quote that runs
> over **two lines** and on. Second sentence\\* with `code_span` and [a link](https://a.b "title").
> - [ ] a task with ![an image](x.png) in it

```python
print("untouched")
```

1. One &amp; two. See [the manual] and [this][manual].\x20\x20
   A hard break above[^1].

| Name | Value \\| unit |
|------|:-----:|
| left *cell* | right `a\\|b` |

<div>
An HTML block is translated.
</div>

Text with <b>inline HTML</b> and <kbd>Ctrl</kbd> and <https://example.org>.

[the manual]: https://m.n
[manual]: https://m.n
[^1]: The footnote text.
"""


def markdown() -> Sample:
    sentences = (
        "Guide to everything #1",
        "Second level",
        "A quote that runs over two lines and on.",
        "Second sentence* with code_span and a link.",
        "a task with in it",
        "an image",
        "See the manual and this.",
        "Name",
        "Value | unit",
        "left cell",
        "An HTML block is translated.",
        "Text with inline HTML and Ctrl and https://example.org.",
        "The footnote text.",
    )
    return Sample("guide.md", MARKDOWN.encode(), sentences)


HTML = """<!DOCTYPE html>
<html lang=en><head><meta charset="iso-8859-1"><title>A caf&eacute; &amp; more</title>
<meta name="description" content="What it's about."><style>p > b { color: red }</style>
<script>if (a < b) document.write("<p>not text</p>");</script></head>
<body class='x'><h1>The  heading</h1>
<p>First sentence
   on two lines. <b>Second one.</b> And a <a href="u" title='It&#39;s a "title"'>link with <i>nested</i> text</a>!
<p>Unclosed paragraph with <code>code <b>x</b></code>, <kbd>Ctrl</kbd>&nbsp;and a note<sup><a href="#1">[1]</a></sup>.
<ul><li>One<li>Two <img src=i alt='An image'> items</ul>
<pre>  not   text </pre><table><tr><td>Cell<td>42</table>
<!-- a comment --><p translate="no">Left alone.</p><input type=submit value=Send placeholder="Your name">
<p>Line one<br>Line two<br/>2 &lt; 3 &unknown; &copy 2020</p>
</body></html>
"""


def html() -> Sample:
    sentences = (
        "A café & more",
        "What it's about.",
        "The heading",
        "First sentence on two lines.",
        "Second one.",
        "And a link with nested text!",
        'It\'s a "title"',
        "Unclosed paragraph with code x, Ctrl\xa0and a note.",
        "One",
        "Two items",
        "An image",
        "Cell",
        "Send",
        "Your name",
        "Line one",
        "2 < 3 &unknown; © 2020",
    )
    return Sample("page.html", HTML.encode("latin-1"), sentences)


PO = r"""# A comment
msgid ""
msgstr ""
"Content-Type: text/plain; charset=UTF-8\n"
"Plural-Forms: nplurals=2; plural=(n != 1);\n"

#. extracted
#: main.c:1
#, c-format
msgctxt "menu"
msgid "Open the <b>file</b> %s.\n"
msgstr ""

msgid "Already done. Twice."
msgstr "Schon fertig. Zweimal."

#, fuzzy, c-format
#| msgid "Old message"
msgid "A new message with \"quotes\"\n"
"on two lines."
msgstr "Alt"

#, c-format
msgid "%d file"
msgid_plural "%d files found"
msgstr[0] ""
msgstr[1] ""

#~ msgid "Obsolete"
#~ msgstr "Veraltet"
"""


def po() -> Sample:
    sentences = ("Open the file %s.", "Already done.", "Twice.", "%d file", "%d files found")
    return Sample("de.po", PO.encode(), sentences, bilingual=True)


SRT = """1
00:00:01,000 --> 00:00:02,500
{\\an8}<i>This sentence goes on</i>

2
00:00:02,600 --> 00:00:04,000 X1:40
<i>over two cues</i> and <b>ends</b>
here. Another one.

7
00:00:05,000 --> 00:00:06,000
- Who is there?
- It's me!

8
00:00:20,000 --> 00:00:21,000
♪
"""


def srt() -> Sample:
    sentences = ("This sentence goes on over two cues and ends here.", "Another one.", "Who is there?", "It's me!")
    return Sample("film.srt", SRT.replace("\n", "\r\n").encode(), sentences)


VTT = """WEBVTT - a title
Kind: captions

STYLE
::cue { color: red }

NOTE a comment
that is not text

intro
00:01.000 --> 00:02.500 align:start
<v Bob>Fish &amp; chips are <c.loud>what we</c>

00:02.500 --> 00:04.000
all want<00:03.000> today. Really.

00:00:05.000 --> 00:00:06.000
<v Ann>And you?</v>
"""


def vtt() -> Sample:
    sentences = ("Fish & chips are what we all want today.", "Really.", "And you?")
    return Sample("film.vtt", VTT.encode(), sentences)


XLIFF = """<?xml version='1.0' encoding="UTF-8"?>
<!-- kept -->
<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2">
 <file original="a.html" source-language="en" datatype="html"  ><body>
  <trans-unit id="1"><source>Open the <g id="1">file &amp; folder</g><x id="2"/>. Done.</source></trans-unit>
  <trans-unit id="2">
    <source>Already done.</source>
    <target state='final'>Schon fertig.</target>
  </trans-unit>
  <trans-unit id="3" translate="no"><source>Left alone.</source><target/></trans-unit>
  <trans-unit id="4">
    <source>Hello <ph id="1">%s</ph>, a <bpt id="1">&lt;b></bpt>bold<ept id="1">&lt;/b></ept> one!</source>
    <target state="new">Hello <ph id="1">%s</ph>, a one!</target></trans-unit>
  <trans-unit id="5"><source>Two. Segments.</source>
    <seg-source><mrk mtype="seg" mid="0">Two.</mrk> <mrk mtype="seg" mid="1">Segments.</mrk></seg-source>
    <alt-trans><target>not this</target></alt-trans></trans-unit>
  <trans-unit id="6"><source><![CDATA[Raw <b>text</b>]]></source><target></target></trans-unit>
 </body></file>
 <file original="b" source-language="en" datatype="plaintext"><body>
  <trans-unit id="1"><source>Second <mrk mtype="protected">file</mrk>.</source></trans-unit>
 </body></file>
</xliff>
"""


def xliff() -> Sample:
    sentences = (
        "Open the file & folder.",
        "Done.",
        "Already done.",
        "Left alone.",
        "Hello %s, a bold one!",
        "Two.",
        "Segments.",
        "Raw text",
        "Second file.",
    )
    return Sample("texts.xlf", XLIFF.encode(), sentences, bilingual=True)


TMX = """<?xml version="1.0"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en-US" datatype="xml"/>
<body>
  <tu><tuv xml:lang="en-US"><seg>Save <bpt i="1">&lt;i></bpt>your<ept i="1">&lt;/i></ept> work.</seg></tuv>
    <tuv xml:lang="fr"><seg>Enregistrez votre travail.</seg></tuv></tu>
  <tu>
    <tuv xml:lang="en-US"><seg>Done.</seg></tuv>
    <tuv xml:lang="DE-DE"><seg>Fertig.</seg></tuv>
  </tu>
</body></tmx>
"""


def tmx() -> Sample:
    options = ReadOptions(target_language="de")
    return Sample("memory.tmx", TMX.encode(), ("Save your work.", "Done."), bilingual=True, options=options)


def packed(parts: dict[str, str], stored: str = "") -> bytes:
    """A ZIP package; the part `stored` comes first and is not compressed."""
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w") as package:
        for name, content in parts.items():
            kind = zipfile.ZIP_STORED if name == stored else zipfile.ZIP_DEFLATED
            package.writestr(zipfile.ZipInfo(name), content, compress_type=kind)
    return result.getvalue()


W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
MC = 'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006"'
MAIN = "application/vnd.openxmlformats-officedocument.wordprocessingml"
BOX = "<w:txbxContent><w:p><w:r><w:t>In a box.</w:t></w:r></w:p></w:txbxContent>"


def field(instruction: str, result: str) -> str:
    return (
        f'<w:r><w:fldChar w:fldCharType="begin"/></w:r><w:r><w:instrText>{instruction}</w:instrText></w:r>'
        f'<w:r><w:fldChar w:fldCharType="separate"/></w:r><w:r><w:t>{result}</w:t></w:r>'
        '<w:r><w:fldChar w:fldCharType="end"/></w:r>'
    )


DOCX_BODY = f"""<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\r
<w:document {W} {MC}><w:body>
<w:p><w:pPr><w:jc w:val="left"/></w:pPr><w:r><w:t xml:space="preserve">A plain and </w:t></w:r><w:r><w:rPr><w:b/></w:rPr>
<w:t>bold</w:t></w:r><w:r><w:t xml:space="preserve"> sentence. The second</w:t></w:r><w:r><w:rPr><w:lang w:val="en-GB"/></w:rPr>
<w:t xml:space="preserve"> one &amp; more.</w:t><w:footnoteReference w:id="2"/></w:r></w:p>
<w:p><w:bookmarkStart w:id="0" w:name="x"/><w:r><w:t>Name:</w:t><w:tab/><w:t xml:space="preserve">See </w:t></w:r>
<w:hyperlink w:anchor="x"><w:r><w:rPr><w:rStyle w:val="Link"/></w:rPr><w:t>this link</w:t></w:r></w:hyperlink><w:bookmarkEnd w:id="0"/>
<w:r><w:t xml:space="preserve"> on page </w:t></w:r>{field(" PAGE ", "12")}<w:r><w:t xml:space="preserve">, or </w:t></w:r>
{field(' HYPERLINK "u" ', "that")}<w:r><w:t>.</w:t></w:r></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>A cell.</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
<w:p><w:r><w:t xml:space="preserve">It was </w:t></w:r><w:del w:id="1"><w:r><w:delText>never</w:delText></w:r></w:del>
<w:ins w:id="2"><w:r><w:t>always</w:t></w:r></w:ins><w:r><w:t xml:space="preserve"> so.</w:t></w:r></w:p>
<w:p><w:r><mc:AlternateContent><mc:Choice Requires="wps">{BOX}</mc:Choice><mc:Fallback>{BOX}</mc:Fallback></mc:AlternateContent></w:r>
<w:r><w:t xml:space="preserve">Around the box</w:t><w:br/><w:t>on two lines.</w:t></w:r></w:p><w:p/>
</w:body></w:document>"""


def docx() -> Sample:
    kinds = {"document.main": "document", "header": "header1", "footnotes": "footnotes", "comments": "comments"}
    types = "".join(
        f'<Override PartName="/word/{part}.xml" ContentType="{MAIN}.{kind}+xml"/>' for kind, part in kinds.items()
    )
    paragraph = "<w:p><w:r><w:t>{}</w:t></w:r></w:p>"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="x">{types}</Types>',
        "word/document.xml": DOCX_BODY,
        "word/header1.xml": f"<w:hdr {W}>{paragraph.format('The header')}</w:hdr>",
        "word/footnotes.xml": f"<w:footnotes {W}><w:footnote>{paragraph.format('A note.')}</w:footnote></w:footnotes>",
        "word/comments.xml": f"<w:comments {W}>{paragraph.format('A comment stays.')}</w:comments>",
        "word/media/image1.png": "not an image",
    }
    sentences = (
        "A plain and bold sentence.",
        "The second one & more.",
        "Name:",
        "See this link on page 12, or that.",
        "A cell.",
        "It was always so.",
        "Around the box",
        "on two lines.",
        "In a box.",
        "A note.",
        "The header",
    )
    return Sample("letter.docx", packed(parts), sentences)


ODT = """<?xml version="1.0" encoding="UTF-8"?>
<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
><office:body><office:text>
<text:tracked-changes><text:changed-region><text:p>Deleted text.</text:p></text:changed-region></text:tracked-changes>
<text:h text:outline-level="1">The heading</text:h>
<text:p>A <text:span text:style-name="T1">bold</text:span><text:s text:c="2"/>sentence
 with a note<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>The note &amp; so.</text:p></text:note-body>
</text:note>. Page <text:page-number>3</text:page-number> has it.<office:annotation><text:p>A comment.</text:p></office:annotation></text:p>
<text:p>Name:<text:tab/><text:a href="u">A link</text:a><text:line-break/>Second line</text:p>
<text:p><draw:frame><draw:text-box><text:p>In a box.</text:p></draw:text-box></draw:frame>Beside <text:bookmark text:name="b"/>it.</text:p>
</office:text></office:body></office:document-content>"""
STYLES = """<o:document-styles xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:t="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><t:p>The footer</t:p></o:document-styles>"""


def odt() -> Sample:
    mimetype = "application/vnd.oasis.opendocument.text"
    parts = {"mimetype": mimetype, "content.xml": ODT, "styles.xml": STYLES, "Pictures/x.png": "no image"}
    sentences = (
        "The heading",
        "A bold sentence with a note.",
        "Page 3 has it.",
        "The note & so.",
        "Name:",
        "A link",
        "Second line",
        "Beside it.",
        "In a box.",
        "The footer",
    )
    return Sample("letter.odt", packed(parts, "mimetype"), sentences)


OPF = """<?xml version="1.0"?><package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="i">
<metadata xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Book</dc:title><dc:language>en</dc:language></metadata>
<manifest><item id="two" href="b%20c.xhtml" media-type="application/xhtml+xml"/>
<item id="one" href="a.xhtml" media-type="application/xhtml+xml"/><item id="toc" href="toc.ncx" media-type="application/x-dtbncx+xml"/>
<item id="nav" href="nav.xhtml" media-type="application/xhtml+xml" properties="nav"/></manifest>
<spine toc="toc"><itemref idref="one"/><itemref idref="two"/></spine></package>"""
PAGE = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE html><html xmlns="http://www.w3.org/1999/xhtml" xml:lang="en"><head><title>{0}</title></head>
<body><p>{0} is <em>first</em>.<br/></p><img src="x.png" alt="A picture"/></body></html>"""


def epub() -> Sample:
    container = '<container><rootfiles><rootfile full-path="OPS/book.opf"/></rootfiles></container>'
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": container,
        "OPS/book.opf": OPF,
        "OPS/b c.xhtml": PAGE.format("The end"),
        "OPS/a.xhtml": PAGE.format("The start"),
        "OPS/nav.xhtml": "<html><body><nav><ol><li><a href='a.xhtml'>To the start</a></li></ol></nav></body></html>",
        "OPS/toc.ncx": "<ncx><navMap><navPoint><navLabel><text>Label &amp; co</text></navLabel></navPoint></navMap></ncx>",
        "OPS/x.png": "no picture",
    }
    sentences = ("The start is first.", "A picture", "The end is first.", "A picture", "To the start", "Label & co")
    return Sample("book.epub", packed(parts, "mimetype"), sentences)


SAMPLES: dict[str, Callable[[], Sample]] = {
    "text": plain_text,
    "markdown": markdown,
    "html": html,
    "po": po,
    "srt": srt,
    "vtt": vtt,
    "xliff": xliff,
    "tmx": tmx,
    "docx": docx,
    "odt": odt,
    "epub": epub,
}


XLIFF2 = """<?xml version="1.0" encoding="UTF-8"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:2.0" version="2.0" srcLang="en" trgLang="de">
<file id="f"><notes><note>Not this.</note></notes><unit id="1">
<originalData><data id="d1">{0}</data><data id="d2">&lt;br/></data></originalData>
<segment><source>Move <pc id="1">the <ph id="2" dataRef="d1"/></pc> up<ph id="3" dataRef="d2"/>.</source></segment>
<ignorable><source> </source></ignorable>
<segment state="final"><source>Done.</source><target>Fertig.</target></segment></unit>
<group id="g" translate="no"><unit id="2"><segment><source>Left alone.</source></segment></unit></group>
<unit id="3"><segment><source>Keep <sm id="m" translate="no"/>this name<em startRef="m"/> as <sc id="1"/>it<ec startRef="1"/> is.</source></segment></unit>
</file></xliff>
"""


def xliff_2() -> Sample:
    sentences = ("Move the {0} up.", "Done.", "Left alone.", "Keep this name as it is.")
    return Sample("texts.xlf", XLIFF2.encode(), sentences, bilingual=True)


def segmented_xliff() -> Sample:
    marks = '<mrk mtype="seg" mid="1">{}</mrk> <g id="1"><mrk mtype="seg" mid="2">{}</mrk></g>'
    unit = f"<source>One. Two.</source><seg-source>{marks.format('One.', 'Two.')}</seg-source>"
    text = f"<xliff version='1.2'><file><trans-unit>{unit}<target>{marks.format('Eins.', '')}</target></trans-unit>"
    return Sample("texts.xlf", f"{text}</file></xliff>".encode(), ("One.", "Two."), bilingual=True)


def technical_markdown() -> Sample:
    text = """+++
title = "Not translated"
+++

> [!NOTE]
> Let $x_1 *y*$ be a number. :tada:

Methane
: It is CH<sub>4</sub>. See {{ page }}.

$$
a

b
$$

\\begin{align}
not text
\\end{align}

{{< figure src="x_y.png" >}} A figure.

*[HTML]: Hyper Text

- [x] Done.
"""
    sentences = ("Let $x_1 *y*$ be a number.", "Methane", "It is CH4.", "See {{ page }}.", "A figure.", "Done.")
    return Sample("guide.md", text.replace("\n", "\r\n").encode(), sentences)


def page_template() -> Sample:
    text = "<html><body><p>Dear <%= user > 0 ? a : b %> friend, <?php echo '<b>' ?> hello &x; there.</p><p>CH<sub>4</sub> is wet."
    return Sample("page.html", text.encode("utf-16"), ("Dear friend, hello &x; there.", "CH4 is wet."))


def short_vtt() -> Sample:
    text = "\ufeffWEBVTT\r\n\r\nREGION\r\nid:fred\r\n\r\nNOTE a --> b\r\n\r\n"
    text += "01:00.000 --> 01:01.000 region:fred line:0\r\n- <b>One</b> &lrm;word\r\n- Two.\r\n\r\n01:02.000 --> 01:03.000\r\n"
    return Sample("film.vtt", text.encode(), ("One \u200eword", "Two."))


def book_2() -> Sample:
    """A book of EPUB 2 in the main folder, with an old page."""
    opf = (
        OPF.replace('version="3.0"', 'version="2.0"').replace("b%20c.xhtml", "c.html").replace(' properties="nav"', "")
    )
    page = '<!DOCTYPE html PUBLIC "-//W3C//DTD XHTML 1.1//EN" "x.dtd"><html><body><p>A caf&eacute;.</p></body></html>'
    parts = {
        "mimetype": "application/epub+zip",
        "META-INF/container.xml": '<container><rootfile full-path="book.opf"/></container>',
        "book.opf": opf,
        "a.xhtml": PAGE.format("The start"),
        "c.html": page,
        "toc.ncx": "<ncx><docTitle><text>The book</text></docTitle></ncx>",
    }
    return Sample("book.epub", packed(parts, "mimetype"), ("The start is first.", "A café.", "The book"))


# More files of types that have a sample already.
VARIANTS: dict[str, Callable[[], Sample]] = {
    "xliff 2": xliff_2,
    "xliff with segments": segmented_xliff,
    "technical markdown": technical_markdown,
    "template": page_template,
    "vtt with regions": short_vtt,
    "epub 2": book_2,
}
