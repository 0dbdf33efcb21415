"""Vocabularies and BPE codes of other tools, made into a text pipeline of tram.

    text = read_text(Path("dict.txt"), Path("codes"), rows=len(embedding))

Codes are those of subword-nmt or fastBPE: a merge in each line, `left right` or `left right count`, `</w>` at the end
of a word. A vocabulary has a token in each line, with or without a count, for each row of the model's embedding.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tram.errors import InputError
from tram.text.bpe import SPECIALS, Merge
from tram.text.pipeline import TextPipeline
from tram.text.word_end_bpe import UNKNOWN, WORD_END, WordEndBPE

TOKEN = re.compile(r"([^ \t]+)(?: [0-9]+)?")
MERGE = re.compile(r"([^ \t]+) ([^ \t]+)(?: [0-9]+)?")
VERSION = "#version:"  # the first line of subword-nmt's codes

# How others call padding, begin and end, in any case of letters.
NAMES = (("<pad>", "[pad]"), ("<s>", "<bos>", "[bos]", "[cls]"), ("</s>", "<eos>", "[eos]", "[sep]"))
UNLISTED = (*SPECIALS, UNKNOWN[0])  # what a vocabulary may leave out: the first three or all four


def read_text(
    vocab: Path, codes: Path, rows: int, source_language: str = "en", target_language: str = "de"
) -> TextPipeline:
    """Make the text pipeline of a model that was trained with these files; rows: of its embedding.

    Moses tokenisation without truecasing: the files bring no truecaser.
    """
    tokens = read_tokens(vocab, rows)
    return TextPipeline("moses", source_language, target_language, WordEndBPE(tokens, read_merges(codes)))


def read_tokens(path: Path, rows: int) -> list[str]:
    """Read the token of each row of an embedding, those too that the file leaves out."""
    places: dict[str, int] = {}
    for number, line in matched_lines(path, TOKEN, "a token and perhaps its count, with a blank between them"):
        if places.setdefault(line[1], number) != number:
            raise InputError(f"{path}:{number} has the token of line {places[line[1]]} again; keep each of them once")
    left_out = rows - len(places)
    if left_out not in (0, len(SPECIALS), len(UNLISTED)):
        raise InputError(
            f"{path}: has {len(places)} tokens, the model has {rows}, of which a vocabulary may leave out"
            f" {len(SPECIALS)} or {len(UNLISTED)} special ones; give the vocabulary that the model was trained with"
        )
    check_specials(path, list(places), left_out)
    return [*UNLISTED[:left_out], *places]


def check_specials(path: Path, tokens: list[str], left_out: int) -> None:
    """Refuse a file whose special tokens would not get the ids of the authors' models, padding 0, begin 1, end 2."""
    if not left_out:
        for number, (token, names) in enumerate(zip(tokens, NAMES, strict=False), 1):
            if token.lower() not in names:
                raise InputError(
                    f"{path}:{number} is `{token}`, where the authors' models have `{SPECIALS[number - 1]}`;"
                    " give the vocabulary that the model was trained with"
                )
        return
    # The others may come from tags in the text the vocabulary was counted on.
    doubled = NAMES[0] if left_out == len(SPECIALS) else NAMES[0] + UNKNOWN
    for number, token in enumerate(tokens, 1):
        if token.lower() in doubled:
            raise InputError(
                f"{path}:{number} is `{token}`, but with {len(tokens)} tokens for {len(tokens) + left_out} rows of the"
                " embedding the file should leave it out; give the vocabulary that the model was trained with"
            )


def read_merges(path: Path) -> list[Merge]:
    """Read codes in the order of learning."""
    merges = []
    for number, line in matched_lines(path, MERGE, "a merge: two pieces and perhaps a count, with blanks between them"):
        if number == 1 and line[1] == VERSION:
            continue
        if line[2] == WORD_END:
            raise InputError(
                f"{path}:{number} merges `{WORD_END}` as a piece of its own, as subword-nmt did before version 0.2,"
                " which cannot be imported; leave out --vocab and --codes: the folder then works on ids"
            )
        merges.append((line[1], line[2]))
    if not merges:
        raise InputError(f"{path}: has no merges; give the BPE codes that the model was trained with")
    return merges


def matched_lines(path: Path, pattern: re.Pattern[str], meaning: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Each line of a UTF-8 file, with its number, that must match."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the name and its permissions") from error
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        number = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{number} is not UTF-8 text; convert the file to UTF-8") from error
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else [], 1):
        match = pattern.fullmatch(line.rstrip("\r "))
        if match is None:
            raise InputError(f"{path}:{number} is not {meaning}; mend the line or give the right file")
        yield number, match
