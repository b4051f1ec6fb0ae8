"""What commands write: results to standard output, progress to standard error."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterable, Iterator

from tqdm import tqdm

from bilm.errors import InputError


def say(text: str) -> None:
    """Write a result of the command to standard output, as a line (or several).

    What its encoding lacks is escaped: a word of any script may be among it.
    """
    if sys.stdout is None:
        raise InputError("standard output is closed, which the result goes to: open it")
    encoding = sys.stdout.encoding or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def in_lines(rows: Iterable[tuple[str, str]]) -> str:
    """Set names and values in lines for people."""
    return "\n".join(f"{name:<20}{value:>14}" for name, value in rows)


class ProgressHandler(logging.Handler):
    """Write log lines above a progress bar instead of through it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            tqdm.write(self.format(record), file=sys.stderr)
        except Exception:  # as every handler of `logging`: a log line ends no run
            self.handleError(record)


@contextlib.contextmanager
def logging_to_stderr(debug: bool = False) -> Iterator[None]:
    """Show what the package logs inside the block, with the time of day.

    Warnings of other packages too: the handler is the root's. Without one there, absl,
    by which TensorFlow logs, would add its own, and each line would come twice.

    Args:
        debug: show the messages of level DEBUG too, not only INFO and above.
    """
    root, logger = logging.getLogger(), logging.getLogger("bilm")
    handler = ProgressHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    level_before = logger.level
    root.addHandler(handler)
    logger.setLevel(logging.DEBUG if debug else logging.INFO)
    try:
        yield
    finally:
        root.removeHandler(handler)
        logger.setLevel(level_before)


def use_onednn() -> None:
    """Take oneDNN's products on a CPU, before TensorFlow is imported.

    TensorFlow leaves them off where a CPU has no AVX-512; for the large products of
    encoder and softmax they are faster there too. The user's own setting holds.
    """
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
