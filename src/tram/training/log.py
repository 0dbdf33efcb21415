"""Records of a training run: `metrics.jsonl`, progress notes, TensorBoard, and the model card."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tram.config import Config, TrainConfig
from tram.files import MAX_TEXT, exists, reading, regular_file, write_text, writing
from tram.json_text import parse_json
from tram.training.checkpoints import Standing


@dataclass(frozen=True)
class Losses:
    """Losses of one update, in nats per target token with and without label smoothing, gradient norm and speed."""

    loss: float
    plain: float
    norm: float
    rate: float
    speed: float

    def as_dict(self) -> dict[str, float]:
        """Return the numbers for metrics.jsonl."""
        return {
            "loss": self.loss,
            "nll": self.plain,
            "gradient_norm": self.norm,
            "lr": self.rate,
            "tokens_per_second": round(self.speed, 1),
        }

    def note(self, scores: str) -> str:
        """Return a note for the progress bar."""
        return f"loss {self.plain:.3f}  {self.speed:,.0f} tokens/s  {scores}".rstrip()


class Metrics:
    """`metrics.jsonl`, one line per report; lines after the update that a run is resumed from are removed."""

    def __init__(self, path: Path, update: int, active: bool) -> None:
        self.path = path
        self.active = active
        self._board: Any = None
        if not active:
            return
        with reading(path):
            text = regular_file(path, MAX_TEXT).read_text(encoding="utf-8", errors="replace") if exists(path) else ""
        write_text(path, "".join(line + "\n" for line in text.split("\n") if 0 < _update_of(line) <= update))
        with writing(path):
            self._file = path.open("a", encoding="utf-8")
        self._board = tensorboard(path.parent / "tensorboard", update)

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self.active:
            with writing(self.path):
                self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, values: dict[str, Any]) -> None:
        """Add a line; `values` has the key `update`."""
        if not self.active:
            return
        with writing(self.path):
            self._file.write(json.dumps(values) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if name != "update":
                    self._board.add_scalar(name, value, values["update"])


def _update_of(line: str) -> int:
    """Return the update of a line of metrics.jsonl; 0 for a line that a kill left incomplete."""
    try:
        return int(parse_json(line)["update"])
    except (ValueError, KeyError, TypeError, OverflowError):
        return 0


def tensorboard(folder: Path, update: int) -> Any:
    """Return a TensorBoard writer, if TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    with writing(folder):
        return SummaryWriter(str(folder), purge_step=update + 1)


def summary(names: Iterable[str]) -> list[str]:
    """Return the parts of the model that parameters belong to."""
    return sorted(
        {
            name.partition(".context.")[0] + ".context" if ".context." in name else name.partition(".")[0]
            for name in names
        }
    )


def model_card(config: Config, stage: TrainConfig, standing: Standing) -> str:
    """Return the README.md of a freshly trained model folder."""
    best = (
        ""
        if standing.best_update is None
        else f"\nBest update: {standing.best_update} ({stage.watch} on held-out documents)."
    )
    return (
        "# Translation model\n\n"
        "Trained with tram (`pip install tram-mt`): `tram translate --model .` uses it.\n\n"
        f"Data: `{config.data.name}`. Updates: {standing.update}, target tokens: {standing.tokens:,}, "
        f"hours: {standing.seconds / 3600:.2f}.{best}\n"
    )
