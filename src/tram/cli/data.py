"""`tram stats`, `tram prepare` and `tram synthetic`: corpora."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import pairs, report
from tram.cli.options import CorpusFormat, Json, finite


class Pipeline(StrEnum):
    """How text becomes words."""

    moses = "moses"
    raw = "raw"


def stats(
    source: Annotated[Path, typer.Argument(help="Documents; a file with both sides counts both.")],
    target: Annotated[Path | None, typer.Argument(help="The other side, line by line.")] = None,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Count documents, sentences per document, words and the longest of each."""
    from tram.data.stats import corpus_stats, stats_table

    found = corpus_stats(source, target, format)
    report(stats_table(found), found.as_dict(), json_path)


def prepare(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    train: Annotated[
        list[str],
        typer.Option("--train", metavar="SOURCE TARGET", help="Training documents; may be repeated."),
    ],
    dev: Annotated[
        list[str] | None, typer.Option("--dev", metavar="SOURCE TARGET", help="Documents to report on.")
    ] = None,
    text: Annotated[
        Path | None, typer.Option("--text", help="Use this folder's text.json instead of learning one.")
    ] = None,
    merges: Annotated[int, typer.Option(min=0, max=1_000_000, help="BPE merges to learn.")] = 30_000,
    reserved: Annotated[
        bool, typer.Option("--reserved", help="Add ids for sentence separators, copied spans and masked words.")
    ] = False,
    pipeline: Annotated[
        Pipeline, typer.Option(help="moses: normalise, tokenise, truecase. raw: text as it is.")
    ] = Pipeline.moses,
    source_language: Annotated[str, typer.Option(help="Language code of the source.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language code of the target.")] = "de",
    held_out: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=finite,
            help="Share of the training documents held out to monitor training, below 1; 0: none.",
        ),
    ] = 0.01,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides which documents are held out.")] = 1,
    workers: Annotated[int | None, typer.Option(min=1, max=1000, help="Processes; by default one per core.")] = None,
    format: CorpusFormat = None,
) -> None:
    """Turn raw parallel documents into ids: learn the text pipeline, encode, hold documents out."""
    from tram.data.prepare import PrepareSettings
    from tram.data.prepare import prepare as run

    settings = PrepareSettings(
        source_language, target_language, pipeline.value, merges, held_out, seed=seed, format=format, reserved=reserved
    )
    about = run(out, pairs("--train", train), pairs("--dev", dev or []), settings, text, workers)
    if about.get("skipped"):
        print(f"{out}: already prepared from these files with these settings; nothing to do")
    for name, size in about["splits"].items():
        print(
            f"{name}: {size['documents']:,} documents, {size['sentences']:,} sentences, "
            f"{size['source_tokens']:,} + {size['target_tokens']:,} subwords"
        )
    print(f"vocabulary: {about['vocabulary']:,} (text {about['text']})")


def synthetic(
    out: Annotated[Path, typer.Argument(help="Folder to write: train, dev, test and suite.jsonl.")],
    documents: Annotated[int, typer.Option(min=1, max=10_000_000, help="Training documents.")] = 2000,
    distance: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Only this many sentences to the deciding one; by default a mixture."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Another seed, other documents.")] = 1,
    phenomenon: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this phenomenon; may be repeated. By default all six."),
    ] = None,
) -> None:
    """Generate English-German documents in which an earlier sentence decides the translation, and a suite for them."""
    from tram.files import check_folder_writable, locked
    from tram.synthetic import write_folder
    from tram.synthetic.threads import PHENOMENON_NAMES

    check_folder_writable(out)
    with locked(out):
        write_folder(out, documents, distance, seed, phenomena=phenomenon or PHENOMENON_NAMES)
    print(out)
