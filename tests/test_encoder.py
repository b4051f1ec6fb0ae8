"""The character encoder against the oracle, and its shortcuts against the long way."""

from collections.abc import Iterator

import numpy as np
import oracle
import pytest
import small
import tensorflow as tf
from small import character_rows

from bilm import encoder
from bilm.encoder import CharCnn, encode_characters, trim_padding
from bilm.inputs import distinct_rows, step_inputs
from bilm.names import char_cnn_variables
from bilm.network import Network
from bilm.options import TrainingOptions

NARROW, WIDE = ((1, 5),), ((1, 2), (2, 3), (4, 4), (8, 3))
WORDS = [b"", b"a", b"the", b"a", b"sixsix", "ö".encode(), b"the", b"longer than C"]


def network_of(model: TrainingOptions, seed: int = 0) -> Network:
    assert model.char_cnn is not None
    specs = char_cnn_variables(model.char_cnn, model.lstm.projection_dim)
    return Network(model, specs, small.random_values(specs, seed))


def values_of(network: Network) -> dict[str, np.ndarray]:
    return {name: v.numpy() for name, v in network.variables_by_name.items()}


def expected_vectors(network: Network, ids: np.ndarray) -> np.ndarray:
    values = oracle.double(values_of(network))
    return np.array([oracle.encode_token(network.options, values, row) for row in ids])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("filters", [NARROW, WIDE], ids=["narrow", "wide"])
@pytest.mark.parametrize("n_highway", [0, 1, 2])
@pytest.mark.parametrize("projected", [True, False])
def test_equals_the_oracle(
    activation: str,
    filters: tuple[tuple[int, int], ...],
    n_highway: int,
    projected: bool,
) -> None:
    size = sum(channels for _, channels in filters)
    dim = 4 if projected else size
    model = small.options(
        activation=activation,
        filters=filters,
        n_highway=n_highway,
        projection_dim=dim,
        dim=2 * size,
    )
    network = network_of(model)
    assert ("lm/CNN_proj/W_proj" in network.variables_by_name) == projected
    random = np.random.default_rng(1).integers(0, 261, (5, small.CHARACTERS), np.int32)
    ids = np.concatenate([random, character_rows(WORDS)])
    vectors = network.encode(ids)
    assert vectors.shape == (len(ids), dim)
    small.assert_close(vectors, expected_vectors(network, ids), 3e-6)


def test_maximum_is_over_all_positions_and_ids() -> None:
    """A filter that answers to one character finds it wherever it stands."""
    model = small.options(filters=((1, 1),), n_highway=0, projection_dim=1)
    network = network_of(model)
    embed = np.zeros((261, 3), np.float32)
    embed[ord("x")] = 1.0
    network.variables_by_name["lm/char_embed"].assign(embed)
    network.variables_by_name["lm/CNN/W_cnn_0"].assign(np.ones((1, 1, 3, 1)))
    network.variables_by_name["lm/CNN/b_cnn_0"].assign([0.5])
    vectors = network.encode(character_rows([b"xaaaaa", b"aaxaaa", b"aaaaax", b"aaa"]))
    np.testing.assert_array_equal(vectors, [[3.5], [3.5], [3.5], [0.5]])


def gradients(
    network: Network, ids: np.ndarray, places: np.ndarray
) -> tuple[tf.Tensor, list[np.ndarray]]:
    """Vectors of the tokens at `places`, and dense gradients of a loss of them."""
    with tf.GradientTape() as tape:
        vectors = tf.gather(network.encode(ids), places)
        weights = np.random.default_rng(0).standard_normal(vectors.shape)
        loss = tf.reduce_sum(tf.sin(vectors) * weights.astype(np.float32))
    found = tape.gradient(loss, network.learnt)
    return vectors, [tf.convert_to_tensor(each).numpy() for each in found]


def cut_cases() -> Iterator[tuple[str, np.ndarray]]:
    yield "short", character_rows([b"", b"a", b"abc"])
    yield "fill C", character_rows([b"a", b"sixsix"])
    yield "one before C", character_rows([b"a", b"fives"])
    # One padding window of the widest filter, of 4, stands at C just so.
    yield "last window", character_rows([b"ab"])
    yield "padding alone", np.full((2, small.CHARACTERS), oracle.PAD, np.int32)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("rows", [pytest.param(r, id=i) for i, r in cut_cases()])
def test_cut_characters_change_nothing(
    activation: str, rows: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = small.options(activation=activation)
    network = network_of(model, seed=2)
    # Let padding win maxima, so that a lost or a new padding window shows.
    embed = network.variables_by_name["lm/char_embed"]
    embed.assign(0.3 * embed)
    embed[oracle.PAD].assign([2.0, -2.0, 1.5])
    places = np.arange(len(rows))
    cut_vectors, found = gradients(network, rows, places)
    monkeypatch.setattr(encoder, "longest_token", lambda padding: padding.shape[1])
    whole_vectors, whole = gradients(network, rows, places)
    np.testing.assert_allclose(cut_vectors, whole_vectors, rtol=1e-6, atol=1e-6)
    for one, other in zip(found, whole, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_cut_leaves_the_longest_token_and_one_padding_window() -> None:
    short, full = character_rows([b"", b"a"]), character_rows([b"a", b"sixsix"])
    padding = np.full((2, 8), oracle.PAD)
    assert trim_padding(short, short == oracle.PAD, 4).shape == (2, 3 + 4)
    assert trim_padding(full, full == oracle.PAD, 4).shape == (2, small.CHARACTERS)
    assert trim_padding(padding, padding == oracle.PAD, 4).shape == (2, 4)


def test_distinct_rows_put_together_again() -> None:
    rows = np.random.default_rng(0).integers(0, 3, (50, 3)).astype(np.int32)
    distinct, places = distinct_rows(rows)
    assert len(distinct) == len({tuple(row) for row in rows.tolist()}) < len(rows)
    np.testing.assert_array_equal(distinct[places], rows)


def test_distinct_tokens_once_equal_each_alone() -> None:
    model = small.options(unroll_steps=9, batch_size=3)
    network = network_of(model)
    batch = small.batch(model)
    inputs = step_inputs(batch, model.char_cnn is not None)
    each = np.stack(
        [batch[f"tokens_characters{s}"].swapaxes(0, 1) for s in oracle.SUFFIXES]
    )  # [K, T, B, C]
    each = each.reshape(-1, small.CHARACTERS)
    assert len(inputs.tokens) < len(each) / 2
    vectors, found = gradients(network, inputs.tokens, inputs.places.ravel())
    alone, expected = gradients(network, each, np.arange(len(each)))
    small.assert_close(vectors, alone, 1e-6)
    for one, other in zip(found, expected, strict=True):
        small.assert_close(one, other)


def test_vector_does_not_depend_on_the_others() -> None:
    network = network_of(small.options())
    ids = character_rows(WORDS)
    together = network.encode(ids)
    for position, row in enumerate(ids):
        alone = network.encode(row[None])[0]
        np.testing.assert_allclose(together[position], alone, rtol=1e-5, atol=1e-6)


def test_shortest_axis_is_that_of_the_widest_filter() -> None:
    """An axis as long as the widest filter has one window of it."""
    network = network_of(small.options())
    weights = network.char_cnn()
    assert isinstance(weights, CharCnn)
    ids = np.array([[258, 97, 259, 260]], np.int32)
    small.assert_close(encode_characters(weights, ids), expected_vectors(network, ids))
