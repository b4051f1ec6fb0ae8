"""Training and evaluation batches from text, in one or both directions.

Each of the B rows is a stream of its own: row r of a batch goes on where row r of the
batch before ended. When its sentence is used up, a row takes the next one; the first
row takes all that it needs for T steps, then the second, and so on:

    text: "the unknown ." / "th ." / "the"       B = 2, T = 3

               batch 0                batch 1
    row 0      <S> the unknown        .   <S> the         sentences 0, 2
    row 1      <S> th  .              <S> the unknown     sentences 1, 0 (next epoch)

The target of a token is the one that follows it in its sentence, so `</S>` is never
an input and every sentence of n tokens gives n + 1 of them. No token of a long
sentence is lost: the row goes on with it in the next batch. A blank line is a sentence
without tokens.

Letters: B rows, T steps, C characters per word.
"""

import abc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bilm.errors import InputError
from bilm.shards import ShardReader, SharedWords
from bilm.stream import Batch, Geometry, State, Stream
from bilm.text import PathOrPattern, find_files
from bilm.token_counts import count_tokens
from bilm.vocabulary import Vocabulary


class BidirectionalBatch(NamedTuple):
    """A batch of each direction."""

    forward: Batch
    reverse: Batch

    def lines(self) -> list[str]:
        """The words of each row, those of the reverse batch behind the others."""
        return self.forward.lines() + self.reverse.lines()

    def only(self, rows: slice) -> "BidirectionalBatch":
        """Some of the rows."""
        return BidirectionalBatch(self.forward.only(rows), self.reverse.only(rows))

    def state(self) -> State:
        """The position after this batch; see `Batch.state`."""
        return {"forward": self.forward.state(), "reverse": self.reverse.state()}

    def as_dict(self, weights: bool = False) -> dict[str, np.ndarray]:
        """The dictionary of bilm-tf: keys of the reverse batch end with `_reverse`."""
        reverse = self.reverse.as_dict(weights)
        return self.forward.as_dict(weights) | {
            f"{name}_reverse": array for name, array in reverse.items()
        }


class _Dataset(abc.ABC):
    """What the data sets of one and of two directions share."""

    def __init__(self, files: list[str], vocab: Vocabulary, shuffles: bool) -> None:
        self.files = files
        self.vocab = vocab
        self.shuffles = shuffles
        self._state: State | None = None

    @abc.abstractmethod
    def batches(
        self,
        batch_size: int,
        num_steps: int,
        keep_incomplete: bool = False,
        fill_steps: int | None = None,
    ) -> Iterator[Batch] | Iterator[BidirectionalBatch]:
        """Give batches as records that know their position; see `iter_batches`."""

    def iter_batches(
        self,
        batch_size: int,
        num_steps: int,
        *,
        keep_incomplete: bool = False,
        fill_steps: int | None = None,
    ) -> Iterator[dict[str, np.ndarray]]:
        """Give batches as dictionaries.

        Args:
            batch_size: B, the number of rows.
            num_steps: T, the number of tokens of each row.
            keep_incomplete: with `test`, go on when the sentences run out, with 0 and
                weight 0 where a row has no token, until each token was given once. By
                default the rest is left out, as bilm-tf does, and its size logged.
            fill_steps: rows take sentences, the first row first, whenever this many
                steps were made; by default `num_steps`, as in bilm-tf. With a number
                of its own (1 for evaluation) it does not depend on `num_steps` which
                row gets which sentence.

        Yields:
            `token_ids`, `next_token_id` [B, T] int32; `tokens_characters` [B, T, C]
            int32 where the vocabulary has characters; with `keep_incomplete`,
            `weights` [B, T] float32, 1 for a token and 0 for padding. For both
            directions, the same again with `_reverse`.

        Raises:
            InputError: a shard is not text, or none has a sentence; an argument is
                below 1; a restored position belongs to other data or arguments.
        """
        for batch in self.batches(batch_size, num_steps, keep_incomplete, fill_steps):
            self._state = batch.state()
            yield batch.as_dict(keep_incomplete)

    @property
    @abc.abstractmethod
    def entropy(self) -> int:
        """The number that the random orders follow from."""

    @abc.abstractmethod
    def reseed(self, entropy: int) -> None:
        """Draw the random orders anew, as if the data set had this number as seed."""

    def count_tokens(self) -> int:
        """Count the tokens of all shards; see `bilm.token_counts.count_tokens`."""
        return count_tokens(self.files)

    def state(self) -> State:
        """The position after the last batch that `iter_batches` gave, for `restore`.

        Where batches are prepared ahead, `Batch.state` is that of each.

        Raises:
            InputError: no batch was given yet.
        """
        if self._state is None:
            raise InputError("a data set has no position before its first batch")
        return self._state

    def restore(self, state: State) -> None:
        """Let the next `iter_batches` or `batches` go on from a position."""
        self._state = state


