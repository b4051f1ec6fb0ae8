"""The loop over the steps of a training: what a run consists of, and when it does what.

Each part of a run has a module of its own; the loop brings them together, and decides
when a line, a checkpoint or the end is due.
"""

import logging
import os
import time
from collections.abc import Iterable
from typing import Any, Protocol

from bilm.agreement import Agreement, Wishes
from bilm.checkpoint import checkpoint_prefix, remove_unfinished
from bilm.errors import reading
from bilm.evaluation import Evaluator
from bilm.files import OPTIONS_FILE
from bilm.fingerprint import Fingerprint
from bilm.guard import Guard
from bilm.inputs import Dataset, TrainingBatch, join_positions
from bilm.learning_rate import learning_rate
from bilm.metrics_file import METRICS_FILE, MetricsFile
from bilm.options import training_dict, write_options
from bilm.prefetch import Prefetcher
from bilm.progress import Progress, Schedule
from bilm.run_settings import RunSettings
from bilm.run_state import SUFFIX, WAY_OUT, RunState, write_run_state
from bilm.saved_run import BAD_BATCHES, BEST
from bilm.saver import Saver
from bilm.summaries import Summaries
from bilm.trainer import StepResult, Trainer
from bilm.validation import Validation

logger = logging.getLogger(__name__)


class Part(Protocol):
    """A part of a run that has something to remember from step to step."""

    def state(self) -> dict[str, Any]:
        """What `restore` needs, in values that JSON can hold."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on where `state` was asked for."""


