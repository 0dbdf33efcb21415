"""PO files: what is translated, what is context, and what gettext thinks of the result."""

import shutil
import subprocess
from pathlib import Path

import polib
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filetype_samples import PO
from tram.errors import InputError
from tram.filetypes import ReadOptions, Rendition, Segment, by_sentences, translate_document
from tram.filetypes.registry import read_bytes

CZECH = r"""msgid ""
msgstr ""
"Language: \n"
"Content-Type: text/plain; charset=CHARSET\n"
"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\n"

msgid "One file"
msgid_plural "%d files"
msgstr[0] ""
msgstr[1] ""
"""
HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset=UTF-8\\n"\n\n'


def upper(content: str, doubtful: bool = False, options: ReadOptions | None = None) -> str:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition(s.text.upper(), doubtful=doubtful) if s.translate else None for s in d] for d in documents]

    return translate_document(read_bytes("x.po", content.encode(), options=options), translate)[0].decode()


def test_empty_and_fuzzy_entries_are_translated_and_the_rest_is_kept() -> None:
    entries = {entry.msgid: entry for entry in polib.pofile(upper(PO))}
    assert entries["Open the <b>file</b> %s.\n"].msgstr == "OPEN THE <b>FILE</b> %S.\n"
    assert entries["Already done. Twice."].msgstr == "Schon fertig. Zweimal."
    once_fuzzy = entries['A new message with "quotes"\non two lines.']
    assert once_fuzzy.msgstr == 'A NEW MESSAGE WITH "QUOTES"\nON TWO LINES.'
    assert once_fuzzy.flags == ["c-format"]
    assert once_fuzzy.previous_msgid is None
    assert entries["%d file"].msgstr_plural == {0: "%D FILE", 1: "%D FILES FOUND"}
    assert entries["Obsolete"].msgstr == "Veraltet"


def test_a_doubtful_translation_is_fuzzy() -> None:
    entries = {entry.msgid: entry for entry in polib.pofile(upper(PO, doubtful=True))}
    assert "fuzzy" in entries["Open the <b>file</b> %s.\n"].flags
    assert not entries["Already done. Twice."].flags


def test_existing_translations_are_offered_sentence_by_sentence() -> None:
    segments = read_bytes("x.po", PO.encode()).documents[0]
    assert [(s.text, s.target) for s in segments if s.target] == [
        ("Already done.", "Schon fertig."),
        ("Twice.", "Zweimal."),
    ]
    assert all(not s.translate for s in segments if s.target)


def test_a_header_gets_the_plural_forms_of_the_language_and_every_form_a_text() -> None:
    written = upper(CZECH, options=ReadOptions(target_language="cs"))
    assert '"Language: cs\\n"' in written
    assert "charset=UTF-8" in written
    assert polib.pofile(written)[0].msgstr_plural == {0: "ONE FILE", 1: "%D FILES", 2: "%D FILES"}


def test_a_form_for_many_numbers_does_not_lose_the_number() -> None:
    written = upper(CZECH, options=ReadOptions(target_language="ru"))  # 1, 21, 31, … have one form
    assert set(polib.pofile(written)[0].msgstr_plural.values()) == {"%D FILES"}


def test_line_ends_and_encodings_are_kept() -> None:
    content = PO.replace("\n", "\r\n").replace("UTF-8", "ISO-8859-1").encode("latin-1")
    document = read_bytes("x.po", content)
    written, _ = translate_document(document, lambda d: [[Rendition("é") if s.translate else None for s in d[0]]])
    assert b"\xe9" in written
    assert written.count(b"\r\n") == written.count(b"\n")
    with pytest.raises(InputError, match=r"x\.po.*UTF-8"):
        translate_document(document, lambda d: [[Rendition("漢") if s.translate else None for s in d[0]]])


