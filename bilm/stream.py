"""One direction of a corpus as batches: sentences packed into rows.

A block of sentences at a time is dealt out to the rows, looked up, and laid out row
behind row, so that a batch is an array slice: the work in Python is by sentence and by
distinct word, never by token.

Letters: B rows, T steps, C characters per word.
"""

import heapq
import logging
import reprlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.blocks import Block
from bilm.errors import InputError
from bilm.shards import ShardReader
from bilm.wordtable import PADDING, WordTable

logger = logging.getLogger(__name__)

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


class Place(NamedTuple):
    """The beginning of a block."""

    reader: State  # of ShardReader
    step: int  # steps that every row has made before
    pieces: Pieces


class Batch(NamedTuple):
    """T steps of B rows, in one direction."""

    words: np.ndarray  # [B, T] int32, rows of the table; `PADDING` behind the last one
    next_token_id: np.ndarray  # [B, T] int32
    table: WordTable  # its columns are word ids and, where there are any, characters
    geometry: Geometry
    block: Place  # the beginning of the block that it comes from
    number: int  # batches of this block up to and with this one

    @property
    def token_ids(self) -> np.ndarray:
        """[B, T] int32."""
        return self.table.column(0).take(self.words)

    @property
    def characters(self) -> np.ndarray | None:
        """[B, T, C] int32; None without characters."""
        if self.table.n_columns == 1:
            return None
        # The table is int16: half as much to fetch costs less than the conversion.
        return self.table.column(1).take(self.words, axis=0).astype(np.int32)

    @property
    def weights(self) -> np.ndarray:
        """[B, T] float32: 1 for a token, 0 for padding."""
        return (self.words != PADDING).astype(np.float32)

    def words_in(self, table: WordTable) -> np.ndarray:
        """The words as rows of this table, [B, T] int32.

        That of the other direction is another one while a new one replaces it.
        """
        if table is self.table:
            return self.words
        words = [self.table.words[row] for row in self.words.ravel().tolist()]
        return table.rows(words).reshape(self.words.shape)

    def only(self, rows: slice) -> "Batch":
        """Some of the rows."""
        return self._replace(
            words=self.words[rows], next_token_id=self.next_token_id[rows]
        )

    def state(self) -> State:
        """The position after this batch, for `restore`, in values that JSON can hold.

        It belongs to the batch, not to the data set, so a thread that prepares
        batches ahead does not move it.
        """
        return {
            "geometry": self.geometry._asdict(),
            "reader": self.block.reader,
            "step": self.block.step,
            "pieces": self.block.pieces._asdict(),
            "batches": self.number,
        }

    def as_dict(self, weights: bool = False) -> dict[str, np.ndarray]:
        """The dictionary of bilm-tf, with `weights` beside it where asked for."""
        arrays = {
            "token_ids": self.token_ids,
            "next_token_id": self.next_token_id.copy(),  # not a part of a larger array
        }
        if (characters := self.characters) is not None:
            arrays["tokens_characters"] = characters
        if weights:
            arrays["weights"] = self.weights
        return arrays


