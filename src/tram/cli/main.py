"""The `tram` command: one subcommand for each thing a user does.

What a subcommand needs is imported inside it, so that `tram --help` answers at once.
"""

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from tram.cli.analyze import app as analyze
from tram.cli.console import (
    TOGETHER,
    cut_like,
    gathered,
    pairs,
    read_text,
    report,
    translated,
    translated_document,
    translated_lines,
    write_output,
)
from tram.cli.splice import splice
from tram.cli.suite import SuiteContext, context_measures, contrast
from tram.cli.suite import app as suite
from tram.errors import InputError

app = typer.Typer(
    name="tram",
    help="Translate whole documents with a small recurrent memory: prepare, train, translate, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[Path | None, typer.Option("--json", help="Write the result here as JSON, too; - for standard output.")]
Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        help="Document format: blank, d, starts, tsv, bars, iwslt, sgml, wmtxml, jsonl. Found by looking.",
    ),
]
ModelOption = Annotated[
    Path | None,
    typer.Option(
        "--model", help="Model folder, or the output folder of `tram train`; else the one that ships with tram."
    ),
]


class Pipeline(StrEnum):
    """How text becomes words."""

    moses = "moses"
    raw = "raw"


class History(StrEnum):
    """What the memory takes in of the target."""

    generated = "generated"
    gold = "gold"
    none = "none"


