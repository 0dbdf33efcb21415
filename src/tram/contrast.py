"""Contrastive tests: does a model find the right translation more probable than wrong ones, given what stood before?

    items = read_suite("suite.jsonl")                      # of `tram synthetic`, or in the format of ContraPro
    results = score_suite(translator, items, "gold")       # log-probabilities; right: the reference beats all others
    print(contrast_table(summarise(results)))              # by phenomenon and distance, or by German pronoun

A context is taken in once, whatever stands behind it: all variants of an item and all items that share it go on from
the same carried state. Work is cut into batches bounded in tokens, so that contexts of any length fit.
"""

import math
import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Self

import torch
import torch.nn.functional as F
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from tram.batches import decoder_input, padded_ids
from tram.errors import InputError
from tram.formats import Lines
from tram.layout import Layout
from tram.lockstep import Cursor, History, Ids, Lockstep, document_ids
from tram.subwords import Side
from tram.transformer import Carried, Encoded, Transformer, join_documents, select_documents
from tram.translator import Translator

TOKENS = 2048  # of one pass through the model
CHUNK = 512  # tokens whose logits stand in memory at once
PRONOUNS = ("er", "sie", "es")
OTHER = "other"
EDGES = (0, 1, 2, 3, 5, 10, 20, 50, 100)  # the last distance of every bin
COLUMNS = 10  # so many distances stand on their own; where there are more, they share bins
Z = 1.959963984540054  # 95% of a normal distribution lie within so many standard deviations


# The suite.


