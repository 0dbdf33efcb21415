"""One stage of training: updates, evaluations, checkpoints and, at the end, the model.

All randomness (the sentences of an update, dropout) is a function of the seed and the number of the update. So a
checkpoint needs no random state, and a resumed run ends with the same weights, bit for bit. `accelerate` handles
devices and processes, whose gradients are summed once per update.
"""

import math
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn

from tram.config import Config, FinetuneConfig, TrainConfig
from tram.data.arrays import PreparedData, Split
from tram.errors import InputError, RunError, UnreadableError
from tram.files import Lock, exists, flush_to_disk, write_json, writing
from tram.fingerprints import checksums
from tram.model.folder import WEIGHTS, load_weights, save_model, weights
from tram.model.tensors import LARGEST, all_within
from tram.model.transformer import Transformer
from tram.progress import Progress, plain_warnings
from tram.training.checkpoints import (
    OPTIMIZER,
    POSITION,
    PROGRESS,
    VERSION,
    Checkpoint,
    Checkpoints,
    Contents,
    Standing,
    average,
)
from tram.training.document_stage import DocumentStage
from tram.training.initial_model import initial_model
from tram.training.log import Losses, Metrics, model_card, summary
from tram.training.optimizers import (
    freeze,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
    renumbered,
    set_rate,
)
from tram.training.precision import Precision
from tram.training.processes import from_all, make_accelerator, on_main, share_parameters
from tram.training.segment_stage import SegmentStage
from tram.training.signals import Interrupted, stop_signals
from tram.training.stages import Processes, SentenceStage, Stage

METRICS = "metrics.jsonl"
FINISHED = "finished.json"  # the update after which the model was written, and the checksum of its weights
RECENT = 50  # updates over which the reported speed is averaged


def make_stage(model: Transformer, config: TrainConfig, seed: int, processes: Processes, split: Split) -> Stage:
    """Return the stage that the updates come from; refuse data that the model cannot be trained on."""
    if isinstance(config, FinetuneConfig) and model.config.unit.kind == "sentence":
        stage = DocumentStage if model.segment_rule is None else SegmentStage
        return stage(model, config, seed, processes, split)
    return SentenceStage(model, config, seed, processes, split)


