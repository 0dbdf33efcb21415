"""One stage of training: updates, evaluations, checkpoints and, at the end, the model.

Everything random is a function of the seed and the number of the update: which sentences an update sees, and what
dropout drops. So a checkpoint needs no random state, and a resumed run ends with the same weights, bit for bit.
`accelerate` handles devices, mixed precision and several processes, whose gradients are summed once per update.
"""

import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from torch import nn

from tram.config import Config, FinetuneConfig, TrainConfig, with_memory
from tram.data.arrays import PreparedData
from tram.errors import InputError
from tram.model.folder import (
    WEIGHTS,
    load_known_weights,
    load_tensors,
    load_weights,
    read_model_file,
    save_model,
    weights,
)
from tram.model.transformer import Transformer
from tram.progress import Progress
from tram.training.checkpoints import VERSION, Checkpoints, average
from tram.training.document_stage import DocumentStage
from tram.training.log import Losses, Metrics
from tram.training.optimizers import load_optimizer_tensors, make_optimizer, optimizer_tensors, renumbered, set_rate
from tram.training.stages import Processes, SentenceStage, Stage

RECENT = 50  # updates that the reported speed is a mean of


class Interrupted(Exception):
    """Raised when the user stopped a run and its checkpoint is written."""


@dataclass
class Standing:
    """The progress of a stage: `progress.json` of a checkpoint."""

    update: int = 0
    tokens: int = 0
    seconds: float = 0.0
    best: float | None = None  # score of the best evaluation; lower is better
    best_update: int | None = None
    waited: int = 0  # evaluations since then
    ended: bool = False


