"""One small file of each type with everything that the type should keep, for the tests of `tram.filetypes`."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Sample:
    """A file: its name, its content and some of the sentences that it must offer for translation."""

    name: str
    content: bytes
    sentences: tuple[str, ...]
    bilingual: bool = False


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
An HTML block stays.
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
        "Text with inline HTML and Ctrl and https://example.org.",
        "The footnote text.",
    )
    return Sample("guide.md", MARKDOWN.encode(), sentences)


SAMPLES: dict[str, Callable[[], Sample]] = {
    "text": plain_text,
    "markdown": markdown,
}