class Stream:
    """Packs the blocks of a reader into batches."""

    def __init__(
        self,
        reader: ShardReader,
        geometry: Geometry,
        keep_incomplete: bool,
    ) -> None:
        """Take what `LMDataset.batches` was asked for."""
        self._reader = reader
        self._geometry = geometry
        self._keep_incomplete = keep_incomplete

    def batches(self, start: State | None = None) -> Iterator[Batch]:
        """Give batches from the beginning, or from a position on."""
        step, pieces, done = 0, Pieces([], [], []), 0
        if start is not None:
            step, pieces, done = self._restore(start)
        while True:
            place = Place(self._reader.state(), step, pieces)
            block = self._reader.next_block()
            rows = _Rows(pieces, block, step, self._geometry)
            ended = not len(block.starts)
            total = self._n_batches(rows.counts, last=ended)
            steps, consumed = self._geometry.num_steps, total * self._geometry.num_steps
            words, targets = rows.first(consumed)
            for number in range(done + 1, total + 1):
                at = np.s_[:, (number - 1) * steps : number * steps]
                yield Batch(
                    words[at], targets[at], block.table, self._geometry, place, number
                )
            done = 0
            if ended:
                self._say_left_out(rows.counts - consumed)
                return
            step, pieces = step + consumed, rows.rest(consumed)

    def _restore(self, start: State) -> tuple[int, Pieces, int]:
        for name, value in self._geometry._asdict().items():
            saved = start["geometry"][name]
            if saved != value:
                raise InputError(
                    f"the saved position belongs to {name} = {reprlib.repr(saved)}, "
                    f"which is now {reprlib.repr(value)}: go on with the same, or "
                    "start anew"
                )
        self._reader.restore(start["reader"])
        return start["step"], Pieces(**start["pieces"]), start["batches"]

    def _n_batches(self, counts: np.ndarray, last: bool) -> int:
        """How many batches can be made of rows with these numbers of tokens."""
        if last and self._keep_incomplete:
            return -(-int(counts.max()) // self._geometry.num_steps)
        return int(counts.min()) // self._geometry.num_steps

    def _say_left_out(self, counts: np.ndarray) -> None:
        if (left := int(counts.clip(0).sum())) > 0:
            logger.info(
                "the last %d tokens do not fill a batch of %d rows and %d steps "
                "and are left out",
                left,
                self._geometry.batch_size,
                self._geometry.num_steps,
            )


class _Rows:
    """The tokens that each row gets from a block.

    Attributes:
        counts: how many each row gets, [B] int64.
    """

    def __init__(self, pieces: Pieces, block: Block, step: int, how: Geometry) -> None:
        held = np.array(pieces.lengths, np.int64)
        starts = np.concatenate(
            [np.cumsum(held) - held, len(pieces.words) + block.starts]
        )
        lengths = np.concatenate([held, block.lengths])
        ends = step + _sums(pieces.rows, held - 1, how.batch_size)
        rows = np.array(
            pieces.rows + _deal(ends.tolist(), block.lengths - 1, how.fill_steps),
            np.int64,
        )
        order = np.argsort(rows, kind="stable")
        self._table = block.table
        self._words = np.concatenate([block.table.rows(pieces.words), block.words])
        self._starts, self._lengths = starts[order], lengths[order]
        self._rows = rows[order]
        self.counts = _sums(self._rows, self._lengths - 1, how.batch_size)
        self._offsets = np.cumsum(self.counts) - self.counts

    def first(self, n_steps: int) -> tuple[np.ndarray, np.ndarray]:
        """The first inputs and targets of each row, [B, n_steps] int32 each.

        Inputs are rows of the word table, targets are ids. Where a row has fewer, they
        are `PADDING` and 0.
        """
        at = _ranges(self._starts, self._lengths - 1)
        inputs = self._words.take(at)  # take: twice as fast as indexing
        targets = self._table.column(0).take(self._words.take(at + 1))
        return self._first(inputs, n_steps), self._first(targets, n_steps)

    def _first(self, values: np.ndarray, n_steps: int) -> np.ndarray:
        first = np.zeros((len(self.counts), n_steps), np.int32)
        for row, offset, count in zip(first, self._offsets, self.counts, strict=True):
            row[:count] = values[offset : offset + min(count, n_steps)]
        return first

    def rest(self, consumed: int) -> Pieces:
        """What is left when every row has used its first `consumed` tokens."""
        n_inputs = self._lengths - 1
        begins = np.cumsum(n_inputs) - n_inputs - self._offsets[self._rows]
        used = np.clip(consumed - begins, 0, n_inputs)
        left = used < n_inputs
        starts, lengths = (self._starts + used)[left], (self._lengths - used)[left]
        words = self._words[_ranges(starts, lengths)]
        return Pieces(
            [self._table.words[i] for i in words.tolist()],
            lengths.tolist(),
            self._rows[left].tolist(),
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
