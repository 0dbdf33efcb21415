"""Messages with several texts in them: only the texts are translated."""

import pytest

from tram.filetypes.message_forms import message_items
from tram.filetypes.registry import read_bytes
from tram.filetypes.translate import Rendition, translate_document


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("{n, plural, =0 {No files} other {# files in {folder}}}", ["No files", " files in {folder}"]),
        ("{n, plural, offset:1 one {One} other {{{ n }} minutes}} ago", ["One", "{{ n }} minutes", " ago"]),
        (
            "{g, select, male {{n, plural, one {He has one} other {He has #}}} other {They}}",
            ["He has one", "He has ", "They"],
        ),
        ("There is one apple|There are %count% apples", ["There is one apple", "There are %count% apples"]),
        ("Usage: x [-a|-b] FILE", ["Usage: x [-a|-b] FILE"]),
        ("yes|no", ["yes|no"]),
        ("Hello {name}, {{ you }}", ["Hello {name}, {{ you }}"]),
        ("{n, plural, one {Broken", ["{n, plural, one {Broken"]),
        ("{n, plural, one {a} } } b", ["{n, plural, one {a} } } b"]),
        ("", [""]),
    ],
)
def test_texts_of_messages(text: str, texts: list[str]) -> None:
    items = list(message_items(text))
    assert "".join(item.text for item in items) == text
    assert [item.text for item in items if item.kind == "text"] == texts


@pytest.mark.parametrize(
    ("name", "start", "end"),
    [
        ("x.po", 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr "', '"\n'),
        (
            "x.xlf",
            '<xliff version="1.2"><file source-language="en"><body><trans-unit id="1"><source>{}</source>'
            '<target state="translated">',
            "</target></trans-unit></body></file></xliff>",
        ),
    ],
)
def test_files_keep_the_syntax(name: str, start: str, end: str) -> None:
    message = "{n, plural, =0 {no file} other {# files}}"
    content = (start.replace("{}", message) + end).replace('<target state="translated"></target>', "")
    document = read_bytes(name, content.encode())
    assert [s.readable for s in document.documents[0]] == ["no file", "# files"]
    written, _ = translate_document(document, lambda docs: [[Rendition(s.text.upper()) for s in d] for d in docs])
    assert "{n, plural, =0 {NO FILE} other {# FILES}}" in written.decode()
