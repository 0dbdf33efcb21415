"""Draw the picture at the top of the README: three sentences of a document and the memory that links them.

python runs/figures/architecture.py          writes docs/figures/architecture.svg and .png

A schematic: the translations are an example, not the output of a model, and the shades of the slots carry no data.
Coordinates are pixels of a picture 900 wide, y pointing down.
"""

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.offsetbox import AnnotationBbox, HPacker, TextArea
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch, Rectangle
from PIL import Image

from tram.analysis.plots import COLOURS
from tram.files import replacing

FOLDER = Path(__file__).parents[2] / "docs" / "figures"
WIDTH, HEIGHT = 900, 600
TITLE = "tram: a Transformer with a recurrent memory"
DESCRIPTION = (
    "Three consecutive sentences, each translated by an encoder and a decoder. Sentence t reads the memory M^t; "
    "then M^(t+1) is computed from M^t and the states of sentence t. Encoder and decoder have memories of their own, "
    "of 16 slots each."
)

# Words between asterisks are highlighted: the noun, and the pronouns that need it.
SOURCE = ("The *key* is new.", "*It* is on the table.", "Can you see *it*?")
TARGET = ("Der *Schlüssel* ist neu.", "*Er* liegt auf dem Tisch.", "Kannst du *ihn* sehen?")

INK, GREY, HIGHLIGHT = "#1F2328", "#59636E", "#FFE08A"
ENCODER, DECODER = COLOURS[0], "#B34700"  # the palette's orange, darkened until it is legible as text on white

SLOTS = 16
FIRST_MEMORY, STEP = 52, 265  # x of M^0, and from one memory to the next
SLOT_WIDTH, SLOT_HEIGHT = 28, 8
BOX_WIDTH, BOX_HEIGHT, LAYER_HEIGHT = 110, 104, 36
ENCODER_TOP, DECODER_TOP = 110, 302
MEMORY_HEIGHT = SLOTS * SLOT_HEIGHT


def memory_x(t: int) -> float:
    """Return the x of the middle of M^t."""
    return FIRST_MEMORY + t * STEP


def sentence_x(t: int) -> float:
    """Return the x of the middle of sentence t, which is between M^t and M^{t+1}."""
    return FIRST_MEMORY + (t + 0.5) * STEP


def tint(colour: str, strength: float) -> tuple[float, ...]:
    """Return a colour mixed with white; strength 1 is the colour itself."""
    return tuple(1 - strength * (1 - channel) for channel in to_rgb(colour))


def write(axes: Axes, x: float, y: float, text: str, size: float = 15, colour: str = INK, **options: Any) -> None:
    """Write text around (x, y); size in pixels."""
    settings = {"ha": "center", "va": "center", **options}
    axes.text(x, y, text, fontsize=size * 0.72, color=colour, **settings)


def write_sentence(axes: Axes, x: float, y: float, text: str) -> None:
    """Write a sentence with highlighted words around (x, y)."""
    parts: list[Artist] = []
    for i, part in enumerate(text.split("*")):
        style: dict[str, Any] = {"fontsize": 17.5 * 0.72, "color": INK}
        if i % 2:
            box = {"boxstyle": "round,pad=0.14,rounding_size=0.2", "facecolor": HIGHLIGHT, "edgecolor": "none"}
            style |= {"fontweight": "bold", "bbox": box}
        parts.append(TextArea(part, textprops=style))
    packed = HPacker(children=parts, pad=0, sep=0, align="baseline")
    axes.add_artist(AnnotationBbox(packed, (x, y), frameon=False, pad=0))


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    """Draw a straight arrow."""
    style: dict[str, Any] = {"arrowstyle": "-|>,head_length=6,head_width=3.6", "mutation_scale": 1, "linewidth": 1.6}
    axes.add_patch(
        FancyArrowPatch(start, end, color=colour, joinstyle="miter", shrinkA=0, shrinkB=0, zorder=3, **style)
    )


def arrow_down(axes: Axes, x: float, top: float, bottom: float) -> None:
    """Draw the arrow from one stage of a translation to the next, with a white margin where it crosses a line."""
    axes.plot([x, x], [top, bottom], color="white", linewidth=6, zorder=2)
    arrow(axes, (x, top), (x, bottom), INK)


def draw_box(axes: Axes, left: float, top: float, width: float, height: float, face: Any, edge: Any) -> FancyBboxPatch:
    """Draw a box with round corners and return it."""
    shape: dict[str, Any] = {"boxstyle": "round,pad=0,rounding_size=8", "linewidth": 1.4, "zorder": 4}
    box = FancyBboxPatch((left, top), width, height, facecolor=face, edgecolor=edge, **shape)
    axes.add_patch(box)
    return box


def draw_memory(axes: Axes, t: int, top: float, colour: str) -> None:
    """Draw M^t as a column of slots. M^0 is pale; the slots of later memories differ."""
    left = memory_x(t) - SLOT_WIDTH / 2
    for slot in range(SLOTS):
        strength = 0.12 if t == 0 else 0.2 + 0.6 * ((slot * 7 + t * 5 + slot * slot * t) % 11) / 10
        axes.add_patch(
            Rectangle(
                (left, top + slot * SLOT_HEIGHT), SLOT_WIDTH, SLOT_HEIGHT,
                facecolor=tint(colour, strength), edgecolor="white", linewidth=0.7, zorder=4,
            )
        )  # fmt: skip
    frame = Rectangle((left, top), SLOT_WIDTH, MEMORY_HEIGHT, fill=False, edgecolor=colour, linewidth=1.4, zorder=5)
    axes.add_patch(frame)
    write(axes, memory_x(t), top - 15, f"$M^{{{t}}}$", 18, colour)