class Item(BaseModel):
    """A sentence after its context, the right translation, and wrong ones that differ in what the context decides."""

    model_config = ConfigDict(frozen=True)

    source_context: tuple[str, ...]
    target_context: tuple[str, ...]
    source: str
    reference: str
    contrastive: tuple[str, ...]
    phenomenon: str | None = None
    distance: int | None = Field(None, ge=0)  # sentences back to the one that decides

    @model_validator(mode="after")
    def _can_be_scored(self) -> Self:
        source, target = len(self.source_context), len(self.target_context)
        if source != target:
            raise ValueError(
                f"has {source} sentences in 'source_context' and {target} in 'target_context'; "
                "give every sentence its translation"
            )
        if not self.contrastive:
            raise ValueError("has nothing in 'contrastive'; give at least one wrong translation")
        texts = {"source": self.source, "reference": self.reference}
        texts |= {f"contrastive.{number}": variant for number, variant in enumerate(self.contrastive)}
        for name, text in texts.items():
            if not text.strip():
                raise ValueError(f"has an empty {name!r}; fill it in or remove the item")
        if self.reference in self.contrastive:
            raise ValueError("has its reference among 'contrastive', which nothing could tell apart; remove it there")
        return self

    @property
    def pronoun(self) -> str:
        """The German pronoun in question: the first word in which the reference and a variant differ."""
        reference = _words(self.reference)
        first = min(_first_difference(reference, _words(variant)) for variant in self.contrastive)
        word = reference[first] if first < len(reference) else ""
        return word if word in PRONOUNS else OTHER


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def _first_difference(left: list[str], right: list[str]) -> int:
    """Number of leading words that are the same."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((number for number, (a, b) in pairs if a != b), min(len(left), len(right)))


def read_suite(path: Path | str) -> list[Item]:
    """Read a suite: a JSON object per line, plain or packed as .gz or .xz; blank lines do not count."""
    lines = Lines(Path(path))
    items = []
    for number, line in lines:
        if line and not line.isspace():
            try:
                items.append(Item.model_validate_json(line, strict=True))
            except ValidationError as error:
                lines.refuse(number, _problem(error))
    if not items:
        raise InputError(f"{path}: has no items; give a suite of `tram synthetic` or one in its format")
    return items


def exchange_contexts(items: Sequence[Item], seed: int = 1) -> list[Item]:
    """Give every item the context of another one of its phenomenon and distance: nothing there can help any more."""
    random = Random(seed)
    cells: dict[tuple[str | None, int | None], list[int]] = {}
    for number, item in enumerate(items):
        cells.setdefault((item.phenomenon, item.distance), []).append(number)
    exchanged = list(items)
    for numbers in cells.values():
        for number, giver in zip(numbers, random.sample(numbers, len(numbers)), strict=True):
            given = {"source_context": items[giver].source_context, "target_context": items[giver].target_context}
            exchanged[number] = items[number].model_copy(update=given)
    return exchanged


def _problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    name = ".".join(map(str, problem["loc"]))
    if problem["type"] == "json_invalid":
        return f"is not JSON ({problem['ctx']['error']}); write one whole object per line"
    if problem["type"] == "missing":
        return f"has no {name!r}; an item needs source_context, target_context, source, reference and contrastive"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    where = f"a wrong {name!r}" if name else "no object"
    return f"has {where} ({problem['msg']}); write it as `tram synthetic` does"


# Scores.


@dataclass(frozen=True)
class ItemResult:
    """Log-probabilities of an item's reference and of its variants: sums over all tokens, eos counted."""

    item: Item
    reference: float
    variants: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether the reference beats all variants; a tie is no victory."""
        return all(self.reference > variant for variant in self.variants)


def score_suite(
    translator: Translator,
    items: Sequence[Item],
    history: History = "gold",
    tokens: int = TOKENS,
    advance: Callable[[int], None] | None = None,
) -> list[ItemResult]:
    """Score every item after its context; `advance` is told how many items more are done.

    history: what is taken in of the context: its sentences with their right translations (gold), with the ones the
    translator finds itself (generated), or nothing. A sentence model takes in nothing, whatever is asked for.
    tokens: of one pass through the model, about.
    """
    taken = history if translator.model.has_context else "none"
    found: dict[int, list[float]] = {}
    contexts = sorted(_contexts(translator, items, taken), key=lambda context: (len(context.sources), context.longest))
    with torch.inference_mode():
        for part in _within([context.longest for context in contexts], tokens):
            for question, scores in _answers(translator, contexts[part], tokens):
                found[question.number] = scores
                if advance is not None:
                    advance(1)
    return [ItemResult(item, found[number][0], tuple(found[number][1:])) for number, item in enumerate(items)]


@dataclass(frozen=True)
class _Question:
    """An item as ids."""

    number: int
    source: Ids
    targets: list[Ids]  # the reference first

    @property
    def size(self) -> int:
        return sum(max(len(self.source), len(target)) + 2 for target in self.targets)


@dataclass(frozen=True)
class _Context:
    """What stands before some items, none of its sentences empty. targets: None where the model is to find them."""

    sources: list[Ids]
    targets: list[Ids] | None
    questions: list[_Question] = field(default_factory=list)

    def step(self, number: int) -> int:
        """Tokens of one sentence, of the longer side; 0 behind the last one."""
        if number >= len(self.sources):
            return 0
        return 2 + max(len(side[number]) for side in (self.sources, self.targets) if side is not None)

    @property
    def longest(self) -> int:
        return max(map(self.step, range(len(self.sources))), default=0)


def _contexts(translator: Translator, items: Sequence[Item], history: History) -> Iterable[_Context]:
    """The different contexts, each with its items, as ids."""
    source_texts = [item.source for item in items]
    target_texts = [text for item in items for text in (item.reference, *item.contrastive)]
    if history != "none":
        source_texts += [text for item in items for text in item.source_context]
    if history == "gold":
        target_texts += [text for item in items for text in item.target_context]
    sources, targets = _ids(translator, source_texts, "source"), _ids(translator, target_texts, "target")
    contexts: dict[tuple[tuple[str, ...], ...], _Context] = {}
    for number, item in enumerate(items):
        key = _context_key(item, history)
        if key not in contexts:
            contexts[key] = _context(key, sources, targets)
        variants = [targets[text] for text in (item.reference, *item.contrastive)]
        contexts[key].questions.append(_Question(number, sources[item.source], variants))
    return contexts.values()


def _context_key(item: Item, history: History) -> tuple[tuple[str, ...], ...]:
    """What is taken in before an item: source sentences, and target sentences if they are given."""
    if history == "none":
        return ((),)
    return (item.source_context, item.target_context) if history == "gold" else (item.source_context,)


def _context(key: tuple[tuple[str, ...], ...], sources: dict[str, Ids], targets: dict[str, Ids]) -> _Context:
    """As in training, a pair with an empty side is passed over."""
    if len(key) == 1:
        return _Context([sources[text] for text in key[0] if sources[text]], None)
    pairs = [(sources[source], targets[target]) for source, target in zip(*key, strict=True)]
    pairs = [(source, target) for source, target in pairs if source and target]
    return _Context([source for source, _ in pairs], [target for _, target in pairs])


def _ids(translator: Translator, texts: Iterable[str], side: Side) -> dict[str, Ids]:
    """Every different text as ids, cut where it is too long for the model; a blank one has none."""
    different = list(dict.fromkeys(texts))
    longest = translator.model.config.max_length - 2
    ids = translator.text.encode(different, side)
    cut = sum(len(sentence) > longest for sentence in ids)
    if cut:
        warnings.warn(f"{cut} {side} sentences were cut to the model's {longest} subwords", stacklevel=4)
    return {text: sentence[:longest] * bool(text.strip()) for text, sentence in zip(different, ids, strict=True)}


def _within(sizes: Sequence[int], budget: int) -> Iterator[slice]:
    """Cut a run where the sum of its sizes would pass the budget; a part has at least one member."""
    start = total = 0
    for i, size in enumerate(sizes):
        if i > start and total + size > budget:
            yield slice(start, i)
            start, total = i, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def _answers(
    translator: Translator, contexts: Sequence[_Context], tokens: int
) -> Iterator[tuple[_Question, list[float]]]:
    """Take in some contexts together, then score the items behind them."""
    model = translator.model
    if model.decoder.contexts() and any(context.targets is None for context in contexts):
        carried = _translate(translator, contexts)
    else:
        carried = _read(model, contexts, tokens)
    pairs = [(row, question) for row, context in enumerate(contexts) for question in context.questions]
    pairs.sort(key=lambda pair: pair[1].size)  # of like length: little is padding
    for part in _within([question.size for _, question in pairs], tokens):
        rows, questions = zip(*pairs[part], strict=True)
        own = select_documents(carried, torch.tensor(rows, device=model.tokens.weight.device))
        yield from zip(questions, _score(model, questions, own), strict=True)


def _read(model: Transformer, contexts: Sequence[_Context], tokens: int) -> Carried:
    """What is carried after contexts that are there, many sentences at once; without targets only the source."""
    carried = model.complete(None, len(contexts))
    steps = range(max(len(context.sources) for context in contexts))
    for block in _within([sum(context.step(number) for context in contexts) for number in steps], tokens):
        device = model.tokens.weight.device
        encoded = model.encode(document_ids([context.sources[block] for context in contexts]).to(device), carried)
        carried = carried | encoded.carried
        if model.decoder.contexts():
            targets = document_ids([(context.targets or [])[block] for context in contexts]).to(device)
            carried = carried | model.decode(decoder_input(targets), encoded, carried).carried
    return carried


def _translate(translator: Translator, contexts: Sequence[_Context]) -> Carried:
    """What is carried after contexts whose translations the model finds itself."""
    model = translator.model
    cursors = [Cursor(row, context.sources, model.complete(None, 1)) for row, context in enumerate(contexts)]
    lockstep = Lockstep(model, translator.beam, translator.length_penalty, translator.batch)
    for _ in lockstep.run(cursors):
        pass  # only what the cursors carry at the end is wanted
    return join_documents([cursor.carried for cursor in cursors])


def _score(model: Transformer, questions: Sequence[_Question], carried: Carried) -> list[list[float]]:
    """Log-probabilities of the targets of every question; its source is encoded once for all of them.

    Targets that are the same ids are scored once, so that rounding cannot decide between them.
    """
    device = model.tokens.weight.device
    rows = list(dict.fromkeys((n, tuple(ids)) for n, question in enumerate(questions) for ids in question.targets))
    owners = torch.tensor([n for n, _ in rows], device=device)
    encoded = model.encode(padded_ids([question.source for question in questions])[:, None].to(device), carried)
    targets = padded_ids([ids for _, ids in rows])[:, None].to(device)
    scores = sequence_scores(model, targets, repeated(encoded, owners), select_documents(carried, owners))
    found = dict(zip(rows, scores.tolist(), strict=True))
    return [[found[n, tuple(ids)] for ids in question.targets] for n, question in enumerate(questions)]


def repeated(encoded: Encoded, owners: Tensor) -> Encoded:
    """The source states of these documents, in this order, any of them several times; one sentence a document."""
    layout = Layout(encoded.layout.grid(encoded.layout.ids).index_select(0, owners))
    starts = torch.as_tensor(encoded.layout.starts, device=owners.device).index_select(0, owners)
    places = starts.repeat_interleave(layout.lengths.flatten()) + layout.positions
    return Encoded(encoded.states.index_select(0, places), layout, {})


def sequence_scores(model: Transformer, targets: Tensor, source: Encoded, carried: Carried) -> Tensor:
    """Log-probability of every target, (rows) in double precision. targets: (rows, 1, tokens), bos … eos."""
    decoded = model.decode(decoder_input(targets), source, carried)
    labels = targets[..., 1:].flatten().index_select(0, decoded.layout.rows)
    row = decoded.layout.rows // decoded.layout.shape[2]
    scores = torch.zeros(len(targets), dtype=torch.float64, device=targets.device)
    return scores.index_add_(0, row, token_scores(model, decoded.states, labels).double())


def token_scores(model: Transformer, states: Tensor, labels: Tensor, chunk: int = CHUNK) -> Tensor:
    """Log-probability of every label, in chunks. states: (tokens, d_model); labels: (tokens)."""
    accurate = torch.promote_types(states.dtype, torch.float32)
    parts = zip(states.split(chunk), labels.split(chunk), strict=True)
    return torch.cat(
        [-F.cross_entropy(model.logits(part).to(accurate), gold, reduction="none") for part, gold in parts]
    )


# Accuracies.


@dataclass(frozen=True)
class Accuracy:
    """How many of some items are right, and the share that guessing would find."""

    right: int
    items: int
    chance: float

    @property
    def value(self) -> float:
        """The share of right items."""
        return self.right / self.items

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson's 95% interval of the share."""
        spread = Z * Z / self.items
        middle = self.value + spread / 2
        half = math.sqrt(spread * (self.value * (1 - self.value) + spread / 4))
        low, high = ((middle + sign * half) / (1 + spread) for sign in (-1, 1))
        return min(max(low, 0.0), self.value), max(min(high, 1.0), self.value)  # where rounding would part them

    def as_dict(self) -> dict[str, float]:
        """All of it for JSON."""
        low, high = self.interval
        counts = {"right": self.right, "items": self.items}
        return counts | {"accuracy": self.value, "low": low, "high": high, "chance": self.chance}


