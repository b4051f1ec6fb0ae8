"""Drawings, by matplotlib, which is installed with the extra `plot`."""

import importlib.util
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from bilm.errors import InputError
from bilm.files import replacing
from bilm.text_statistics import TextStatistics, mean, quantile

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SUFFIXES = (".png", ".pdf", ".svg")


def check_plot(path: str | os.PathLike[str]) -> None:
    """Check that a drawing can be made.

    Raises:
        InputError: matplotlib is missing, or the file has no known kind.
    """
    if Path(path).suffix not in SUFFIXES:
        raise InputError(
            f"a drawing must be a file {', '.join(SUFFIXES)}, not {os.fspath(path)}"
        )
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(
            "to draw, matplotlib is needed, which is not installed: pip install "
            "'bilm[plot]' (or matplotlib)"
        )


def plot_lengths(statistics: TextStatistics, path: str | os.PathLike[str]) -> None:
    """Draw how long the sentences and the tokens of a text are.

    Args:
        statistics: of the text.
        path: a file of one of the `SUFFIXES`; it appears whole or not at all.
    """
    # Without pyplot, which would ask for a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _histogram(left, statistics.sentence_lengths, "tokens of a sentence", "sentences")
    _histogram(right, statistics.token_bytes, "bytes of a token", "tokens")
    with replacing(path) as partial:
        figure.savefig(partial, format=Path(path).suffix[1:])


def _histogram(axes: "Axes", histogram: Counter[int], label: str, unit: str) -> None:
    """Bars of equal width, 100 at most, and lines at the mean and at 99 %."""
    most = max(histogram)
    width = most // 100 + 1
    edges = [edge - 0.5 for edge in range(0, most + width + 1, width)]
    axes.hist(list(histogram), edges, weights=list(histogram.values()))
    axes.set(xlabel=label, ylabel=unit, yscale="log")
    average, nearly_all = mean(histogram), quantile(histogram, 0.99)
    axes.axvline(average, color="black", label=f"mean {average:.1f}")
    axes.axvline(nearly_all, color="black", linestyle=":", label=f"99 %: {nearly_all}")
    axes.legend()
