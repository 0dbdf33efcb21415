"""Training, stage by stage: from prepared data to a model folder.

    train(Config.load("configs/base.yaml"))      # run again after a kill: goes on exactly where it stopped

Everything random is a function of the seed and the number of the update: which sentences make an update, and what
dropout drops. So a checkpoint needs no random state, and a resumed run ends with the same weights, bit for bit.
`accelerate` carries devices, mixed precision and several processes, whose gradients are added up once an update.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tram.files import write_text


@dataclass(frozen=True)
class Losses:
    """What one update showed: nats a target token with and without label smoothing, and how fast it goes."""

    loss: float
    plain: float
    norm: float
    rate: float
    speed: float

    def as_dict(self) -> dict[str, float]:
        """For metrics.jsonl."""
        return {"loss": self.loss, "nll": self.plain, "gradient_norm": self.norm, "lr": self.rate,
                "tokens_per_second": round(self.speed, 1)}  # fmt: skip

    def note(self, scores: str) -> str:
        """For the progress bar."""
        return f"loss {self.plain:.3f}  {self.speed:,.0f} tokens/s  {scores}".rstrip()


class Metrics:
    """`metrics.jsonl`: a line for every look at the training. Lines after the resumed update are taken back."""

    def __init__(self, path: Path, update: int, active: bool) -> None:
        self.active = active
        self._board: Any = None
        if not active:
            return
        lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
        write_text(path, "".join(line + "\n" for line in lines if 0 < _update_of(line) <= update))
        self._file = path.open("a", encoding="utf-8")
        self._board = tensorboard(path.parent / "tensorboard", update)

    def __enter__(self) -> "Metrics":
        return self

    def __exit__(self, *_: object) -> None:
        if self.active:
            self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, values: dict[str, Any]) -> None:
        """Add a line; `values` has the key `update`."""
        if not self.active:
            return
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if name != "update":
                    self._board.add_scalar(name, value, values["update"])


def _update_of(line: str) -> int:
    """The update a line of metrics.jsonl speaks of; 0 for a line that a kill cut short."""
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):
        return 0


def tensorboard(folder: Path, update: int) -> Any:
    """A TensorBoard writer, if TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=update + 1)