@pytest.mark.parametrize(
    "wrong",
    [
        *('msgid "a"\nmsgid "b"\n', 'msgid "a" b"\nmsgstr ""\n', "hello\n", 'msgid "a"\n', 'msgid "a\nmsgstr ""\n'),
        '#, fuzzy\n#| msgid "old"\n"er"\nmsgid "a"\nmsgstr "b"\n',  # the second line of a comment
        'msgid "a"\n"b"\n#, fuzzy\nmsgid "c"\nmsgstr "d"\n',  # would be translated as one message
        'msgid "a"\nmsgid_plural b"\nmsgstr[0] "c"\n',
    ],
)
def test_a_wrong_file_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match=r"x\.po.*msgfmt"):
        read_bytes("x.po", wrong.encode(), format="po")


def test_forms_that_are_translated_already_stay() -> None:
    written = upper('msgid "a file"\nmsgid_plural "files"\nmsgstr[0] "eine Datei"\nmsgstr[1] ""\n')
    assert written.endswith('msgstr[0] "eine Datei"\nmsgstr[1] "FILES"\n')


def test_comments_without_a_blank_are_read_as_gettext_reads_them() -> None:
    content = '#comment\n#:main.c:1\n#,fuzzy\n#|msgid "old"\nmsgid "new"\nmsgstr "x"\n\n#~msgid "a"\n#~msgstr "b"\n'
    assert upper(content) == content.replace('#,fuzzy\n#|msgid "old"\n', "").replace('"x"', '"NEW"')


@pytest.mark.parametrize(
    ("language", "is_read"), [("de", True), ("de_AT", True), ("", True), ("en", True), ("fr", False)]
)
def test_a_file_for_another_language_is_refused_and_a_template_gets_the_language(language: str, is_read: bool) -> None:
    content = f'msgid ""\nmsgstr "Language: {language}\\n"\n\nmsgid "a"\nmsgstr ""\n'
    options = ReadOptions(target_language="de")
    if is_read:
        expected = language if language.startswith("de") else "de"
        assert f'"Language: {expected}\\n"' in upper(content, options=options)
    else:
        with pytest.raises(InputError, match=r"x\.po.*'fr'"):
            upper(content, options=options)


PIECES = ["Open %s.", "\\n", "<b>bold</b>", '\\"q\\"', "%(name)s", "\\t", "<file>", " ", "- item", "\\\\", "Done!", "…"]
strings = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join)


def po_file(messages: list[str]) -> str:
    header = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n'
    return header + "".join(
        f'\n#: x:{i}\nmsgctxt "{i}"\nmsgid "{text}"\nmsgstr ""\n' for i, text in enumerate(messages)
    )


@given(st.lists(strings, max_size=5))
def test_generated_messages_are_copied_exactly_by_an_identity_translation(messages: list[str]) -> None:
    content = po_file(messages)
    document = read_bytes("x.po", content.encode())
    written, _ = translate_document(document, by_sentences(lambda texts: texts))
    for entry in polib.pofile(written.decode()):
        assert entry.msgstr in (entry.msgid, "")
        assert entry.msgstr or not any(map(str.isalnum, entry.msgid.replace("<file>", "")))


@pytest.mark.skipif(shutil.which("msgfmt") is None, reason="gettext is not installed")
def test_gettext_accepts_the_result(tmp_path: Path) -> None:
    path = tmp_path / "x.po"
    for content in (PO, po_file(["Line one\\nline two\\n", "\\nx %s", '\\"']), CZECH.replace("CHARSET", "UTF-8")):
        document = read_bytes("x.po", content.encode(), options=ReadOptions(target_language="cs"))
        path.write_bytes(translate_document(document, by_sentences(lambda texts: [t.upper() for t in texts]))[0])
        done = subprocess.run(["msgfmt", "--check-format", "-o", "-", path], capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("message", "plain", "translation", "written"),
    [
        ("_Save", "Save", "Speichern", "_Speichern"),
        ("Save &as…", "Save as…", "Speichern unter…", "Speichern &unter…"),
        ("E&xit", "Exit", "Beenden", "&Beenden"),
        ("~File", "File", "Datei", "~Datei"),
        ("%s _files", "%s files", "%s Dateien", "%s _Dateien"),
        ("R&D", "R&D", "F&E", "F&E"),
        ("my_file and _x_", "my_file and _x_", "my_file", "my_file"),
        ("A &amp; B", "A &amp; B", "C &amp; D", "C &amp; D"),
        ("~/folder", "~/folder", "~/folder", "~/folder"),
    ],
)
def test_the_mark_of_an_accelerator_goes_to_a_word(message: str, plain: str, translation: str, written: str) -> None:
    document = read_bytes("app.po", f'msgid "{message}"\nmsgstr ""\n'.encode())
    ((segment,),) = document.documents
    assert segment.text == plain
    content, _ = translate_document(document, lambda _: [[Rendition(translation, [(0, 0), (1, 1)])]])
    assert f'msgstr "{written}"' in content.decode()


