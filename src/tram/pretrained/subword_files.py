"""Vocabularies and BPE codes of subword-nmt and fastBPE, read as a tram text pipeline.

    text = read_text_pipeline(Path("dict.txt"), Path("codes"), rows=len(embedding))

A file of codes has one merge per line, `left right` or `left right count`, with `</w>` at the end of a word. A
vocabulary has one token per line, with or without a count, for each row of the model's embedding.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tram.data.text_files import Lines
from tram.errors import InputError
from tram.text.bpe import SPECIALS, Merge
from tram.text.pipeline import TextPipeline
from tram.text.word_end_bpe import UNKNOWN, WORD_END, WordEndBPE

TOKEN = re.compile(r"([^ \t]+)(?: [0-9]+)?")
MERGE = re.compile(r"([^ \t]+) ([^ \t]+)(?: [0-9]+)?")
VERSION_HEADER = "#version:"  # in the first line of subword-nmt's codes

# Names of padding, bos and eos in other tools, in upper or lower case.
SPECIAL_NAMES = (("<pad>", "[pad]"), ("<s>", "<bos>", "[bos]", "[cls]"), ("</s>", "<eos>", "[eos]", "[sep]"))
OMISSIBLE = (*SPECIALS, UNKNOWN[0])  # a vocabulary may omit the first three or all four


def read_text_pipeline(
    vocab: Path, codes: Path, rows: int, source_language: str = "en", target_language: str = "de"
) -> TextPipeline:
    """Return the text pipeline of a model that was trained with these files and has `rows` rows in its embedding.

    The pipeline tokenises with Moses but does not truecase, because the files contain no truecaser.
    """
    tokens = read_tokens(vocab, rows)
    return TextPipeline("moses", source_language, target_language, WordEndBPE(tokens, read_merges(codes)))


def read_tokens(path: Path, rows: int) -> list[str]:
    """Return the token of each row of an embedding, including the special tokens that the file omits."""
    line_numbers: dict[str, int] = {}
    for number, line in matched_lines(path, TOKEN, "a token, or a token and its count separated by a space"):
        if line_numbers.setdefault(line[1], number) != number:
            raise InputError(f"{path}:{number} repeats the token of line {line_numbers[line[1]]}; remove one of them")
    omitted = rows - len(line_numbers)
    if omitted not in (0, len(SPECIALS), len(OMISSIBLE)):
        raise InputError(
            f"{path}: has {len(line_numbers)} tokens, the model has {rows}, of which a vocabulary may omit"
            f" {len(SPECIALS)} or {len(OMISSIBLE)} special ones; give the vocabulary that the model was trained with"
        )
    check_specials(path, list(line_numbers), omitted)
    return [*OMISSIBLE[:omitted], *line_numbers]


def check_specials(path: Path, tokens: list[str], omitted: int) -> None:
    """Refuse a file whose special tokens would not have the ids of the authors' models: padding 0, bos 1, eos 2."""
    if not omitted:
        for number, (token, names) in enumerate(zip(tokens, SPECIAL_NAMES, strict=False), 1):
            if token.lower() not in names:
                raise InputError(
                    f"{path}:{number} is `{token}`, where the authors' models have `{SPECIALS[number - 1]}`;"
                    " give the vocabulary that the model was trained with"
                )
        return
    # Other special names may be ordinary tokens, from tags in the text that the vocabulary was counted on.
    repeated = SPECIAL_NAMES[0] if omitted == len(SPECIALS) else SPECIAL_NAMES[0] + UNKNOWN
    for number, token in enumerate(tokens, 1):
        if token.lower() in repeated:
            raise InputError(
                f"{path}:{number} is `{token}`, but with {len(tokens)} tokens for {len(tokens) + omitted} rows of the"
                " embedding the file should omit it; give the vocabulary that the model was trained with"
            )


def read_merges(path: Path) -> list[Merge]:
    """Return the merges of a file of codes, in the order in which they were learnt."""
    merges = []
    for number, line in matched_lines(path, MERGE, "a merge: two pieces, optionally with a count, separated by spaces"):
        if number == 1 and line[1] == VERSION_HEADER:
            continue
        if line[2] == WORD_END:
            raise InputError(
                f"{path}:{number} merges `{WORD_END}` as a piece of its own, as subword-nmt did before version 0.2,"
                " which cannot be imported; omit --vocab and --codes to import a model that translates ids"
            )
        merges.append((line[1], line[2]))
    if not merges:
        raise InputError(f"{path}: has no merges; give the BPE codes that the model was trained with")
    return merges


def matched_lines(path: Path, pattern: re.Pattern[str], meaning: str) -> Iterator[tuple[int, re.Match[str]]]:
    """Yield each line of a UTF-8 file as a match, with its number; refuse a line that does not match."""
    lines = Lines(path)
    for number, line in lines:
        match = pattern.fullmatch(line.rstrip("\r "))
        if match is None:
            lines.refuse(number, f"is not {meaning}; correct the line or give the right file")
        yield number, match
