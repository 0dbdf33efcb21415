"""Comparison of models on test documents, for the variants of `memory-size` and `placement`.

documents = read_test_documents(source, reference)
results = translate_and_score([("sentence", DIR), ("memory", DIR)], documents, beam=5)
score_text(results[1].score("s-BLEU"))
"""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from tram.data.corpus import ParallelDocument, read_parallel
from tram.errors import InputError
from tram.evaluation.metrics import Difference, Score, SystemResult, score_systems
from tram.files import read_json, write_json
from tram.fingerprints import content_fingerprint, fingerprint
from tram.model.folder import WEIGHTS
from tram.progress import Progress, plain_warnings
from tram.translation.translator import Translator


def read_test_documents(source: Path, reference: Path, documents: int | None = None) -> list[ParallelDocument]:
    """Read the documents to score on: all of them, or the first `documents`."""
    if documents is not None and documents < 1:
        raise InputError(f"documents {documents}: give 1 or more, or omit it to use all")
    return list(islice(read_parallel(source, reference), documents))


def translate_and_score(
    systems: Sequence[tuple[str, Path]],
    documents: Sequence[ParallelDocument],
    beam: int,
    baseline: int = 0,
    cache: Path | None = None,
) -> list[SystemResult]:
    """Translate with every model and compare each with the baseline: paired bootstrap over documents.

    baseline: the index of the baseline in `systems`; cache: a folder for translations, so that each model translates
    the documents only once, in whichever analysis.
    """
    sources, references = [each.source for each in documents], [each.target for each in documents]
    translations = [(name, translate(name, folder, sources, beam, cache)) for name, folder in systems]
    results = score_systems(
        [translations[baseline], *translations[:baseline], *translations[baseline + 1 :]], [references]
    )
    results.insert(baseline, results.pop(0))
    return results


def translate(
    name: str, folder: Path, sources: list[list[str]], beam: int, cache: Path | None = None
) -> list[list[str]]:
    """Translate documents with a model, or return the cached translations."""
    path = None
    if cache is not None:
        model = [content_fingerprint(folder / name) for name in (WEIGHTS, "config.yaml")]  # which names the text.json
        path = cache / f"{fingerprint([model, sources, beam])}.json"
        if (cached := _cached(path)) is not None:
            return cached
    translator = Translator.load(folder, beam=beam)
    with plain_warnings(), Progress(f"translating: {name}", sum(map(len, sources)), "sentences") as progress:
        translations = list(translator.translate_documents(sources, progress.advance))
    if path is not None:
        write_json(path, {"translations": translations, "checksum": fingerprint(translations)})
    return translations


def _cached(path: Path) -> list[list[str]] | None:
    """Return the translations of a file of the cache; None if there is none or it is damaged."""
    try:
        about = read_json(path)
        translations: list[list[str]] = about["translations"]
        return translations if fingerprint(translations) == about["checksum"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def score_json(score: Score) -> dict[str, Any]:
    """Return a score as values that `json` can write."""
    return {"value": score.value, "low": score.low, "high": score.high, "signature": score.signature}


def score_text(score: Score) -> str:
    """Format a score and its interval for a table."""
    return f"{score.value:.2f}" + ("" if score.low is None else f" ({score.low:.2f} to {score.high:.2f})")


def difference_sentence(result: SystemResult, metric: str, baseline: str) -> str:
    """Return a clause on how a system's score differs from the baseline's, with interval and p-value."""
    difference = result.difference(metric)
    text = f"{difference.difference:+.2f} {metric} against {baseline}"
    if difference.low is None or difference.high is None or difference.p is None:
        return f"{text} (one document: no interval)"
    return f"{text} (95% interval {difference.low:+.2f} to {difference.high:+.2f}, p = {difference.p:.3f})"


def error_bars(differences: Sequence[Difference]) -> list[list[float]] | None:
    """Return the distances from the differences to their lower and upper bounds, as matplotlib expects them.

    → [below, above], or None if a difference has no interval.
    """
    below, above = [], []
    for each in differences:
        if each.low is None or each.high is None:
            return None
        below.append(max(each.difference - each.low, 0.0))
        above.append(max(each.high - each.difference, 0.0))
    return [below, above]
