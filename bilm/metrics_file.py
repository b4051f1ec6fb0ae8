"""`metrics.csv`: the numbers of a training, a line for each moment.

Lines are as the log has them, and one for each evaluation of the held-out text. What
was not measured is empty. A line that was cut short by a crash is not read, and a run
that goes on from an earlier step removes what came after it.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from bilm.errors import InputError, reading
from bilm.files import replacing

logger = logging.getLogger(__name__)

METRICS_FILE = "metrics.csv"
COLUMNS = (
    "step",  # updates, those before a restart included
    "epoch",  # of this run
    "hours",  # of training, without those when it was interrupted
    "train_perplexity",  # since the line before
    "softmax",  # "sampled" or "full": by which train_perplexity was found
    "valid_perplexity",  # of the held-out text, by the full softmax
    "valid_forward",
    "valid_backward",
    "learning_rate",
    "gradient_norm",  # of the last step, before clipping
    "tokens_per_second",
    "data_wait",  # share of the time, 0 to 1
    "bad_steps",  # left out so far, as loss or gradient was not finite
)

_WAY_OUT = "remove it, and a run that goes on begins a new one"

Row = Mapping[str, str]


class Point(NamedTuple):
    """A value of a column."""

    step: float
    hours: float
    value: float


class MetricsFile:
    """Appends lines. Where they cannot be written they are lost, which is said once.

    Args:
        path: of the file; made with the first line.

    Raises:
        InputError: there is one that is damaged, see `read_rows`.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self._path = Path(path)
        self._failed = False
        self._there()  # and damaged, where it is, before anything expensive starts

    def cut_back(self, step: int) -> float:
        """Remove the lines after a step, and return the hours until it."""
        rows = self._there()
        kept = [row for row in rows if int(row["step"]) <= step]
        if rows:
            lines = "".join(_line([row[name] for name in COLUMNS]) for row in kept)
            with replacing(self._path) as partial:
                partial.write_text(_line(COLUMNS) + lines, encoding="utf-8")
        return float(kept[-1]["hours"]) if kept else 0.0

    def _there(self) -> list[Row]:
        return read_rows(self._path) if self._path.is_file() else []

    def write(self, **values: float | str | None) -> None:
        """Append a line, with the columns that are given."""
        assert values.keys() <= set(COLUMNS)
        line = _line([_text(values.get(name)) for name in COLUMNS])
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(line if file.tell() else _line(COLUMNS) + line)
        except OSError as error:
            if not self._failed:
                logger.warning("%s cannot be written: %s", self._path, error)
            self._failed = True


def read_rows(path: str | os.PathLike[str]) -> list[Row]:
    """Read all complete lines of a file.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: it has other columns, or a line is damaged.
    """
    with reading(path, _WAY_OUT):
        text = Path(path).read_text(encoding="utf-8")
        lines = text[: text.rfind("\n") + 1].split("\n")[:-1]
    if lines and lines[0] != ",".join(COLUMNS):
        raise InputError(
            f"{path}:1 must have the columns {', '.join(COLUMNS)}: it is no file of "
            "bilm train, or of another version"
        )
    return [_row(f"{path}:{n}", line) for n, line in enumerate(lines[1:], 2)]


def _row(where: str, line: str) -> Row:
    """The cells of a line, by their columns."""
    with reading(where, _WAY_OUT):
        row = dict(zip(COLUMNS, line.split(","), strict=True))
        int(row["step"]), float(row["hours"])  # always there
        for name, cell in row.items():
            if cell and name != "softmax":
                float(cell)
    return row


def points(rows: list[Row], column: str) -> list[Point]:
    """The values that a column has."""
    return [
        Point(float(row["step"]), float(row["hours"]), float(row[column]))
        for row in rows
        if row[column]
    ]


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return ",".join(cells) + "\n"


def _text(value: float | str | None) -> str:
    """Seven digits: as many as a float32 has."""
    if value is None or isinstance(value, str | int):
        return "" if value is None else str(value)
    return f"{value:.7g}"
