"""A translator without a model: a function of a sentence and of what the memory has read decides its translations."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace

Rule = Callable[[str, list[str]], str]


@dataclass
class FakeState:
    """What was read so far: source sentences, or `source=target` where the target was given."""

    read: list[str] = field(default_factory=list)

    def fork(self) -> "FakeState":
        return FakeState(list(self.read))


class FakeTranslator:
    """Translates `sentence` after `read` as `rule(sentence, read)`; remembers every call in `seen`."""

    def __init__(self, rule: Rule, has_context: bool = True, languages: tuple[str, str] = ("en", "de")) -> None:
        self.rule = rule
        self.has_context = has_context
        self.text = SimpleNamespace(source_language=languages[0], target_language=languages[1])
        self.seen: list[tuple[str, list[str]]] = []

    def start(self) -> FakeState:
        return FakeState()

    def translate_documents(
        self,
        documents: Iterable[list[str]],
        advance: Callable[[int], None] | None = None,
        states: Iterable[FakeState] | None = None,
    ) -> Iterator[list[str]]:
        documents = list(documents)
        for document, state in zip(documents, states or [FakeState() for _ in documents], strict=True):
            translations = []
            for sentence in document:
                self.seen.append((sentence, list(state.read)))
                translations.append(self.rule(sentence, list(state.read)))
                state.read.append(sentence)
                if advance is not None:
                    advance(1)
            yield translations

    def read(self, source: list[str], target: list[str], state: FakeState) -> None:
        state.read += [f"{a}={b}" for a, b in zip(source, target, strict=True)]
