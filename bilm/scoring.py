"""Log-probabilities of the words of a text, in both directions.

Letters: n words of a sentence, m steps of a window, K directions, T steps and B rows of
a batch.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bilm.characters import BOS, EOS
from bilm.evaluation import trained_network
from bilm.inputs import StepInputs, check_vocabulary, inputs_of_words
from bilm.language_model import full_losses
from bilm.network import BilmState, Network
from bilm.options import TrainingOptions, as_training_options
from bilm.reading import (
    BATCH_TOKENS,
    Reading,
    Sentences,
    check_reading,
    reading_orders,
    sentence_windows,
    window_tokens,
)
from bilm.vocabulary import Vocabulary
from bilm.wordtable import PADDING, WordTable

MAX_WORDS = 1 << 17  # remembered with their ids before the table starts afresh


class SentenceScores(NamedTuple):
    """Natural logarithms of the probabilities of a sentence's tokens.

    The forward direction predicts each word and `</S>` from what stands before it, the
    backward direction `<S>` and each word from what stands behind it.
    """

    tokens: Sequence[str]  # [n]
    known: np.ndarray  # bool [n]; a word out of the vocabulary is scored as `<UNK>`
    forward: np.ndarray  # float32 [n + 1], of the words and `</S>`
    backward: np.ndarray | None  # float32 [n + 1], of `<S>` and the words

    @property
    def sums(self) -> np.ndarray:
        """Log-probability of the sentence by each direction, float64 [K]."""
        directions = [d for d in (self.forward, self.backward) if d is not None]
        return np.array([np.sum(d, dtype=np.float64) for d in directions])


class _Read(NamedTuple):
    """The steps of a window as each direction reads them."""

    words: np.ndarray  # int32 [K, m], rows of the table
    labels: np.ndarray  # int32 [K, m]
    keep: np.ndarray  # float32 [m], 0: the state is zeroed before; the same for all K


class _Steps(NamedTuple):
    """Sequences side by side, one in each column."""

    places: np.ndarray  # int [T, B], among the steps of the window
    real: np.ndarray  # bool [T, B], false behind the end of a sequence


def score(
    options: TrainingOptions | Mapping[str, Any],
    ckpt_file: str | os.PathLike[str],
    vocab: Vocabulary,
    sentences: Sentences,
    *,
    stateful: bool = False,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[SentenceScores]:
    """Score sentences by the full softmax of a checkpoint.

    Args:
        options: training options.
        ckpt_file: prefix of the checkpoint.
        vocab: of the training, as `load_vocab` gives it.
        sentences: lists of tokens, taken as they are needed.
        stateful: each sentence starts from the state after the one before, in both
            directions, as in `evaluate` with a `batch_size` of 1, whose perplexities
            the sums then give; with `reset_state` "document" from zero where an empty
            sentence stands between. Else each starts from zero, so that a sentence's
            scores depend on it alone.
        batch_tokens: tokens of a batch, which bounds the memory.

    Yields:
        The scores of each sentence, in order.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: options, checkpoint and vocabulary do not fit each other, or a
            sentence is a text.
    """
    reading = Reading(batch_tokens=batch_tokens, stateful=stateful)
    check_reading(reading, as_training_options(options))
    return open_scorer(options, ckpt_file, vocab).scores(sentences, reading)


def open_scorer(
    options: TrainingOptions | Mapping[str, Any],
    ckpt_file: str | os.PathLike[str],
    vocab: Vocabulary,
) -> "Scorer":
    """Open a checkpoint to score by; arguments and errors are those of `score`."""
    checked = as_training_options(options)
    check_vocabulary(checked, vocab)
    network = trained_network(checked, ckpt_file)
    return Scorer(network, vocab, checked.resets_state)


class Scorer:
    """Scores sentences by a network with its softmax."""

    def __init__(
        self, network: Network, vocab: Vocabulary, resets_state: bool = False
    ) -> None:
        """Take what `open_scorer` has checked; `resets_state` of the options."""
        self._network = network
        self._vocab = vocab
        self._resets_state = resets_state
        self._losses = full_losses(network, resets_state)
        self._table = self._new_table()

    def scores(
        self, sentences: Sentences, reading: Reading
    ) -> Iterator[SentenceScores]:
        """Score sentences as they come; `stateful` and `batch_tokens` count."""
        state, after_blank = self._network.zero_state(1), False
        for taken in sentence_windows(sentences, window_tokens(reading)):
            if len(self._table) > MAX_WORDS:
                self._table = self._new_table()
            delimited = [[BOS, *tokens, EOS] for tokens in taken]
            words = self._table.rows([word for each in delimited for word in each])
            n_steps = np.array([len(tokens) + 1 for tokens in taken])
            if reading.stateful:
                total = int(n_steps.sum())
                batches = [_Steps(np.arange(total)[:, None], np.full((total, 1), True))]
            else:
                batches = list(_batches(n_steps, reading.batch_tokens))
            read = self._read(words, n_steps, after_blank)
            losses, state = self._window(read, batches, reading, state)
            after_blank = not taken[-1]
            yield from self._of_sentences(taken, -losses, n_steps)

    def _read(self, words: np.ndarray, n_steps: np.ndarray, after_blank: bool) -> _Read:
        """The words of a window's sentences in the order of each direction."""
        orders = reading_orders(n_steps + 1, self._network.options.n_directions)
        read = np.stack([words[order] for order in orders])  # [K, m + sentences]
        ends = np.cumsum(n_steps + 1) - 1
        targets = np.delete(read, ends - n_steps, 1)
        keep = np.ones(n_steps.sum(), np.float32)
        blank = n_steps == 1  # a document of its own, as in `bilm.blocks`
        begins = blank | np.concatenate([[after_blank], blank[:-1]])
        keep[(np.cumsum(n_steps) - n_steps)[begins]] = 0
        labels = self._table.column(0)[targets]
        return _Read(np.delete(read, ends, 1), labels, keep)

    def _window(
        self,
        read: _Read,
        batches: Sequence[_Steps],
        reading: Reading,
        state: BilmState,
    ) -> tuple[np.ndarray, BilmState]:
        """Losses [K, m] of the steps as they are read, and the state after."""
        losses = np.empty(read.labels.shape, np.float32)
        for batch in batches:
            if not reading.stateful:
                state = self._network.zero_state(batch.places.shape[1])
            state = self._batch(read, batch, reading, state, losses)
        return losses, state

    def _batch(
        self,
        read: _Read,
        batch: _Steps,
        reading: Reading,
        state: BilmState,
        losses: np.ndarray,
    ) -> BilmState:
        """Fill in the losses of a batch, in pieces whose states are carried."""
        n_steps, rows = batch.places.shape
        size = max(1, reading.batch_tokens // rows)
        for start in range(0, n_steps, size):
            places, real = (part[start : start + size] for part in batch)
            inputs = self._inputs(read, places, real)
            result, state = self._losses(inputs, state)
            losses[:, places[real]] = result.numpy()[:, real]
        return state

    def _inputs(self, read: _Read, places: np.ndarray, real: np.ndarray) -> StepInputs:
        words = np.where(real, read.words[:, places], PADDING)
        labels = read.labels[:, places]
        uses_characters = self._network.options.char_cnn is not None
        inputs = inputs_of_words(self._table, words, labels, uses_characters)
        if not self._resets_state:
            return inputs
        keep = np.broadcast_to(read.keep[places], labels.shape)
        return inputs._replace(keep=keep)

    def _new_table(self) -> WordTable:
        return WordTable(*self._vocab.encoders, padded=True)

    def _of_sentences(
        self, sentences: Sequence[Sequence[str]], log_probs: np.ndarray, n: np.ndarray
    ) -> Iterator[SentenceScores]:
        """Cut log-probabilities [K, m] into sentences, in the order of the text."""
        ends = np.cumsum(n)
        for tokens, start, end in zip(sentences, ends - n, ends, strict=True):
            forward, *backward = log_probs[:, start:end].copy()
            known = np.array([word in self._vocab for word in tokens], bool)
            reverse = backward[0][::-1] if backward else None
            yield SentenceScores(tokens, known, forward, reverse)


def _batches(n_steps: np.ndarray, batch_tokens: int) -> Iterator[_Steps]:
    """Sentences of like length side by side, the longest ones first."""
    begins = np.cumsum(n_steps) - n_steps
    order = np.argsort(-n_steps, kind="stable")
    while len(order):
        longest = int(n_steps[order[0]])
        taken = order[: max(1, batch_tokens // longest)]
        order = order[len(taken) :]
        steps = np.arange(longest)[:, None]
        real = steps < n_steps[taken]
        yield _Steps(np.where(real, begins[taken] + steps, 0), real)
