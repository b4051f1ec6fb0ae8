"""Checkpoints that are tried again where they cannot be written."""

import logging
import time
from collections.abc import Callable

import tensorflow as tf

from bilm.errors import InputError

logger = logging.getLogger(__name__)

PAUSES = (10, 60, 300, 900, 1800, 3600, 3600)
"""Seconds between the attempts: eight of them, in almost three hours. Meanwhile the
training goes on."""


HURRIED = 3  # more attempts where a signal is to end the run


class Saver:
    """Writes checkpoints; a full disk or a lost folder is no reason to end at once.

    Args:
        write: writes a checkpoint of this moment, and returns its prefix.
        prefix: of the last checkpoint there is, empty for none.
        clock: seconds.
        sleep: waits some seconds.

    Attributes:
        prefix: of the last checkpoint.
        failures: attempts since then that failed.
    """

    def __init__(
        self,
        write: Callable[[], str],
        prefix: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self.prefix = prefix
        self.failures = 0
        self._write, self._clock, self._sleep = write, clock, sleep
        self._again = 0.0  # when to try again
        self._hurries = False

    @property
    def waits(self) -> bool:
        """Whether the last attempt failed, and the next one is not due yet."""
        return self.failures > 0 and self._clock() < self._again

    @property
    def retry_due(self) -> bool:
        """Whether a failed attempt is to be made again now."""
        return self.failures > 0 and self._clock() >= self._again

    def save(self) -> bool:
        """Try to write a checkpoint, and say whether it worked.

        Raises:
            InputError: this was the last attempt.
        """
        try:
            self.prefix = self._write()
        except (OSError, tf.errors.OpError) as error:
            self._failed(error)
            return False
        after = f" after {self.failures} failures" if self.failures else ""
        logger.info("saved %s%s", self.prefix, after)
        self.failures = 0
        return True

    def insist(self, in_a_hurry: Callable[[], bool] = lambda: False) -> None:
        """Write a checkpoint, and wait as long as it cannot be written.

        Args:
            in_a_hurry: asked each second; once it is so, there are `HURRIED` attempts
                more, the first at once and the others after the shortest pause.

        Raises:
            InputError: no attempt worked.
        """
        left = HURRIED
        while not self.save():
            left -= self._hurries
            if not left:
                raise InputError(
                    "the run was to stop, but no checkpoint can be written; the last "
                    f"one is {self.prefix or 'none'}"
                )
            self._wait(in_a_hurry)

    def _wait(self, in_a_hurry: Callable[[], bool]) -> None:
        """Until the next attempt is due, or the hurry begins."""
        while self.waits:
            if in_a_hurry() and not self._hurries:
                self._hurries = True
                return
            self._sleep(min(1.0, self._again - self._clock()))

    def _failed(self, error: Exception) -> None:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        attempts = len(PAUSES) + 1
        self.failures += 1
        if self.failures == attempts:
            raise InputError(
                f"no checkpoint can be written ({reason}), tried {attempts} times in "
                f"{sum(PAUSES) // 60} minutes; the last one is {self.prefix or 'none'}"
            ) from error
        pause = PAUSES[0 if self._hurries else self.failures - 1]
        self._again = self._clock() + pause
        logger.warning(
            "a checkpoint cannot be written (%s): attempt %d of %d, the next in %d s",
            reason,
            self.failures,
            attempts,
            pause,
        )
