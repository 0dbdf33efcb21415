"""Time and memory of decoding by document length, for a sentence model, a memory model and a document model.

    complexity(shape=None, tokens=(100, 1000), repeats=3).write(Path("analysis"))

Tokens and weights are random, as in the paper. The source is split into chunks of 100 tokens (the document model reads
it as one sequence), and the model decodes exactly as many tokens as the source has. Every point is measured in its own
process.
"""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.config import MemoryConfig, ModelConfig
from tram.data.workers import ProcessKilledError, in_new_process
from tram.errors import InputError
from tram.measuring import peak_megabytes
from tram.model.folder import find_model, read_model_file
from tram.model.packing import Layout
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.text.special_ids import SpecialIds
from tram.translation.engines.torch import TorchEngine
from tram.translation.search import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ModelKind = Literal["sentence", "memory", "document"]
MODEL_KINDS: tuple[ModelKind, ...] = ("sentence", "memory", "document")
CHUNK_TOKENS = 100  # tokens of a sentence, as in the paper
DOCUMENT_TOKENS = (100, 200, 500, 1000, 2000, 5000, 10_000)
SPECIAL = SpecialIds()
FIRST_WORD = 3  # smaller ids are special
MAX_SECONDS = 30.0  # after that a point is not repeated again
TITLE = "Cost of decoding"


@dataclass(frozen=True)
class ModelShape:
    """The sizes of the models to measure; only the memory model uses the memory of `config`."""

    config: ModelConfig
    vocabulary: int
    name: str


SMALL_SHAPE = ModelShape(
    ModelConfig(d_model=256, heads=4, feed_forward=1024, encoder_layers=4, decoder_layers=2, context=MemoryConfig()),
    8_000,
    "256 wide, 4+2 layers",
)


@dataclass(frozen=True)
class CostPoint:
    """The cost of decoding one number of tokens with one model; megabytes are the peaks of its process so far."""

    model: ModelKind
    tokens: int
    seconds: float  # of processor time, the median of the repeats
    repeats: list[float]
    import_mb: float  # before the model is created
    model_mb: float  # after the model is created
    peak_mb: float  # at the end

    @property
    def own_mb(self) -> float:
        """The memory of the model and of decoding: the peak minus that of Python and torch."""
        return self.peak_mb - self.import_mb


def read_shape(model: Path) -> ModelShape:
    """Read the sizes of a trained model."""
    folder = find_model(model)
    about = read_model_file(folder)
    if about.model.memory is None:
        raise InputError(f"{folder}: has no memory, so there is nothing to compare; give a finetuned model")
    return ModelShape(about.model, about.vocabulary, str(model))


def complexity(
    shape: ModelShape | None = None,
    tokens: Sequence[int] = DOCUMENT_TOKENS,
    repeats: int = 3,
    longest: int | None = None,
) -> Report:
    """Measure all three models and return the report.

    longest: the maximum number of tokens for the document model, whose time grows quadratically.
    """
    need_matplotlib()
    shape = shape or SMALL_SHAPE
    if repeats < 1:
        raise InputError(f"repeats {repeats}: give 1 or more")
    if not tokens or min(tokens) < 3:
        raise InputError(
            f"tokens {', '.join(map(str, tokens)) or '(none)'}: give numbers of at least 3, for example 100,1000"
        )
    tasks = [
        (kind, n)
        for n in sorted(set(tokens))
        for kind in MODEL_KINDS
        if kind != "document" or longest is None or n <= longest
    ]
    points = []
    with Progress("decoding", len(tasks), "points") as progress:
        for kind, n in tasks:
            points.append(measure_in_process(shape, kind, n, repeats))
            progress.advance(1, f"{kind} model, {n:,} tokens: {points[-1].seconds:.1f} s, {points[-1].peak_mb:.0f} MB")
    return make_report(shape, points, longest)


def measure_in_process(shape: ModelShape, kind: ModelKind, tokens: int, repeats: int) -> CostPoint:
    """Measure one point in a new process, which is free of the memory of earlier points."""
    try:
        return in_new_process(measure_point, shape, kind, tokens, repeats)
    except ProcessKilledError:
        raise InputError(
            f"{kind} model, {tokens:,} tokens: its process was killed, most likely because memory ran out; "
            "give smaller --tokens, or --longest for the document model"
        ) from None


