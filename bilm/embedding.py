"""Vectors of any number of sentences, with memory that stays flat.

Sentences are taken by windows. The distinct words of a window that were not met before
are encoded together. Stateless, the sentences of a window are packed into lanes of like
length, one after the other, and each begins with the state after `<S>` (backward
`</S>`). Stateful, the window is one lane for each direction, the backward one with each
sentence reversed. Lanes run in pieces of a batch, whose states are carried.

Letters: n tokens of a window (stateful with `<S>` and `</S>` of each sentence), L
layers asked for, N LSTM layers, K directions, D `projection_dim`, B lanes, T steps.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bilm.batcher import Batcher, TokenBatcher
from bilm.lstm import Repeated
from bilm.network import BilmState, Network
from bilm.options import ModelOptions
from bilm.prediction import encode_distinct, encode_tokens
from bilm.reading import (
    Lanes,
    Layers,
    Reading,
    Sentences,
    layer_weights,
    one_lane,
    pack_lanes,
    piece_steps,
    reading_orders,
    sentence_windows,
    window_tokens,
)
from bilm.token_vectors import TokenVectors, WindowTokens


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
        self._scan_one, self._scan = (_scan_function(network, n) for n in (1, None))
        self._encode = _encode_function(network)
        self._tokens: TokenVectors | None = None
        self._first: BilmState | None = None  # of `_first_state`

    def encode(self, ids: np.ndarray) -> np.ndarray:
        """Context-free vectors [n, D] of prediction ids of words, [n, C] or [n]."""
        return self._encode(ids).numpy()

    def tracing_count(self) -> int:
        """How often functions were traced: each once, whatever the shapes."""
        functions: list[Any] = [self._encode, self._scan_one, self._scan]
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
            self._first = None
        if state is None:
            state = self._network.zero_state(1)
        for taken in sentence_windows(sentences, window_tokens(reading)):
            tokens = self._tokens.of_sentences(taken, edges=reading.stateful)
            lengths = np.array([len(each) for each in taken])
            values, state = self._embed(tokens, lengths, reading, state)
            begins = np.cumsum(lengths) - lengths
            if reading.stateful:
                begins += 2 * np.arange(len(taken)) + 1
            vectors = [
                _finished(values[:, begin : begin + length], reading)
                for begin, length in zip(begins, lengths, strict=True)
            ]
            yield Window(taken, vectors, state)

    def _embed(
        self,
        tokens: WindowTokens,
        lengths: np.ndarray,
        reading: Reading,
        state: BilmState,
    ) -> tuple[np.ndarray, BilmState]:
        """Layers asked for [L, n, K * D] of the tokens of whole sentences."""
        options = self._network.options
        n_tokens = len(tokens.vectors)
        mixed = MixedLayers(reading.layers, options, n_tokens)
        for direction in range(options.n_directions):
            mixed.add(0, direction, slice(None), tokens.vectors)
        if reading.stateful:
            lanes, first = one_lane(n_tokens), self._network.zero_state(1)
            lengths = lengths + 2
        else:
            lanes, first = pack_lanes(lengths, reading), self._first_state()
            state = self._network.zero_state(lanes.tokens.shape[1])
        orders = reading_orders(lengths, options.n_directions)
        return mixed.values, self._run(
            tokens, mixed, orders, lanes, reading, first, state
        )

    def _run(
        self,
        tokens: WindowTokens,
        mixed: "MixedLayers",
        orders: list[np.ndarray],
        lanes: Lanes,
        reading: Reading,
        first: BilmState,
        state: BilmState,
    ) -> BilmState:
        """Run the LSTMs over lanes, in pieces whose states are carried."""
        n_steps, n_lanes = lanes.tokens.shape
        scan = self._scan_one if reading.stateful else self._scan
        size = piece_steps(n_steps, n_lanes, reading.batch_tokens)
        for start in range(0, n_steps, size):
            piece = Lanes(*(part[start : start + size] for part in lanes))
            steps = len(piece.tokens)
            places = [order[piece.tokens] for order in orders]
            inputs = [_repeated(tokens, at) for at in places]
            starts = _filled_up(piece.starts, size)
            outputs, state = scan(inputs, starts, steps, first, state)
            for direction, layers in enumerate(outputs):
                at = places[direction][piece.real]
                for layer, output in enumerate(layers, 1):
                    mixed.add(layer, direction, at, output.numpy()[:steps][piece.real])
        return state

    def _first_state(self) -> BilmState:
        """State of one row after `<S>`, backward after `</S>`, from zero."""
        assert self._tokens is not None
        if self._first is None:
            edges = self._tokens.edges[:, None, None]  # [2, 1, 1, D]
            inputs = [tf.constant(edge) for edge in edges]
            n_directions = self._network.options.n_directions
            zeros = self._network.zero_state(1)
            self._first = self._network.scan(inputs[:n_directions], None, zeros)[1]
        return self._first


def _repeated(tokens: WindowTokens, places: np.ndarray) -> Repeated:
    """The tokens at these places of a window, each distinct word once."""
    _, first, again = np.unique(
        tokens.words[places.ravel()], return_index=True, return_inverse=True
    )
    vectors = tokens.vectors[places.ravel()[first]]
    return Repeated(vectors, again.reshape(places.shape).astype(np.int32))


def _scan_function(network: Network, n_lanes: int | None) -> Callable:
    """`network.scan_lanes` for one lane or for any number, traced once."""
    options = network.options
    vectors = tf.TensorSpec([None, options.lstm.projection_dim])
    tokens = Repeated(vectors, tf.TensorSpec([None, n_lanes], tf.int32))
    one, many = (
        tf.nest.map_structure(
            lambda zeros, n=n: tf.TensorSpec([n, zeros.shape[1]]), network.zero_state(1)
        )
        for n in (1, n_lanes)
    )
    starts, steps = tf.TensorSpec([None, n_lanes], tf.bool), tf.TensorSpec([], tf.int32)
    return tf.function(
        network.scan_lanes,
        input_signature=[[tokens] * options.n_directions, starts, steps, one, many],
        autograph=False,  # nothing to convert, and tracing is faster
    )


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
        self,
        layer: int,
        direction: int,
        places: np.ndarray | slice,
        vectors: np.ndarray,
    ) -> None:
        """Add one direction [m, D] of a layer at the places [m] of its tokens."""
        columns = slice(direction * self._width, (direction + 1) * self._width)
        for values, weight in zip(self.values, self._weights[:, layer], strict=True):
            if weight == 1:  # this layer and no other
                values[places, columns] = vectors
            elif weight:
                values[places, columns] += weight * vectors


def _filled_up(values: np.ndarray, steps: int) -> np.ndarray:
    """Zeros behind the values, to make that many steps of them."""
    if len(values) == steps:
        return values
    filled = np.zeros((steps, *values.shape[1:]), values.dtype)
    filled[: len(values)] = values
    return filled


def _finished(values: np.ndarray, reading: Reading) -> np.ndarray:
    """A sentence's array from its layers [L, tokens, K * D]."""
    if reading.pool == "mean":
        values = values.sum(1) / max(values.shape[1], 1)
    return np.array(values if reading.layers == "all" else values[0])
