"""Markdown of reports: wrapping changes where lines end and nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from tram.analysis.page import to_html
from tram.analysis.report import markdown_table, wrap_markdown

words = st.text(alphabet="abc(),.:*`[]+-#>10", min_size=1, max_size=12)
paragraphs = st.lists(words, min_size=1, max_size=60).map(" ".join)
lists = st.lists(paragraphs, min_size=1, max_size=3).map(lambda items: "\n".join(f"- {item}" for item in items))


@given(st.lists(paragraphs | lists, min_size=1, max_size=4).map("\n\n".join))
def test_wrapped_text_is_the_same_text_with_other_line_breaks(text: str) -> None:
    found = wrap_markdown(text, 40)
    assert found.split() == text.split()
    assert to_html(found).split() == to_html(text).split()
    assert wrap_markdown(found, 40) == found


@given(st.lists(st.text(alphabet="ab,.", min_size=1, max_size=12), max_size=60).map(" ".join))
def test_no_line_is_longer_than_the_width(text: str) -> None:
    assert all(len(line) <= 40 for line in wrap_markdown(text, 40).splitlines())
    assert all(len(line) <= 40 for line in wrap_markdown(f"- {text}", 40).splitlines())


def test_tables_headings_and_pictures_keep_their_lines() -> None:
    table = markdown_table(["a" * 30, "b" * 30], [["c" * 30, "d" * 30]])
    text = f"# {'long ' * 20}end\n\n![a title]({'x' * 60}.png)\n\n{table}"
    assert wrap_markdown(text, 40) == text
    assert wrap_markdown("one\ntwo\n\n\nthree\n", 40) == "one two\n\nthree"
