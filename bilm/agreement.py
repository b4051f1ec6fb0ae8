"""What workers do between two steps, where a clock or a signal says so.

All must do the same after the same step. What follows from the number of the step does
anyway. A signal or a clock is of one worker: its wish goes with a step to all of them,
and costs nothing there.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bilm.run_settings import RunSettings
from bilm.saver import Saver
from bilm.workers import Workers


class Wishes(NamedTuple):
    """What is to be done after a step, whatever its number."""

    stop: bool
    save: bool


class Agreement:
    """The wishes of this worker, and what becomes of those of all.

    Args:
        workers: who takes part.
        settings: of the run.
        saver: of this worker.
        clock: seconds.

    Attributes:
        begin: when this process began to train.
    """

    def __init__(
        self,
        workers: Workers,
        settings: RunSettings,
        saver: Saver,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._workers, self._settings, self._saver = workers, settings, saver
        self._clock = clock
        self.begin = self._last_save = clock()
        self._before: Sequence[Any] = Wishes(False, False)

    def saved(self) -> None:
        """Note that there was a checkpoint now.

        It grants the wish that went with the last step, too.
        """
        self._last_save = self._clock()
        stop, _ = self._before
        self._before = Wishes(stop, False)

    def wishes(self) -> Wishes:
        """What this worker wants now."""
        now, settings = self._clock(), self._settings
        every = settings.checkpoints
        return Wishes(
            stop=settings.stop_requested()
            or settings.end.time_is_over(now - self.begin),
            save=every.time_is_over(now - self._last_save)
            if not self._saver.failures
            else self._saver.retry_due,
        )

    def after(self, shared: Sequence[Any]) -> Wishes:
        """What to do after a step.

        Alone it is what this worker wants. Together it is what any of them wanted
        before the step before, whose numbers are there without waiting for the device.

        Args:
            shared: `StepResult.wishes` of the step.
        """
        if self._workers.count == 1:
            return self.wishes()
        known, self._before = self._before, shared
        return Wishes(*(bool(wish > 0) for wish in known))