def test_the_marks_of_accelerators_are_no_context() -> None:
    document = read_bytes("app.po", b'msgid "_Save"\nmsgstr "_Speichern"\n')
    ((segment,),) = document.documents
    assert (segment.text, segment.target) == ("Save", "Speichern")


def rewritten(content: str, new: dict[str, str]) -> list[polib.POEntry]:
    def translate(documents: list[list[Segment]]) -> list[list[Rendition | None]]:
        return [[Rendition(new[s.text]) if s.translate else None for s in d] for d in documents]

    written = translate_document(read_bytes("x.po", (HEADER + content).encode()), translate)[0].decode()
    return list(polib.pofile(written))


def test_arguments_that_change_their_order_are_numbered() -> None:
    content = '#, c-format\nmsgid "%s is not in %s."\nmsgstr ""\n'
    (entry,) = rewritten(content, {"%1$s is not in %2$s.": "%1$s ist nicht in %2$s."})
    assert (entry.msgstr, entry.flags) == ("%s ist nicht in %s.", ["c-format"])
    (entry,) = rewritten(content, {"%1$s is not in %2$s.": "In %2$s ist %1$s nicht."})
    assert (entry.msgstr, entry.flags) == ("In %2$s ist %1$s nicht.", ["c-format"])


def test_a_translation_that_gettext_would_refuse_is_fuzzy() -> None:
    (entry,) = rewritten('#, c-format\nmsgid "100% of %d"\nmsgstr ""\n', {"100% of %d": "100% der %d"})
    assert entry.msgstr == "100% der %d"
    assert "fuzzy" in entry.flags


def test_names_of_translators_are_left_to_them() -> None:
    names = 'msgctxt "NAME OF TRANSLATORS"\nmsgid "Your names"\nmsgstr ""\n'
    entries = rewritten(f'msgid "translator-credits"\nmsgstr ""\n\n{names}\nmsgid "Tea"\nmsgstr ""\n', {"Tea": "Tee"})
    assert [entry.msgstr for entry in entries] == ["", "", "Tee"]


def test_columns_of_options_stay_in_their_place() -> None:
    (entry,) = rewritten(
        'msgid ""\n"Usage\\n"\n"  -h, --help      print this help\\n"\n"  -v  say more\\n"\nmsgstr ""\n',
        {"Usage": "Aufruf", "-h, --help": "-h, --help", "print this help": "Hilfe", "-v": "-v", "say more": "mehr"},
    )
    assert entry.msgstr == "Aufruf\n  -h, --help      Hilfe\n  -v  mehr\n"


@pytest.mark.parametrize("expression", ["1/(n-5)", "5%(n-5)", "n-9", "n"])
def test_an_expression_that_gives_no_form_for_a_number_is_that_of_english(expression: str) -> None:
    forms = f'"Plural-Forms: nplurals=2; plural={expression};\\n"\n\n'
    message = 'msgid "One file"\nmsgid_plural "%d files"\nmsgstr[0] ""\nmsgstr[1] ""\n'
    (entry,) = polib.pofile(upper(HEADER.rstrip("\n") + "\n" + forms + message))
    assert entry.msgstr_plural == {0: "ONE FILE", 1: "%D FILES"}


@pytest.mark.parametrize("number", ["0", "100", "3000000", "9" * 5000])
def test_a_number_of_forms_that_no_language_has_is_refused(number: str) -> None:
    content = HEADER.rstrip("\n") + f'\n"Plural-Forms: nplurals={number}; plural=0;\\n"\n\nmsgid "a"\nmsgstr ""\n'
    with pytest.raises(InputError, match=r"x\.po: its header has an unusable number of plural forms"):
        upper(content)
