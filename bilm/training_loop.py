"""The loop over the steps of a training: what a run consists of, and when it does what.

Each part of a run has a module of its own; the loop brings them together, and decides
when a line, a checkpoint or the end is due.
"""

import logging
import os
import time
from collections.abc import Iterable
from typing import Any, Protocol

from bilm.checkpoint import checkpoint_prefix, remove_unfinished
from bilm.errors import reading
from bilm.evaluation import Evaluator
from bilm.files import OPTIONS_FILE
from bilm.fingerprint import Fingerprint
from bilm.guard import Guard
from bilm.inputs import Dataset, TrainingBatch
from bilm.intervals import as_interval
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
        states: of the LSTM layers of each piece, after the last step.
        position: in the data, after the last step; see `TrainingBatch`.
        progress: counts steps, writes lines.
        summaries: for TensorBoard.
        saver: of checkpoints.
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
        self._save_dir = save_dir
        self.trainer = trainer
        self.states = trainer.zero_states()
        self.position: dict[str, Any] | None = None  # before the first step
        self.progress = Progress(schedule, settings.log_every, trainer.options.samples)
        self.summaries = Summaries(log_dir, trainer)
        self.saver = Saver(self._write)
        self.guard = Guard(
            settings.max_bad_steps,
            os.path.join(save_dir, BAD_BATCHES),
            lambda: self.saver.prefix,
        )
        self.metrics = MetricsFile(os.path.join(save_dir, METRICS_FILE))
        self.parts: dict[str, Part] = {
            "progress": self.progress,
            "loss_scale": trainer.loss_scale,
            "guard": self.guard,
        }
        self.validation = None
        if valid_data is not None:
            evaluator = Evaluator(trainer.network, trainer.options, valid_data)
            self.validation = Validation(evaluator, self._save_best, settings.patience)
            self.parts["validation"] = self.validation
        self._saved_step = -1
        self._last_save = self._begin = time.monotonic()
        self._hours_before = 0.0

    @property
    def has_begun(self) -> bool:
        """Whether a process before this one has begun the run."""
        return os.path.exists(os.path.join(self._save_dir, OPTIONS_FILE))

    def restore(self, prefix: str, state: RunState) -> None:
        """Go on from a checkpoint, whose values the trainer already has."""
        with reading(prefix + SUFFIX, WAY_OUT):
            self.states = self.trainer.split_states(state.arrays)
            self.position = state.values["position"]
            for name, part in self.parts.items():
                if name in state.values:  # validation may begin later
                    part.restore(state.values[name])
            self.trainer.global_step = self._saved_step = state.values["global_step"]
        if "validation" in state.values and self.validation is None:
            logger.warning("the run goes on without held-out text, which it had before")
        self.saver.prefix = prefix
        self.cut_back()

    def cut_back(self) -> None:
        """Remove what was written after the step from which the run goes on."""
        self.summaries.cut_back()
        self.guard.cut_back(self.trainer.global_step)
        remove_unfinished(self._save_dir, self.trainer.global_step)

    def run(self, inputs: Iterable[TrainingBatch]) -> str:
        """Make all steps, or those until it is to stop; returns the last prefix."""
        self._begin, before = time.monotonic(), self.progress.done
        self._hours_before = self.metrics.cut_back(self.trainer.global_step)
        self._write_options(self._save_dir)
        with Prefetcher(inputs) as batches, self.progress, self.summaries:
            for batch in [] if self.done else batches:
                result = self._step(batch)
                if self.progress.due(self.progress.log_every):
                    self._report(result, batches.waited)
                if self.validation and self.progress.due(self._settings.valid_every):
                    self._validate(self.validation)
                if self._checkpoint_due():
                    self.summaries.histograms(result)
                    self.saver.save()
                elif self.saver.retry_due:
                    self.saver.save()
                if self.done or self._stops(before):
                    break
            if self._saved_step != self.trainer.global_step:
                self.saver.insist(self._settings.stop_requested)
        return self.saver.prefix

    @property
    def done(self) -> bool:
        """Whether all steps are made, or the held-out text says that it is enough."""
        exhausted = self.validation is not None and self.validation.exhausted
        return self.progress.finished or exhausted

    def state(self) -> RunState:
        """Where the run stands, for `restore`."""
        values = {
            "fingerprint": self._fingerprint._asdict(),
            "n_devices": self.trainer.n_replicas,
            "global_step": self.trainer.global_step,
            "position": self.position,
        }
        values |= {name: part.state() for name, part in self.parts.items()}
        return RunState(self.trainer.join_states(self.states), values)

    def _rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0 in this run."""
        n_steps = self.progress.schedule.n_steps
        return learning_rate(self.trainer.options, step, n_steps)

    def _step(self, batch: TrainingBatch) -> StepResult:
        every = self.trainer.options.reset_state_every
        if every and self.progress.done % every == 0:
            self.states = self.trainer.zero_states()
        rate = self._rate(self.progress.done)
        self.states, result = self.trainer.step(batch.inputs, self.states, rate)
        self.position = batch.position
        self.progress.add(result.loss)
        self.guard.add(self.trainer.global_step, result, batch)
        return result

    def _report(self, result: StepResult, data_wait: float) -> None:
        """A line in the log, one in the metrics, and a point in TensorBoard."""
        self.guard.settle()
        step, norm = self.trainer.global_step, float(result.norm)
        line = self.progress.report(step, norm, data_wait)
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
        self.progress.leave_out(time.perf_counter() - begin)

    def _hours(self) -> float:
        """Of the run so far, without those when it was interrupted."""
        return self._hours_before + (time.monotonic() - self._begin) / 3600

    def _checkpoint_due(self) -> bool:
        if self.saver.failures:
            return False  # it is up to the saver when to try again
        every = as_interval("checkpoint_every", self._settings.checkpoint_every)
        if every.in_minutes:
            return every.is_over(0, time.monotonic() - self._last_save)
        return self.progress.due(int(every.number))

    def _stops(self, steps_before: int) -> bool:
        """Whether to stop before the end of the training."""
        limit = self._settings.stop_after
        if self._settings.stop_requested():
            return True
        return limit is not None and as_interval("stop_after", limit).is_over(
            self.progress.done - steps_before, time.monotonic() - self._begin
        )

    def _write(self) -> str:
        """A checkpoint of this step with the state of the run; returns its prefix."""
        step = self.trainer.global_step
        self._write_options(self._save_dir)
        self.summaries.flush()
        write_run_state(checkpoint_prefix(self._save_dir, step), self.state())
        perplexity, keep = self.progress.perplexity, self._settings.keep
        prefix = self.trainer.save(self._save_dir, perplexity, keep)
        self._saved_step, self._last_save = step, time.monotonic()
        return prefix

    def _save_best(self) -> str:
        """A checkpoint of this step in a folder of its own; returns its prefix."""
        folder = os.path.join(self._save_dir, BEST)
        self._write_options(folder)
        return self.trainer.save(folder, self.progress.perplexity, keep=1)

    def _write_options(self, folder: str) -> None:
        """Again before each checkpoint, for the folder may have been lost."""
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, OPTIONS_FILE)
        write_options(path, training_dict(self.trainer.options))
