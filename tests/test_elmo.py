"""`ScalarMix`, and `weight_layers` in TensorFlow 1 graphs and outside them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tiny import Model, assert_near

from bilm import Batcher, BidirectionalLanguageModel, ScalarMix, weight_layers
from bilm.elmo import NOT_TRAINED, l2_term, mean_pool, mix_layers, normalise_layers
from bilm.errors import InputError

v1 = tf.compat.v1
N_LAYERS, DIM = 3, 4
DRAW = np.random.default_rng(0)
LAYERS = DRAW.normal(1, 2, (2, N_LAYERS, 5, DIM)).astype(np.float32)
MASK = np.array([[True] * 5, [True, True, False, False, False]])
OPS = {"lm_embeddings": LAYERS, "mask": MASK}
LOGITS = np.array([0.3, -0.8, 1.1], np.float32)


def tensors() -> dict[str, tf.Tensor]:
    return {name: tf.constant(value) for name, value in OPS.items()}


def plain_mix(logits: np.ndarray, gamma: float, layers: np.ndarray) -> np.ndarray:
    exponentials = np.exp(logits + 1 / len(logits))
    weights = exponentials / exponentials.sum()
    return gamma * sum(w * layers[:, k] for k, w in enumerate(weights))


def plain_norm(layers: np.ndarray) -> np.ndarray:
    normed = np.empty_like(layers)
    for k in range(N_LAYERS):
        values = layers[:, k][MASK]  # [unmasked tokens, DIM]
        normed[:, k] = (layers[:, k] - values.mean()) / np.sqrt(values.var() + 1e-12)
    return normed


def in_graph(build: Callable[[], Any], assign: bool = True) -> Any:
    """Run what `build` makes in a graph of its own, with W = LOGITS and gamma 2."""
    with tf.Graph().as_default(), v1.Session() as session:
        tensors = build()
        session.run(v1.global_variables_initializer())
        for variable in v1.global_variables() if assign else []:
            is_gamma = variable.op.name.endswith("gamma")
            session.run(variable.assign([2.0] if is_gamma else LOGITS))
        return session.run(tensors)


def names_of(variables: list[Any]) -> set[str]:
    return {variable.op.name for variable in variables}


def trained_mix(**settings: Any) -> ScalarMix:
    """A mix with W = LOGITS and gamma 2."""
    mix = ScalarMix(N_LAYERS, **settings)
    mix.gamma.assign([2.0])
    if mix.logits is not None:
        mix.logits.assign(LOGITS)
    return mix


# ScalarMix


def test_untrained_mix_is_the_average() -> None:
    mix = ScalarMix(N_LAYERS, l2_coef=1.0)
    assert_near(mix(tensors()), LAYERS.mean(1))
    assert float(mix.l2_loss()) == 0


@pytest.mark.parametrize("do_layer_norm", [False, True])
@pytest.mark.parametrize("use_top_only", [False, True])
def test_mix_has_the_numbers_of_weight_layers(
    do_layer_norm: bool, use_top_only: bool
) -> None:
    def build() -> dict[str, Any]:
        return weight_layers("input", tensors(), 0.5, use_top_only, do_layer_norm)

    expected = in_graph(build)
    mix = trained_mix(
        l2_coef=0.5, use_top_only=use_top_only, do_layer_norm=do_layer_norm
    )
    assert_near(mix(tensors()), expected["weighted_op"])
    assert_near(mix.l2_loss(), expected["regularization_op"])
    assert_near(tf.function(mix)(tensors()), expected["weighted_op"])


def test_layer_norm_is_over_unmasked_values() -> None:
    mix = ScalarMix(N_LAYERS, do_layer_norm=True)
    result = mix(tensors()).numpy()
    assert_near(result[MASK], plain_norm(LAYERS).mean(1)[MASK])
    other = LAYERS.copy()
    other.swapaxes(1, 2)[~MASK] = 1e3  # padding, whatever its values
    again = mix({"lm_embeddings": tf.constant(other), "mask": tf.constant(MASK)})
    assert_near(again.numpy()[MASK], result[MASK])


@pytest.mark.parametrize("shape", [(2, N_LAYERS, 0, DIM), (0, N_LAYERS, 3, DIM)])
def test_layer_norm_of_no_tokens(shape: tuple[int, ...]) -> None:
    layers = tf.zeros(shape)
    assert normalise_layers(layers, tf.zeros([shape[0], shape[2]], bool)).shape == shape


def test_layer_norm_of_padding_alone_is_finite() -> None:
    layers, mask = tf.zeros([1, N_LAYERS, 2, DIM]), tf.constant([[False, False]])
    np.testing.assert_array_equal(normalise_layers(layers, mask), layers)


def test_variables_of_the_mix() -> None:
    mix = ScalarMix(N_LAYERS, name="input")
    shapes = {v.name: v.shape.as_list() for v in mix.trainable_variables}
    assert shapes == {"input_ELMo_W:0": [3], "input_ELMo_gamma:0": [1]}
    top = ScalarMix(N_LAYERS, l2_coef=1.0, use_top_only=True)
    assert [v.name for v in top.variables] == ["scalar_mix_ELMo_gamma:0"]
    assert float(top.l2_loss()) == 0
    np.testing.assert_array_equal(top(tensors()), LAYERS[:, -1])


def test_gradients_are_those_of_differences() -> None:
    mix = trained_mix(l2_coef=0.5)

    def loss() -> tf.Tensor:
        return tf.reduce_mean(tf.sin(mix(tensors()))) + mix.l2_loss()

    with tf.GradientTape() as tape:
        value = loss()
    found = tape.gradient(value, mix.trainable_variables)
    for variable, gradient in zip(mix.trainable_variables, found, strict=True):
        for i in range(variable.shape[0]):
            step = tf.one_hot(i, variable.shape[0]) * 1e-2
            variable.assign_add(step)
            above = float(loss())
            variable.assign_sub(2 * step)
            below = float(loss())
            variable.assign_add(step)
            np.testing.assert_allclose(gradient[i], (above - below) / 2e-2, atol=1e-3)


def test_mix_is_saved_and_restored(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(mix=trained_mix()).write(str(tmp_path / "mix"))
    mix = ScalarMix(N_LAYERS)
    tf.train.Checkpoint(mix=mix).read(path).assert_consumed()
    assert_near(mix(tensors()), plain_mix(LOGITS, 2.0, LAYERS))


def test_mix_refuses_another_number_of_layers() -> None:
    with pytest.raises(InputError, match="n_layers of scalar_mix is 2, but lm_embed"):
        ScalarMix(2)(tensors())


def test_mix_takes_what_the_model_gives(char_model: Model) -> None:
    model = BidirectionalLanguageModel(*char_model)
    ops = model(Batcher(None, 8).batch_sentences([["1", "2"], ["3"]]))
    assert_near(ScalarMix(3)(ops), ops["lm_embeddings"].numpy().mean(1))


def test_pure_functions() -> None:
    mixed = mix_layers(tf.constant(LAYERS), tf.constant(LOGITS), tf.constant([1.5]))
    assert_near(mixed, plain_mix(LOGITS, 1.5, LAYERS))
    assert_near(l2_term(tf.constant(LOGITS), 0.5), 0.5 * np.sum(LOGITS**2))
    assert float(l2_term(tf.constant(LOGITS), None)) == 0


# weight_layers


def test_outside_graphs_the_weights_stay_and_it_says_so() -> None:
    with pytest.warns(UserWarning, match="use bilm.ScalarMix, which can be") as caught:
        result = weight_layers("input", tensors(), l2_coef=1.0)
    assert str(caught[0].message) == NOT_TRAINED and caught[0].filename == __file__
    assert_near(result["weighted_op"], LAYERS.mean(1))
    assert float(result["regularization_op"]) == 0
    call = tf.function(lambda ops: weight_layers("input", ops)["weighted_op"])
    with pytest.warns(UserWarning, match="stays the plain average"):
        assert_near(call(tensors()), LAYERS.mean(1))
    assert_near(call(tensors()), LAYERS.mean(1))  # said once, where it is traced


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_graph_with_trained_weights(do_layer_norm: bool) -> None:
    def build() -> dict[str, Any]:
        return weight_layers(
            "input", tensors(), l2_coef=0.5, do_layer_norm=do_layer_norm
        )

    result = in_graph(build)
    layers = plain_norm(LAYERS) if do_layer_norm else LAYERS
    expected = plain_mix(LOGITS, 2.0, layers)
    assert_near(result["weighted_op"][MASK], expected[MASK])
    assert_near(result["regularization_op"], 0.5 * np.sum(LOGITS**2))


def test_graph_starts_with_the_average() -> None:
    result = in_graph(lambda: weight_layers("input", tensors()), assign=False)
    assert_near(result["weighted_op"], LAYERS.mean(1))


def test_graph_has_two_trainable_variables() -> None:
    with tf.Graph().as_default():
        weight_layers("input", tensors(), l2_coef=0.5)
        expected = {"input_ELMo_W", "input_ELMo_gamma"}
        assert names_of(v1.trainable_variables()) == expected
        assert names_of(v1.global_variables()) == expected
        shapes = {v.op.name: v.shape.as_list() for v in v1.global_variables()}
        assert shapes == {"input_ELMo_W": [3], "input_ELMo_gamma": [1]}


def test_graph_of_the_top_has_gamma_alone() -> None:
    with tf.Graph().as_default():
        weight_layers("input", tensors(), l2_coef=0.5, use_top_only=True)
        assert names_of(v1.global_variables()) == {"input_ELMo_gamma"}
        assert not v1.losses.get_regularization_losses()

    def build() -> Any:
        return weight_layers("input", tensors(), use_top_only=True)["weighted_op"]

    np.testing.assert_array_equal(in_graph(build), 2 * LAYERS[:, -1])


def test_graph_reuses_and_adds_the_l2_term_once() -> None:
    def build() -> Any:
        with v1.variable_scope("model"):
            first = weight_layers("input", tensors(), l2_coef=0.5)
        with v1.variable_scope("model", reuse=True):
            second = weight_layers("input", tensors(), l2_coef=0.5)
        names = {"model/input_ELMo_W", "model/input_ELMo_gamma"}
        assert names_of(v1.global_variables()) == names
        losses = v1.losses.get_regularization_losses()
        assert len(losses) == 1
        return first["weighted_op"], second["weighted_op"], losses[0]

    first, second, loss = in_graph(build)
    np.testing.assert_array_equal(first, second)
    assert_near(loss, 0.5 * np.sum(LOGITS**2))


def test_graph_refuses_a_name_twice_without_reuse() -> None:
    with tf.Graph().as_default():
        weight_layers("input", tensors())
        with pytest.raises(ValueError, match="already exists"):
            weight_layers("input", tensors())


@pytest.mark.parametrize("l2_coef, count", [(None, 0), (0.0, 1)])
def test_graph_has_a_loss_where_there_is_a_coefficient(
    l2_coef: float | None, count: int
) -> None:
    with tf.Graph().as_default():
        weight_layers("input", tensors(), l2_coef=l2_coef)
        assert len(v1.losses.get_regularization_losses()) == count


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_padding_does_not_count_in_a_mean(dtype: type) -> None:
    """The pooled vector of a sentence is the same alone and beside a longer one."""
    draw = np.random.default_rng(0)
    vectors = draw.normal(0, 1, (3, 2, 10, 4)).astype(dtype)  # of two layers
    vectors[0, :, 2:] = np.nan  # whatever padding holds
    mask = np.arange(10) < np.array([2, 10, 0])[:, None]
    pooled = mean_pool(vectors, mask)
    assert pooled.shape == (3, 2, 4) and pooled.dtype == dtype
    expected = [vectors[0, :, :2].mean(1), vectors[1].mean(1), np.zeros((2, 4))]
    tolerance = 1e-6 if dtype == np.float32 else 2e-3
    np.testing.assert_allclose(pooled, expected, tolerance, tolerance)
    alone = mean_pool(vectors[:1, :, :2], mask[:1, :2])
    np.testing.assert_array_equal(alone[0], pooled[0])
    np.testing.assert_array_equal(mean_pool(vectors[:, 0], mask), pooled[:, 0])


def test_a_mean_of_half_precision_does_not_overflow() -> None:
    vectors = np.full((1, 100, 1), 60_000, np.float16)
    np.testing.assert_array_equal(mean_pool(vectors, np.ones((1, 100), bool)), 60_000)