@dataclass(frozen=True)
class Summary:
    """The accuracies of a suite; what its items do not tell is empty.

    `by_pronoun` holds the items without a phenomenon, where at least one of them asks for er, sie or es.
    """

    overall: Accuracy
    by_phenomenon: dict[str, Accuracy]
    by_pronoun: dict[str, Accuracy]
    by_distance: dict[str, Accuracy]
    by_phenomenon_and_distance: dict[str, dict[str, Accuracy]]

    def as_dict(self) -> dict[str, Any]:
        """All of it for JSON."""

        def plain(group: Mapping[str, Accuracy]) -> dict[str, Any]:
            return {name: accuracy.as_dict() for name, accuracy in group.items()}

        both = {name: plain(group) for name, group in self.by_phenomenon_and_distance.items()}
        return {
            "overall": self.overall.as_dict(),
            "by_phenomenon": plain(self.by_phenomenon),
            "by_pronoun": plain(self.by_pronoun),
            "by_distance": plain(self.by_distance),
            "by_phenomenon_and_distance": both,
        }


def summarise(results: Sequence[ItemResult]) -> Summary:
    """Count right items, all together and by what they test. There must be some."""
    pronouns = _grouped(results, lambda item: None if item.phenomenon else item.pronoun)
    if pronouns.keys() == {OTHER}:
        pronouns = {}  # another language, or another matter
    distances = _by_distance(results)
    return Summary(
        overall=_accuracy(results),
        by_phenomenon=_accuracies(_grouped(results, lambda item: item.phenomenon)),
        by_pronoun=_accuracies({name: pronouns[name] for name in (*PRONOUNS, OTHER) if name in pronouns}),
        by_distance=_accuracies(distances),
        by_phenomenon_and_distance={
            phenomenon: _accuracies({name: own for name, group in distances.items() if (own := _of(group, phenomenon))})
            for phenomenon in _grouped(results, lambda item: item.phenomenon)
        },
    )


