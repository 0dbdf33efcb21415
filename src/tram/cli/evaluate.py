"""`tram evaluate` and `tram score`: commands that score translations."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tram.cli.console import VALUE_SEPARATOR, load_translator, naming, report, split_like, translated
from tram.cli.options import CorpusFormat, History, Json, ModelOptions, check_outputs, with_model_options, writable
from tram.cli.suite import SuiteContext, context_measures
from tram.errors import InputError

if TYPE_CHECKING:
    from tram.evaluation.metrics import AuthorsBleu
    from tram.text.pipeline import TextPipeline


@with_model_options
def evaluate(
    options: ModelOptions,
    source: Annotated[Path, typer.Argument(help="Documents to translate.")],
    reference: Annotated[
        Path | None, typer.Argument(help="Their reference translations; not needed if SOURCE has both sides.")
    ] = None,
    history: Annotated[
        History,
        typer.Option(help="Target side of the context: generated translations, references (gold), or none."),
    ] = History.generated,
    hypothesis: Annotated[
        Path | None,
        typer.Option(callback=writable, help="File to write the translations to, in the format of its suffix."),
    ] = None,
    compat: Annotated[
        str | None,
        typer.Option(help="`authors`: unsmoothed BLEU on tokenised text, as in the paper's code."),
    ] = None,
    perplexity: Annotated[bool, typer.Option(help="Also measure perplexity, with every kind of history.")] = True,
    measures: Annotated[
        str | None,
        typer.Option(help="Context measures: address, terms, address,terms or none. By default all available."),
    ] = None,
    context: Annotated[
        SuiteContext,
        typer.Option(
            help="For these measures, also translate with other contexts as controls: that of another document, none, "
            "or all."
        ),
    ] = SuiteContext.own,
    baseline: Annotated[
        Path | None,
        typer.Option(help="JSON result of another model on these documents; report differences in form of address."),
    ] = None,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Translate documents and score the translations.

    Prints s-BLEU, d-BLEU/doc, d-BLEU/512, chrF, perplexity, and measures of context: form of address and terms.
    """
    from tram.data.corpus import Document, format_that_holds, read_parallel, write_documents
    from tram.evaluation.metrics import results_json, score_systems, scores_table
    from tram.evaluation.perplexity import count_passes, perplexities
    from tram.fingerprints import fingerprint
    from tram.progress import Progress, plain_warnings

    check_outputs([hypothesis, json_path], [source, reference, baseline])
    documents = list(read_parallel(source, reference, format))
    translator = load_translator(options)
    sources = [document.source for document in documents]
    gold = [document.target for document in documents]
    with naming(source):
        hypotheses = translated(translator, sources, history.value, gold)
    results = score_systems(
        [(str(options.model or "tram"), hypotheses)],
        [gold],
        sources,
        translator.text,
        compat=authors(compat, translator.text),
    )
    table = scores_table(results)
    value: dict[str, Any] = {"systems": results_json(results), "documents": fingerprint([sources, gold])}
    if perplexity:
        with (
            plain_warnings(),
            Progress("perplexity", count_passes(translator) * sum(map(len, sources)), "sentences") as progress,
        ):
            value["perplexity"] = perplexities(translator, sources, gold, hypotheses, progress.advance)
        numbers = {name: f"{each:.3f}" if each < 1e9 else f"{each:.3g}" for name, each in value["perplexity"].items()}
        listed = ", ".join(f"{number} with history {name}" for name, number in numbers.items())
        table += f"\nPerplexity per subword: {listed}."
    tables, value["measures"] = context_measures(
        translator, sources, gold, hypotheses, measures, context, history is History.gold, baseline
    )
    report("\n\n".join([table, *tables]), value, json_path)
    if hypothesis is not None:  # last, so that an error here does not lose the scores
        lines = [[" ".join(text.splitlines()) for text in result] for result in hypotheses]
        results_by_id = [Document(result, document.id) for result, document in zip(lines, documents, strict=True)]
        write_documents(hypothesis, results_by_id, format_that_holds(hypothesis, results_by_id))


def score(
    references: Annotated[list[Path], typer.Argument(help="One or more reference translations.")],
    inputs: Annotated[
        list[str],
        typer.Option("-i", "--input", metavar="FILE...", help="Translations; several are compared with the first."),
    ],
    source: Annotated[Path | None, typer.Option(help="The source documents, for d-BLEU/512.")] = None,
    text: Annotated[Path | None, typer.Option(help="Folder with a text pipeline, for d-BLEU/512.")] = None,
    compat: Annotated[
        str | None,
        typer.Option(help="`authors`: unsmoothed BLEU on tokenised text; --text tokenises it."),
    ] = None,
    bootstrap: Annotated[
        int, typer.Option(min=0, max=100_000, help="Bootstrap resamples for intervals and tests; 0: none.")
    ] = 1000,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Random seed of the bootstrap.")] = 12345,
    format: CorpusFormat = None,
    json_path: Json = None,
) -> None:
    """Score translations with sacrebleu.

    With several translations (-i), a paired bootstrap over documents compares each with the first.
    """
    from tram.data.corpus import read_documents
    from tram.evaluation.metrics import check_aligned, results_json, score_systems, scores_table
    from tram.text.pipeline import TextPipeline

    pipeline = None if text is None else TextPipeline.load(text)
    if source is not None and pipeline is None:
        raise InputError("--source is for d-BLEU/512, which counts subwords: also give --text")
    hypotheses = [Path(part) for value in inputs for part in value.split(VALUE_SEPARATOR)]
    check_outputs([json_path], [*references, *hypotheses, source])
    gold = [[d.sentences for d in read_documents(path, format, "target")] for path in references]
    systems = []
    for path in hypotheses:
        documents = split_like([d.sentences for d in read_documents(path, format, "target")], gold[0])
        check_aligned(str(path), documents, str(references[0]), gold[0])
        systems.append((str(path), documents))
    sources = None if source is None else [d.sentences for d in read_documents(source, format)]
    counter = pipeline if sources is not None else None
    results = score_systems(
        systems, gold, sources, counter, compat=authors(compat, pipeline), bootstrap=bootstrap, seed=seed
    )
    report(scores_table(results), results_json(results), json_path)


def authors(compat: str | None, text: "TextPipeline | None") -> "AuthorsBleu | None":
    """Return the settings of `--compat authors`."""
    from tram.evaluation.metrics import AuthorsBleu

    if compat is None:
        return None
    if compat != "authors":
        raise InputError(f"--compat {compat}: only `authors` is known")
    return AuthorsBleu() if text is None else AuthorsBleu(lambda line: text.tokens(line, "target"), text.fingerprint)
