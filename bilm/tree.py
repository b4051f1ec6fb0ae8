"""Trees of named things, drawn as indented lines with columns beside them."""

import os
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Entry(NamedTuple):
    """A line of a tree."""

    path: tuple[str, ...]  # the names on the way to it, its own last
    cells: tuple[str, ...]


def draw(entries: Iterable[Entry], head: Sequence[str] = ()) -> str:
    """Draw a tree.

    Args:
        entries: in any order; numbers within names are ordered by their value.
        head: of the columns.

    >>> print(draw([Entry(("a", "b10"), ("x",)), Entry(("a", "b9"), ("y",))]))
    a
      b9   y
      b10  x
    """
    lines = [("", tuple(head))] if head else []
    before: tuple[str, ...] = ()
    for path, cells in sorted(entries, key=_order):
        shared = len(os.path.commonprefix([before, path]))
        for depth in range(shared, len(path) - 1):
            lines.append(("  " * depth + path[depth], ()))
        lines.append(("  " * (len(path) - 1) + path[-1], cells))
        before = path
    return "\n".join(columns([(label, *cells) for label, cells in lines]))


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Set rows in columns, two blanks apart; a row may lack the last ones."""
    n_columns = max(map(len, rows), default=0)
    widths = [
        max((len(row[i]) for row in rows if len(row) > i), default=0)
        for i in range(n_columns)
    ]
    return [
        "  ".join(
            f"{cell:{width}}" for cell, width in zip(row, widths, strict=False)
        ).rstrip()
        for row in rows
    ]


def _order(entry: Entry) -> list[list[str | int]]:
    return [
        [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]
        for name in entry.path
    ]