def _accuracy(results: Sequence[ItemResult]) -> Accuracy:
    chance = sum(1 / (1 + len(result.variants)) for result in results) / len(results)
    return Accuracy(sum(result.right for result in results), len(results), chance)


def _accuracies(groups: Mapping[str, Sequence[ItemResult]]) -> dict[str, Accuracy]:
    return {name: _accuracy(group) for name, group in groups.items()}


def _grouped(results: Sequence[ItemResult], name: Callable[[Item], str | None]) -> dict[str, list[ItemResult]]:
    """The results under the names of their items, in the order of the suite; those without one are left out."""
    groups: dict[str, list[ItemResult]] = {}
    for result in results:
        found = name(result.item)
        if found:
            groups.setdefault(found, []).append(result)
    return groups


def _of(results: Sequence[ItemResult], phenomenon: str) -> list[ItemResult]:
    return [result for result in results if result.item.phenomenon == phenomenon]


def _by_distance(results: Sequence[ItemResult]) -> dict[str, list[ItemResult]]:
    """The results by distance, near ones first; many different distances share bins."""
    found = sorted(result.item.distance for result in results if result.item.distance is not None)
    several = len(set(found)) > COLUMNS
    names = {distance: _bin(distance) if several else str(distance) for distance in found}
    groups = _grouped(results, lambda item: None if item.distance is None else names[item.distance])
    return {name: groups[name] for name in dict.fromkeys(names.values())}