class Trainer:
    """One stage of training in one folder: checkpoints, metrics.jsonl and, at the end, the model."""

    def __init__(
        self,
        config: Config,
        stage: TrainConfig,
        data: PreparedData,
        folder: Path,
        first: Path | None = None,
        lock: Lock | None = None,
    ) -> None:
        self.config = config
        self.stage_config = stage
        self.data = data
        self.folder = folder
        self.lock = lock  # of the run's folder, checked before each checkpoint
        held = data.split("held") if data.splits.get("held", {}).get("sentences") else None
        self.held = held if held is not None and held.has_labels else None
        watches_text = self.held and stage.watch == "bleu"  # read now: a damaged file must not end the training later
        self.held_text = data.held_text() if watches_text else []
        self.accelerator = make_accelerator()
        self.precision = Precision(stage.precision, self.accelerator.device)
        self.model, self.new = initial_model(config, stage, data, first, self.accelerator)
        self.model.to(self.accelerator.device, self.precision.weights)
        share_parameters(self.accelerator, self.model)
        self.model.set_dropout(stage.dropout, stage.attention_dropout, stage.activation_dropout)
        if isinstance(stage, FinetuneConfig):
            freeze(self.model, stage.freeze, self.new)
        self.optimizer = make_optimizer(self.model, stage, self.new)
        self.stopped: Callable[[], int] = lambda: 0  # the signal to stop that arrived
        accelerator = self.accelerator
        processes = Processes(accelerator.process_index, accelerator.num_processes, accelerator.device)
        self.stage = make_stage(self.model, stage, config.seed, processes, data.split("train"))
        self.stage.check_stopped = self.check_stopped
        self.checkpoints = Checkpoints(folder / "checkpoints")
        self.standing = Standing()
        self.recent: deque[tuple[int, float]] = deque(maxlen=RECENT)  # tokens and seconds of the last updates
        self.score_note = ""
        self.warnings: list[str] = []

    def run(self) -> None:
        """Train until the updates are done or patience runs out, then write the model folder."""
        self.resume()
        settings, standing = self.stage_config, self.standing
        main = self.accelerator.is_main_process
        with (
            Metrics(self.folder / METRICS, standing.update, main) as metrics,
            Progress(self.folder.name, settings.updates, "updates", standing.update, hidden=not main) as progress,
            stop_signals(self.accelerator.num_processes == 1) as self.stopped,
        ):
            self.introduce(progress.say)
            try:
                if standing.evaluation_due:
                    self.assess(metrics, progress.say)
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
                    is_last = standing.update == settings.updates
                    standing.evaluation_due = bool(self.held) and (
                        is_last or standing.update % settings.evaluate_every == 0
                    )
                    self.assess(metrics, progress.say)
                    self.check_stopped()
            except Interrupted:
                if standing.update:  # else there is nothing to continue
                    self.save()
                raise
            self.finish(progress.say)
            self.check_stopped()  # a signal while the model was written ends the run before its next stage

    def check_stopped(self) -> None:
        """End the run if a signal arrived."""
        if number := self.stopped():
            raise Interrupted(number)

    def assess(self, metrics: Metrics, say: Callable[[str], None]) -> None:
        """Evaluate if an evaluation is due, and write a checkpoint if one is due or the model is the best so far."""
        standing = self.standing
        if standing.evaluation_due:
            scores = self.evaluate()
            standing.evaluation_due = False
            metrics.write({"update": standing.update, **scores})
            say(f"update {standing.update:,}: {self.score_note}")
        if standing.update % self.stage_config.checkpoint_every == 0 or standing.best_update == standing.update:
            self.save()

    def introduce(self, say: Callable[[str], None]) -> None:
        """Print a summary of the model and the data."""
        parameters = weights(self.model)
        new = sum(parameters[name].numel() for name in self.new)
        say(f"{sum(value.numel() for value in parameters.values()):,} parameters, {new:,} of them new")
        if len(self.new) < len(parameters):
            loaded = parameters.keys() - self.new
            say(f"new: {', '.join(summary(self.new)) or 'none'}; loaded: {', '.join(summary(loaded))}")
        if frozen := sum(value.numel() for value in self.model.parameters() if not value.requires_grad):
            say(f"{frozen:,} parameters are frozen")
        if self.held is None:
            say("no sentence pair is held out: the last update is the best, without patience and average")
        for line in (*self.stage.describe(), *self.warnings):
            say(line)
        if self.standing.update:
            say(f"continuing after update {self.standing.update:,}")

    def next_update(self) -> "Losses":
        """Make one step of the optimiser; a signal or an error before it leaves everything as it was."""
        before, scaler = (self.stage.position(), self.stage.tensors()), self.precision.state().get("scaler")
        try:
            return self.update()
        except (Interrupted, RunError):
            self.optimizer.zero_grad()
            self.stage.restore(*before)
            self.precision.restore(scaler)
            raise

    def update(self) -> "Losses":
        """Compute the gradients of an update and make the step."""
        began = time.monotonic()
        standing, accelerator = self.standing, self.accelerator
        key = (self.config.seed, standing.update, accelerator.process_index)
        torch.manual_seed(int(np.random.SeedSequence(key).generate_state(1)[0]))
        self.model.train()
        with self.precision.autocast():
            sums = self.stage.run_update(standing.update, self.precision.backward)
        self.add_up_gradients()
        rate = set_rate(self.optimizer, standing.update + 1, self.stage_config)
        norm = self.precision.clip(self.optimizer, self.trained(), self.stage_config.clip)
        loss, plain = self.total(sums.loss, sums.plain)
        if not math.isfinite(loss):
            raise self.diverged("the loss", loss)
        if not self.precision.tolerates(norm):
            raise self.diverged("the norm of the gradient", norm)
        self.check_stopped()
        self.precision.step(self.optimizer)
        self.optimizer.zero_grad()
        seconds = time.monotonic() - began
        standing.update += 1
        standing.tokens += sums.tokens
        standing.seconds += seconds
        self.recent.append((sums.tokens, seconds))
        speed = sum(tokens for tokens, _ in self.recent) / max(sum(spent for _, spent in self.recent), 1e-9)
        return Losses(loss / max(sums.tokens, 1), plain / max(sums.tokens, 1), norm, rate, speed)

    def diverged(self, what: str, value: float) -> RunError:
        """Return the error for a training run that diverged; its earlier checkpoints stay."""
        name, update = self.folder.name, self.standing.update + 1
        return RunError(
            f"{self.folder}: training diverged, {what} is {value} at update {update:,}; start again in another output "
            f"folder with a lower {name}.lr, a longer {name}.warmup or {name}.clip set"
        )

    def trained(self) -> list[nn.Parameter]:
        """Return the parameters that are not frozen."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def add_up_gradients(self) -> None:
        """Sum the gradients of all processes in one buffer; a parameter that no process used has gradient zero.

        DistributedDataParallel is not used, because the parameters that receive a gradient differ from pass to pass
        (an initial memory only at the start of a document), and an update may consist of several passes, some empty.
        """
        parameters = self.trained()
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
        watched = self.held_loss()
        scores = {"held_loss": watched}
        if not math.isfinite(watched):
            raise self.diverged("the held-out loss", watched)
        if self.stage_config.watch == "bleu":
            scores["held_bleu"] = self.held_bleu()
            watched = -scores["held_bleu"]
        if standing.best is None or watched < standing.best:
            standing.best, standing.best_update, standing.waited = watched, standing.update, 0
        else:
            standing.waited += 1
        standing.ended = standing.is_out_of(self.stage_config.patience)
        self.score_note = ", ".join(f"{name.replace('_', ' ')} {value:.3f}" for name, value in scores.items())
        return scores

    @torch.no_grad()
    def held_loss(self) -> float:
        """Return the held-out loss in nats per target token, without label smoothing, computed by all processes."""
        assert self.held is not None
        self.model.eval()
        with self.precision.autocast():
            loss, tokens = self.total(*self.stage.held_out_loss(self.held))
        self.model.train()
        return loss / max(tokens, 1)

    def held_bleu(self) -> float:
        """Return the s-BLEU of greedy translations of the held-out documents; every process translates them all."""
        from sacrebleu.metrics.bleu import BLEU

        from tram.translation.translator import Translator

        translator = Translator(self.model, self.data.text(), beam=1, guards=False)
        hypotheses = []
        with plain_warnings():
            for document in translator.translate_documents(document.source for document in self.held_text):
                hypotheses += document
                self.check_stopped()
        references = [sentence for document in self.held_text for sentence in document.target]
        score = BLEU().corpus_score(hypotheses, [references])
        return float(score.score)

    def save(self) -> None:
        """Write a checkpoint and remove those that are no longer needed."""
        for name, value in weights(self.model).items():
            if not all_within(value, LARGEST):  # such a model would be refused when it is loaded
                raise self.diverged(f"a value of `{name}`", float(value.abs().amax()))
        position = self.stage.join_tensors(from_all(self.stage.tensors()))
        if self.lock is not None:
            self.lock.check()
        if self.accelerator.is_main_process:
            about = {"version": VERSION, "position": self.stage.position()}
            progress = self.standing.as_dict() | about | self.precision.state()
            state = optimizer_tensors(self.optimizer)
            if exists(metrics := self.folder / METRICS):
                with writing(metrics):  # first: lines of updates before a checkpoint are not written again
                    flush_to_disk(metrics)
            self.checkpoints.save(self.standing.update, self.model, state, position, progress)
            settings = self.stage_config
            self.checkpoints.prune(
                settings.keep_checkpoints, self.standing.best_update, settings.average, settings.checkpoint_every
            )
        self.accelerator.wait_for_everyone()

    def resume(self) -> None:
        """Continue from the last undamaged checkpoint, if there is one; the same for all processes."""
        contents = on_main(self.accelerator, self.restore_newest)
        if contents is None:
            return
        if not self.accelerator.is_main_process:
            self.restore(contents)
        share_parameters(self.accelerator, self.model)

    def restore_newest(self) -> Contents | None:
        """Restore the last undamaged checkpoint; rename those after it, with a warning."""
        damaged: list[tuple[Checkpoint, InputError]] = []
        for checkpoint in reversed(self.checkpoints.all()):
            try:
                contents = checkpoint.load()
                load_weights(self.model, checkpoint.folder / WEIGHTS)
                self.restore(contents)
            except UnreadableError:  # it may be good: not a reason to make its updates again
                raise
            except InputError as error:
                damaged.append((checkpoint, error))
                continue
            self.require_best(contents)
            for other, problem in damaged:
                aside = self.checkpoints.set_aside(other)
                self.warnings.append(f"warning: a damaged checkpoint was renamed to {aside.name}: {problem}")
            return contents
        if damaged:
            raise damaged[0][1]
        return None

    def require_best(self, contents: Contents) -> None:
        """Forget the best checkpoint if it cannot be loaded: it was pruned when one that is now damaged was better."""
        best = contents.standing.best_update
        if best is None:
            return
        checkpoint = self.checkpoints.at(best)
        try:
            if exists(checkpoint.folder):
                return checkpoint.check_weights()
            problem = "is missing"
        except UnreadableError:
            raise
        except InputError as error:
            problem = str(error)
        self.warnings.append(f"warning: {checkpoint.folder.name}, the best checkpoint so far, is lost: {problem}")
        contents.standing.best, contents.standing.best_update = None, None
        self.restore(contents)

    def restore(self, contents: Contents) -> None:
        """Continue from a checkpoint whose weights are loaded."""
        part = POSITION
        try:
            self.stage.restore(contents.position, contents.tensors)
            part = OPTIMIZER
            state = contents.optimizer
            if contents.version < VERSION:
                state = renumbered(state, self.model, self.stage_config, self.new)
            load_optimizer_tensors(self.optimizer, state)
            part = PROGRESS
            self.precision.restore(contents.scaler)
        except (KeyError, ValueError, TypeError, IndexError, RuntimeError) as error:
            raise self.checkpoints.at(contents.standing.update).refusal(part, error) from None
        self.standing = contents.standing.model_copy()
        self.standing.ended = self.standing.is_out_of(self.stage_config.patience)

    def finish(self, say: Callable[[str], None]) -> None:
        """Write a model folder with the best weights, or with the mean of the last ones if that is better."""
        standing = self.standing
        self.save()
        if standing.best_update is not None:
            best = self.checkpoints.at(standing.best_update)
            on_main(self.accelerator, lambda: best.load_weights(self.model))
            share_parameters(self.accelerator, self.model)
            say(f"best: update {standing.best_update:,}")
            self.try_average(say)
        if self.accelerator.is_main_process:
            write_json(self.folder / FINISHED, {"update": 0})  # a kill may leave the model that was there before
            save_model(
                self.model,
                self.folder / "model",
                self.data.text(),
                model_card(self.config, self.stage_config, standing),
            )
            checksum = checksums(self.folder / "model", [WEIGHTS])[WEIGHTS]
            write_json(self.folder / FINISHED, {"update": standing.update, "checksum": checksum})
            say(f"model: {self.folder / 'model'}")
        self.accelerator.wait_for_everyone()

    def try_average(self, say: Callable[[str], None]) -> None:
        """Use the mean of the last checkpoints if its held-out loss is lower than that of the best one."""
        count, every = self.stage_config.average, self.stage_config.checkpoint_every
        number = on_main(self.accelerator, lambda: len(self.checkpoints.last_regular(count, every)))
        if number < 2 or self.held is None:
            return
        best = self.held_loss()
        best_weights = {name: value.detach().clone() for name, value in self.model.named_parameters()}
        try:
            on_main(self.accelerator, lambda: average(self.checkpoints.last_regular(number, every), self.model))
        except UnreadableError:  # run again, this ends with the average
            raise
        except InputError as error:  # damaged after it was written: no reason to lose the run
            say(f"warning: the mean of the last {number} checkpoints is not tried: {error}")
            mean = math.inf
        else:
            share_parameters(self.accelerator, self.model)
            mean = self.held_loss()
            say(f"held-out loss: best checkpoint {best:.4f}, mean of the last {number} {mean:.4f}")
        if mean >= best:
            with torch.no_grad():
                for name, parameter in self.model.named_parameters():
                    parameter.copy_(best_weights[name])
