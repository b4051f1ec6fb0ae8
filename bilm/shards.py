"""Blocks of sentences from the shards of a corpus, one direction of it.

A block is a shard, or a part of one where the shard is large, so that memory does not
depend on the size of a file. Words are rows of a `WordTable`, which both directions
share: to look tokens up takes most of the time of reading.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.blocks import Block, BlockReader
from bilm.characters import BOS, EOS
from bilm.text import TextPosition, no_text
from bilm.texttable import TextTable
from bilm.wordtable import WordTable

logger = logging.getLogger(__name__)

BLOCK_TOKENS = 1_000_000
"""A block ends with the sentence that reaches this number of ids. Sentences are
shuffled within a block: within the whole shard where it is no larger."""

MAX_TABLE_WORDS = 1 << 17
"""Distinct words that are remembered before a new block starts afresh."""


class Excerpt(NamedTuple):
    """A block as it stands in its shard."""

    block: Block
    end: TextPosition
    ends_shard: bool


class SharedWords:
    """What the readers of both directions have in common.

    Where both come to the same block, one after the other, it is read once: always in a
    single pass, and in training where there is a single shard.
    """

    def __init__(self, *encoders: Callable[[list[str]], np.ndarray]) -> None:
        """Start with an empty table; `encoders` are those of `WordTable`."""
        self._encoders = encoders
        self._words = TextTable(WordTable(*encoders, padded=True))
        self._last: tuple[object, Excerpt] | None = None

    def words(self) -> TextTable:
        """The table for a new block."""
        if len(self._words.table) > MAX_TABLE_WORDS:
            self._words = TextTable(WordTable(*self._encoders, padded=True))
        return self._words

    def no_block(self) -> Block:
        """A block of no sentences."""
        none = np.empty(0, np.int64)
        return Block(none.astype(np.int32), none, none, none, self._words.table)

    def excerpt(self, place: object, read: Callable[[], Excerpt]) -> Excerpt:
        """Give what stands at a place, by `read` unless it was the last to be read."""
        if self._last is None or self._last[0] != place:
            self._last = place, read()
        return self._last[1]


class ShardReader:
    """Gives the blocks of all shards, endlessly or once.

    Endless reading takes the shards in random order, each once an epoch; a single pass
    takes them in the order given.
    """

    def __init__(
        self,
        files: Sequence[str],
        random: np.random.Generator,
        shared: SharedWords,
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
            shared: of readers of the same files.
            reverse: sentences from the last word to the first.
            single_pass: whether to end after each shard was read once.
            shuffle: whether to shuffle the sentences of each block.
            warned: of what a warning was given already; readers of the same files
                share it.
        """
        self._files = files
        self._random = random
        self._shared = shared
        self._reverse = reverse
        self._single_pass = single_pass
        self._shuffle = shuffle
        self._shards: list[int] = list(range(len(files))) if single_pass else []
        self._position = TextPosition()  # of the block, in the first of the shards
        self._document = 0  # that goes on there
        self._reader: BlockReader | None = None  # of that shard, open between blocks
        self._empty: set[int] = set()
        self._warned = warned

    def state(self) -> dict[str, Any]:
        """Describe the place between two blocks, in values that JSON can hold."""
        return {
            "shards": list(self._shards),
            "offset": self._position.offset,
            "line": self._position.line,
            "document": self._document,
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a place that `state` described."""
        self._shards = list(state["shards"])
        self._position = TextPosition(state["offset"], state["line"])
        self._document = state["document"]
        self._reader = None
        self._random.bit_generator.state = state["random"]

    def next_block(self) -> Block:
        """Read the next block; one of no sentences after the last of a single pass.

        Raises:
            InputError: a shard is not text, or none has a sentence.
        """
        while True:
            if not self._shards:
                if self._single_pass:
                    return self._shared.no_block()
                self._shards = self._random.permutation(len(self._files)).tolist()
            block = self._read()
            if len(block.lengths):
                block = block.reversed() if self._reverse else block
                return block.shuffled(self._random) if self._shuffle else block

    def _read(self) -> Block:
        """Read on in the current shard; at its end, make the next one current."""
        place = self._shards[0], self._position
        block, self._position, ends_shard = self._shared.excerpt(place, self._look_up)
        document = self._document
        self._document += 2 * (block.count_blank() + ends_shard)
        if ends_shard:
            self._end_shard(empty=self._position.line == 0)
        return block._replace(documents=document + block.documents)

    def _look_up(self) -> Excerpt:
        """Read a block from the file."""
        path = self._files[self._shards[0]]
        # It stays behind where the other direction has read for both.
        if self._reader is None or self._reader.position != self._position:
            self._reader = BlockReader(path, self._position)
        block = self._reader.read(self._shared.words(), BLOCK_TOKENS)
        self._warn_of_special(block, path)
        ends_shard = len(block.words) < BLOCK_TOKENS
        return Excerpt(block, self._reader.position, ends_shard)

    def _end_shard(self, empty: bool) -> None:
        """Make the next shard current; warn of one without sentences."""
        shard, self._shards = self._shards[0], self._shards[1:]
        self._position, self._reader = TextPosition(), None
        if not empty:
            return
        self._empty.add(shard)
        if len(self._empty) == len(self._files):
            raise no_text(self._files, "sentence")
        path = self._files[shard]
        self._warn_once(path, "%s has no sentence", path)

    def _warn_of_special(self, block: Block, path: str) -> None:
        if in_text := block.count_special():
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
