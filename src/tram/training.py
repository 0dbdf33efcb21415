"""Training, stage by stage: from prepared data to a model folder.

    train(Config.load("configs/base.yaml"))      # run again after a kill: goes on exactly where it stopped

Everything random is a function of the seed and the number of the update: which sentences make an update, and what
dropout drops. So a checkpoint needs no random state, and a resumed run ends with the same weights, bit for bit.
`accelerate` carries devices, mixed precision and several processes; each process takes its share of every batch, and
the loss is divided by the token count of the whole update, so that an update does not depend on their number.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor, nn

from tram.arrays import PreparedData, Split
from tram.batches import Batch, SentencePlan, collate, share
from tram.checkpoint import WEIGHTS, Checkpoints, average, load_tensors, load_weights, save_model
from tram.config import Config, TrainConfig, read_yaml, write_yaml
from tram.display import Progress
from tram.errors import InputError
from tram.loss import cross_entropy
from tram.optim import load_optimizer_tensors, make_optimizer, optimizer_tensors, set_rate
from tram.transformer import Transformer

# What may change between two runs that share a folder: it does not touch the updates themselves.
FREE = {"updates", "patience", "keep", "log_every", "average"}


class Interrupted(Exception):
    """The user stopped a run; its checkpoint is written."""


def train(config: Config) -> Path:
    """Run the stages that the config names; gives the folder of the finished model."""
    data = PreparedData.open(config.data)
    remember_config(config)
    folder = config.output / "train"
    if not (folder / "model" / WEIGHTS).exists():
        Trainer(config, data, folder).run()
    return folder / "model"


def remember_config(config: Config) -> None:
    """Keep the config beside the run, and refuse to go on with another one."""
    path = config.output / "config.yaml"
    if path.exists():
        before, now = _flat(read_yaml(path)), _flat(config.model_dump(mode="json"))
        for key in sorted(before.keys() | now.keys()):
            if key.rpartition(".")[2] not in FREE | {"output", "data"} and before.get(key) != now.get(key):
                raise InputError(
                    f"{path}: this run was started with {key}: {before.get(key)}, not {now.get(key)}; "
                    "set it back or choose another output folder"
                )
    write_yaml(path, config)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


class SentenceObjective(nn.Module):
    """The loss of a batch of sentences, as one module, so that several processes can share its gradients."""

    def __init__(self, model: Transformer, smoothing: float, chunk: int) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.chunk = chunk

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Summed loss, with and without label smoothing."""
        decoded = self.model.decode(batch.decoder_input, self.model.encode(batch.source))
        labels = batch.labels.flatten().index_select(0, decoded.layout.rows)
        weight, bias = self.model.tokens.weight, self.model.bias
        return cross_entropy(decoded.states, weight, bias, labels, self.smoothing, self.chunk)


@dataclass
class Standing:
    """How far a stage has come; this is `progress.json` of a checkpoint."""

    update: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # score of the best evaluation; lower is better
    best_update: int | None = None
    waited: int = 0  # evaluations since then
    ended: bool = False