def measure_point(shape: ModelShape, kind: ModelKind, tokens: int, repeats: int) -> CostPoint:
    """Measure processor time and memory of one point, on one thread and in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    before = peak_megabytes()
    model = random_model(shape, kind, tokens)
    made = peak_megabytes()
    source = random_source(shape.vocabulary, tokens, tokens if kind == "document" else CHUNK_TOKENS)
    decode_document(model, [source[0][:CHUNK_TOKENS]])  # warm-up: the first steps of a process are slow
    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < MAX_SECONDS):
        start = time.process_time()  # on one thread wall time, without the share of other programs
        decode_document(model, source)
        times.append(time.process_time() - start)
    return CostPoint(kind, tokens, statistics.median(times), times, before, made, peak_megabytes())


def random_model(shape: ModelShape, kind: ModelKind, tokens: int) -> Transformer:
    """Return a model with random weights and as many positions as it needs, which never chooses eos by itself."""
    positions = max(tokens if kind == "document" else CHUNK_TOKENS, 3)
    memory = shape.config.memory if kind == "memory" else None
    changes = {"max_positions": positions, "max_length": positions, "context": memory}
    model = Transformer(ModelConfig(**shape.config.model_dump() | changes), shape.vocabulary).eval()
    bias = torch.zeros(shape.vocabulary)
    bias[SPECIAL.end] = -1e9  # finite, because at the maximum length eos is the only choice
    model.bias = nn.Parameter(bias)
    return model


def random_source(vocabulary: int, tokens: int, chunk: int) -> list[list[int]]:
    """Return random ids in chunks."""
    ids = torch.randint(FIRST_WORD, vocabulary, (tokens,))
    return [part.tolist() for part in ids.split(chunk)]


@torch.inference_mode()
def decode_document(model: Transformer, source: list[list[int]]) -> int:
    """Decode greedily chunk by chunk, each as long as its source (with eos), and return the number of tokens."""
    engine, state = TorchEngine(model), model.initial_state(1)
    decoded = 0
    for ids in source:
        encoded = engine.encode(torch.tensor(ids)[None, None], state)
        best = search(engine, encoded, [len(ids)], SPECIAL, beam=1, state=state)[0][0]
        state |= encoded.state
        if best.update_inputs:
            layout = Layout(torch.tensor(SPECIAL.decoder_input(best.ids))[None, None])
            state = engine.advance(best.update_inputs, layout, state)
        decoded += len(best.ids) + 1
    return decoded


def make_report(shape: ModelShape, points: list[CostPoint], longest: int | None = None) -> Report:
    """Return the report of the measured points."""
    numbers = {
        "model": {"name": shape.name, "vocabulary": shape.vocabulary, **shape.config.model_dump(mode="json")},
        "chunk": CHUNK_TOKENS,
        "longest_of_document_model": longest,
        "points": [asdict(point) | {"own_mb": point.own_mb} for point in points],
    }
    return Report("complexity", TITLE, numbers, describe(shape, points, longest), lambda: draw(points, longest))


def describe(shape: ModelShape, points: list[CostPoint], longest: int | None) -> str:
    """Return the findings, a table and the method as Markdown."""
    lines = [growth_sentence([point for point in points if point.model == kind]) for kind in MODEL_KINDS]
    if longest is not None:
        lines.append(f"The document model was not measured beyond {longest:,} tokens.")
    measured = {(point.model, point.tokens): point for point in points}
    rows = []
    for n in sorted({point.tokens for point in points}):
        row = [measured.get((kind, n)) for kind in MODEL_KINDS]
        columns = (("seconds", ".2f"), ("own_mb", ".0f"), ("peak_mb", ".0f"))
        cells = ["–" if p is None else format(getattr(p, field), spec) for field, spec in columns for p in row]
        rows.append([f"{n:,}", *cells])
    header = ["tokens", *(f"{kind}, {unit}" for unit in ("s", "MB", "MB with Python") for kind in MODEL_KINDS)]
    memory = shape.config.memory
    repeats = max(len(point.repeats) for point in points)
    slots = "" if memory is None else f", a memory of {memory.slots} slots ({memory.side})"
    method = (
        f"Method: models with the sizes of {shape.name} (vocabulary {shape.vocabulary:,}{slots}) and random weights "
        "decode random tokens greedily, on one thread, in float32, exactly as many tokens as the source has. The "
        f"sentence and the memory model work in chunks of {CHUNK_TOKENS} tokens; the document model gets all tokens "
        "as one sequence and has a position table of that length. Seconds are processor time after a warm-up of one "
        f"chunk, the median of at most {repeats} repeats (no repeat starts after {MAX_SECONDS:g} s). Every point "
        "runs in its own process. MB is the process's peak memory minus its memory after importing torch "
        f"({statistics.median(p.import_mb for p in points):.0f} MB), so it includes the weights; the last columns are "
        "the unreduced peak. Attention uses torch's fused kernel, which never holds a whole attention map."
    )
    return "\n\n".join([" ".join(line for line in lines if line), markdown_table(header, rows), method])


def growth_sentence(points: list[CostPoint]) -> str:
    """Return one sentence on how the cost of one model grows from the first to the last point."""
    if not points:
        return ""
    first, last = points[0], points[-1]
    if first is last:
        cost = f"{first.seconds:.2f} s and {first.own_mb:.0f} MB"
        return f"The {first.model} model takes {cost} for {first.tokens:,} tokens."
    return (
        f"From {first.tokens:,} to {last.tokens:,} tokens ({last.tokens / first.tokens:g} times as many) the "
        f"{first.model} model's time grows {last.seconds / first.seconds:.1f}-fold, to {last.seconds:.1f} s, and its "
        f"memory from {first.own_mb:.0f} to {last.own_mb:.0f} MB."
    )


def draw(points: list[CostPoint], longest: int | None = None) -> "Figure":
    """Draw time (both axes logarithmic) and memory side by side."""
    figure, (left, right) = new_figure(1, 2, width=PAGE)
    panels: list[tuple[Any, str, str]] = [
        (left, "seconds", "decoding time (s of one core)"),
        (right, "own_mb", "peak memory, less torch (MB)"),
    ]
    for axes, field, label in panels:
        for kind, colour, marker in zip(MODEL_KINDS, COLOURS, "osD", strict=False):
            own = [point for point in points if point.model == kind]
            until = f" (to {longest:,} tokens)" if kind == "document" and longest is not None else ""
            style = {"color": colour, "marker": marker, "label": f"{kind} model{until}", "alpha": 0.85}
            axes.plot([point.tokens for point in own], [getattr(point, field) for point in own], **style)
        axes.set(xscale="log", xlabel="tokens of the document", ylabel=label)
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    lines = left.get_legend_handles_labels()[0]
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines), fontsize=8, frameon=False)
    return figure