class Trainer:
    """One stage of training in one folder: checkpoints, metrics.jsonl and, at the end, the model."""

    def __init__(
        self, config: Config, stage: TrainConfig, data: PreparedData, folder: Path, first: Path | None = None
    ) -> None:
        self.config = config
        self.stage_config = stage
        self.data = data
        self.folder = folder
        self.held = data.split("held") if data.splits.get("held", {}).get("sentences") else None
        self.accelerator = make_accelerator(stage.precision)
        self.model, self.new = self.make_model(first)
        self.model.to(self.accelerator.device, torch.float64 if stage.precision == "float64" else None)
        self.model.set_dropout(stage.dropout, stage.attention_dropout, stage.activation_dropout)
        self.optimizer = self.accelerator.prepare(make_optimizer(self.model, stage, self.new))
        self.stage = self.make_stage()
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.standing = Standing()
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # tokens and seconds of the last updates
        self.score_note = ""

    def make_model(self, first: Path | None) -> tuple[Transformer, set[str]]:
        """Return the model to train, and the names of its new parameters: those not loaded from `first`."""
        torch.manual_seed(self.config.seed)
        settings = self.config.model
        if first is not None:
            about = read_model_file(first)
            if about.vocabulary != self.data.vocabulary or about.text not in (None, self.data.fingerprint):
                raise InputError(
                    f"{first}: its subwords are not those of {self.data.folder}; prepare the data with --text"
                )
            settings = about.model
            if settings.memory is not None and not isinstance(self.stage_config, FinetuneConfig):
                raise InputError(
                    f"{first}: has a memory, which single sentences cannot train; start from a sentence model"
                )
        if isinstance(self.stage_config, FinetuneConfig):
            settings = with_memory(settings, self.stage_config.memory, str(first or "finetune"))
        model = Transformer(settings, self.data.vocabulary)
        loaded = set() if first is None else load_known_weights(model, first / WEIGHTS)
        return model, weights(model).keys() - loaded

    def make_stage(self) -> Stage:
        """Return the stage that the updates come from."""
        accelerator = self.accelerator
        processes = Processes(accelerator.process_index, accelerator.num_processes, accelerator.device)
        split = self.data.split("train")
        if isinstance(self.stage_config, FinetuneConfig):
            return DocumentStage(self.model, self.stage_config, self.config.seed, processes, split)
        return SentenceStage(self.model, self.stage_config, self.config.seed, processes, split)

    def run(self) -> None:
        """Train until the updates are done or patience runs out, then write the model folder."""
        self.resume()
        settings, standing = self.stage_config, self.standing
        main = self.accelerator.is_main_process
        with (
            Metrics(self.folder / "metrics.jsonl", standing.update, main) as metrics,
            Progress(self.folder.name, settings.updates, "updates", standing.update, hidden=not main) as progress,
            stop_signals(self.accelerator.num_processes == 1) as stopped,
        ):
            self.introduce(progress.say)
            while standing.update < settings.updates and not standing.ended:
                losses = self.next_update()
                progress.advance(1, losses.note(self.score_note))
                if standing.update % settings.log_every == 0:
                    metrics.write(
                        {
                            "update": standing.update,
                            **losses.as_dict(),
                            "tokens": standing.tokens,
                            "seconds": round(standing.seconds, 2),
                        }
                    )
                if self.held and (
                    standing.update % settings.evaluate_every == 0 or standing.update == settings.updates
                ):
                    scores = self.evaluate()
                    metrics.write({"update": standing.update, **scores})
                    progress.say(f"update {standing.update:,}: {self.score_note}")
                if standing.update % settings.checkpoint_every == 0 or standing.best_update == standing.update:
                    self.save()
                if stopped():
                    self.save()
                    raise Interrupted
            self.finish(progress.say)

    def introduce(self, say: Callable[[str], None]) -> None:
        """Print what is about to be trained."""
        own = weights(self.model)
        new = sum(own[name].numel() for name in self.new)
        say(f"{sum(value.numel() for value in own.values()):,} parameters, {new:,} of them new")
        if len(self.new) < len(own):
            say(f"new: {', '.join(summary(self.new)) or 'none'}; loaded: {', '.join(summary(own.keys() - self.new))}")
        for line in self.stage.describe():
            say(line)
        if self.standing.update:
            say(f"continuing after update {self.standing.update:,}")

    def next_update(self) -> "Losses":
        """Make one step of the optimiser."""
        began = time.monotonic()
        standing, accelerator = self.standing, self.accelerator
        key = (self.config.seed, standing.update, accelerator.process_index)
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))
        self.model.train()
        with accelerator.autocast():
            sums = self.stage.run_update(standing.update, accelerator.backward)
        self.add_up_gradients()
        rate = set_rate(self.optimizer, standing.update + 1, self.stage_config)
        norm = accelerator.clip_grad_norm_(self.model.parameters(), self.stage_config.clip or float("inf"))
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss, plain = self.total(sums.loss, sums.plain)
        seconds = time.monotonic() - began
        standing.update += 1
        standing.tokens += sums.tokens
        standing.seconds += seconds
        self.recent.append((sums.tokens, seconds))
        speed = sum(tokens for tokens, _ in self.recent) / max(sum(spent for _, spent in self.recent), 1e-9)
        return Losses(loss / max(sums.tokens, 1), plain / max(sums.tokens, 1), float(norm or 0), rate, speed)

    def add_up_gradients(self) -> None:
        """Sum the gradients of all processes in one buffer; a parameter that no process reached has gradient zero.

        Not with DistributedDataParallel: which parameters a pass reaches differs from pass to pass here (a first memory
        only at the start of a document), and an update may be several passes of which some are empty.
        """
        parameters = list(self.model.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        if self.accelerator.num_processes == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        total = self.accelerator.reduce(nn.utils.parameters_to_vector(gradients), "sum")
        for parameter, part in zip(parameters, total.split([p.numel() for p in parameters]), strict=True):
            parameter.grad = part.view_as(parameter)

    def total(self, *values: float) -> list[float]:
        """Return sums over all processes."""
        local = torch.tensor(values, dtype=torch.float64, device=self.accelerator.device)
        sums: list[float] = self.accelerator.reduce(local, "sum").tolist()
        return sums

    def evaluate(self) -> dict[str, float]:
        """Evaluate on the held-out documents and record whether this is the best model so far."""
        standing = self.standing
        scores = {"held_loss": self.held_loss()}
        watched = scores["held_loss"]
        if self.stage_config.watch == "bleu":
            scores["held_bleu"] = self.held_bleu()
            watched = -scores["held_bleu"]
        if standing.best is None or watched < standing.best:
            standing.best, standing.best_update, standing.waited = watched, standing.update, 0
        else:
            standing.waited += 1
        standing.ended = bool(self.stage_config.patience) and standing.waited >= self.stage_config.patience
        self.score_note = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items())
        return scores

    @torch.no_grad()
    def held_loss(self) -> float:
        """Return the held-out loss in nats per target token, without label smoothing; processes share the work."""
        assert self.held is not None
        self.model.eval()
        with self.accelerator.autocast():
            loss, tokens = self.total(*self.stage.held_out_loss(self.held))
        self.model.train()
        return loss / max(tokens, 1)

    def held_bleu(self) -> float:
        """Return the s-BLEU of greedy translations of the held-out documents; every process translates them all."""
        from sacrebleu.metrics.bleu import BLEU

        from tram.data.corpus import read_parallel
        from tram.translation.translator import Translator

        documents = list(read_parallel(self.data.folder / "held.jsonl"))
        translator = Translator(self.model, self.data.text(), beam=1)
        hypotheses = translator.translate_documents(document.source for document in documents)
        references = [sentence for document in documents for sentence in document.target]
        score = BLEU().corpus_score([sentence for document in hypotheses for sentence in document], [references])
        return float(score.score)

    def save(self) -> None:
        """Write a checkpoint and remove those that are no longer needed."""
        position = {name: self.accelerator.reduce(value, "sum") for name, value in self.stage.tensors().items()}
        if self.accelerator.is_main_process:
            about = {"version": VERSION, "position": self.stage.position()}
            progress = asdict(self.standing) | about | self._scaler()
            state = optimizer_tensors(self.optimizer)
            self.checkpoints.save(self.standing.update, self.model, state, position, progress)
            keep = max(self.stage_config.keep_checkpoints, self.stage_config.average)
            self.checkpoints.prune(keep, self.standing.best_update)
        self.accelerator.wait_for_everyone()

    def _scaler(self) -> dict[str, Any]:
        scaler = self.accelerator.scaler
        return {"scaler": scaler.state_dict()} if scaler is not None else {}

    def resume(self) -> None:
        """Continue from the last checkpoint, if there is one."""
        found = self.checkpoints.all()
        if not found:
            return
        folder, progress = found[-1].folder, found[-1].progress()
        load_weights(self.model, folder / WEIGHTS)
        tensors = load_tensors(folder / "position.safetensors")
        part = "progress.json"
        try:
            version, position, scaler = (
                progress.pop("version", 1),
                progress.pop("position"),
                progress.pop("scaler", None),
            )
            self.standing = Standing(**progress)
            self.stage.restore(position, tensors)
            part = "optimizer.safetensors"
            state = load_tensors(folder / part)
            if version < VERSION:
                state = renumbered(state, self.model, self.stage_config, self.new)
            load_optimizer_tensors(self.optimizer, state)
            if scaler and self.accelerator.scaler is not None:
                self.accelerator.scaler.load_state_dict(scaler)
        except (KeyError, ValueError, TypeError, AttributeError) as error:
            raise InputError(
                f"{folder / part}: is not of this run ({error}); remove {folder.name} to continue before it"
            ) from None

    def finish(self, say: Callable[[str], None]) -> None:
        """Write a model folder with the best weights, or with the mean of the last ones if that is better."""
        standing = self.standing
        self.save()
        if standing.best_update is not None:
            load_weights(self.model, self.checkpoints.at(standing.best_update).folder / WEIGHTS)
            say(f"best: update {standing.best_update:,}")
            self.try_average(say)
        if self.accelerator.is_main_process:
            save_model(
                self.model,
                self.folder / "model",
                self.data.text(),
                model_card(self.config, self.stage_config, standing),
            )
            say(f"model: {self.folder / 'model'}")
        self.accelerator.wait_for_everyone()

    def try_average(self, say: Callable[[str], None]) -> None:
        """Use the mean of the last checkpoints if its held-out loss is lower than that of the best one."""
        every = self.stage_config.checkpoint_every  # a checkpoint of an interrupted run does not count
        last = [c for c in self.checkpoints.all() if c.update % every == 0][-self.stage_config.average :]
        if self.stage_config.average < 2 or len(last) < 2 or self.held is None:
            return
        best = self.held_loss()
        kept = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        average(last, self.model)
        mean = self.held_loss()
        say(f"held-out loss: best checkpoint {best:.4f}, mean of the last {len(last)} {mean:.4f}")
        if mean >= best:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(kept[name])


def summary(names: Iterable[str]) -> list[str]:
    """Return the parts of the model that parameters belong to."""
    return sorted(
        {
            name.partition(".context.")[0] + ".context" if ".context." in name else name.partition(".")[0]
            for name in names
        }
    )


def make_accelerator(precision: str) -> Accelerator:
    """Return an accelerator with the mixed precision of the config; auto: what the device supports well."""
    if precision == "auto":
        precision = "float32"
        if torch.cuda.is_available():
            precision = "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
    return Accelerator(mixed_precision={"bfloat16": "bf16", "float16": "fp16"}.get(precision, "no"))


@contextmanager
def stop_signals(active: bool) -> Iterator[Callable[[], bool]]:
    """Catch SIGINT and SIGTERM inside the block; the function returned says whether one arrived."""
    stopped = False

    def mark(number: int, frame: Any) -> None:
        nonlocal stopped
        stopped = True

    before = {}
    if active:
        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                before[number] = signal.signal(number, mark)
            except ValueError:  # not in the main thread: the program that runs us handles signals
                break
    try:
        yield lambda: stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
