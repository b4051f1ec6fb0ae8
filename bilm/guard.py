"""Watches the steps of a training: those without an update, and spikes of the gradient.

`Trainer.step` leaves out the update of a step whose loss or gradient is not finite.
"""

import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

from bilm.errors import InputError, shortened
from bilm.files import replacing
from bilm.inputs import TrainingBatch
from bilm.trainer import StepResult

logger = logging.getLogger(__name__)

SPIKE = 10.0  # times the usual norm
_USUAL_OVER = 100  # steps, whose exponential average is the usual norm


class Guard:
    """Counts the steps that were left out, and ends the run at too many in a row.

    A step is looked at when the next one was started, so that the device need not wait.

    Args:
        max_bad_steps: in a row, with which the run ends.
        batches_file: where the words of their batches are appended.
        last_checkpoint: gives the prefix of the last one, empty for none.
        speaks: whether to write that file and to warn, as one of several workers does
            for all.

    Attributes:
        bad_steps: left out so far.
    """

    def __init__(
        self,
        max_bad_steps: int,
        batches_file: str | os.PathLike[str],
        last_checkpoint: Callable[[], str],
        speaks: bool = True,
    ):
        self.bad_steps = 0
        self._speaks = speaks
        self._max_bad_steps = max_bad_steps
        self._batches_file = batches_file
        self._last_checkpoint = last_checkpoint
        self._in_a_row = 0
        self._usual_norm = 0.0
        self._n_norms = 0
        self._last: tuple[int, StepResult, TrainingBatch] | None = None

    def add(self, step: int, result: StepResult, batch: TrainingBatch) -> None:
        """Look at the step before; remember this one.

        Raises:
            InputError: there were too many bad steps in a row.
        """
        self.settle()
        self._last = step, result, batch

    def settle(self) -> None:
        """Look at the last step now.

        Raises:
            InputError: there were too many bad steps in a row.
        """
        if self._last is None:
            return
        step, result, batch = self._last
        self._last = None
        if bool(result.finite):
            self._in_a_row = 0
            self._watch(step, float(result.norm))
        else:
            self._note(step, result, batch)

    def state(self) -> dict[str, Any]:
        """What `restore` needs, in values that JSON can hold."""
        self.settle()
        return {
            "bad_steps": self.bad_steps,
            "in_a_row": self._in_a_row,
            "usual_norm": self._usual_norm,
            "n_norms": self._n_norms,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was asked for."""
        self.bad_steps, self._in_a_row = state["bad_steps"], state["in_a_row"]
        self._usual_norm, self._n_norms = state["usual_norm"], state["n_norms"]

    def cut_back(self, step: int) -> None:
        """Forget the batches of steps after this one, which will be made again."""
        try:
            with open(self._batches_file, "rb") as file:
                lines = file.readlines()
        except FileNotFoundError:
            return
        after = [n for n, line in enumerate(lines) if _step_of(line) > step]
        if after:
            with replacing(self._batches_file) as partial:
                partial.write_bytes(b"".join(lines[: after[0]]))

    def _watch(self, step: int, norm: float) -> None:
        usual, known = self._usual_norm, self._n_norms
        if self._speaks and known >= _USUAL_OVER and norm > SPIKE * usual:
            logger.warning(
                "the gradient norm of step %d is %.3g, %.0f times the usual %.3g",
                step,
                norm,
                norm / usual if usual else math.inf,
                usual,
            )
        self._n_norms = known + 1
        self._usual_norm += (norm - usual) / min(self._n_norms, _USUAL_OVER)

    def _note(self, step: int, result: StepResult, batch: TrainingBatch) -> None:
        self.bad_steps += 1
        self._in_a_row += 1
        if self._speaks:
            self._warn(step, result, batch.records.lines())
        if self._in_a_row >= self._max_bad_steps:
            raise InputError(
                f"{self._in_a_row} steps in a row, up to step {step}, had no finite "
                "loss or gradient and were left out: look at their text in "
                f"{self._batches_file}, or restart with a lower --learning_rate; the "
                f"last good checkpoint is {self._last_checkpoint() or 'not there yet'}"
            )

    def _warn(self, step: int, result: StepResult, lines: list[str]) -> None:
        logger.warning(
            "step %d changes nothing: its loss is %g, its gradient norm %g (%d such "
            "steps so far, %d in a row); its batch begins with %r, the %d rows of it "
            "are in %s",
            step,
            float(result.loss),
            float(result.norm),
            self.bad_steps,
            self._in_a_row,
            shortened(lines[0]),
            len(lines),
            self._batches_file,
        )
        self._keep(step, lines)

    def _keep(self, step: int, lines: list[str]) -> None:
        try:
            with open(self._batches_file, "a", encoding="utf-8") as file:
                file.write(f"step {step}\n" + "".join(f"\t{line}\n" for line in lines))
        except OSError as error:
            logger.warning("%s cannot be written: %s", self._batches_file, error)


def _step_of(line: bytes) -> int:
    """The step that a line of the batches file begins; 0 for one of its rows."""
    number = line.removeprefix(b"step ").strip()
    return int(number) if line.startswith(b"step ") and number.isdigit() else 0
