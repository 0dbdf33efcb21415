"""What decoding costs as a document grows: seconds and memory, for sentences, with a memory, and as one sequence.

    complexity(shape=None, tokens=(100, 1000), repeats=3).write(Path("analysis"))

Random tokens and random weights, as in the paper: the source is cut into chunks of 100 tokens (the document model gets
it in one piece) and the model decodes exactly as many tokens as the source has. Every point has a process of its own.
"""

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import nn

from tram.analysis.plots import COLOURS, PAGE, need_matplotlib, new_figure
from tram.analysis.report import Report, markdown_table
from tram.config import MemoryConfig, ModelConfig
from tram.errors import InputError
from tram.measuring import peak_megabytes
from tram.model.folder import find_model, read_model_file
from tram.model.packing import Layout
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.text.special_ids import SpecialIds
from tram.translation.search import search

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Kind = Literal["sentence", "memory", "document"]
KINDS: tuple[Kind, ...] = ("sentence", "memory", "document")
CHUNK = 100  # tokens of a sentence, as in the paper
TOKENS = (100, 200, 500, 1000, 2000, 5000, 10_000)
SPECIAL = SpecialIds()
FIRST_WORD = 3  # ids below are special
ENOUGH = 30.0  # seconds; a point that has taken longer is not repeated again
TITLE = "Cost of decoding"


@dataclass(frozen=True)
class Shape:
    """The sizes of the models to measure; `config` has a memory, which only the memory model uses."""

    config: ModelConfig
    vocabulary: int
    name: str


SMALL = Shape(
    ModelConfig(d_model=256, heads=4, feed_forward=1024, encoder_layers=4, decoder_layers=2, memory=MemoryConfig()),
    8_000,
    "256 wide, 4+2 layers",
)


@dataclass(frozen=True)
class Point:
    """What one model needed for one number of tokens; megabytes are peaks of its process so far."""

    model: Kind
    tokens: int
    seconds: float  # of the processor, median of the repeats
    repeats: list[float]
    import_mb: float  # before the model was made
    model_mb: float  # when it was made
    peak_mb: float  # at the end

    @property
    def own_mb(self) -> float:
        """What model and decoding take: the peak without what python and torch take."""
        return self.peak_mb - self.import_mb


def shape_of(model: Path) -> Shape:
    """The sizes of a trained model."""
    folder = find_model(model)
    about = read_model_file(folder)
    if about.model.memory is None:
        raise InputError(f"{folder}: has no memory, so there is nothing to compare; give a finetuned model")
    return Shape(about.model, about.vocabulary, str(model))


def complexity(
    shape: Shape | None = None, tokens: Sequence[int] = TOKENS, repeats: int = 3, longest: int | None = None
) -> Report:
    """Measure all three models; `longest`: most tokens for the document model, whose time grows with their square."""
    need_matplotlib()
    shape = shape or SMALL
    if repeats < 1:
        raise InputError(f"repeats {repeats}: give 1 or more")
    if not tokens or min(tokens) < 3:
        raise InputError(f"tokens {', '.join(map(str, tokens)) or '(none)'}: give numbers from 3 on, as 100,1000")
    tasks = [(kind, n) for n in sorted(set(tokens)) for kind in KINDS
             if kind != "document" or longest is None or n <= longest]  # fmt: skip
    points = []
    with Progress("decoding", len(tasks), "points") as progress:
        for kind, n in tasks:
            points.append(in_own_process(shape, kind, n, repeats))
            progress.advance(1, f"{kind} model, {n:,} tokens: {points[-1].seconds:.1f} s, {points[-1].peak_mb:.0f} MB")
    return make_report(shape, points, longest)


def in_own_process(shape: Shape, kind: Kind, tokens: int, repeats: int) -> Point:
    """Measure one point where no earlier one has left its memory."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            return pool.submit(measure, shape, kind, tokens, repeats).result()
        except BrokenProcessPool:
            raise InputError(
                f"{kind} model, {tokens:,} tokens: its process was killed, most likely for want of memory; "
                "give smaller --tokens, or --longest for the document model"
            ) from None


def measure(shape: Shape, kind: Kind, tokens: int, repeats: int) -> Point:
    """Processor time and memory of one point, on one thread and in this process."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    before = peak_megabytes()
    model = random_model(shape, kind, tokens)
    made = peak_megabytes()
    source = random_source(shape.vocabulary, tokens, tokens if kind == "document" else CHUNK)
    decode(model, [source[0][:CHUNK]])  # the first steps of a process are slow
    times: list[float] = []
    while not times or (len(times) < repeats and sum(times) < ENOUGH):
        start = time.process_time()  # on one thread the same as time on the clock, but for other programs' share
        decode(model, source)
        times.append(time.process_time() - start)
    return Point(kind, tokens, statistics.median(times), times, before, made, peak_megabytes())


