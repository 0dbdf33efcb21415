"""What the numbers of docs/rivals say about three expectations, as text that is made from them.

Nothing here claims more than an interval shows: "above chance" means that the lower end of the 95% Wilson interval is
above chance, "not above chance" that it is not.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from systems import BY_NAME, MEMORY, System, sees_translations, sentences_back

from tram.analysis.report import markdown_table
from tram.evaluation.accuracy import Accuracy

TERM = "term"  # the phenomenon that only earlier translations decide
FAR = 10  # sentences: distances from here on are far


@dataclass(frozen=True)
class Result:
    """The numbers of one system."""

    numbers: dict[str, Any]
    costs: dict[str, Any] | None = None  # of training and decoding, if they were measured

    @property
    def name(self) -> str:
        """The name of the system."""
        return str(self.numbers["system"])

    @property
    def system(self) -> System:
        """The system that was measured."""
        return BY_NAME[self.name]

    @property
    def title(self) -> str:
        """The name of the system for the reader."""
        return self.system.title

    @property
    def settings(self) -> str:
        """The context or unit of the system, as in a config; empty for a sentence model."""
        found = self.numbers["context"] or self.numbers["unit"] or {}
        return ", ".join(f"{key}: {value}" for key, value in found.items())

    @property
    def phenomena(self) -> list[str]:
        """All phenomena of the suite."""
        return list(self.numbers["suite"])

    @property
    def source_decided(self) -> list[str]:
        """The phenomena that earlier source sentences decide."""
        return [name for name in self.phenomena if name != TERM]

    @property
    def distances(self) -> list[int]:
        """The distances of the suite, in sentences."""
        return [int(distance) for distance in next(iter(self.numbers["suite"].values()))]

    @property
    def window(self) -> int | None:
        """The most sentences back that the system can see; None: no limit, or one in tokens or segments."""
        return sentences_back(self.numbers["context"], self.numbers["unit"])

    @property
    def sees_translations(self) -> bool:
        """Whether the system sees earlier translations."""
        return sees_translations(self.numbers["context"], self.numbers["unit"])

    @property
    def has_context(self) -> bool:
        """Whether the system sees anything but the sentence."""
        return self.numbers["context"] is not None or self.numbers["unit"] is not None

    def accuracy(self, phenomena: list[str], distances: list[int]) -> Accuracy | None:
        """Return the accuracy on some phenomena and distances together; None if there are none."""
        cells = [self.numbers["suite"][name][str(distance)] for name in phenomena for distance in distances]
        items = sum(cell["items"] for cell in cells)
        if not items:
            return None
        chance = sum(cell["chance"] * cell["items"] for cell in cells) / items
        return Accuracy(sum(cell["right"] for cell in cells), items, chance)

    def reach(self, phenomena: list[str]) -> int:
        """Return the largest distance up to which the system is above chance at every distance; 0: nowhere."""
        reached = 0
        for distance in self.distances:
            if not above_chance(self.accuracy(phenomena, [distance])):
                break
            reached = distance
        return reached

    def carried(self, sentences: int) -> int | None:
        """Return the bytes that a document of so many sentences carries, if they were measured."""
        if self.costs is None:
            return None
        found: int | None = self.costs["decoding"].get(str(sentences), {}).get("bytes")
        return found


def above_chance(accuracy: Accuracy | None) -> bool:
    """Return whether the interval of an accuracy lies above chance."""
    return accuracy is not None and accuracy.interval[0] > accuracy.chance


def percent(accuracy: Accuracy | None) -> str:
    """Format an accuracy with its interval."""
    if accuracy is None:
        return "–"
    low, high = accuracy.interval
    return f"{100 * accuracy.value:.0f} ({100 * low:.0f}–{100 * high:.0f})"


def listed(names: list[str]) -> str:
    """Return names as an enumeration."""
    return ", ".join(names) if names else "none"


def windows(results: list[Result]) -> str:
    """Compare what systems with a window know within and beyond it."""
    rows, known, beyond = [], [], []
    for result in results:
        if (back := result.window) is None:
            continue
        decided = result.phenomena if result.sees_translations else result.source_decided
        near, far = (
            result.accuracy(decided, [d for d in result.distances if (d <= back) is inside]) for inside in (True, False)
        )
        assert near is not None
        rows.append([result.title, str(back), percent(near), percent(far), f"{100 * near.chance:.0f}"])
        known += [result.title] * above_chance(near)
        beyond += [result.title] * above_chance(far)
    if not rows:
        return "No system with a window has been measured yet."
    header = ["system", "sentences back", "within, %", "beyond, %", "chance, %"]
    text = (
        "Counted are the phenomena that the system can see: all, or without translations those that the source "
        "decides. "
        f"Above chance within the window: {listed(known)}. Above chance beyond it: {listed(beyond)}."
    )
    return f"{text}\n\n{markdown_table(header, rows)}"


def terms(results: list[Result]) -> str:
    """Compare systems that see only the source with the others, on what the source decides and on terms."""
    rows: list[list[str]] = []
    above: dict[bool, list[str]] = {False: [], True: []}  # by whether the system sees translations
    for result in results:
        if not result.has_context:
            continue
        near = [d for d in result.distances if result.window is None or d <= result.window]
        term = result.accuracy([TERM], near)
        side = "source and translations" if result.sees_translations else "source"
        distances = f"{near[0]}–{near[-1]}" if len(near) > 1 else str(near[0])
        rows.append(
            [result.title, side, distances, percent(result.accuracy(result.source_decided, near)), percent(term)]
        )
        above[result.sees_translations] += [result.title] * above_chance(term)
    if not rows:
        return "No system with a context has been measured yet."
    header = ["system", "sees earlier", "distances", "decided by the source, %", "terms, %"]
    text = (
        "Which of two translations of a term was chosen first, only the earlier translation shows. Distances: within "
        "the window, or all. Above chance on terms (50%): of the systems that see only the source "
        f"{listed(above[False])}; of those that also see translations {listed(above[True])}."
    )
    return f"{text}\n\n{markdown_table(header, rows)}"


@dataclass(frozen=True)
class Reach:
    """How far a system reaches, and what it carries for that."""

    result: Result
    source: int  # sentences
    term: int
    far: Accuracy  # on all phenomena at large distances
    carried: int | None  # bytes

    @classmethod
    def of(cls, result: Result, sentences: int) -> "Reach":
        """Return the reach of a system; sentences: after how many the bytes are counted."""
        far = result.accuracy(result.phenomena, [distance for distance in result.distances if distance >= FAR])
        assert far is not None
        source, term = result.reach(result.source_decided), result.reach([TERM])
        return cls(result, source, term, far, result.carried(sentences))


def reach_and_bytes(results: list[Result], sentences: int) -> str:
    """Compare how far systems reach and what a document of so many sentences carries."""
    found = [Reach.of(result, sentences) for result in results if result.has_context]
    if not found:
        return "No system with a context has been measured yet."
    source, term = max(each.source for each in found), max(each.term for each in found)
    highest = sorted(found, key=lambda each: -each.far.value)[:3]
    text = [
        "Reach is the largest distance of the suite up to which a system is above chance at every distance.",
        f"Furthest on what the source decides ({source} sentences): {titles(e for e in found if e.source == source)}.",
        f"Furthest on terms ({term} sentences): {titles(each for each in found if each.term == term)}.",
        f"Highest accuracy on all phenomena at distances of {FAR} and more: "
        + "; ".join(f"{each.result.title} {percent(each.far)}%" for each in highest)
        + ".",
        *(memory_sentence(each, found) for each in found if each.result.name == MEMORY),
    ]
    header = ["system", "reach, decided by the source", "reach, terms", f"all phenomena at {FAR} or more, %"]
    header.append(f"bytes carried after {sentences:,} sentences")
    rows = [
        [
            each.result.title,
            str(each.source),
            str(each.term),
            percent(each.far),
            "–" if each.carried is None else f"{each.carried:,}",
        ]
        for each in found
    ]
    return f"{' '.join(text)}\n\n{markdown_table(header, rows)}"


def memory_sentence(memory: Reach, found: list[Reach]) -> str:
    """Say which systems carry fewer bytes than the memory, and how far these reach."""
    if memory.carried is None:
        return "The bytes that the memory carries have not been measured yet."
    fewer = [each for each in found if each.carried is not None and each.carried < memory.carried]
    as_far = [each for each in fewer if each.source >= memory.source or each.term >= memory.term]
    return (
        f"The memory carries {memory.carried:,} bytes and reaches {memory.source} and {memory.term} sentences. Fewer "
        f"bytes are carried by: {titles(fewer)}. Of these, at least as far on one of the two: {titles(as_far)}."
    )


def titles(found: Iterable[Reach]) -> str:
    """Return the names of systems as an enumeration."""
    return listed([each.result.title for each in found])
