"""Vectors of any number of sentences, with memory that stays flat.

Sentences are taken by windows. The distinct words of a window that were not met before
are encoded together. Stateless, the sentences of a window go in batches of like length;
stateful, the window is one long sequence for each direction, the backward one with each
sentence reversed. A sequence longer than a batch may be is cut into pieces, whose
states are carried.

Letters: n tokens of a window with `<S>` and `</S>` of each sentence, L layers asked
for, N LSTM layers, K directions, D `projection_dim`, B rows, T steps.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bilm.batcher import Batcher, TokenBatcher
from bilm.network import BilmState, Network
from bilm.options import ModelOptions
from bilm.prediction import encode_distinct, encode_tokens
from bilm.reading import (
    WINDOW_BATCHES,
    Layers,
    Reading,
    Rows,
    layer_weights,
    piece_steps,
    reading_orders,
    rows_by_length,
)
from bilm.token_vectors import TokenVectors
from bilm.vocabulary import check_tokens

Sentences = Iterable[Sequence[str]]


class Window(NamedTuple):
    """Sentences that were embedded together, in the order of the input."""

    sentences: list[Sequence[str]]
    vectors: list[np.ndarray]  # float32, each of the shape of `vectors_shape`
    state: BilmState  # after the last sentence, where stateful


class Embedder:
    """Embeds sentences by a network, whose functions are traced once each."""

    def __init__(self, network: Network) -> None:
        """Make the functions; they are traced when they are first used."""
        self._network = network
        options = network.options
        self._width = options.lstm.projection_dim
        vectors = tf.TensorSpec([None, None, self._width])
        state = tf.nest.map_structure(
            lambda zeros: tf.TensorSpec([None, zeros.shape[1]]), network.zero_state(1)
        )
        self._scan = tf.function(
            lambda inputs, state: network.scan(inputs, None, state),
            input_signature=[[vectors] * options.n_directions, state],
            autograph=False,  # nothing to convert, and tracing is faster
        )
        self._encode = _encode_function(network)
        self._tokens: TokenVectors | None = None

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """Context-free vectors [n, D] of prediction ids of words, [n, C] or [n]."""
        return self._encode(ids).numpy()

    def tracing_count(self) -> int:
        """How often functions were traced: each once, whatever the shapes."""
        functions: list[Any] = [self._encode, self._scan]
        return sum(f.experimental_get_tracing_count() for f in functions)

    def windows(
        self,
        sentences: Sentences,
        batcher: Batcher | TokenBatcher,
        reading: Reading,
        state: BilmState | None = None,
    ) -> Iterator[Window]:
        """Embed sentences as they come.

        Args:
            sentences: lists of tokens.
            batcher: of the kind of ids that the network reads.
            reading: how.
            state: of one row, to start from where stateful; zeros by default.

        Raises:
            InputError: a sentence is a text, or a token is not.
        """
        if self._tokens is None or self._tokens.batcher is not batcher:
            self._tokens = TokenVectors(self.encode, batcher, self._width)
        if state is None:
            state = self._network.zero_state(1)
        for taken in _windows(sentences, WINDOW_BATCHES * reading.batch_tokens):
            values, state = self._embed(
                self._tokens.of_sentences(taken), _lengths(taken), reading, state
            )
            ends = np.cumsum(_lengths(taken))
            vectors = [
                _finished(values[:, end - len(tokens) - 1 : end - 1], reading)
                for end, tokens in zip(ends, taken, strict=True)
            ]
            yield Window(taken, vectors, state)

    def _embed(
        self,
        tokens: np.ndarray,
        lengths: np.ndarray,
        reading: Reading,
        state: BilmState,
    ) -> tuple[np.ndarray, BilmState]:
        """Layers asked for [L, n, K * D] of the tokens [n, D] of whole sentences."""
        options = self._network.options
        mixed = MixedLayers(reading.layers, options, len(tokens))
        for direction in range(options.n_directions):
            mixed.add(0, direction, np.arange(len(tokens)), tokens)
        orders = reading_orders(lengths, options.n_directions)
        if reading.stateful:
            rows = Rows(np.array([0]), np.array([len(tokens)]))
            state = self._run(tokens, mixed, orders, rows, reading, state)
        else:
            for rows in rows_by_length(lengths, reading):
                zeros = self._network.zero_state(len(rows.starts))
                self._run(tokens, mixed, orders, rows, reading, zeros)
        return mixed.values, state

    def _run(
        self,
        tokens: np.ndarray,
        mixed: "MixedLayers",
        orders: list[np.ndarray],
        rows: Rows,
        reading: Reading,
        state: BilmState,
    ) -> BilmState:
        """Run the LSTMs over rows, in pieces whose states are carried.

        A row takes no part in the pieces after its end.
        """
        start = 0
        while n_rows := int(np.count_nonzero(rows.lengths > start)):
            n_steps = piece_steps(n_rows, int(rows.lengths[0]) - start, reading)
            steps = start + np.arange(n_steps)[:, None]
            real = steps < rows.lengths[:n_rows]
            inside = np.minimum(steps, rows.lengths[:n_rows] - 1)
            at = [order[rows.starts[:n_rows] + inside] for order in orders]
            state = tf.nest.map_structure(lambda part, n=n_rows: part[:n], state)
            outputs, state = self._scan([tokens[places] for places in at], state)
            for direction, layers in enumerate(outputs):
                for layer, output in enumerate(layers, 1):
                    places = at[direction][real]
                    mixed.add(layer, direction, places, output.numpy()[real])
            start += n_steps
        return state


def _encode_function(network: Network) -> Callable:
    """The function from prediction ids int32 [n, C] or [n] to vectors [n, D]."""
    if "lm/embedding" in network.variables_by_name:
        ids = tf.TensorSpec([None], tf.int32)
        return tf.function(
            lambda ids: encode_tokens(network, ids), [ids], autograph=False
        )
    assert network.options.char_cnn is not None
    size = network.options.char_cnn.max_characters_per_token
    ids = tf.TensorSpec([None, size], tf.int32)
    return tf.function(
        lambda ids: encode_distinct(network, ids), [ids], autograph=False
    )


class MixedLayers:
    """The layers asked for, each a weighted sum of those of the network."""

    def __init__(self, layers: Layers, options: ModelOptions, n_tokens: int) -> None:
        """Start from zeros, `values` float32 [L, n, K * D]."""
        self._weights = layer_weights(layers, options.lstm.n_layers)
        self._width = options.lstm.projection_dim
        shape = (len(self._weights), n_tokens, options.output_dim)
        self.values = np.zeros(shape, np.float32)

    def add(
        self, layer: int, direction: int, places: np.ndarray, vectors: np.ndarray
    ) -> None:
        """Add one direction [m, D] of a layer at the places [m] of its tokens."""
        columns = slice(direction * self._width, (direction + 1) * self._width)
        for values, weight in zip(self.values, self._weights[:, layer], strict=True):
            if weight:
                values[places, columns] += weight * vectors


def _windows(sentences: Sentences, n_tokens: int) -> Iterator[list[Sequence[str]]]:
    """Take sentences until they have that many tokens, at least one."""
    check_tokens(sentences)
    taken: list[Sequence[str]] = []
    size = 0
    for tokens in sentences:
        check_tokens(tokens)
        taken.append(tokens)
        size += len(tokens) + 2
        if size >= n_tokens:
            yield taken
            taken, size = [], 0
    if taken:
        yield taken


def _lengths(sentences: Sequence[Sequence[str]]) -> np.ndarray:
    """Tokens of each sentence, with `<S>` and `</S>`."""
    return np.array([len(tokens) + 2 for tokens in sentences])


def _finished(values: np.ndarray, reading: Reading) -> np.ndarray:
    """A sentence's array from its layers [L, tokens, K * D]."""
    if reading.pool == "mean":
        values = values.sum(1) / max(values.shape[1], 1)
    return np.array(values if reading.layers == "all" else values[0])
