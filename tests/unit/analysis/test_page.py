"""The page of all reports: Markdown, safety, structure, and earlier reports."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from conftest import TINY, Done, made_up, refused, write_pair
from tram.analysis.page import to_html, write_page
from tram.analysis.position import position
from tram.cli import analyze as commands
from tram.config import MemoryConfig
from tram.errors import InputError
from tram.model.transformer import Transformer
from tram.text.pipeline import TextPipeline
from tram.translation.translator import Translator

VOID = {"meta", "br"}
SVG = (
    '<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    '<script>alert(1)</script><defs><path id="m"/></defs><g clip-path="url(#m)" onclick="bad()">'
    '<use xlink:href="#m"/><image xlink:href="http://example.org/x.png"/><text>a &lt; b</text></g></svg>'
)


class Structure(HTMLParser):
    """A parser that checks that elements close in order and records tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def parsed(text: str) -> Structure:
    structure = Structure()
    structure.feed(text)
    structure.close()
    assert structure.open == []
    return structure


def write_report(folder: Path, name: str, text: str = "Fine.", svg: str = SVG) -> None:
    (folder / f"{name}.md").write_text(f"# Title of {name}\n\n![x]({name}.png)\n\n{text}\n")
    (folder / f"{name}.json").write_text(json.dumps({"analysis": name, "note": "</pre><b>"}))
    (folder / f"{name}.svg").write_text(svg)


def flat(found: str) -> str:
    """Remove insignificant line breaks from HTML."""
    return re.sub(r"(?<=>)\n+(?=<|$)", "", found).replace("\n", " ")


def test_the_markdown_of_reports() -> None:
    lists = "- first\n  goes on\n- second\n\n1. x"
    text = f"## Seen\n\nOne *two* **three** `a*b*<c>`\nfour.\n\n{lists}\n\n```\n<raw> *x*\n\ny\n```"
    prose, _, code = to_html(text).partition("<pre>")
    assert flat(prose) == (
        "<h2>Seen</h2>"
        "<p>One <em>two</em> <strong>three</strong> <code>a*b*&lt;c&gt;</code> four.</p>"
        "<ul><li>first goes on</li><li>second</li></ul>"
        "<ol><li>x</li></ol>"
    )
    assert code == "<code>&lt;raw&gt; *x*\n\ny\n</code></pre>"


def test_a_table_with_alignment_and_an_escaped_bar() -> None:
    found = flat(to_html("| a | b |\n|---|---:|\n| x \\| y | `1` |"))
    assert found.startswith('<div class="table"><table><thead>')
    assert '<tr><th>a</th><th class="right">b</th></tr>' in found
    assert '<tr><td>x | y</td><td class="right"><code>1</code></td></tr>' in found


def test_a_heading_needs_no_blank_line_and_can_be_shifted() -> None:
    assert to_html("text\n# A\nmore", shift=1) == "<p>text</p>\n<h2>A</h2>\n<p>more</p>"


def test_asterisks_between_spaces_are_not_emphasis() -> None:
    assert to_html("2 * 3 * 4 and a * b") == "<p>2 * 3 * 4 and a * b</p>"


def test_links_and_pictures_stay_text() -> None:
    text = "[a](http://b.c) ![d](e.png) <http://f.g> <b>h</b>"
    found = parsed(to_html(text))
    assert (found.text, found.tags) == (text, ["p"])


@given(st.text(alphabet=st.sampled_from("ab <>&\"'`*|#-1.\n\\"), max_size=60).filter(lambda text: "```" not in text))
def test_text_never_becomes_other_markup(text: str) -> None:
    lists, headings = {"ul", "ol", "li"}, {f"h{level}" for level in range(1, 7)}
    tables = {"div", "table", "thead", "tbody", "tr", "th", "td"}
    allowed = {"p", "br", "pre", "code", "em", "strong"} | lists | headings | tables
    found = parsed(to_html(text))
    assert set(found.tags) <= allowed
    assert {name for name, _ in found.attributes} <= {"class", "start"}
    if "table" in found.tags:
        return  # a row may have more cells than the header, and these are dropped
    assert "".join(c for c in found.text if c in "ab<>&") == "".join(c for c in text if c in "ab<>&")


