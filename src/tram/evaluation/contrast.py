"""Contrastive scoring: whether the reference is more probable than incorrect translations, given the context.

    results = score_suite(translator, read_suite("suite.jsonl"), "gold")
    results[0].right                           # the reference is more probable than all variants

Each context is read only once: all variants of an item, and all items that share the context, continue from the same
carried state. Batches have a token budget, so that contexts of any length fit.
"""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from tram.data.batches import document_ids
from tram.data.budget import costs_of_sums, slices_within
from tram.data.units import Pair, Units
from tram.evaluation.suite import ContrastiveItem
from tram.model.packing import Layout
from tram.model.stacks import Encoded
from tram.model.state import State
from tram.text.pipeline import Side
from tram.text.special_ids import PAD
from tram.translation.lockstep import Cursor, History, Ids
from tram.translation.translator import Translator
from tram.translation.unit_lockstep import UnitCursor

BATCH_TOKENS = 2048  # per pass through the model


@dataclass(frozen=True)
class ItemResult:
    """The log-probabilities of an item's reference and of its variants: sums over all tokens, including eos."""

    item: ContrastiveItem
    reference: float
    variants: tuple[float, ...]

    @property
    def right(self) -> bool:
        """Whether the reference is more probable than every variant; a tie is not enough."""
        return all(self.reference > variant for variant in self.variants)


def score_suite(
    translator: Translator,
    items: Sequence[ContrastiveItem],
    history: History = "gold",
    tokens: int = BATCH_TOKENS,
    advance: Callable[[int], None] | None = None,
) -> list[ItemResult]:
    """Score every item after its context.

    history: the target side of the context: reference translations (gold), the model's own translations (generated),
    or no context at all. A sentence model never reads context. tokens: the approximate number of tokens per pass
    through the model. advance: called with the number of finished items.
    """
    history = history if translator.has_context else "none"
    scores_by_item: dict[int, list[float]] = {}
    contexts = sorted(
        _contexts(translator, items, history), key=lambda context: (len(context.sources), context.longest)
    )
    with torch.inference_mode():
        cost = costs_of_sums([context.longest for context in contexts])
        for part in slices_within(cost, len(contexts), tokens):
            for question, scores in _answers(translator, contexts[part], tokens):
                scores_by_item[question.number] = scores
                if advance is not None:
                    advance(1)
    return [
        ItemResult(item, scores_by_item[number][0], tuple(scores_by_item[number][1:]))
        for number, item in enumerate(items)
    ]


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
    """The context of some items, without empty sentences. targets: None if the model is to generate them."""

    sources: list[Ids]
    targets: list[Ids] | None
    questions: list[_Question] = field(default_factory=list)

    def step(self, number: int) -> int:
        """Return the tokens of one sentence, on its longer side; 0 after the last sentence."""
        if number >= len(self.sources):
            return 0
        return 2 + max(len(side[number]) for side in (self.sources, self.targets) if side is not None)

    @property
    def longest(self) -> int:
        return max(map(self.step, range(len(self.sources))), default=0)


def _contexts(translator: Translator, items: Sequence[ContrastiveItem], history: History) -> Iterable[_Context]:
    """Return the distinct contexts, each with its items, as ids."""
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


def _context_key(item: ContrastiveItem, history: History) -> tuple[tuple[str, ...], ...]:
    """Return what is read before an item: source sentences, and target sentences if they are given."""
    if history == "none":
        return ((),)
    return (item.source_context, item.target_context) if history == "gold" else (item.source_context,)


def _context(key: tuple[tuple[str, ...], ...], sources: dict[str, Ids], targets: dict[str, Ids]) -> _Context:
    """Return a context as ids; as in training, pairs with an empty side are skipped."""
    if len(key) == 1:
        return _Context([sources[text] for text in key[0] if sources[text]], None)
    pairs = [(sources[source], targets[target]) for source, target in zip(*key, strict=True)]
    pairs = [(source, target) for source, target in pairs if source and target]
    return _Context([source for source, _ in pairs], [target for _, target in pairs])


def _ids(translator: Translator, texts: Iterable[str], side: Side) -> dict[str, Ids]:
    """Return every distinct text as ids, truncated if it is too long for the model; blank texts have none."""
    different = list(dict.fromkeys(texts))
    longest = translator.longest
    ids = translator.text.encode(different, side)
    if truncated := sum(len(sentence) > longest for sentence in ids):
        warnings.warn(f"{truncated} {side} sentences were truncated to the model's {longest} subwords", stacklevel=4)
    return {text: sentence[:longest] * bool(text.strip()) for text, sentence in zip(different, ids, strict=True)}


def _answers(
    translator: Translator, contexts: Sequence[_Context], tokens: int
) -> Iterator[tuple[_Question, list[float]]]:
    """Read some contexts together, then score the items after them."""
    model = translator.model
    histories = None
    if translator.units is not None:
        histories, state = _histories(translator, translator.units, contexts), model.initial_state(len(contexts))
    elif model.decoder.contexts() and any(context.targets is None for context in contexts):
        state = _translate(translator, contexts)
    else:
        state = _read(translator, contexts, tokens)
    pairs = [(row, question) for row, context in enumerate(contexts) for question in context.questions]
    pairs.sort(key=lambda pair: pair[1].size)  # similar lengths together: little padding
    cost = costs_of_sums([question.size for _, question in pairs])
    for part in slices_within(cost, len(pairs), tokens):
        rows, questions = zip(*pairs[part], strict=True)
        states = state.select(torch.tensor(rows, device=model.device))
        after = None if histories is None else [histories[row] for row in rows]
        yield from zip(questions, _score(translator, questions, states, after), strict=True)


