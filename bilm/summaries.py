"""What TensorBoard shows of a training."""

import contextlib
import logging
from collections.abc import Iterator, Sequence

import tensorflow as tf

from bilm import event_files
from bilm.evaluation import Evaluation
from bilm.trainer import StepResult, Trainer

logger = logging.getLogger(__name__)


class Summaries:
    """Writes scalars and histograms of a training to a folder.

    Leaving the `with` block closes the file. Where it cannot be written, the points are
    lost and the training goes on.

    Args:
        log_dir: the folder, for `tensorboard --logdir`; None to write nothing.
        trainer: whose variables and options they describe.
    """

    def __init__(self, log_dir: str | None, trainer: Trainer):
        self._trainer = trainer
        self._log_dir = log_dir
        self._failed = False
        self._writer = (
            tf.summary.create_noop_writer()
            if log_dir is None
            else tf.summary.create_file_writer(log_dir)
        )

    def __enter__(self) -> "Summaries":
        return self

    def __exit__(self, *_: object) -> None:
        with self._tolerated():
            self._writer.close()

    def flush(self) -> None:
        """Write what is not in the file yet, as a run may go on from this moment."""
        with self._tolerated():
            self._writer.flush()

    def cut_back(self) -> None:
        """Remove what was written after the trainer's step, which will come again."""
        if self._log_dir is not None:
            event_files.cut_back(self._log_dir, self._trainer.global_step)

    def scalars(
        self, result: StepResult, perplexity: float, learning_rate: float
    ) -> None:
        """Training perplexity, learning rate, and gradient norms before and after
        clipping."""
        step = self._trainer.global_step
        limit = self._trainer.options.all_clip_norm_val
        norm = float(result.norm)
        scale = limit / max(norm, limit)
        with self._tolerated(), self._writer.as_default(step):
            sampled = self._trainer.options.samples
            softmax = "sampled softmax" if sampled else "full softmax"
            tf.summary.scalar("train_perplexity", perplexity, description=softmax)
            tf.summary.scalar("learning_rate", learning_rate)
            tf.summary.scalar("norm_grad", norm)
            for name, before in zip(self._names, result.norms.numpy(), strict=True):
                tf.summary.scalar(f"norm_grad_before_clipping/{name}", before)
                tf.summary.scalar(f"norm_grad_after_clipping/{name}", before * scale)

    def validation(self, result: Evaluation) -> None:
        """Perplexities of the held-out text, by the full softmax."""
        step = self._trainer.global_step
        with self._tolerated(), self._writer.as_default(step):
            tf.summary.scalar("valid_perplexity", result.perplexity)
            tf.summary.scalar("valid_perplexity/forward", result.forward)
            if result.backward is not None:
                tf.summary.scalar("valid_perplexity/backward", result.backward)

    def histograms(self, result: StepResult) -> None:
        """Values of the embeddings of one batch, and of all variables."""
        step = self._trainer.global_step
        with self._tolerated(), self._writer.as_default(step):
            tf.summary.histogram("embedding/tokens", result.vectors)
            for direction, outputs in enumerate(result.outputs):
                tf.summary.histogram(f"embedding/lstm_output_{direction}", outputs)
            for name, variable in self._trainer.network.variables_by_name.items():
                tf.summary.histogram(f"variable/{name}", variable)

    @contextlib.contextmanager
    def _tolerated(self) -> Iterator[None]:
        try:
            yield
        except tf.errors.OpError as error:
            if not self._failed:
                logger.warning("TensorBoard's file cannot be written: %s", error)
            self._failed = True

    @property
    def _names(self) -> Sequence[str]:
        return [spec.name for spec in self._trainer.network.learnt_specs]
