"""One direction of a corpus as batches: sentences packed into rows.

A block of sentences at a time is dealt out to the rows and laid out row behind row, so
that a batch is an array slice.

Letters: B rows, T steps, C characters per word.
"""

import logging
import reprlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bilm.errors import InputError
from bilm.rows import Geometry, Pieces, Place, Rows, State
from bilm.shards import ShardReader
from bilm.wordtable import PADDING, WordTable

logger = logging.getLogger(__name__)


class Batch(NamedTuple):
    """T steps of B rows, in one direction."""

    words: np.ndarray  # [B, T] int32, rows of the table; `PADDING` behind the last one
    next_token_id: np.ndarray  # [B, T] int32
    begins_document: np.ndarray  # [B, T] bool, the token before is of another one
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

    def lines(self) -> list[str]:
        """The words of each row, for people."""
        words = self.table.words
        return [" ".join(words[i] for i in row if i != PADDING) for row in self.words]

    def only(self, rows: slice) -> "Batch":
        """Some of the rows."""
        return self._replace(
            words=self.words[rows],
            next_token_id=self.next_token_id[rows],
            begins_document=self.begins_document[rows],
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
            "documents": self.block.documents,
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
        place, done = self._first_place(), 0
        if start is not None:
            place, done = self._restore(start)
        while True:
            block = self._reader.next_block()
            rows = Rows(place, block, self._geometry)
            ended = not len(block.starts)
            total = self._n_batches(rows.counts, last=ended)
            steps, consumed = self._geometry.num_steps, total * self._geometry.num_steps
            words, targets, begins = rows.first(consumed)
            for number in range(done + 1, total + 1):
                at = np.s_[:, (number - 1) * steps : number * steps]
                yield Batch(
                    words[at],
                    targets[at],
                    begins[at],
                    block.table,
                    self._geometry,
                    place,
                    number,
                )
            done = 0
            if ended:
                self._say_left_out(rows.counts - consumed)
                return
            place = Place(
                self._reader.state(),
                place.step + consumed,
                rows.rest(consumed),
                rows.last_documents(consumed),
            )

    def _first_place(self) -> Place:
        nothing = Pieces([], [], [], [])
        none = [-1] * self._geometry.batch_size
        return Place(self._reader.state(), 0, nothing, none)

    def _restore(self, start: State) -> tuple[Place, int]:
        for name, value in self._geometry._asdict().items():
            saved = start["geometry"][name]
            if saved != value:
                raise InputError(
                    f"the saved position belongs to {name} = {reprlib.repr(saved)}, "
                    f"which is now {reprlib.repr(value)}: go on with the same, or "
                    "start anew"
                )
        self._reader.restore(start["reader"])
        pieces = Pieces(**start["pieces"])
        place = Place(start["reader"], start["step"], pieces, start["documents"])
        return place, start["batches"]

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