class LMDataset(_Dataset):
    """Batches of a corpus in one direction.

    For training it is endless: shards come in random order, each once an epoch. With
    `test` it is a single pass over the shards in sorted order.

    Attributes:
        files: paths of the shards, sorted.
        vocab: the vocabulary.
        shuffles: whether sentences are shuffled.
    """

    def __init__(
        self,
        filepattern: PathOrPattern | Sequence[PathOrPattern],
        vocab: Vocabulary,
        reverse: bool = False,
        test: bool = False,
        shuffle_on_load: bool = False,
        *,
        seed: int | np.random.SeedSequence | None = None,
    ) -> None:
        """Find the shards.

        Args:
            filepattern: text of one sentence a line; see `bilm.text.find_files`.
            vocab: gives ids, and characters where it is a `UnicodeCharsVocabulary`.
            reverse: take sentences from the last word to the first.
            test: a single pass in sorted order, for evaluation.
            shuffle_on_load: shuffle sentences, within blocks of
                `bilm.shards.BLOCK_TOKENS` ids of a shard.
            seed: of both orders; by default from the operating system. Each iteration
                draws on from the one before.

        Raises:
            FileNotFoundError: there is no such file.
        """
        super().__init__(find_files(filepattern), vocab, shuffle_on_load)
        self._reverse = reverse
        self._test = test
        self.warned: set[str] = set()
        self._start: State | None = None
        self._seeds = _as_seeds(seed)

    @property
    def entropy(self) -> int:
        """The number that the random order follows from."""
        assert isinstance(self._seeds.entropy, int)
        return self._seeds.entropy

    def reseed(self, entropy: int | np.random.SeedSequence) -> None:
        """Draw the random order anew, as if the data set had this number as seed."""
        self._seeds = _as_seeds(entropy)

    def batches(
        self,
        batch_size: int,
        num_steps: int,
        keep_incomplete: bool = False,
        fill_steps: int | None = None,
        *,
        shared: SharedWords | None = None,
    ) -> Iterator[Batch]:
        """Give batches as records that know their position; see `iter_batches`.

        The reader of the other direction, of the same files, may have `shared` too.
        """
        if fill_steps is None:
            fill_steps = num_steps
        geometry = Geometry(
            [f"{Path(file).name} {os.path.getsize(file)}" for file in self.files],
            batch_size,
            num_steps,
            fill_steps,
            self._reverse,
            self.shuffles,
        )
        for name in ("batch_size", "num_steps", "fill_steps"):
            if (value := getattr(geometry, name)) < 1:
                raise InputError(f"{name} must be at least 1, but is {value}")
        reader = ShardReader(
            self.files,
            np.random.default_rng(self._seeds.spawn(1)[0]),
            shared or SharedWords(*self.vocab.encoders),
            reverse=self._reverse,
            single_pass=self._test,
            shuffle=self.shuffles,
            warned=self.warned,
        )
        start, self._start = self._start, None
        return Stream(reader, geometry, keep_incomplete).batches(start)

    def restore(self, state: State) -> None:
        """Let the next `iter_batches` or `batches` go on from a position."""
        super().restore(state)
        self._start = state


class BidirectionalLMDataset(_Dataset):
    """Batches of a corpus in both directions.

    They choose and shuffle shards independently of each other. With `test` both take
    the same sentences in the same order.

    Attributes:
        files: paths of the shards, sorted.
        vocab: the vocabulary.
        shuffles: whether sentences are shuffled.
    """

    def __init__(
        self,
        filepattern: PathOrPattern | Sequence[PathOrPattern],
        vocab: Vocabulary,
        test: bool = False,
        shuffle_on_load: bool = False,
        *,
        seed: int | None = None,
    ) -> None:
        """Find the shards; arguments and errors are those of `LMDataset`."""
        seeds = np.random.SeedSequence(seed).spawn(2)
        self._forward, self._reverse = (
            LMDataset(filepattern, vocab, reverse, test, shuffle_on_load, seed=seed)
            for reverse, seed in zip((False, True), seeds, strict=True)
        )
        self._reverse.warned = self._forward.warned  # they read the same files
        super().__init__(self._forward.files, vocab, shuffle_on_load)

    @property
    def entropy(self) -> int:
        """The number that both random orders follow from."""
        return self._forward.entropy

    def reseed(self, entropy: int) -> None:
        """Draw the random orders anew, as if the data set had this number as seed."""
        forward, reverse = np.random.SeedSequence(entropy).spawn(2)
        self._forward.reseed(forward)
        self._reverse.reseed(reverse)

    def batches(
        self,
        batch_size: int,
        num_steps: int,
        keep_incomplete: bool = False,
        fill_steps: int | None = None,
    ) -> Iterator[BidirectionalBatch]:
        """Give batches as records that know their position; see `iter_batches`."""
        how = (batch_size, num_steps, keep_incomplete, fill_steps)
        shared = SharedWords(*self.vocab.encoders)
        forward, reverse = (
            dataset.batches(*how, shared=shared)
            for dataset in (self._forward, self._reverse)
        )
        return map(BidirectionalBatch, forward, reverse)

    def restore(self, state: State) -> None:
        """Let the next `iter_batches` or `batches` go on from a position."""
        super().restore(state)
        self._forward.restore(state["forward"])
        self._reverse.restore(state["reverse"])


def _as_seeds(seed: int | np.random.SeedSequence | None) -> np.random.SeedSequence:
    if isinstance(seed, np.random.SeedSequence):
        return seed
    return np.random.SeedSequence(seed)