def _bin(distance: int) -> str:
    place = bisect_left(EDGES, distance)
    if place == len(EDGES):
        return f">{EDGES[-1]}"
    first, last = (EDGES[place - 1] + 1 if place else 0), EDGES[place]
    return str(last) if first == last else f"{first}-{last}"


# What a user sees.


def contrast_table(summary: Summary) -> str:
    """A line for each phenomenon or pronoun, a column for each distance; intervals stand below the numbers."""
    columns = [*summary.by_distance, "all"]
    rows = {name: summary.by_phenomenon_and_distance[name] | {"all": accuracy}
            for name, accuracy in summary.by_phenomenon.items()}  # fmt: skip
    rows |= {name: {"all": accuracy} for name, accuracy in summary.by_pronoun.items()}
    rows["all"] = summary.by_distance | {"all": summary.overall}
    width = max(12, *(len(name) + 2 for name in rows))
    title = "% right, and the 95% interval (Wilson) below"
    if summary.by_distance:
        title += "; columns: sentences back to the one that decides"
    lines = [title, "", f"{'':<{width}}{'items':>7}{'chance':>8}" + "".join(f"{name:>8}" for name in columns)]
    for name, cells in rows.items():
        lines += _table_lines(name, width, [cells.get(column) for column in columns])
    return "\n".join(line.rstrip() for line in lines)


def _table_lines(name: str, width: int, cells: list[Accuracy | None]) -> list[str]:
    whole = cells[-1]
    assert whole is not None, "the last column holds all items of a line"
    values = "".join(f"{'' if cell is None else format(100 * cell.value, '.1f'):>8}" for cell in cells)
    intervals = "".join(f"{'' if cell is None else _percentages(cell.interval):>8}" for cell in cells)
    return [f"{name:<{width}}{whole.items:>7,}{100 * whole.chance:>8.1f}{values}", f"{'':<{width + 15}}{intervals}"]


def _percentages(interval: tuple[float, float]) -> str:
    low, high = interval
    return f"{100 * low:.0f}-{100 * high:.0f}"


def contrast_json(results: Sequence[ItemResult], about: Mapping[str, Any]) -> dict[str, Any]:
    """How the scores were made (`about`), the summary, and the scores of every item in the order of the suite."""
    items = [{"right": result.right, "reference": result.reference, "variants": list(result.variants)}
             for result in results]  # fmt: skip
    return {**about, **summarise(results).as_dict(), "items": items}
