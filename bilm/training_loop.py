"""The loop over the steps of a training: what a run consists of, and when it does what.

Each part of a run has a module of its own; the loop brings them together, and decides
when a line, a checkpoint or the end is due.
"""

import dataclasses
import logging
from collections.abc import Iterable

from bilm.inputs import TrainingBatch
from bilm.prefetch import Prefetcher
from bilm.progress import Progress, Schedule
from bilm.summaries import Summaries
from bilm.trainer import StepResult, Trainer

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """How a run goes, not what it trains.

    Attributes:
        seed: of initial values, dropout and negative samples; None for a new one.
        checkpoint_every: steps between two checkpoints; the last step has one too.
        keep: number of last checkpoints that are kept.
        log_every: steps between two log lines and TensorBoard points.
        mixed_precision: `bfloat16` or `float16` for the products of encoder and LSTM
            layers; variables, states, softmax, loss and clipping stay float32.
        jit_compile: compile the LSTM layers by XLA.
    """

    seed: int | None = None
    checkpoint_every: int = 1250
    keep: int = 5
    log_every: int = 100
    mixed_precision: str | None = None
    jit_compile: bool = False


class TrainingLoop:
    """A run that is under way.

    Attributes:
        trainer: makes the steps.
        states: of the LSTM layers of each replica, after the last step.
        position: in the data, after the last step; see `TrainingBatch`.
        progress: counts steps, writes lines.
        summaries: for TensorBoard.
        saved: prefix of the last checkpoint, empty before the first.
    """

    def __init__(
        self,
        trainer: Trainer,
        schedule: Schedule,
        settings: RunSettings,
        save_dir: str,
        log_dir: str,
    ):
        """Begin a run.

        Args:
            trainer: with the values to begin with.
            schedule: length of the run.
            settings: how it goes.
            save_dir: folder of the checkpoints, which is there.
            log_dir: folder of the TensorBoard files.
        """
        self.trainer = trainer
        self.states = trainer.zero_states()
        self.position: dict = {}
        self.progress = Progress(schedule, settings.log_every, trainer.options.samples)
        self.summaries = Summaries(log_dir, trainer)
        self.saved = ""
        self._settings = settings
        self._save_dir = save_dir

    def run(self, inputs: Iterable[TrainingBatch]) -> str:
        """Make all steps; returns the prefix of the last checkpoint."""
        with Prefetcher(inputs) as batches, self.progress, self.summaries:
            for batch in batches:
                result = self._step(batch)
                if self.progress.due(self.progress.log_every):
                    self._report(result, batches.waited)
                if self.progress.due(self._settings.checkpoint_every):
                    self.summaries.histograms(result)
                    self._save()
                if self.progress.finished:
                    break
        return self.saved

    def _step(self, batch: TrainingBatch) -> StepResult:
        self.states, result = self.trainer.step(batch.inputs, self.states)
        self.position = batch.position
        self.progress.add(result.loss)
        return result

    def _report(self, result: StepResult, data_wait: float) -> None:
        """A line, and a point in TensorBoard."""
        norm = float(result.norm)
        self.progress.report(self.trainer.global_step, norm, data_wait)
        self.summaries.scalars(result, self.progress.perplexity)

    def _save(self) -> None:
        perplexity, keep = self.progress.perplexity, self._settings.keep
        self.saved = self.trainer.save(self._save_dir, perplexity, keep)
        logger.info("saved %s", self.saved)
