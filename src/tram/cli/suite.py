"""`tram contrast` tests a model on a suite in which context decides; `tram suite` makes such suites."""

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tram.cli.console import load_translator, report
from tram.cli.options import (
    MANY,
    CorpusFormat,
    History,
    Json,
    ModelOptions,
    Seed,
    SourceCode,
    TargetCode,
    check_outputs,
    with_model_options,
    writable,
)
from tram.errors import InputError
from tram.progress import plain_warnings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pydantic import BaseModel

    from tram.data.corpus import ParallelDocument
    from tram.evaluation.contexts import ContextOf
    from tram.evaluation.suite import ContrastiveItem
    from tram.translation.lockstep import History as TargetHistory
    from tram.translation.translator import Translator


class SuiteContext(StrEnum):
    """Context of an item: its own, another item's, none, or all three in turn."""

    own = "own"
    other = "other"
    none = "none"
    all = "all"


@with_model_options
def contrast(
    options: ModelOptions,
    suite: Annotated[
        Path, typer.Argument(help="JSON lines, as written by `tram suite`; or `agreement`, which ships with tram.")
    ],
    history: Annotated[
        History | None,
        typer.Option(
            help="Target side of the context: that of the suite (gold), generated translations, or none. "
            "By default gold where the suite has it."
        ),
    ] = None,
    context: Annotated[
        SuiteContext,
        typer.Option(help="Context of each item: its own, that of another item (a control), none, or all three."),
    ] = SuiteContext.all,
    baseline: Annotated[
        Path | None,
        typer.Option(help="JSON result of another model on this suite; report differences, paired by item."),
    ] = None,
    json_path: Json = None,
) -> None:
    """Test whether a model uses context to choose a translation.

    In a contrastive suite, the correct translation must be more probable than incorrect ones. A generative suite is
    translated: the translation must contain the expected word or, for agreement, its pronoun must agree with the
    article that the model chose for the noun.
    """
    from tram.evaluation.comparison import compare_suites, differences_json, differences_table, read_results
    from tram.evaluation.suite import ContrastiveItem, read_items
    from tram.fingerprints import fingerprint

    check_outputs([json_path], [suite, baseline])
    items = read_items(suite)
    contrastive = [item for item in items if isinstance(item, ContrastiveItem)]
    if not contrastive and history not in {None, History.generated}:
        raise InputError(f"--history {history}: {suite} has no translations of its contexts; use generated")
    about = {"suite": str(suite), "model": str(options.model or "tram"), "context": context.value}
    about["suite_fingerprint"] = fingerprint([item.model_dump(mode="json") for item in items])
    control = None if baseline is None else read_results(baseline, about)
    translator = load_translator(options)
    with plain_warnings():
        if contrastive:
            table, value = _contrastive(translator, contrastive, history or History.gold, context)
        else:
            table, value = _generative(translator, items, context)
    value = {**about, "beam": translator.beam, **value}
    if control is not None:
        documents = [getattr(item, "document", None) for item in items]
        differences = compare_suites(value, control, documents)
        table += "\n\n" + differences_table(differences)
        value["baseline"] = {"file": str(baseline), **differences_json(differences)}
    report(table, value, json_path)


def _generative(translator: "Translator", items: "Sequence[Any]", context: SuiteContext) -> tuple[str, dict[str, Any]]:
    from tram.evaluation.agreement import AgreementItem, agreement_json, agreement_table, judge_agreement
    from tram.evaluation.expected import expected_json, expected_table, judge_expected
    from tram.progress import Progress

    kinds = _kinds(context)
    sentences = sum(map(len, {item.source_context for item in items})) + len(kinds) * len(items)
    with Progress("translating", sentences, "sentences") as progress:
        if isinstance(items[0], AgreementItem):
            judged = judge_agreement(translator, items, kinds, progress.advance)
            return agreement_table(judged), {"history": "generated", **agreement_json(judged)}
        results = judge_expected(translator, items, kinds, progress.advance)
        return expected_table(results), {"history": "generated", **expected_json(results)}


def _contrastive(
    translator: "Translator", items: "Sequence[ContrastiveItem]", history: History, context: SuiteContext
) -> tuple[str, dict[str, Any]]:
    from tram.evaluation.accuracy import context_shares, context_table, contrast_json, contrast_table, summarise
    from tram.evaluation.contrast import score_suite
    from tram.evaluation.shares import as_json
    from tram.evaluation.suite import exchange_contexts
    from tram.progress import Progress

    kinds = _kinds(context)
    results: dict[ContextOf, Any] = {}
    with Progress("scoring", len(kinds) * len(items), "items") as progress:
        for kind in kinds:
            if results and not translator.has_context:
                results[kind] = results[kinds[0]]  # without a memory, the context makes no difference
                continue
            in_context = exchange_contexts(items) if kind == "other" else items
            target_history: TargetHistory = "none" if kind == "none" else history.value
            results[kind] = score_suite(translator, in_context, target_history, advance=progress.advance)
    first = results[kinds[0]]
    table, value = contrast_table(summarise(first)), contrast_json(first, {"history": history.value})
    if context is SuiteContext.all:
        shares = context_shares(results)
        table += "\n\n" + context_table(shares)
        value["contexts"] = as_json(shares)
        value["right"] = {kind: [result.right for result in scored] for kind, scored in results.items()}
    return table, value


def _kinds(context: SuiteContext) -> "tuple[ContextOf, ...]":
    from tram.evaluation.contexts import CONTEXTS

    return tuple(kind for kind in CONTEXTS if context.value in {kind, "all"})


