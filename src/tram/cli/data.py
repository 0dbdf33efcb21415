"""`tram stats`, `tram prepare` and `tram synthetic`: commands for corpora."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tram.cli.console import pairs, report
from tram.cli.options import CorpusFormat, Json, SourceCode, TargetCode, check_outputs, finite
from tram.text.special_ids import HISTORY


class Pipeline(StrEnum):
    """Preprocessing of text."""

    moses = "moses"
    raw = "raw"


def stats(
    source: Annotated[Path, typer.Argument(help="Documents: the source side, or a file with both sides.")],
    target: Annotated[Path | None, typer.Argument(help="The target side, aligned line by line.")] = None,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Count documents, sentences and words, and report the longest."""
    from tram.data.stats import corpus_stats, stats_table

    check_outputs([json_path], [source, target])
    counts = corpus_stats(source, target, format)
    report(stats_table(counts), counts.as_dict(), json_path)


def prepare(
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    train: Annotated[
        list[str],
        typer.Option("--train", metavar="SOURCE TARGET", help="Training documents; may be repeated."),
    ],
    dev: Annotated[
        list[str] | None,
        typer.Option("--dev", metavar="SOURCE TARGET", help="Development documents; may be repeated."),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option("--text", help="Use the text pipeline (text.json) of this folder instead of learning one."),
    ] = None,
    merges: Annotated[int, typer.Option(min=0, max=1_000_000, help="Number of BPE merges to learn.")] = 30_000,
    reserved: Annotated[
        bool,
        typer.Option(
            "--reserved",
            help="Add ids for sentence separators, copied spans, masked words, and target sentences that are only "
            f"history: these begin with U+{ord(HISTORY):X}; the context reads them, and the loss leaves them out.",
        ),
    ] = False,
    pipeline: Annotated[
        Pipeline, typer.Option(help="moses: normalise, tokenise, truecase. raw: text as it is.")
    ] = Pipeline.moses,
    source_language: SourceCode = "en",
    target_language: TargetCode = "de",
    held_out: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            callback=finite,
            help="Share of the training documents held out to monitor training, below 1; 0: none.",
        ),
    ] = 0.01,
    seed: Annotated[
        int, typer.Option(min=0, max=2**63 - 1, help="Random seed for the choice of held-out documents.")
    ] = 1,
    workers: Annotated[
        int | None, typer.Option(min=1, max=1000, help="Number of processes; by default one per core.")
    ] = None,
    format: CorpusFormat = None,
) -> None:
    """Convert raw parallel documents to ids for training.

    Learns the text pipeline (truecasing and BPE), or uses that of --text, encodes the documents, and holds out a share
    of the training documents to monitor training.
    """
    from tram.data.arrays import RAW_TEXTS
    from tram.data.prepare import PrepareSettings
    from tram.data.prepare import prepare as run

    settings = PrepareSettings(
        source_language, target_language, pipeline.value, merges, held_out, seed=seed, format=format, reserved=reserved
    )
    corpora, dev_corpora = pairs("--train", train), pairs("--dev", dev or [])
    check_outputs([out / name for name in RAW_TEXTS], [path for pair in corpora + dev_corpora for path in pair])
    about = run(out, corpora, dev_corpora, settings, text, workers)
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
    documents: Annotated[int, typer.Option(min=1, max=10_000_000, help="Number of training documents.")] = 2000,
    distance: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Distance to the deciding sentence, in sentences; by default a mixture."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed.")] = 1,
    phenomenon: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this phenomenon; may be repeated. By default all six."),
    ] = None,
) -> None:
    """Generate documents whose translation depends on context.

    Writes English-German documents in which an earlier sentence decides how a later one is translated, and a
    contrastive suite of such sentences.
    """
    from tram.files import check_folder_writable, locked
    from tram.synthetic import write_folder
    from tram.synthetic.threads import PHENOMENON_NAMES

    check_folder_writable(out)
    with locked(out):
        write_folder(out, documents, distance, seed, phenomena=phenomenon or PHENOMENON_NAMES)
    print(out)