@app.callback(invoke_without_command=True)
def _main(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    if version:
        from tram import __version__

        print(f"tram {__version__}")
        raise typer.Exit


@app.command()
def stats(
    source: Annotated[Path, typer.Argument(help="Documents; a pair in one file counts both sides.")],
    target: Annotated[Path | None, typer.Argument(help="The other side, line by line.")] = None,
    format: Format = None,
    json_path: Json = None,
) -> None:
    """Count documents, sentences per document, words and the longest of each."""
    from tram.data.stats import corpus_stats, stats_table

    found = corpus_stats(source, target, format)
    report(stats_table(found), found.as_dict(), json_path)


@app.command()
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
    merges: Annotated[int, typer.Option(help="BPE merges to learn.")] = 30_000,
    pipeline: Annotated[
        Pipeline, typer.Option(help="moses: normalise, tokenise, truecase. raw: text as it is.")
    ] = Pipeline.moses,
    source_language: Annotated[str, typer.Option(help="Language code of the source.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language code of the target.")] = "de",
    held_out: Annotated[
        float, typer.Option(help="Share of the training documents that training watches; 0: none.")
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Decides which documents are held out.")] = 1,
    workers: Annotated[int | None, typer.Option(help="Processes; by default one for each core.")] = None,
    format: Format = None,
) -> None:
    """Turn raw parallel documents into ids: learns the text pipeline, encodes, holds documents out."""
    from tram.data.prepare import PrepareSettings
    from tram.data.prepare import prepare as run

    settings = PrepareSettings(
        source_language, target_language, pipeline.value, merges, held_out, seed=seed, format=format
    )
    about = run(out, pairs("--train", train), pairs("--dev", dev or []), settings, text, workers)
    if about.get("skipped"):
        print(f"{out}: already prepared from these files with these settings; nothing to do")
    for name, size in about["splits"].items():
        print(f"{name}: {size['documents']:,} documents, {size['sentences']:,} sentences, "
              f"{size['source_tokens']:,} + {size['target_tokens']:,} subwords")  # fmt: skip
    print(f"vocabulary: {about['vocabulary']:,} (text {about['text']})")


@app.command()
def train(
    config: Annotated[Path, typer.Argument(help="YAML file; configs/ holds examples with every key explained.")],
    overrides: Annotated[list[str] | None, typer.Argument(help="Settings on top of it, as train.lr=3e-4.")] = None,
) -> None:
    """Train the stages that a config names. Run it again after a kill: it goes on where it stopped."""
    from tram.config import Config
    from tram.training.run import train as run
    from tram.training.trainer import Interrupted

    settings = Config.load(config, overrides)
    try:
        model = run(settings)
    except Interrupted:
        print("stopped; run the same command again to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    print(model)


@app.command()
def translate(
    source: Annotated[str, typer.Argument(metavar="[FILE|-]", help="Plain text; - or nothing: standard input.")] = "-",
    model: ModelOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Where to write; standard output if not given.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept in the search; 1: greedy.")] = 5,
    lines: Annotated[
        bool, typer.Option("--lines", help="One sentence per line; a blank line starts a new document.")
    ] = False,
    length_penalty: Annotated[float, typer.Option(help="Scores are divided by length to this power.")] = 1.0,
    n_best: Annotated[
        int,
        typer.Option(min=1, help="Give that many translations of each line, with scores (needs --lines)."),
    ] = 1,
) -> None:
    """Translate a plain text document, keeping its paragraphs; or, with --lines, sentences."""
    from tram.translation.translator import Translator

    if n_best > 1 and not lines:
        raise InputError("--n-best: translations are listed by line; add --lines")
    text = read_text(source)
    translator = Translator.load(model, beam=beam, length_penalty=length_penalty)
    result = translated_lines(translator, text, n_best) if lines else translated_document(translator, text)
    write_output(result, output)


@app.command()
def evaluate(
    source: Annotated[Path, typer.Argument(help="Documents to translate.")],
    reference: Annotated[
        Path | None, typer.Argument(help="Their right translations; not needed if SOURCE holds both.")
    ] = None,
    model: ModelOption = None,
    history: Annotated[
        History, typer.Option(help="What the memory takes in of the target: what is generated, the reference, nothing.")
    ] = History.generated,
    hypothesis: Annotated[
        Path | None, typer.Option(help="Keep the translations here, in the format of its suffix.")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Hypotheses kept in the search; 1: greedy.")] = 5,
    length_penalty: Annotated[float, typer.Option(help="Scores are divided by length to this power.")] = 1.0,
    compat: Annotated[
        str | None,
        typer.Option(help="`authors`: unsmoothed BLEU on tokenised text, as in the paper's code."),
    ] = None,
    perplexity: Annotated[bool, typer.Option(help="Measure perplexity too, with every kind of history.")] = True,
    measures: Annotated[
        str | None,
        typer.Option(help="Measures of context: address, terms, both (address,terms) or none. By default all."),
    ] = None,
    context: Annotated[
        SuiteContext,
        typer.Option(help="For these measures, translate after the own context and, as controls, after these."),
    ] = SuiteContext.own,
    format: Format = None,
    json_path: Json = None,
) -> None:
    """Translate documents and score them: s-BLEU, d-BLEU/doc, d-BLEU/512, chrF."""
    from tram.data.corpus import Document, read_parallel, write_documents
    from tram.evaluation.metrics import results_json, score_systems, scores_table
    from tram.evaluation.perplexity import perplexities, walks
    from tram.progress import Progress
    from tram.translation.translator import Translator

    documents = list(read_parallel(source, reference, format))
    translator = Translator.load(model, beam=beam, length_penalty=length_penalty)
    sources = [document.source for document in documents]
    gold = [document.target for document in documents]
    hypotheses = translated(translator, sources, history.value, gold)
    if hypothesis is not None:
        found = (Document(result, document.id) for result, document in zip(hypotheses, documents, strict=True))
        write_documents(hypothesis, found)
    results = score_systems(
        [(str(model or "tram"), hypotheses)], [gold], sources, translator.text, compat=authors(compat, translator.text)
    )
    told = scores_table(results)
    value: dict[str, Any] = {"systems": results_json(results)}
    if perplexity:
        with Progress("perplexity", walks(translator) * sum(map(len, sources)), "sentences") as progress:
            value["perplexity"] = perplexities(translator, sources, gold, hypotheses, progress.advance)
        listed = ", ".join(f"{each:.3f} with history {name}" for name, each in value["perplexity"].items())
        told += f"\nPerplexity a subword: {listed}."
    tables, value["measures"] = context_measures(
        translator, sources, gold, hypotheses, measures, context, gold_history=history is History.gold
    )
    report("\n\n".join([told, *tables]), value, json_path)


@app.command()
def score(
    references: Annotated[list[Path], typer.Argument(help="One or more references.")],
    inputs: Annotated[
        list[str],
        typer.Option("-i", "--input", metavar="FILE...", help="Translations; several are compared with the first."),
    ],
    source: Annotated[Path | None, typer.Option(help="The source documents, for d-BLEU/512.")] = None,
    text: Annotated[Path | None, typer.Option(help="Folder with text.json, for d-BLEU/512.")] = None,
    compat: Annotated[
        str | None,
        typer.Option(help="`authors`: unsmoothed BLEU on tokenised text; tokenised with --text."),
    ] = None,
    bootstrap: Annotated[int, typer.Option(help="Draws of documents for intervals and tests; 0: none.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of those draws.")] = 12345,
    format: Format = None,
    json_path: Json = None,
) -> None:
    """Score translations, as sacrebleu does; several -i: paired bootstrap over documents against the first."""
    from tram.data.corpus import read_documents
    from tram.evaluation.metrics import check_aligned, results_json, score_systems, scores_table
    from tram.text.pipeline import TextPipeline

    pipeline = None if text is None else TextPipeline.load(text)
    if source is not None and pipeline is None:
        raise InputError("--source serves d-BLEU/512, which counts subwords: give --text, too")
    read = [[d.sentences for d in read_documents(path, format, "target")] for path in references]
    systems = []
    for path in (Path(part) for value in inputs for part in value.split(TOGETHER)):
        documents = cut_like([d.sentences for d in read_documents(path, format, "target")], read[0])
        check_aligned(str(path), documents, str(references[0]), read[0])
        systems.append((str(path), documents))
    sources = None if source is None else [d.sentences for d in read_documents(source, format)]
    wanted = pipeline if sources is not None else None
    results = score_systems(
        systems, read, sources, wanted, compat=authors(compat, pipeline), bootstrap=bootstrap, seed=seed
    )
    report(scores_table(results), results_json(results), json_path)


@app.command()
def synthetic(
    out: Annotated[Path, typer.Argument(help="Folder to write: train, dev, test and suite.jsonl.")],
    documents: Annotated[int, typer.Option(min=1, help="Training documents.")] = 2000,
    distance: Annotated[
        int | None, typer.Option(min=1, help="Only this many sentences to the deciding one; else a mixture.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other documents.")] = 1,
) -> None:
    """Make English-German documents whose right translation is decided sentences before, and a suite to test it."""
    from tram.synthetic import write_folder

    write_folder(out, documents, distance, seed)
    print(out)


imports = typer.Typer(help="Take over models of other programs.", no_args_is_help=True)
app.add_typer(imports, name="import")


class Side(StrEnum):
    """Which side of a model has a memory."""

    source = "source"
    target = "target"
    both = "both"


@imports.command("authors")
def import_authors(
    checkpoint: Annotated[Path, typer.Argument(help="State dict of the paper's authors' code.")],
    out: Annotated[Path, typer.Argument(help="Model folder to write.")],
    heads: Annotated[int, typer.Option(help="Attention heads: the one thing no shape tells.")] = 8,
    side: Annotated[Side, typer.Option(help="Which memory the model uses; the other one is passed over.")] = Side.both,
    vocab: Annotated[Path | None, typer.Option(help="Their vocabulary; with --codes, the folder takes text.")] = None,
    codes: Annotated[Path | None, typer.Option(help="Their BPE codes; with --vocab.")] = None,
    source_language: Annotated[str, typer.Option(help="Language code of the source, for its text.")] = "en",
    target_language: Annotated[str, typer.Option(help="Language code of the target, for its text.")] = "de",
) -> None:
    """Turn a checkpoint of the paper's authors into a model folder."""
    from tram.pretrained.authors import import_authors as run

    run(checkpoint, out, heads, side.value, vocab, codes, source_language, target_language)
    print(out)


bench = typer.Typer(help="Measure speed as a ratio to a peer, side by side in one run.", no_args_is_help=True)
app.add_typer(bench, name="bench")


@bench.command("train")
def bench_train(
    json_path: Json = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repeats; the median counts.")] = 7,
) -> None:
    """Training: tokens a second beside a BART of `transformers` of the same size."""
    from tram.bench.peers import table
    from tram.bench.speed import training

    rows = training(rounds)
    report(table(rows), rows, json_path)


@bench.command("decode")
def bench_decode(
    json_path: Json = None,
    rounds: Annotated[int, typer.Option(min=1, help="Repeats; the median counts.")] = 5,
) -> None:
    """Beam search: tokens a second beside a BART of `transformers` of the same size."""
    from tram.bench.peers import table
    from tram.bench.speed import decoding

    rows = decoding(rounds)
    report(table(rows), rows, json_path)


@bench.command("memory")
def bench_memory(json_path: Json = None) -> None:
    """Decoding 10, 100 and 1,000 sentences: time a sentence and peak memory, beside one long sequence."""
    from tram.bench.memory import memory
    from tram.bench.peers import table

    rows = memory()
    report(table(rows), rows, json_path)


app.add_typer(analyze, name="analyze")
app.command()(contrast)
app.command()(splice)
app.add_typer(suite, name="suite")


def authors(compat: str | None, text: Any) -> Any:
    """The settings of `--compat authors`."""
    from tram.evaluation.metrics import Authors

    if compat is None:
        return None
    if compat != "authors":
        raise InputError(f"--compat {compat}: only `authors` is known")
    return Authors() if text is None else Authors(lambda line: text.tokens(line, "target"), text.fingerprint)


def main() -> None:
    """Entry point of the command: bad input is one sentence and exit code 2, never a traceback."""
    try:
        app(gathered(sys.argv[1:]), prog_name="tram")
    except InputError as error:
        print(f"tram: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("tram: stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # standard output on a full disk, for example
        print(f"tram: {error}; free some space or choose another place", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
