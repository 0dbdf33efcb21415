"""Whose context a sentence is translated after: its own, that of another item or document, or none.

    others([("a",), ("a",), ("b",)], seed=1)            # for each place, a place with another context
    found, answers = translate_contexts(translator, contexts, sources)       # answers["own"], ["other"], ["none"]

"other" is the control of every measure: the memory is as full as with the own context, but knows nothing that helps.
"""

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import TYPE_CHECKING, Literal

from tram.errors import InputError

if TYPE_CHECKING:
    from tram.translation.translator import Translator

ContextOf = Literal["own", "other", "none"]
CONTEXTS: tuple[ContextOf, ...] = ("own", "other", "none")


def others(contexts: Sequence[Hashable], cells: Sequence[Hashable] | None = None, seed: int = 1) -> list[int]:
    """For each item, choose another one whose context differs: of the same cell if possible, else of any.

    Within a cell every item gives its context once, unless one context is that of more than half of the cell. An item
    keeps its own place only if all items have the same context.
    """
    random = Random(seed)
    chosen = list(range(len(contexts)))
    for numbers in _groups(cells or [None] * len(contexts), random):
        groups = _groups([contexts[number] for number in numbers], random)
        ordered = [numbers[place] for group in sorted(groups, key=len, reverse=True) for place in group]
        shift = max(map(len, groups))  # equal contexts are neighbours: none is so far from an equal one
        for place, number in enumerate(ordered):
            giver = ordered[(place + shift) % len(ordered)]
            if contexts[giver] == contexts[number]:
                giver = _any_other(contexts, numbers, number, random)
            chosen[number] = giver
    return chosen


def _groups(keys: Sequence[Hashable], random: Random) -> list[list[int]]:
    """Group places by key, groups and members in random order."""
    groups: dict[Hashable, list[int]] = {}
    for place in random.sample(range(len(keys)), len(keys)):
        groups.setdefault(keys[place], []).append(place)
    return list(groups.values())


def _any_other(contexts: Sequence[Hashable], cell: Sequence[int], number: int, random: Random) -> int:
    for numbers in (cell, range(len(contexts))):
        if different := [giver for giver in numbers if contexts[giver] != contexts[number]]:
            return random.choice(different)
    return number


def translate_contexts(
    translator: "Translator",
    contexts: Sequence[Sequence[str]],
    sources: Sequence[str],
    which: Sequence[ContextOf] = CONTEXTS,
    cells: Sequence[Hashable] | None = None,
    advance: Callable[[int], None] | None = None,
) -> tuple[list[list[str]], dict[ContextOf, list[str]]]:
    """Translate contexts, and each source after its own context, after another one's and alone.

    Return the translations of the contexts and, for each kind of context, those of the sources. A context is translated
    once, whatever follows it; the memory takes in what was generated. `advance` is told of sentences that are done.
    A model without memory translates a source alike after any context, and therefore once.
    """
    different = list(dict.fromkeys(map(tuple, contexts)))
    states = [translator.start() for _ in different]
    found = list(translator.translate_documents([list(context) for context in different], advance, states=states))
    places = {context: place for place, context in enumerate(different)}
    own = [places[tuple(context)] for context in contexts]
    answers: dict[ContextOf, list[str]] = {}
    for kind in which:
        if answers and not translator.has_context:
            answers[kind] = next(iter(answers.values()))
            continue
        if kind == "none":
            after = [translator.start() for _ in sources]
        else:
            givers = own if kind == "own" else [own[giver] for giver in others(own, cells)]
            after = [states[giver].fork() for giver in givers]
        answers[kind] = [
            text for (text,) in translator.translate_documents([[source] for source in sources], advance, states=after)
        ]
    return [found[place] for place in own], answers


def translate_after_others(
    translator: "Translator",
    documents: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]] | None = None,
    advance: Callable[[int], None] | None = None,
) -> list[list[str]]:
    """Translate every sentence after as many sentences of other documents as its own document has before it.

    The memory takes in what it generates for those, or their reference translations if `gold` is given.
    """
    follows = _streams(documents, documents)
    targets = None if gold is None else _streams(documents, gold)
    states = [translator.start() for _ in documents]
    found: list[list[str]] = [[] for _ in documents]
    for place in range(max(map(len, documents), default=0)):
        active = [number for number, document in enumerate(documents) if len(document) > place]
        wanted = [[documents[number][place]] for number in active]
        forks = [states[number].fork() for number in active]
        for number, (text,) in zip(active, translator.translate_documents(wanted, advance, states=forks), strict=True):
            found[number].append(text)
        active = [number for number in active if len(documents[number]) > place + 1]
        if targets is None:
            read = [[follows[number][place]] for number in active]
            list(translator.translate_documents(read, states=[states[number] for number in active]))
        else:
            for number in active:
                translator.read([follows[number][place]], [targets[number][place]], states[number])
    return found


def _streams(documents: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """For each document, the texts of the documents behind it, at least as long as it is; cyclic, itself left out."""
    if len(documents) < 2:
        raise InputError("another document's context needs at least two documents; give more, or leave it out")
    streams = []
    for number, document in enumerate(documents):
        stream: list[str] = []
        step = 0
        while len(stream) < len(document):
            stream += texts[(number + 1 + step % (len(documents) - 1)) % len(documents)]
            step += 1
        streams.append(stream)
    return streams