def draw_stack(axes: Axes, t: int, name: str, top: float, colour: str) -> None:
    """Draw the encoder or the decoder of sentence t, with its last layer set apart."""
    left, layer_top = sentence_x(t) - BOX_WIDTH / 2, top + BOX_HEIGHT - LAYER_HEIGHT
    box = draw_box(axes, left, top, BOX_WIDTH, BOX_HEIGHT, tint(colour, 0.07), colour)
    layer = Rectangle((left, layer_top), BOX_WIDTH, LAYER_HEIGHT, facecolor=tint(colour, 0.24), zorder=4)
    axes.add_patch(layer)
    layer.set_clip_path(box)
    draw_box(axes, left, top, BOX_WIDTH, BOX_HEIGHT, "none", colour)  # the outline again, over the layer's corners
    write(axes, sentence_x(t), (top + layer_top) / 2, name, 17, fontweight="bold", zorder=6)
    write(axes, sentence_x(t), layer_top + LAYER_HEIGHT / 2, "last layer", zorder=6)


def draw_side(axes: Axes, name: str, top: float, colour: str) -> None:
    """Draw the encoder or the decoder of all sentences, with its memories."""
    layer_y, carry_y = top + BOX_HEIGHT - LAYER_HEIGHT / 2, top + MEMORY_HEIGHT - SLOT_HEIGHT
    for t in range(len(SOURCE)):
        left, right = sentence_x(t) - BOX_WIDTH / 2, sentence_x(t) + BOX_WIDTH / 2
        this, following = memory_x(t) + SLOT_WIDTH / 2, memory_x(t + 1) - SLOT_WIDTH / 2
        draw_stack(axes, t, name, top, colour)
        arrow(axes, (this, layer_y), (left, layer_y), colour)
        write(axes, (this + left) / 2, layer_y - 14, "read", colour=colour)
        join = (right + following) / 2 - 4  # where M^t meets the states of sentence t
        arrow(axes, (right, layer_y), (following, layer_y), colour)
        axes.plot([this, join, join], [carry_y, carry_y, layer_y], color=colour, linewidth=1.6, zorder=1)
        axes.add_patch(Circle((join, layer_y), 4.5, color=colour, zorder=4))
        write(axes, (right + following) / 2, layer_y - 14, "update", colour=colour)
    for t in range(len(SOURCE) + 1):
        draw_memory(axes, t, top, colour)
    write(axes, memory_x(0), top + MEMORY_HEIGHT + 15, f"{SLOTS} slots", colour=colour)


def draw_legend(axes: Axes, left: float, width: float, title: str, formula: str, meaning: str) -> None:
    """Explain one kind of arrow in a panel at the bottom."""
    height = 78
    top = HEIGHT - 22 - height
    draw_box(axes, left, top, width, height, "#F6F8FA", "#D1D9E0")
    write(axes, left + 16, top + 26, title, 16, ha="left", fontweight="bold", zorder=6)
    write(axes, left + width - 16, top + 26, formula, 17, ha="right", zorder=6)
    write(axes, left + 16, top + 56, meaning, colour=GREY, ha="left", zorder=6)


def draw() -> Figure:
    """Return the picture."""
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), facecolor="white")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.set_axis_off()
    draw_side(axes, "Encoder", ENCODER_TOP, ENCODER)
    draw_side(axes, "Decoder", DECODER_TOP, DECODER)
    for t, (source, target) in enumerate(zip(SOURCE, TARGET, strict=True)):
        x = sentence_x(t)
        write(axes, x, 32, f"Sentence {t}", colour=GREY)
        write_sentence(axes, x, 60, source)
        arrow_down(axes, x, 76, ENCODER_TOP)
        arrow_down(axes, x, ENCODER_TOP + BOX_HEIGHT, DECODER_TOP)
        arrow_down(axes, x, DECODER_TOP + BOX_HEIGHT, DECODER_TOP + MEMORY_HEIGHT + 20)
        write_sentence(axes, x, DECODER_TOP + MEMORY_HEIGHT + 39, target)
    read, update = r"$\tilde{h}{}^t = h^t + \mathrm{MHA}(h^t, M^t, M^t)$", r"$M^{t+1} = \mathrm{update}(M^t, h^t)$"
    left, gap = memory_x(0) - SLOT_WIDTH / 2, 16
    width = (memory_x(len(SOURCE)) + SLOT_WIDTH / 2 - left - gap) / 2
    draw_legend(axes, left, width, "1. Read", read, "The tokens of sentence $t$ attend to the slots.")
    draw_legend(
        axes, left + width + gap, width, "2. Update", update, "Then the slots attend to the tokens of sentence $t$."
    )
    return figure


def main() -> None:
    """Write the picture as SVG and PNG."""
    # Text as outlines: the highlighted words must stay in place whichever fonts the reader has.
    style: dict[Any, Any] = {"font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans", "svg.fonttype": "path"}
    with mpl.rc_context({**style, "svg.hashsalt": "tram"}):  # the same picture is the same file
        figure = draw()
        with replacing(FOLDER / "architecture.svg") as temporary:
            about = {"Title": TITLE, "Description": DESCRIPTION, "Date": None}
            figure.savefig(temporary, format="svg", metadata=about)
        picture = io.BytesIO()
        figure.savefig(picture, format="png", dpi=200)
    # A palette makes the PNG a third as large.
    palette = Image.open(picture).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    with replacing(FOLDER / "architecture.png") as temporary:
        palette.save(temporary, format="png", optimize=True)


if __name__ == "__main__":
    main()