class TrainingLoop:
    """A run that is under way.

    Attributes:
        trainer: makes the steps.
        save_dir: folder of the checkpoints.
        workers: who takes part; the chief alone writes files.
        states: of the LSTM layers of each piece, after the last step.
        position: in the data, after the last step; see `TrainingBatch`.
        progress: counts steps, writes lines.
        summaries: for TensorBoard.
        saver: of checkpoints.
        agreement: of the workers, on what the number of a step does not tell.
        guard: watches loss and gradient.
        validation: of held-out text; None without one.
        metrics: lines of numbers.
        parts: by name, what else a checkpoint has to hold for an exact resume.
    """

    def __init__(
        self,
        trainer: Trainer,
        schedule: Schedule,
        settings: RunSettings,
        fingerprint: Fingerprint,
        save_dir: str,
        log_dir: str,
        valid_data: Dataset | None = None,
    ):
        """Begin a run.

        Args:
            trainer: with the values to begin with.
            schedule: length of the run.
            settings: how it goes.
            fingerprint: of the run, to be compared where it goes on.
            save_dir: folder of the checkpoints; made when it is written to.
            log_dir: folder of the TensorBoard files.
            valid_data: held-out text, opened with `test=True`.
        """
        self._settings, self._fingerprint = settings, fingerprint
        self.save_dir = save_dir
        self.metrics = MetricsFile(os.path.join(save_dir, METRICS_FILE))
        self.trainer, self.workers = trainer, trainer.workers
        speaks = self.workers.is_chief
        self.states = trainer.zero_states()
        self.position: dict[str, Any] | None = None  # before the first step
        self.progress = Progress(
            schedule, settings.log_every, trainer.options.samples, speaks
        )
        self.summaries = Summaries(log_dir if speaks else None, trainer)
        self.saver = Saver(self._write)
        self.agreement = Agreement(self.workers, settings, self.saver)
        self.guard = Guard(
            settings.max_bad_steps,
            os.path.join(save_dir, BAD_BATCHES),
            lambda: self.saver.prefix,
            speaks,
        )
        self.parts: dict[str, Part] = {
            "progress": self.progress,
            "loss_scale": trainer.update.loss_scale,
            "guard": self.guard,
        }
        self.validation = None
        if valid_data is not None:
            evaluator = Evaluator(trainer.network, trainer.options, valid_data)
            self.validation = Validation(evaluator, self._save_best, settings.patience)
            self.parts["validation"] = self.validation
        self._saved_step = self._collected_step = -1
        self._to_save = RunState([], {})
        self._hours_before = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether a process before this one has begun the run."""
        return os.path.exists(os.path.join(self.save_dir, OPTIONS_FILE))

    def restore(self, prefix: str, state: RunState) -> None:
        """Go on from a checkpoint, whose values the trainer already has."""
        with reading(prefix + SUFFIX, WAY_OUT):
            self.states = self.trainer.split_states(state.arrays)
            self.position = state.values["position"]
            for name, part in self.parts.items():
                if name in state.values:  # validation may begin later
                    part.restore(state.values[name])
            self.trainer.global_step = state.values["global_step"]
        if "validation" in state.values and self.validation is None:
            logger.warning("the run goes on without held-out text, which it had before")
        self._saved_step = self._collected_step = self.trainer.global_step
        self.saver.prefix = prefix
        self.cut_back()

    def cut_back(self) -> None:
        """Remove what was written after the step from which the run goes on."""
        if not self.workers.is_chief:
            return
        self.summaries.cut_back()
        self.guard.cut_back(self.trainer.global_step)
        remove_unfinished(self.save_dir, self.trainer.global_step)

    def run(self, inputs: Iterable[TrainingBatch]) -> str:
        """Make all steps, or those until it is to stop; returns the last prefix."""
        settings, before = self._settings, self.progress.done
        if self.workers.is_chief:
            self._hours_before = self.metrics.cut_back(self.trainer.global_step)
            self._write_options(self.save_dir)
        with Prefetcher(inputs) as batches, self.progress, self.summaries:
            for batch in [] if self.done else batches:
                result, wishes = self._step(batch)
                if self.progress.due(self.progress.log_every):
                    self._report(result, batches.waited)
                if self.validation and self.progress.due(settings.valid_every):
                    self._validate(self.validation)
                if self._checkpoint_due() or wishes.save:
                    self.save(result)
                steps = self.progress.done - before
                if self.done or wishes.stop or settings.end.steps_are_over(steps):
                    break
            self._collect()
            if self.workers.is_chief and self._saved_step != self.trainer.global_step:
                self.saver.insist(settings.stop_requested)
        return self.workers.chief_s(self.saver.prefix)

    def save(self, result: StepResult | None = None) -> None:
        """Save a checkpoint, unless the saver waits after one that failed.

        Args:
            result: of the step, for TensorBoard.
        """
        self._collect()
        self.agreement.saved()
        if self.workers.is_chief and not self.saver.waits:
            if result is not None and not self.saver.failures:
                self.summaries.histograms(result)
            self.saver.save()

    def _collect(self) -> None:
        """Bring together what all workers have to save after this step."""
        if self._collected_step != self.trainer.global_step:
            self._to_save = self.state()
            self._collected_step = self.trainer.global_step

    @property
    def done(self) -> bool:
        """Whether all steps are made, or the held-out text says that it is enough."""
        exhausted = self.validation is not None and self.validation.exhausted
        return self.progress.finished or exhausted

    def state(self) -> RunState:
        """Where the run stands, for `restore`: all workers, asked together."""
        positions = self.workers.gather(self.position)
        values = {
            "fingerprint": self._fingerprint._asdict(),
            "n_devices": self.workers.n_replicas,
            "n_workers": self.workers.count,
            "global_step": self.trainer.global_step,
            "position": join_positions(positions) if self.position else None,
        }
        values |= {name: part.state() for name, part in self.parts.items()}
        return RunState(self.trainer.join_states(self.states), values)

    def _rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0 in this run."""
        n_steps = self.progress.schedule.n_steps
        return learning_rate(self.trainer.options, step, n_steps)

    def _step(self, batch: TrainingBatch) -> tuple[StepResult, Wishes]:
        """Make a step; with its result comes what to do after it."""
        every = self.trainer.options.reset_state_every
        if every and self.progress.done % every == 0:
            self.states = self.trainer.zero_states()
        rate, wishes = self._rate(self.progress.done), self.agreement.wishes()
        self.states, result = self.trainer.step(batch.inputs, self.states, rate, wishes)
        self.position = batch.position
        self.progress.add(result.loss)
        self.guard.add(self.trainer.global_step, result, batch)
        return result, self.agreement.after(result.wishes)

    def _report(self, result: StepResult, data_wait: float) -> None:
        """A line in the log, one in the metrics, and a point in TensorBoard."""
        self.guard.settle()
        step, norm = self.trainer.global_step, float(result.norm)
        line = self.progress.report(step, norm, data_wait)
        if not self.workers.is_chief:
            return
        perplexity, rate = self.progress.perplexity, self._rate(self.progress.done - 1)
        self.summaries.scalars(result, perplexity, rate)
        self.metrics.write(
            step=step,
            hours=self._hours(),
            train_perplexity=perplexity,
            softmax="sampled" if self.trainer.options.samples else "full",
            learning_rate=rate,
            gradient_norm=norm,
            bad_steps=self.guard.bad_steps,
            **line._asdict(),
        )

    def _validate(self, validation: Validation) -> None:
        """Evaluate the held-out text; keep the checkpoint where it is the best."""
        begin = time.perf_counter()
        if self.workers.is_chief:
            self._evaluate(validation)
        validation.restore(self.workers.chief_s(validation.state()))
        self.progress.leave_out(time.perf_counter() - begin)

    def _evaluate(self, validation: Validation) -> None:
        step = self.trainer.global_step
        result = validation.run(step)
        self.summaries.validation(result)
        self.metrics.write(
            step=step,
            epoch=self.progress.done / self.progress.schedule.steps_per_epoch,
            hours=self._hours(),
            valid_perplexity=result.perplexity,
            valid_forward=result.forward,
            valid_backward=result.backward,
        )

    def _hours(self) -> float:
        """Of the run so far, without those when it was interrupted."""
        return self._hours_before + (time.monotonic() - self.agreement.begin) / 3600

    def _checkpoint_due(self) -> bool:
        """Whether the number of the step asks for a checkpoint."""
        every = self._settings.checkpoints
        return not every.in_minutes and self.progress.due(int(every.number))

    def _write(self) -> str:
        """A checkpoint of this step with the state of the run; returns its prefix."""
        step = self.trainer.global_step
        self._write_options(self.save_dir)
        self.summaries.flush()
        write_run_state(checkpoint_prefix(self.save_dir, step), self._to_save)
        perplexity, keep = self.progress.perplexity, self._settings.keep
        prefix = self.trainer.save(self.save_dir, perplexity, keep)
        self._saved_step = step
        return prefix

    def _save_best(self) -> str:
        """A checkpoint of this step in a folder of its own; returns its prefix."""
        folder = os.path.join(self.save_dir, BEST)
        self._write_options(folder)
        return self.trainer.save(folder, self.progress.perplexity, keep=1)

    def _write_options(self, folder: str) -> None:
        """Again before each checkpoint, for the folder may have been lost."""
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, OPTIONS_FILE)
        write_options(path, training_dict(self.trainer.options))
