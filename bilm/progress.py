"""How a training goes, told while it runs."""

import logging
import math
import sys
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tqdm.auto import tqdm

logger = logging.getLogger(__name__)


class Schedule(NamedTuple):
    """Length of a training, counted in steps of all devices together."""

    n_steps: int  # of this run
    steps_per_epoch: int
    tokens_per_step: int


class Line(NamedTuple):
    """What a line says beside the perplexity."""

    epoch: float
    tokens_per_second: float  # since the line before
    data_wait: float  # share of the time so far, 0 to 1


class Progress:
    """A progress bar, and a log line each `log_every` steps.

    Losses are summed up on the device and read when a line is due, so that the device
    need not wait in between.

    Args:
        schedule: length of the run.
        log_every: steps between two lines.
        sampled: whether the losses are those of the sampled softmax, which the lines
            say, since its perplexity is not comparable with that of a held-out text.
        speaks: whether to show the bar, as one of several workers does for all.

    Attributes:
        perplexity: exp of the mean loss since the line before the last.
        done: steps of this run.
        log_every: steps between two lines.
        schedule: length of the run.
    """

    def __init__(
        self, schedule: Schedule, log_every: int, sampled: bool, speaks: bool = True
    ):
        self.perplexity = math.nan
        self.done = 0
        self.log_every = log_every
        self.schedule = schedule
        self._label = "perplexity (sampled)" if sampled else "perplexity"
        self._losses: list[tf.Tensor | np.float32] = []
        self._timed = 0  # steps of this process since the last line
        self._start = self._last_line = time.perf_counter()
        self._bar = tqdm(
            total=schedule.n_steps,
            unit="step",
            disable=not (speaks and sys.stderr.isatty()),
        )

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    @property
    def finished(self) -> bool:
        """Whether all steps of the schedule are done."""
        return self.done >= self.schedule.n_steps

    def due(self, every: int) -> bool:
        """Whether the last step is one of each `every`, or the last of all."""
        return self.done % every == 0 or self.finished

    def add(self, loss: tf.Tensor) -> None:
        """Count a step."""
        self._losses.append(loss)
        self.done += 1
        self._timed += 1
        self._bar.update()

    def leave_out(self, seconds: float) -> None:
        """Take time that went into something else out of the speeds."""
        self._start += seconds
        self._last_line += seconds

    def report(self, global_step: int, norm: float, data_wait: float) -> Line:
        """Write a line about the steps since the line before.

        Args:
            global_step: number of the last step, those before a restart included.
            norm: of its gradient.
            data_wait: seconds spent waiting for data so far.
        """
        now = time.perf_counter()
        losses = tf.stack(self._losses)
        finite = tf.boolean_mask(losses, tf.math.is_finite(losses))
        self.perplexity = perplexity_of(tf.reduce_mean(finite))
        speed = self._timed / (now - self._last_line)
        schedule = self.schedule
        line = Line(
            self.done / schedule.steps_per_epoch,
            speed * schedule.tokens_per_step,
            data_wait / (now - self._start),
        )
        logger.info(
            "step %d (epoch %.2f, %d of %d): %s %.2f, gradient norm %.3g, "
            "%.0f tokens/s, data wait %.1f %%, %s to go",
            global_step,
            line.epoch,
            self.done,
            schedule.n_steps,
            self._label,
            self.perplexity,
            norm,
            line.tokens_per_second,
            100 * line.data_wait,
            _duration((schedule.n_steps - self.done) / speed),
        )
        self._bar.set_postfix_str(
            f"epoch {line.epoch:.2f}, {self._label} {self.perplexity:.1f}, "
            f"{line.tokens_per_second:.0f} tokens/s, data wait {line.data_wait:.1%}"
        )
        self._losses, self._timed, self._last_line = [], 0, now
        return line

    def state(self) -> dict[str, Any]:
        """What `restore` needs for the lines to go on as if nothing had happened."""
        losses = [float(loss) for loss in self._losses]
        return {"done": self.done, "perplexity": self.perplexity, "losses": losses}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was asked for."""
        self.done, self.perplexity = state["done"], state["perplexity"]
        self._losses = [np.float32(loss) for loss in state["losses"]]
        self._bar.update(self.done)


def perplexity_of(mean_loss: Any) -> float:
    """exp of a mean loss; infinity beyond what a float holds."""
    mean = float(mean_loss)
    return math.inf if mean > 700 else math.exp(mean)


def _duration(seconds: float) -> str:
    """Hours, minutes and seconds: `1:02:03`."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
