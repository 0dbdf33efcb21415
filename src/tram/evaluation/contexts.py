"""The context in which a sentence is translated: its own, that of another item or document, or none.

    others([("a",), ("a",), ("b",)], seed=1)            # for each index, the index of another context
    found, answers = translate_contexts(translator, contexts, sources)       # answers["own"], ["other"], ["none"]

"other" is the control of every measure: the memory is as full as with the item's own context, but not helpful.
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
    """Choose, for each item, another one with a different context: of the same cell if possible, otherwise any.

    Within a cell, the context of every item is used once, unless more than half of the cell share one context. An item
    keeps its own context only if all items have the same one.
    """
    random = Random(seed)
    chosen = list(range(len(contexts)))
    for numbers in _groups(cells or [None] * len(contexts), random):
        groups = _groups([contexts[number] for number in numbers], random)
        ordered = [numbers[place] for group in sorted(groups, key=len, reverse=True) for place in group]
        shift = max(map(len, groups))  # equal contexts are adjacent, so this shift never maps one to an equal one
        for place, number in enumerate(ordered):
            giver = ordered[(place + shift) % len(ordered)]
            if contexts[giver] == contexts[number]:
                giver = _any_other(contexts, numbers, number, random)
            chosen[number] = giver
    return chosen


def _groups(keys: Sequence[Hashable], random: Random) -> list[list[int]]:
    """Group indices by key, groups and members in random order."""
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
    """Translate contexts, and each source after its own context, after another one, and alone.

    Return the translations of the contexts and, for each kind of context, those of the sources. Each context is
    translated once; the memory reads the generated translations. `advance` is called with the number of finished
    sentences. For a model without memory, the context makes no difference, and each source is translated once.
    """
    different = list(dict.fromkeys(map(tuple, contexts)))
    states = [translator.start() for _ in different]
    translations = list(
        translator.translate_documents([list(context) for context in different], advance, states=states)
    )
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
    return [translations[place] for place in own], answers


def translate_after_others(
    translator: "Translator",
    documents: Sequence[Sequence[str]],
    gold: Sequence[Sequence[str]] | None = None,
    advance: Callable[[int], None] | None = None,
) -> list[list[str]]:
    """Translate every sentence after as many sentences of other documents as precede it in its own document.

    The memory reads the generated translations of these, or their reference translations if `gold` is given.
    """
    follows = _streams(documents, documents)
    targets = None if gold is None else _streams(documents, gold)
    states = [translator.start() for _ in documents]
    translations: list[list[str]] = [[] for _ in documents]
    for place in range(max(map(len, documents), default=0)):
        active = [number for number, document in enumerate(documents) if len(document) > place]
        sentences = [[documents[number][place]] for number in active]
        forks = [states[number].fork() for number in active]
        for number, (text,) in zip(
            active, translator.translate_documents(sentences, advance, states=forks), strict=True
        ):
            translations[number].append(text)
        active = [number for number in active if len(documents[number]) > place + 1]
        if targets is None:
            read = [[follows[number][place]] for number in active]
            list(translator.translate_documents(read, states=[states[number] for number in active]))
        else:
            for number in active:
                translator.read([follows[number][place]], [targets[number][place]], states[number])
    return translations


def _streams(documents: Sequence[Sequence[str]], texts: Sequence[Sequence[str]]) -> list[list[str]]:
    """Return, for each document, the texts of the following documents (cyclic, itself left out), at least as long."""
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
