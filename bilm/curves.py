"""The curves of trainings, drawn from their `metrics.csv`."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bilm.errors import InputError
from bilm.files import replacing
from bilm.metrics_file import METRICS_FILE, Row, points, read_rows
from bilm.paths import check_folder
from bilm.plots import check_plot


class Panel(NamedTuple):
    """One quantity."""

    title: str
    columns: tuple[str, ...]
    logarithmic: bool = False


PANELS = (
    Panel("perplexity", ("train_perplexity", "valid_perplexity"), logarithmic=True),
    Panel("learning rate", ("learning_rate",)),
    Panel("gradient norm", ("gradient_norm",), logarithmic=True),
    Panel("tokens/s", ("tokens_per_second",)),
)
AXES = ("step", "hours")
_STYLES = ("-", "--")  # of the columns of a panel


def plot_curves(
    save_dirs: Sequence[str | os.PathLike[str]], outfile: str | os.PathLike[str]
) -> None:
    """Draw perplexities, learning rate, gradient norm and speed of runs.

    Args:
        save_dirs: folders of the runs, each with `metrics.csv`.
        outfile: picture, `.png`, `.pdf` or `.svg`; it appears whole or not at all.

    Raises:
        FileNotFoundError: a folder has no `metrics.csv`.
        InputError: matplotlib is missing, a file is not as it should be, or the
            picture's kind is not known.
    """
    check_plot(outfile)
    figure = draw({os.fspath(folder): _rows(folder) for folder in save_dirs})
    with replacing(outfile) as partial:
        figure.savefig(partial, format=Path(outfile).suffix[1:], dpi=120)


def draw(runs: dict[str, list[Row]]) -> Any:
    """The figure: a row for each panel, a column for steps and one for hours."""
    from matplotlib.figure import Figure  # not pyplot, which would ask for a screen

    figure = Figure(figsize=(11, 12), layout="constrained")
    axes = figure.subplots(
        len(PANELS), len(AXES), squeeze=False, sharex="col", sharey="row"
    )
    for panel, row in zip(PANELS, axes, strict=True):
        for over, axis in zip(AXES, row, strict=True):
            for number, (name, rows) in enumerate(runs.items()):
                _draw_run(axis, panel, over, rows, name, f"C{number}")
            if panel.logarithmic:
                axis.set_yscale("log")
            axis.grid(alpha=0.3)
        row[0].set_ylabel(panel.title)
    for over, axis in zip(AXES, axes[-1], strict=True):
        axis.set_xlabel(over)
    axes[0][0].legend(fontsize="small")
    return figure


def _draw_run(
    axis: Any, panel: Panel, over: str, rows: list[Row], name: str, color: str
) -> None:
    for column, style in zip(panel.columns, _STYLES, strict=False):
        found = points(rows, column)
        if found:
            x = [getattr(point, over) for point in found]
            label = f"{name}: {_label(column, rows)}"
            y = [point.value for point in found]
            axis.plot(x, y, style, color=color, label=label, marker=".")


def _label(column: str, rows: list[Row]) -> str:
    if column == "valid_perplexity":
        return "held-out"
    kinds = {row["softmax"] for row in rows if row[column]}
    return f"training ({' and '.join(sorted(kinds))})"


def _rows(folder: str | os.PathLike[str]) -> list[Row]:
    path = Path(folder, METRICS_FILE)
    check_folder(folder)
    if not path.is_file():
        raise FileNotFoundError(
            f"no {path}: give the folder of a run, where bilm train writes it"
        )
    rows = read_rows(path)
    if not rows:
        raise InputError(f"{path} has no line yet: wait for the first one")
    return rows