def _histories(translator: Translator, units: Units, contexts: Sequence[_Context]) -> list[list[Pair]]:
    """Return the history of each context for the next unit; contexts without targets are translated."""
    if any(context.targets is None for context in contexts):
        cursors = [UnitCursor(row, context.sources, State.empty()) for row, context in enumerate(contexts)]
        for _ in translator.lockstep().run(cursors):
            pass  # only the histories at the end are needed
        return [cursor.history for cursor in cursors]
    return [
        units.settled([Pair(*pair) for pair in zip(context.sources, context.targets or [], strict=True)])
        for context in contexts
    ]


def _read(translator: Translator, contexts: Sequence[_Context], tokens: int) -> State:
    """Return the state after reading contexts, many sentences at once; without targets, only the source is read."""
    model, special = translator.model, translator.special
    state = model.initial_state(len(contexts))
    steps = range(max(len(context.sources) for context in contexts))
    cost = costs_of_sums([sum(context.step(number) for context in contexts) for number in steps])
    for block in slices_within(cost, len(steps), tokens):
        sources = document_ids([[special.source(ids) for ids in context.sources[block]] for context in contexts])
        encoded = model.encode(sources.to(model.device), state)
        if model.decoder.contexts():
            inputs = [[special.decoder_input(ids) for ids in (context.targets or [])[block]] for context in contexts]
            state = model.forced_decode(encoded, document_ids(inputs).to(model.device), state).state
        else:
            state |= encoded.state
    return state


def _translate(translator: Translator, contexts: Sequence[_Context]) -> State:
    """Return the state after contexts that the model translates itself."""
    model = translator.model
    cursors = [Cursor(row, context.sources, model.initial_state(1)) for row, context in enumerate(contexts)]
    for _ in translator.lockstep().run(cursors):
        pass  # only the states at the end are needed
    return State.join([cursor.state for cursor in cursors])


def _score(
    translator: Translator, questions: Sequence[_Question], state: State, histories: list[list[Pair]] | None
) -> list[list[float]]:
    """Return the log-probabilities of the targets of every question; its source is encoded once for all of them.

    Identical targets are scored once, so that rounding cannot make a difference. histories: the pairs before each
    question in its unit; their ids are read but not scored.
    """
    model, special = translator.model, translator.special
    source_ids, given = [question.source for question in questions], [Ids() for _ in questions]
    context = None
    if histories is not None and (units := translator.units) is not None:
        placed = [units.next_unit(*pair) for pair in zip(histories, [[ids] for ids in source_ids], strict=True)]
        source_ids, given = [units.source(unit) for unit in placed], [units.given_target(unit) for unit in placed]
        context = torch.tensor([[units.context_tokens(unit)] for unit in placed], device=model.device)
    rows = list(dict.fromkeys((n, tuple(ids)) for n, question in enumerate(questions) for ids in question.targets))
    owners = torch.tensor([n for n, _ in rows], device=model.device)
    sources = document_ids([[special.source(ids)] for ids in source_ids]).to(model.device)
    encoded = model.encode(sources, state, context=context)
    inputs = document_ids([[special.decoder_input([*given[n], *ids])] for n, ids in rows]).to(model.device)
    unscored = [[PAD] * len(ids) for ids in given]
    targets = [[*special.target_prefix, *unscored[n], *ids, special.end] for n, ids in rows]
    labels = document_ids([[ids] for ids in targets]).to(model.device)
    decoded = model.forced_decode(repeated(encoded, owners), inputs, state.select(owners))
    row = decoded.layout.rows // decoded.layout.shape[2]
    scores = torch.zeros(len(rows), dtype=torch.float64, device=model.device)
    packed = decoded.layout.pack(labels)
    log_probs = model.token_log_probs(decoded.states, packed).double()
    scores.index_add_(0, row, log_probs.masked_fill(packed == PAD, 0))
    score_of = dict(zip(rows, scores.tolist(), strict=True))
    return [[score_of[n, tuple(ids)] for ids in question.targets] for n, question in enumerate(questions)]


def repeated(encoded: Encoded, owners: Tensor) -> Encoded:
    """Return the source states of the documents `owners`, which may repeat; one sentence per document."""
    layout = Layout(encoded.layout.grid(encoded.layout.ids).index_select(0, owners))
    starts = torch.as_tensor(encoded.layout.starts, device=owners.device).index_select(0, owners)
    places = starts.repeat_interleave(layout.lengths.flatten()) + layout.positions
    rows = encoded.rows
    if encoded.layout.segments is not None:
        layout.segments = encoded.layout.segments.select(owners)
        rows = encoded.source_rows().select(owners)
    return Encoded(encoded.states.index_select(0, places), layout, State.empty(), rows=rows)
