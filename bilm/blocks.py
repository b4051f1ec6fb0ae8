"""One shard as blocks of sentences.

Letters: n sentences.
"""

from typing import NamedTuple

import numpy as np

from bilm.characters import BOS, EOS
from bilm.text import LineReader, TextPosition
from bilm.texttable import TextTable
from bilm.wordtable import WordTable


class Block(NamedTuple):
    """Sentences with `<S>` and `</S>`, end to end in `words`."""

    words: np.ndarray  # [sum of lengths] int32, rows of the word table
    starts: np.ndarray  # [n] int64, where in `words` each sentence begins
    lengths: np.ndarray  # [n] int64
    documents: np.ndarray  # [n] int64, equal for sentences of the same document
    table: WordTable

    def reversed(self) -> "Block":
        """The same sentences in the same order, each from its last word to the first.

        All words turned round are the sentences turned round, the last one first.
        """
        starts = len(self.words) - self.starts - self.lengths
        return self._replace(words=self.words[::-1], starts=starts)

    def shuffled(self, random: np.random.Generator) -> "Block":
        """The same sentences in random order."""
        order = random.permutation(len(self.starts))
        return self._replace(
            starts=self.starts[order],
            lengths=self.lengths[order],
            documents=self.documents[order],
        )

    def count_blank(self) -> int:
        """How many lines have no token: they stand between documents."""
        return int(np.count_nonzero(self.lengths == 2))

    def count_special(self) -> int:
        """How many `<S>` and `</S>` the text itself has."""
        special = np.isin(self.words, self.table.rows([BOS, EOS]))
        return int(np.count_nonzero(special)) - 2 * len(self.starts)


class BlockReader:
    """Reads a shard.

    Attributes:
        position: the position after the last block.
    """

    def __init__(self, path: str, start: TextPosition) -> None:
        """Prepare to read on from a position."""
        self.position = start
        self._reader = LineReader(path, start)
        self._texts = self._reader.texts()
        self._rest = b""  # of a text, behind the position

    def read(self, words: TextTable, n_ids: int) -> Block:
        """Read a block, which ends with the sentence that reaches `n_ids` ids.

        Raises:
            FileNotFoundError, InputError: see `LineReader`.
        """
        pieces: list[np.ndarray] = []
        counts: list[np.ndarray] = []
        lines_left = 0
        while n_ids > 0 and (text := self._rest or next(self._texts, b"")):
            lines = words.look_up(text)
            ids = np.cumsum(lines.counts + 2)
            n_lines = min(int(np.searchsorted(ids, n_ids)) + 1, len(ids))
            self._rest = text[lines.ends[n_lines - 1] :]
            lines_left = len(ids) - n_lines
            n_ids -= int(ids[n_lines - 1])
            counts.append(lines.counts[:n_lines])
            pieces.append(lines.words[: counts[-1].sum()])
        offset, line = self._reader.position
        self.position = TextPosition(offset - len(self._rest), line - lines_left)
        return _block(pieces, counts, words.table)


def _block(
    pieces: list[np.ndarray], counts: list[np.ndarray], table: WordTable
) -> Block:
    """Join the words of lines, with `<S>` and `</S>` around each line."""
    lengths = np.concatenate([np.empty(0, np.int64), *counts]) + 2
    ends = np.cumsum(lengths)
    starts = ends - lengths
    words = np.empty(lengths.sum(), np.int32)
    is_token = np.ones(len(words), bool)
    for word, places in ((BOS, starts), (EOS, ends - 1)):
        words[places] = table.row(word)
        is_token[places] = False
    words[is_token] = np.concatenate([np.empty(0, np.int32), *pieces])
    blank = lengths == 2
    documents = 2 * np.cumsum(blank) - blank  # a blank line has a number of its own
    return Block(words, starts, lengths, documents, table)
