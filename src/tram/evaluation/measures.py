"""Context measures on free output: form of address and terms, with the document's own, another and no context.

    found = translations_by_context(translator, sources, hypotheses, ("own", "other", "none"))
    measured = measure("address", sources, references, found, translator.text)
    print(measured.table)

A measure needs rules for both languages (`languages/`); `available` leaves out measures without them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tram.errors import InputError
from tram.evaluation.address import address_table, measure_address
from tram.evaluation.contexts import ContextOf, translate_after_others
from tram.evaluation.language import Language, find_language, load_language
from tram.evaluation.shares import as_json
from tram.evaluation.terms import measure_terms, terms_table

if TYPE_CHECKING:
    from tram.text.pipeline import TextPipeline
    from tram.translation.translator import Translator

Documents = list[list[str]]
MEASURES = ("address", "terms")
_SECTIONS = {"address": ("words", "address"), "terms": ("function_words", "function_words")}
"""The sections of the source's and the target's rules that each measure needs."""


@dataclass(frozen=True)
class Measured:
    """A measure as a table for people and as JSON for programs."""

    table: str
    value: dict[str, Any]


def available(source: str, target: str) -> tuple[str, ...]:
    """Return the measures whose rules exist for two languages, given by their codes."""
    languages = find_language(source), find_language(target)

    def known(name: str) -> bool:
        pairs = zip(languages, _SECTIONS[name], strict=True)
        return all(language is not None and getattr(language, section) for language, section in pairs)

    return tuple(name for name in MEASURES if known(name))


def chosen(names: str | None, text: "TextPipeline") -> tuple[str, ...]:
    """Parse a comma-separated list of measures; None: all that are available, "none": no measure."""
    if names is None:
        return available(text.source_language, text.target_language)
    chosen_names = tuple(name for name in names.split(",") if name and name != "none")
    for name in chosen_names:
        if name not in MEASURES:
            raise InputError(f"--measures {name}: is not a measure; choose from {', '.join(MEASURES)}, or none")
        for code, section in zip((text.source_language, text.target_language), _SECTIONS[name], strict=True):
            load_language(code).need(section)
    return chosen_names


def translations_by_context(
    translator: "Translator",
    sources: Documents,
    own: Documents,
    which: Sequence[ContextOf],
    gold: Documents | None = None,
    advance: Callable[[int], None] | None = None,
) -> dict[ContextOf, Documents]:
    """Translate documents again, every sentence with another document's context, and with none.

    own: the existing translations with the documents' own context. gold: the references, if the memory reads them.
    """
    translations: dict[ContextOf, Documents] = {}
    for kind in which:
        if kind == "own" or not translator.has_context:
            translations[kind] = own  # without a memory, the context makes no difference
        elif kind == "other":
            translations[kind] = translate_after_others(translator, sources, gold, advance)
        else:
            alone = [[sentence] for document in sources for sentence in document]
            results = iter(list(translator.translate_documents(alone, advance)))
            translations[kind] = [[next(results)[0] for _ in document] for document in sources]
    return translations


def measure(
    name: str, sources: Documents, references: Documents, translations: Mapping[Any, Documents], text: "TextPipeline"
) -> Measured:
    """Compute a measure by its name."""
    source, target = load_language(text.source_language), load_language(text.target_language)
    function, table = _FUNCTIONS[name]
    summary = function(sources, references, translations, source, target)
    return Measured(table(summary), as_json(summary))


_Function = Callable[[Documents, Documents, Mapping[str, Documents], Language, Language], dict[str, Any]]
_FUNCTIONS: dict[str, tuple[_Function, Callable[[Mapping[str, Any]], str]]] = {
    "address": (measure_address, address_table),
    "terms": (measure_terms, terms_table),
}