def random_model(shape: Shape, kind: Kind, tokens: int) -> Transformer:
    """A model with random weights whose positions are as many as it needs, and which never chooses eos by itself."""
    positions = max(tokens if kind == "document" else CHUNK, 3)
    memory = shape.config.memory if kind == "memory" else None
    changes = {"max_positions": positions, "max_length": positions, "memory": memory}
    model = Transformer(ModelConfig(**shape.config.model_dump() | changes), shape.vocabulary).eval()
    bias = torch.zeros(shape.vocabulary)
    bias[SPECIAL.end] = -1e9  # finite: at the limit of the length it is the only choice
    model.bias = nn.Parameter(bias)
    return model


def random_source(vocabulary: int, tokens: int, chunk: int) -> list[list[int]]:
    """Ids in chunks."""
    ids = torch.randint(FIRST_WORD, vocabulary, (tokens,))
    return [part.tolist() for part in ids.split(chunk)]


@torch.inference_mode()
def decode(model: Transformer, source: list[list[int]]) -> int:
    """Decode greedily chunk by chunk, each as long as its source (eos counted); gives the number of tokens."""
    state = model.initial_state(1)
    decoded = 0
    for ids in source:
        encoded = model.encode(torch.tensor(ids)[None, None], state)
        best = search(model, encoded, [len(ids)], SPECIAL, beam=1, state=state)[0][0]
        state |= encoded.state
        if best.update_inputs:
            layout = Layout(torch.tensor(SPECIAL.decoder_input(best.ids))[None, None])
            state = model.advance(best.update_inputs, layout, state)
        decoded += len(best.ids) + 1
    return decoded


def make_report(shape: Shape, points: list[Point], longest: int | None = None) -> Report:
    """Put the measured points into words and a picture."""
    numbers = {
        "model": {"name": shape.name, "vocabulary": shape.vocabulary, **shape.config.model_dump(mode="json")},
        "chunk": CHUNK,
        "longest_of_document_model": longest,
        "points": [asdict(point) | {"own_mb": point.own_mb} for point in points],
    }
    return Report("complexity", TITLE, numbers, describe(shape, points, longest), lambda: draw(points, longest))


def describe(shape: Shape, points: list[Point], longest: int | None) -> str:
    """Return the findings, a table and the method as Markdown."""
    lines = [growth([point for point in points if point.model == kind]) for kind in KINDS]
    if longest is not None:
        lines.append(f"The document model was not measured beyond {longest:,} tokens.")
    measured = {(point.model, point.tokens): point for point in points}
    rows = []
    for n in sorted({point.tokens for point in points}):
        own = [measured.get((kind, n)) for kind in KINDS]
        rows.append([f"{n:,}", *("–" if p is None else f"{p.seconds:.2f}" for p in own),
                     *("–" if p is None else f"{p.own_mb:.0f}" for p in own),
                     *("–" if p is None else f"{p.peak_mb:.0f}" for p in own)])  # fmt: skip
    header = ["tokens", *(f"{kind}, {unit}" for unit in ("s", "MB", "MB with Python") for kind in KINDS)]
    memory = shape.config.memory
    repeats = max(len(point.repeats) for point in points)
    slots = "" if memory is None else f", a memory of {memory.slots} slots ({memory.side})"
    return "\n\n".join([
        " ".join(line for line in lines if line),
        markdown_table(header, rows),
        f"Method: models with the sizes of {shape.name} (vocabulary {shape.vocabulary:,}{slots}) and random weights "
        "decode random tokens greedily, on one thread, in float32, exactly as many tokens as the source has. The "
        f"sentence and the memory model work in chunks of {CHUNK} tokens; the document model gets all tokens as one "
        f"sequence and has a position table of that length. Seconds are processor time after a warm-up of one chunk, "
        f"the median of at most {repeats} repeats (no repeat starts after {ENOUGH:g} s). Every point runs in its own "
        "process. MB is the process's peak memory minus its memory after importing torch "
        f"({statistics.median(p.import_mb for p in points):.0f} MB), so it includes the weights; the last columns are "
        "the unreduced peak. Attention uses torch's fused kernel, which never holds a whole attention map.",
    ])  # fmt: skip


def growth(points: list[Point]) -> str:
    """One sentence about one model: its cost at both ends."""
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


def draw(points: list[Point], longest: int | None = None) -> "Figure":
    """Time (both axes logarithmic) and memory side by side."""
    figure, (left, right) = new_figure(1, 2, width=PAGE)
    panels: list[tuple[Any, str, str]] = [
        (left, "seconds", "decoding time (s of one core)"),
        (right, "own_mb", "peak memory, less torch (MB)"),
    ]
    for axes, field, label in panels:
        for kind, colour, marker in zip(KINDS, COLOURS, "osD", strict=False):
            own = [point for point in points if point.model == kind]
            until = f" (to {longest:,} tokens)" if kind == "document" and longest is not None else ""
            axes.plot([point.tokens for point in own], [getattr(point, field) for point in own], color=colour,
                      marker=marker, label=f"{kind} model{until}", alpha=0.85)  # fmt: skip
        axes.set(xscale="log", xlabel="tokens of the document", ylabel=label)
    left.set_yscale("log")
    right.set_ylim(bottom=0)
    lines = left.get_legend_handles_labels()[0]
    figure.legend(handles=lines, loc="outside upper center", ncols=len(lines), fontsize=8, frameon=False)
    return figure
