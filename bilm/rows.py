"""Sentences of a block dealt out to the rows of a batch, and laid out row behind row.

The work in Python is by sentence and by distinct word, never by token.

Letters: B rows, T steps, n sentences or rests of them.
"""

import heapq
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.blocks import Block

State = dict[str, Any]


class Geometry(NamedTuple):
    """What must not change between a run and the one that continues it."""

    files: list[str]  # name and size of each shard
    batch_size: int  # B
    num_steps: int  # T
    fill_steps: int  # rows take sentences whenever this many steps were made
    reverse: bool
    shuffle_on_load: bool


class Pieces(NamedTuple):
    """Sentences, or the rests of them, that rows hold at the beginning of a block."""

    words: list[str]  # end to end
    lengths: list[int]  # [n], words of each, at least 2
    rows: list[int]  # [n], 0 to B - 1; each row uses its pieces in this order
    documents: list[int]  # [n], of each


class Place(NamedTuple):
    """The beginning of a block."""

    reader: State  # of ShardReader
    step: int  # steps that every row has made before
    pieces: Pieces
    documents: list[int]  # [B], of each row's last token before; -1 before the first


class Rows:
    """The tokens that each row gets from a block.

    Attributes:
        counts: how many each row gets, [B] int64.
    """

    def __init__(self, place: Place, block: Block, how: Geometry) -> None:
        """Deal out the sentences of a block that begins at a place."""
        pieces = place.pieces
        held = np.array(pieces.lengths, np.int64)
        starts = np.concatenate(
            [np.cumsum(held) - held, len(pieces.words) + block.starts]
        )
        lengths = np.concatenate([held, block.lengths])
        documents = np.concatenate([pieces.documents, block.documents])
        ends = place.step + _sums(pieces.rows, held - 1, how.batch_size)
        rows = np.array(
            pieces.rows + _deal(ends.tolist(), block.lengths - 1, how.fill_steps),
            np.int64,
        )
        order = np.argsort(rows, kind="stable")
        self._table = block.table
        self._words = np.concatenate([block.table.rows(pieces.words), block.words])
        self._starts, self._lengths = starts[order], lengths[order]
        self._rows, self._documents = rows[order], documents[order].astype(np.int64)
        self._documents_before = np.array(place.documents, np.int64)
        self.counts = _sums(self._rows, self._lengths - 1, how.batch_size)
        self._offsets = np.cumsum(self.counts) - self.counts
        n_inputs = self._lengths - 1  # the step at which each sentence begins:
        self._begins = np.cumsum(n_inputs) - n_inputs - self._offsets[self._rows]

    def first(self, n_steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The first inputs and targets of each row, and where documents begin.

        Each is [B, n_steps]. Inputs are rows of the word table, targets are ids. Where
        a row has fewer, they are `PADDING` and 0.
        """
        at = _ranges(self._starts, self._lengths - 1)
        inputs = self._words.take(at)  # take: twice as fast as indexing
        targets = self._table.column(0).take(self._words.take(at + 1))
        return (
            self._first(inputs, n_steps),
            self._first(targets, n_steps),
            self._begins_document(n_steps),
        )

    def _first(self, values: np.ndarray, n_steps: int) -> np.ndarray:
        first = np.zeros((len(self.counts), n_steps), np.int32)
        for row, offset, count in zip(first, self._offsets, self.counts, strict=True):
            row[:count] = values[offset : offset + min(count, n_steps)]
        return first

    def _begins_document(self, n_steps: int) -> np.ndarray:
        before = np.roll(self._documents, 1)
        first = self._begins == 0  # of its row
        before[first] = self._documents_before[self._rows[first]]
        begins = (self._documents != before) & (self._begins < n_steps)
        places = np.zeros((len(self.counts), n_steps), bool)
        places[self._rows[begins], self._begins[begins]] = True
        return places

    def last_documents(self, consumed: int) -> list[int]:
        """The document of the last token that each row has used."""
        last = self._documents_before.copy()
        used = self._begins < consumed
        last[self._rows[used]] = self._documents[used]  # the last of each row counts
        return last.tolist()

    def rest(self, consumed: int) -> Pieces:
        """What is left when every row has used its first `consumed` tokens."""
        n_inputs = self._lengths - 1
        used = np.clip(consumed - self._begins, 0, n_inputs)
        left = used < n_inputs
        starts, lengths = (self._starts + used)[left], (self._lengths - used)[left]
        words = self._words[_ranges(starts, lengths)]
        return Pieces(
            [self._table.words[i] for i in words.tolist()],
            lengths.tolist(),
            self._rows[left].tolist(),
            self._documents[left].tolist(),
        )


def _deal(ends: list[int], sizes: np.ndarray, fill_steps: int) -> list[int]:
    """Choose a row for each sentence, in order.

    Rows are filled for `fill_steps` steps at a time, the first row first: a sentence
    goes to the lowest of the rows whose tokens end within the earliest such interval.

    Args:
        ends: the step at which the tokens of each row end, [B]; it is changed.
        sizes: the number of inputs of each sentence, [n].
        fill_steps: steps of an interval.
    """
    n_rows, rows = len(ends), []
    # One number for interval and row: half the time of comparing pairs.
    queue = [end // fill_steps * n_rows + row for row, end in enumerate(ends)]
    heapq.heapify(queue)
    for size in sizes.tolist():
        row = queue[0] % n_rows
        ends[row] = end = ends[row] + size
        heapq.heapreplace(queue, end // fill_steps * n_rows + row)
        rows.append(row)
    return rows


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Join the ranges `starts[i]` to `starts[i] + lengths[i] - 1`, for all i."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(lengths.sum())


def _sums(groups: Sequence[int] | np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    """Sum the values of each of n groups, [n] int64."""
    sums = np.zeros(n, np.int64)
    np.add.at(sums, np.asarray(groups, np.int64), values)
    return sums
