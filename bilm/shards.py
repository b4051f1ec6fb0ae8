"""Blocks of sentences from the shards of a corpus, one direction of it.

A block is a shard, or a part of one where the shard is large, so that memory does not
depend on the size of a file. Words are rows of a `WordTable`.
"""

import itertools
import logging
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.characters import BOS, EOS
from bilm.errors import InputError
from bilm.text import LineReader, TextPosition
from bilm.wordtable import WordTable

logger = logging.getLogger(__name__)

BLOCK_TOKENS = 1_000_000
"""A block ends with the sentence that reaches this number of ids. Sentences are
shuffled within a block: within the whole shard where it is no larger."""


class Block(NamedTuple):
    """Sentences with `<S>` and `</S>`, end to end in `words`."""

    words: np.ndarray  # [sum of lengths] int32, rows of the word table
    starts: np.ndarray  # [n] int64, where in `words` each sentence begins
    lengths: np.ndarray  # [n] int64


class ShardReader:
    """Gives the blocks of all shards, endlessly or once.

    Endless reading takes the shards in random order, each once an epoch; a single pass
    takes them in the order given.
    """

    def __init__(
        self,
        files: Sequence[str],
        random: np.random.Generator,
        *,
        reverse: bool,
        single_pass: bool,
        shuffle: bool,
        warned: set[str],
    ) -> None:
        """Start before the first shard.

        Args:
            files: paths of the shards.
            random: source of the orders.
            reverse: sentences from the last word to the first.
            single_pass: whether to end after each shard was read once.
            shuffle: whether to shuffle the sentences of each block.
            warned: of what a warning was given already; readers of the same files
                share it.
        """
        self._files = files
        self._random = random
        self._reverse = reverse
        self._single_pass = single_pass
        self._shuffle = shuffle
        self._shards: list[int] = list(range(len(files))) if single_pass else []
        self._position = TextPosition()  # of the block, in the first of the shards
        self._reader: LineReader | None = None  # of that shard, open between blocks
        self._lines: Iterator[str] = iter(())
        self._empty: set[int] = set()
        self._warned = warned

    def state(self) -> dict[str, Any]:
        """Describe the place between two blocks, in values that JSON can hold."""
        return {
            "shards": list(self._shards),
            "offset": self._position.offset,
            "line": self._position.line,
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a place that `state` described."""
        self._shards = list(state["shards"])
        self._position = TextPosition(state["offset"], state["line"])
        self._reader = None
        self._random.bit_generator.state = state["random"]

    def next_block(self, table: WordTable) -> Block | None:
        """Read the next block; None after the last one of a single pass.

        Raises:
            InputError: a shard is not text, or none has a sentence.
        """
        while True:
            if not self._shards:
                if self._single_pass:
                    return None
                self._shards = self._random.permutation(len(self._files)).tolist()
            words, lengths = self._read(table)
            if lengths:
                return self._block(words, lengths)

    def _read(self, table: WordTable) -> tuple[np.ndarray, list[int]]:
        """Read on in the current shard; at its end, make the next one current."""
        path = self._files[self._shards[0]]
        lengths: list[int] = []
        if self._reader is None:
            self._reader = LineReader(path, self._position)
            self._lines = iter(self._reader)
        sentences = self._sentences(self._reader, lengths)
        rows = (map(table.row, sentence) for sentence in sentences)
        words = np.fromiter(itertools.chain.from_iterable(rows), np.int32)
        self._warn_of_special(words, len(lengths), table, path)
        return words, lengths

    def _sentences(self, reader: LineReader, lengths: list[int]) -> Iterator[list[str]]:
        """Give sentences up to the end of the block, and note their lengths."""
        n_words = 0
        for line in self._lines:
            words = f"{BOS} {line} {EOS}".split()
            n_words += len(words)
            lengths.append(len(words))
            yield words[::-1] if self._reverse else words
            if n_words >= BLOCK_TOKENS:
                self._position = reader.position
                return
        self._end_shard(empty=reader.position.line == 0)

    def _block(self, words: np.ndarray, lengths: list[int]) -> Block:
        sizes = np.array(lengths, np.int64)
        starts = np.cumsum(sizes) - sizes
        if self._shuffle:
            order = self._random.permutation(len(sizes))
            starts, sizes = starts[order], sizes[order]
        return Block(words, starts, sizes)

    def _end_shard(self, empty: bool) -> None:
        """Make the next shard current; warn of one without sentences."""
        shard, self._shards = self._shards[0], self._shards[1:]
        self._position, self._reader = TextPosition(), None
        if not empty:
            return
        path = self._files[shard]
        self._warn_once(path, "%s has no sentence", path)
        self._empty.add(shard)
        if len(self._empty) == len(self._files):
            raise InputError(
                f"there is no sentence in {', '.join(self._files[:5])} "
                f"({len(self._files)} files in all): the text needs one on each line"
            )

    def _warn_of_special(
        self, words: np.ndarray, n_sentences: int, table: WordTable, path: str
    ) -> None:
        special = (words == table.row(BOS)) | (words == table.row(EOS))
        in_text = np.count_nonzero(special) - 2 * n_sentences
        if in_text:
            self._warn_once(
                BOS,
                "%s has %s or %s %d times in its text; they are added to every "
                "sentence, and are taken for the same special words here",
                path,
                BOS,
                EOS,
                in_text,
            )

    def _warn_once(self, key: str, message: str, *values: object) -> None:
        if key not in self._warned:
            self._warned.add(key)
            logger.warning(message, *values)