def context_measures(
    translator: "Translator",
    sources: list[list[str]],
    references: list[list[str]],
    hypotheses: list[list[str]],
    names: str | None,
    context: SuiteContext,
    gold_history: bool,
    baseline: Path | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Compute the context measures of `tram evaluate`: return their tables, and their values for JSON."""
    from tram.evaluation.comparison import compare_address, differences_json, differences_table, read_address
    from tram.evaluation.measures import chosen, measure, translations_by_context
    from tram.fingerprints import fingerprint
    from tram.progress import Progress

    measures = chosen(names, translator.text)
    control = None if baseline is None else read_address(baseline, fingerprint([sources, references]))
    kinds = tuple(dict.fromkeys(_kinds(SuiteContext.own) + _kinds(context))) if measures else ()
    sentences = (len(kinds) - 1) * sum(map(len, sources)) if translator.has_context else 0
    with plain_warnings(), Progress("other contexts", sentences, "sentences", hidden=sentences < 1) as progress:
        translations = translations_by_context(
            translator, sources, hypotheses, kinds, references if gold_history else None, progress.advance
        )
    measured = {name: measure(name, sources, references, translations, translator.text) for name in measures}
    tables, values = [each.table for each in measured.values()], {name: each.value for name, each in measured.items()}
    if control is not None and "address" in values:
        differences = compare_address(values["address"], control)
        tables.append("Form of address " + differences_table(differences, "documents"))
        values["address_baseline"] = {"file": str(baseline), **differences_json(differences)}
    return tables, values


app = typer.Typer(
    help="Make test suites for context from your own documents.", no_args_is_help=True, rich_markup_mode=None
)


class ProbeWords(StrEnum):
    """Nouns and sentences that a probe may use."""

    held_out = "held-out"
    first_half = "first-half"
    second_half = "second-half"
    all = "all"


Source = Annotated[Path, typer.Argument(help="Source documents.")]
Target = Annotated[Path, typer.Argument(help="Their translations, aligned line by line.")]
Out = Annotated[Path, typer.Argument(callback=writable, help="Suite to write (JSON lines).")]
More = Annotated[
    list[str] | None,
    typer.Option("--add", metavar="SOURCE,TARGET", help="More documents; may be repeated."),
]


@app.command("agreement")
def agreement(
    source: Source,
    target: Target,
    out: Out,
    add: More = None,
    items: Annotated[int, typer.Option(min=1, max=MANY, help="Number of items for each distance.")] = 300,
    distance: Annotated[
        list[int] | None,
        typer.Option(
            min=1, max=1000, help="Distance from noun to pronoun in sentences; may be repeated. By default 1 and 3."
        ),
    ] = None,
    before: Annotated[
        int, typer.Option(min=0, max=1000, help="Sentences of another document to put before the noun's sentence.")
    ] = 0,
    words: Annotated[
        ProbeWords,
        typer.Option(
            help="Nouns and sentences to use: those that `tram splice` leaves out, one half of them (select models on "
            "one half and report on the other), or all."
        ),
    ] = ProbeWords.held_out,
    seed: Seed = 1,
    source_language: SourceCode = "en",
    target_language: TargetCode = "de",
    format: CorpusFormat = None,
) -> None:
    """Make the agreement probe, a generative suite.

    Each item consists of a real sentence with a noun, other sentences, and a real sentence with "it". `tram contrast`
    translates them and checks whether the pronoun agrees with the noun.
    """
    from tram.evaluation.agreement_suite import make_agreement
    from tram.evaluation.language import load_language

    suite = make_agreement(
        _documents(source, target, out, add, format),
        load_language(source_language),
        load_language(target_language),
        distance or (1, 3),
        items,
        seed,
        words.value,
        before,
    )
    _write(out, suite)


@app.command("pronouns")
def pronouns(
    source: Source,
    target: Target,
    out: Out,
    add: More = None,
    genders: Annotated[
        list[Path] | None,
        typer.Option("--genders", help="More text in the target language, to learn the genders of nouns from."),
    ] = None,
    source_language: SourceCode = "en",
    target_language: TargetCode = "de",
    format: CorpusFormat = None,
) -> None:
    """Make a contrastive suite of pronouns.

    Its items are the sentences of your documents in which "it" or "its" refers to an earlier sentence; each has all the
    sentences before it as context.
    """
    from tram.data.corpus import read_documents
    from tram.evaluation.language import load_language
    from tram.evaluation.noun_genders import NounGenders
    from tram.evaluation.pronoun_suite import make_pronouns

    check_outputs([out], genders or [])
    documents = list(_documents(source, target, out, add, format))
    english, german = load_language(source_language), load_language(target_language)
    noun_genders = NounGenders(german).learn(sentence for document in documents for sentence in document.target)
    for path in genders or []:
        extra = read_documents(path, format, "target")
        noun_genders.learn(sentence for document in extra for sentence in document.sentences)
    items = make_pronouns(documents, english, german, noun_genders)
    if not items:
        raise InputError(f"{source}: has no suitable pronoun; give more documents, or more text as --genders")
    _write(out, items)


def _documents(
    source: Path, target: Path, out: Path, more: list[str] | None, format: str | None
) -> "Iterator[ParallelDocument]":
    from tram.data.corpus import read_parallel

    pairs = [(source, target)]
    for value in more or []:
        first, comma, second = value.partition(",")
        if not comma:
            raise InputError(f"--add {value}: give a source and a target with a comma between them")
        pairs.append((Path(first), Path(second)))
    check_outputs([out], [path for pair in pairs for path in pair])
    for pair in pairs:
        yield from read_parallel(*pair, format)


def _write(out: Path, items: "Iterable[BaseModel]") -> None:
    from tram.files import write_text

    lines = [json.dumps(item.model_dump(exclude_none=True), ensure_ascii=False) for item in items]
    write_text(out, "".join(f"{line}\n" for line in lines))
    print(f"{out}: {len(lines):,} items")