def test_the_page_has_all_reports_in_the_papers_order(tmp_path: Path) -> None:
    for name in ("complexity", "own", "memory-size", "position"):
        write_report(tmp_path, name)
    (tmp_path / "README.md").write_text("# no report: it has no numbers")
    text = write_page(tmp_path).read_text()
    found = parsed(text)
    order = [text.index(f'<section id="{name}">') for name in ("position", "memory-size", "complexity", "own")]
    assert order == sorted(order)
    assert found.tags.count("section") == found.tags.count("svg") == found.tags.count("details") == 4
    assert "no report" not in text
    assert "![" not in found.text
    assert ("name", "viewport") in found.attributes
    assert "prefers-color-scheme: dark" in text


def test_the_page_loads_nothing_and_runs_nothing(tmp_path: Path) -> None:
    write_report(tmp_path, "position", "see <img src=x onerror=alert(1)> & more")
    write_report(tmp_path, "attention")
    found = parsed(write_page(tmp_path).read_text())
    assert not {"script", "img", "link", "b", "iframe"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert all(value.startswith("#") for name, value in found.attributes if name.endswith("href"))
    assert "<img src=x onerror=alert(1)> & more" in found.text
    assert "a < b" in found.text
    ids = [value for name, value in found.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert {value[1:] for name, value in found.attributes if name.endswith("href")} <= set(ids)
    assert {v for n, v in found.attributes if n == "clip-path"} == {"url(#position-m)", "url(#attention-m)"}


def test_a_folder_without_reports_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no report"):
        write_page(tmp_path)
    write_report(tmp_path, "position", svg="<svg>")
    with pytest.raises(InputError, match=r"position\.svg: is not an SVG"):
        write_page(tmp_path)
    assert not (tmp_path / "index.html").exists()
    (tmp_path / "position.json").write_text("{")
    with pytest.raises(InputError, match="run this analysis again"):
        write_page(tmp_path)


def test_the_page_has_real_figures_and_earlier_reports(tmp_path: Path) -> None:
    gold = [[f"sentence {i} of document {d} is here" for i in range(4)] for d in range(6)]
    position(gold, gold, gold, size=2, bootstrap=20).write(tmp_path)
    write_report(tmp_path, "placement")
    found = parsed(write_page(tmp_path).read_text())
    assert "sentence's index in its document" in found.text  # the figure's text is text
    assert "Title of placement" in found.text


def test_all_writes_one_page_and_says_what_it_skips(
    tmp_path: Path, prepared: Path, tram: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = TextPipeline.load(prepared)
    torch.manual_seed(1)
    config = TINY.model_copy(update={"context": MemoryConfig(slots=4), "max_positions": 24, "max_length": 24})
    Translator(Transformer(config, text.vocabulary), text).save(tmp_path / "model")
    # The measurement takes a minute; here it only matters that it is called.
    monkeypatch.setattr(commands, "complexity", lambda output, model, tokens: write_report(output, "complexity"))
    pair = write_pair(tmp_path, "test", made_up([3, 3], seed=3))
    out = tmp_path / "out"
    out.mkdir()
    write_report(out, "memory-size")
    model = ("--model", tmp_path / "model", "--baseline", tmp_path / "model")
    done = tram("analyze", "all", *pair, *model, "--bin", 1, "--output", out)
    assert done.code == 0, done.err
    assert done.out.endswith("index.html\n")
    assert f"skipping position: {pair[1]}: 2 documents are too few" in done.err
    page = (out / "index.html").read_text()
    sections = [value for name, value in parsed(page).attributes if name == "id" and f'<section id="{value}">' in page]
    assert sections == ["attribution", "attention", "memory-size", "complexity"]
    refused(tram("analyze", "all", *pair, "--model", tmp_path / "none", "--output", out), "none", "no such folder")
