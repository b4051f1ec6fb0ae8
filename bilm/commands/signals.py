"""Signals that ask a training to stop: it finishes its step and saves first."""

import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

NOTED = (signal.SIGTERM, signal.SIGINT)
_MESSAGE = (
    "\n%s: the training stops with a checkpoint after this step; again: at once, "
    "without one\n"
)


class StopSignals:
    """Notes the first SIGTERM or Ctrl-C inside its `with` block.

    A second one does what it does elsewhere, which is to end the process.

    Attributes:
        received: the number of the signal, None before.
    """

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self  # no other thread gets signals
        for number in NOTED:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def requested(self) -> bool:
        """Whether there was a signal."""
        return self.received is not None

    @property
    def exit_code(self) -> int:
        """That of a process which a signal ended, as shells count: 143 or 130."""
        return 0 if self.received is None else 128 + self.received

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = number
        self._restore()
        # Neither logging nor sys.stderr: the signal may have come while they write.
        message = _MESSAGE % signal.Signals(number).name
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, message.encode())

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