class Trainer:
    """One stage of training in one folder: checkpoints, metrics.jsonl and, at the end, the model."""

    def __init__(self, config: Config, data: PreparedData, folder: Path) -> None:
        self.config = config
        self.stage: TrainConfig = config.train
        self.data = data
        self.folder = folder
        self.split = data.split("train")
        self.plan = SentencePlan(self.split, self.stage.tokens, config.model.max_length, config.seed)
        if not len(self.plan.usable):
            raise InputError(f"{data.folder}: the training split has no sentence pair; run `tram prepare` on more text")
        self.held = data.split("held") if data.splits.get("held", {}).get("sentences") else None
        self.accelerator = make_accelerator(self.stage.precision)
        torch.manual_seed(config.seed)
        self.model = Transformer(config.model, data.vocabulary)
        if self.stage.precision == "float64":
            self.model.double()
        self.model.set_dropout(self.stage.dropout, self.stage.attention_dropout, self.stage.activation_dropout)
        objective = SentenceObjective(self.model, self.stage.label_smoothing, self.stage.loss_chunk)
        optimizer = make_optimizer(self.model.parameters(), self.stage)
        self.objective, self.optimizer = self.accelerator.prepare(objective, optimizer)
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.standing = Standing()
        self.score_note = ""
        self._epoch: tuple[int, list[Any]] = (-1, [])

    def run(self) -> None:
        """Train until the updates are done or patience is at its end, then write the model folder."""
        self.resume()
        stage, standing = self.stage, self.standing
        main = self.accelerator.is_main_process
        with (
            Metrics(self.folder / "metrics.jsonl", standing.update, main) as metrics,
            Progress("training", stage.updates, "updates", standing.update, hidden=not main) as progress,
            stop_signals(self.accelerator.num_processes == 1) as stopped,
        ):
            self.introduce(progress.say)
            while standing.update < stage.updates and not standing.ended:
                began = time.monotonic()
                losses = self.next_update()
                standing.seconds += time.monotonic() - began
                progress.advance(1, losses.note(self.score_note))
                if standing.update % stage.log_every == 0:
                    metrics.write({"update": standing.update, **losses.as_dict(), "tokens": standing.tokens,
                                   "seconds": round(standing.seconds, 2)})  # fmt: skip
                if self.held and (standing.update % stage.evaluate_every == 0 or standing.update == stage.updates):
                    scores = self.evaluate()
                    metrics.write({"update": standing.update, **scores})
                    progress.say(f"update {standing.update:,}: {self.score_note}")
                if standing.update % stage.checkpoint_every == 0 or standing.best_update == standing.update:
                    self.save()
                if stopped():
                    self.save()
                    raise Interrupted
            self.finish(progress.say)

    def introduce(self, say: Callable[[str], None]) -> None:
        """Say what is about to be trained."""
        parameters = sum(p.numel() for p in self.model.parameters())
        say(f"{parameters:,} parameters, {len(self.plan.usable):,} sentence pairs in {len(self.epoch(0)):,} batches")
        if self.plan.cut:
            longest = self.config.model.max_length
            say(f"warning: {self.plan.cut:,} sentence pairs are longer than {longest} subwords and are cut")
        if self.standing.update:
            say(f"going on after update {self.standing.update:,}")

    def epoch(self, number: int) -> list[Any]:
        """The batches of an epoch; the last one asked for is remembered."""
        if self._epoch[0] != number:
            self._epoch = (number, self.plan.epoch(number))
        return self._epoch[1]

    def passes(self, update: int) -> list[Any]:
        """The batches whose gradients make an update (counted from 0)."""
        n = len(self.epoch(max(self._epoch[0], 0)))  # the same in every epoch: only lengths decide where a batch ends
        numbers = range(update * self.stage.accumulate, (update + 1) * self.stage.accumulate)
        return [self.epoch(number // n)[number % n] for number in numbers]

    def next_update(self) -> "Losses":
        """One step of the optimiser."""
        process, processes = self.accelerator.process_index, self.accelerator.num_processes
        update = self.standing.update
        torch.manual_seed(int(np.random.SeedSequence((self.config.seed, update, process)).generate_state(1)[0]))
        self.objective.train()
        batches = self.passes(update)
        tokens = sum(self.plan.target_tokens(batch) for batch in batches)
        total = torch.zeros(2, device=self.accelerator.device, dtype=torch.float64)
        for number, batch in enumerate(batches):
            rows, counts = share(batch, process, processes)
            ids = collate(self.split, rows, self.config.model.max_length).to(self.accelerator.device)
            last = number == len(batches) - 1
            wait: AbstractContextManager[Any] = nullcontext() if last else self.accelerator.no_sync(self.objective)
            with wait, self.accelerator.autocast():
                loss, plain = self.objective(ids)
                # Processes average their gradients; the loss is that of the whole update.
                self.accelerator.backward(loss * (counts * processes / tokens))
            total += counts * torch.stack([loss.detach(), plain]).double()
        rate = set_rate(self.optimizer, update + 1, self.stage.warmup)
        norm = self.accelerator.clip_grad_norm_(self.model.parameters(), self.stage.clip or float("inf"))
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.standing.update += 1
        self.standing.tokens += tokens
        smoothed, plain = (self.accelerator.reduce(total, "sum") / tokens).tolist()
        return Losses(smoothed, plain, float(norm), rate, self.standing.tokens / max(self.standing.seconds, 1e-9))

    def evaluate(self) -> dict[str, float]:
        """Look at the held-out documents, and see whether this is the best model so far."""
        assert self.held is not None
        standing = self.standing
        scores = {"held_loss": held_loss(self.model, self.held, self.stage, self.accelerator)}
        watched = scores["held_loss"]
        if self.stage.watch == "bleu":
            scores["held_bleu"] = self.held_bleu()
            watched = -scores["held_bleu"]
        if standing.best is None or watched < standing.best:
            standing.best, standing.best_update, standing.waited = watched, standing.update, 0
        else:
            standing.waited += 1
        standing.ended = bool(self.stage.patience) and standing.waited >= self.stage.patience
        self.score_note = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items())
        return scores

    def held_bleu(self) -> float:
        """s-BLEU of greedy translations of the held-out documents; every process translates them all."""
        from tram.corpus import read_parallel
        from tram.metrics import score_documents
        from tram.translator import Translator

        documents = list(read_parallel(self.data.folder / "held.jsonl"))
        translator = Translator(self.model, self.data.text(), beam=1)
        hypotheses = translator.translate_documents([document.source for document in documents])
        scores = score_documents(hypotheses, [[document.target for document in documents]], bootstrap=0)
        return next(score.value for score in scores if score.name == "s-BLEU")

    def save(self) -> None:
        """Write a checkpoint, and clear away those no longer needed."""
        if self.accelerator.is_main_process:
            state = optimizer_tensors(self.optimizer)
            self.checkpoints.save(self.standing.update, self.model, state, asdict(self.standing) | self._scaler())
            self.checkpoints.prune(max(self.stage.keep, self.stage.average), self.standing.best_update)
        self.accelerator.wait_for_everyone()

    def _scaler(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {"scaler": scaler.state_dict()} if scaler is not None else {}

    def resume(self) -> None:
        """Go on from the last checkpoint, if there is one."""
        last = (self.checkpoints.all() or [None])[-1]  # type: ignore[list-item]
        if last is None:
            return
        progress = last.progress()
        scaler = progress.pop("scaler", None)
        if scaler and self.accelerator.scaler is not None:
            self.accelerator.scaler.load_state_dict(scaler)
        load_weights(self.model, last.folder / WEIGHTS)
        load_optimizer_tensors(self.optimizer, load_tensors(last.folder / "optimizer.safetensors"))
        self.standing = Standing(**progress)

    def finish(self, say: Callable[[str], None]) -> None:
        """Take the best weights (or a mean of the last ones, if it is better) and write the model folder."""
        standing = self.standing
        self.save()
        if standing.best_update is not None:
            load_weights(self.model, self.checkpoints.at(standing.best_update).folder / WEIGHTS)
            say(f"best: update {standing.best_update:,}")
            self.try_average(say)
        if self.accelerator.is_main_process:
            save_model(self.model, self.folder / "model", self.data.text(), model_card(self.config, standing))
            say(f"model: {self.folder / 'model'}")
        self.accelerator.wait_for_everyone()

    def try_average(self, say: Callable[[str], None]) -> None:
        """Let the mean of the last checkpoints compete with the best one on held-out loss."""
        every = self.stage.checkpoint_every  # a checkpoint of an interrupted run does not count
        last = [c for c in self.checkpoints.all() if c.update % every == 0][-self.stage.average :]
        if self.stage.average < 2 or len(last) < 2 or self.held is None:
            return
        best = held_loss(self.model, self.held, self.stage, self.accelerator)
        kept = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        average(last, self.model)
        mean = held_loss(self.model, self.held, self.stage, self.accelerator)
        say(f"held loss: best checkpoint {best:.4f}, mean of the last {len(last)} {mean:.4f}")
        if mean >= best:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(kept[name])


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
        path.parent.mkdir(parents=True, exist_ok=True)
        kept = []
        if path.exists():
            lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
            kept = [line for line in lines if json.loads(line)["update"] <= update]
        self._file = path.open("w", encoding="utf-8")
        self._file.writelines(line + "\n" for line in kept)
        self._file.flush()
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


def tensorboard(folder: Path, update: int) -> Any:
    """A TensorBoard writer, if TensorBoard is installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=update + 1)


def make_accelerator(precision: str) -> Accelerator:
    """An accelerator with the mixed precision the config asks for; auto: what the device is good at."""
    if precision == "auto":
        precision = "float32"
        if torch.cuda.is_available():
            precision = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return Accelerator(mixed_precision={"bfloat16": "bf16", "float16": "fp16"}.get(precision, "no"))


@torch.no_grad()
def held_loss(model: Transformer, held: Split, stage: TrainConfig, accelerator: Accelerator) -> float:
    """Nats a target token on held-out documents, without label smoothing; shared out among the processes."""
    plan = SentencePlan(held, stage.tokens, model.config.max_length, seed=0)
    objective = SentenceObjective(model, 0.0, stage.loss_chunk)
    model.eval()
    total = torch.zeros(2, device=accelerator.device, dtype=torch.float64)
    for batch in plan.cut_up(plan.usable[np.argsort(plan.lengths[plan.usable], kind="stable")])[
        accelerator.process_index :: accelerator.num_processes
    ]:
        ids = collate(held, batch, model.config.max_length).to(accelerator.device)
        with accelerator.autocast():
            _, plain = objective(ids)
        total += torch.stack([plain.double(), torch.tensor(float(plan.target_tokens(batch)), device=total.device)])
    loss, tokens = accelerator.reduce(total, "sum").tolist()
    model.train()
    return float(loss / max(tokens, 1))


@contextmanager
def stop_signals(active: bool) -> Iterator[Callable[[], bool]]:
    """Inside, SIGINT and SIGTERM only leave a mark; the function given tells whether one came."""
    stopped = False

    def mark(number: int, frame: Any) -> None:
        nonlocal stopped
        stopped = True

    before = {}
    if active:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                before[number] = signal.signal(number, mark)
            except ValueError:  # not in the main thread: whoever runs us there handles signals
                break
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def model_card(config: Config, standing: Standing) -> str:
    """README.md of a freshly trained model folder."""
    best = (
        ""
        if standing.best_update is None
        else f"\nBest update: {standing.best_update} ({config.train.watch} on held-out documents)."
    )
    return (
        "# Translation model\n\n"
        "Trained with tram (`pip install tram-mt`): `tram translate --model .` uses it.\n\n"
        f"Data: `{config.data.name}`. Updates: {standing.update}, target tokens: {standing.tokens:,}, "
        f"hours: {standing.seconds / 3600:.2f}.{best}\n"
    )
