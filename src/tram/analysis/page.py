"""One self-contained HTML page with all reports of a folder; it loads nothing from the network.

write_page(Path("analysis"))               # reads NAME.md, NAME.svg and NAME.json there, writes index.html
"""

import html
import json
import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from tram.errors import InputError
from tram.files import read_json, read_text, write_text

REPORT_ORDER = ("position", "attribution", "planted", "attention", "memory-size", "placement", "window", "complexity")
SVG = "http://www.w3.org/2000/svg"
XLINK = "http://www.w3.org/1999/xlink"
# Markdown that reports do not use; links and pictures would lead out of the page.
DISABLED_RULES = ["image", "link", "autolink", "reference", "html_inline", "html_block", "blockquote", "hr", "lheading"]

CSS = """
:root { color-scheme: light dark; --text: #1c1c1c; --back: #fff; --line: #ccc; --soft: #f3f3f3; --link: #0059a3; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --back: #16181b; --line: #444; --soft: #23262a; --link: #8cc4ff; }
}
body { margin: 0 auto; max-width: 50rem; padding: 1rem; color: var(--text); background: var(--back);
  font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
a { color: var(--link); }
section { border-top: 1px solid var(--line); margin-top: 2.5rem; }
figure { margin: 1rem 0; padding: .5rem; background: #fff; border-radius: .4rem; overflow-x: auto; }
figure svg { display: block; width: 100%; height: auto; margin: auto; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { border-bottom: 1px solid var(--line); padding: .25rem .6rem; text-align: left; }
.right { text-align: right; }
code, pre { font-family: ui-monospace, monospace; font-size: .88em; background: var(--soft); border-radius: .2rem; }
pre { padding: .7rem; overflow: auto; max-height: 30rem; }
summary { cursor: pointer; }
""".strip()


@dataclass(frozen=True)
class ReportFiles:
    """The files of a report: its name, its Markdown, the path of its figure, if it has one, and its JSON."""

    name: str
    text: str
    svg: Path | None
    numbers: str

    @property
    def title(self) -> str:
        """The first heading of the text, or the name."""
        heading = re.search(r"^# (.+)$", self.text, re.M)
        return heading[1].strip() if heading else self.name


def write_page(folder: Path) -> Path:
    """Write index.html from all reports found in a folder."""
    reports = find_reports(folder)
    if not reports:
        raise InputError(f"{folder}: has no report (NAME.md beside NAME.json); run an analysis with this --output")
    path = folder / "index.html"
    write_text(path, page(reports))
    return path


def find_reports(folder: Path) -> list[ReportFiles]:
    """Return the reports in a folder, in the paper's order, followed by those with other names."""
    names = [path.stem for path in folder.glob("*.md") if path.with_suffix(".json").exists()]
    known = {name: number for number, name in enumerate(REPORT_ORDER)}
    return [
        _read_report(folder, name)
        for name in sorted(names, key=lambda name: (known.get(name, len(REPORT_ORDER)), name))
    ]


def _read_report(folder: Path, name: str) -> ReportFiles:
    paths = {suffix: folder / f"{name}.{suffix}" for suffix in ("md", "json", "svg")}
    try:
        numbers = read_json(paths["json"])
        text = read_text(paths["md"])
    except (OSError, ValueError) as error:
        raise InputError(
            f"{folder / name}: its .md or .json cannot be read ({error}); run this analysis again"
        ) from None
    indented = json.dumps(numbers, indent=1, ensure_ascii=False)
    return ReportFiles(name, text, paths["svg"] if paths["svg"].exists() else None, indented)


def page(reports: list[ReportFiles]) -> str:
    """Return the page as HTML."""
    entries = "".join(f'<li><a href="#{_id(report.name)}">{html.escape(report.title)}</a></li>' for report in reports)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>tram: analysis</title>\n<style>\n{CSS}\n</style>\n</head>\n<body>\n<h1>Analysis</h1>\n"
        f"<nav><ul>{entries}</ul></nav>\n" + "\n".join(map(_section, reports)) + "\n</body>\n</html>\n"
    )


def _section(report: ReportFiles) -> str:
    body = re.sub(r"^# .+$|^!\[.*\]\(.*\)$", "", report.text, flags=re.M)  # the page has its own title and figure
    figure = "" if report.svg is None else f"<figure>{inline_svg(report.svg, report.name, report.title)}</figure>\n"
    numbers = f"<details><summary>Numbers</summary><pre>{html.escape(report.numbers)}</pre></details>"
    title = f"<h2>{html.escape(report.title)}</h2>"
    return f'<section id="{_id(report.name)}">\n{title}\n{figure}{to_html(body, shift=1)}\n{numbers}\n</section>'


def _id(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name)


def inline_svg(path: Path, name: str, title: str) -> str:
    """Return a figure as an SVG element with unique ids and without anything that could run or load."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except (OSError, ElementTree.ParseError) as error:
        raise InputError(f"{path}: is not an SVG picture ({error}); run this analysis again") from None
    for parent in root.iter():
        for child in list(parent):
            if child.tag in {f"{{{SVG}}}script", f"{{{SVG}}}metadata", f"{{{SVG}}}foreignObject"}:
                parent.remove(child)
    for element in root.iter():
        for key, value in list(element.attrib.items()):
            local = key.rpartition("}")[2]
            if local.startswith("on") or (local == "href" and not value.startswith(("#", "data:image/"))):
                del element.attrib[key]
            elif local == "id":
                element.set(key, f"{_id(name)}-{value}")
            else:
                renamed = re.sub(r"url\(#", f"url(#{_id(name)}-", value)
                element.set(
                    key, f"#{_id(name)}-{renamed[1:]}" if local == "href" and renamed.startswith("#") else renamed
                )
    if points := re.fullmatch(r"([\d.]+)pt", root.get("width", "")):
        root.set("style", f"max-width: {1.5 * float(points[1]):.0f}pt")  # a narrow figure is not stretched to the page
    root.set("role", "img")
    root.set("aria-label", title)
    ElementTree.register_namespace("", SVG)
    ElementTree.register_namespace("xlink", XLINK)
    return ElementTree.tostring(root, encoding="unicode")


def to_html(text: str, shift: int = 0) -> str:
    """Convert Markdown to HTML that neither loads nor runs anything; headings go `shift` levels deeper."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table").disable(DISABLED_RULES)
    tokens = markdown.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(int(token.tag[1:]) + shift, 6)}"
        elif token.attrs.pop("style", None) == "text-align:right":
            token.attrSet("class", "right")
    rendered: str = markdown.renderer.render(tokens, markdown.options, {})
    scrolling = rendered.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    return scrolling.strip()
