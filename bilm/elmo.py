"""ELMo vectors: a learnt mix of the layers of a biLM.

`gamma * sum_k softmax(W + 1/n)_k layer_k` over n layers; W starts at 0 and gamma at 1,
so that an untrained mix is the plain average.

Source: Peters et al. 2018, "Deep Contextualized Word Representations".

Letters: B sentences, n layers, T tokens, E size of a layer's vectors.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

LAYER_NORM_EPSILON = 1e-12


def weight_layers(
    name: str,
    bilm_ops: Mapping[str, tf.Tensor],
    l2_coef: float | None = None,
    use_top_only: bool = False,
    do_layer_norm: bool = False,
) -> dict[str, Any]:
    """Mix the layers of `BidirectionalLanguageModel`, as bilm-tf does.

    In a TensorFlow 1 graph the weights are the variables `NAME_ELMo_W` [n] and
    `NAME_ELMo_gamma` [1], trainable, made or reused as the variable scope says, and the
    l2 term is added to `REGULARIZATION_LOSSES` when W is made. Eagerly and inside a
    `tf.function` there are no variables: the weights stay at their initial values.

    Args:
        name: of the mix.
        bilm_ops: with `lm_embeddings` float32 [B, n, T, E] and `mask` bool [B, T].
        l2_coef: coefficient of the l2 term `l2_coef * sum(W^2)`; None for no such term.
        use_top_only: take the last layer alone, times gamma; no W and no l2 term.
        do_layer_norm: first bring each layer to mean 0 and variance 1 over all tokens
            of the batch; not with `use_top_only`.

    Returns:
        `weighted_op` float32 [B, T, E] and `regularization_op`, a scalar.
    """
    layers = bilm_ops["lm_embeddings"]
    gamma = _weight(f"{name}_ELMo_gamma", 1, 1.0, None)
    if use_top_only:
        return {
            "weighted_op": layers[:, -1] * gamma,
            "regularization_op": tf.constant(0.0),
        }
    logits = _weight(f"{name}_ELMo_W", layers.shape[1], 0.0, l2_coef)
    if do_layer_norm:
        layers = normalise_layers(layers, bilm_ops["mask"])
    return {
        "weighted_op": mix_layers(layers, logits, gamma),
        "regularization_op": l2_term(logits, l2_coef),
    }


def mix_layers(layers: tf.Tensor, logits: tf.Tensor, gamma: tf.Tensor) -> tf.Tensor:
    """Mix layers [B, n, T, E] by logits W [n] and gamma [1] to [B, T, E]."""
    weights = tf.nn.softmax(logits + 1.0 / layers.shape[1])
    return gamma * tf.einsum("k,bkte->bte", weights, layers)


def l2_term(logits: tf.Tensor, l2_coef: float | None) -> tf.Tensor:
    """`l2_coef * sum(W^2)`; 0 for None."""
    return (l2_coef or 0.0) * tf.reduce_sum(tf.square(logits))


def normalise_layers(layers: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Bring each layer of [B, n, T, E] to mean 0 and variance 1.

    Over all values of all tokens of the batch that `mask` bool [B, T] says are there.
    """
    real = tf.cast(mask, layers.dtype)[:, None, :, None]  # [B, 1, T, 1]
    axes = [0, 2, 3]
    count = tf.reduce_sum(real) * layers.shape[-1]
    mean = tf.reduce_sum(layers * real, axes, keepdims=True) / count
    squares = tf.square((layers - mean) * real)
    variance = tf.reduce_sum(squares, axes, keepdims=True) / count
    return (layers - mean) * tf.math.rsqrt(variance + LAYER_NORM_EPSILON)


def mean_pool(emb: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Average vectors over the tokens that are there: a vector for each sentence.

    Padding counts for nothing, whatever its values. Half precision is summed up in
    float32.

    Args:
        emb: vectors [B, T, E], or those of several layers [B, n, T, E].
        mask: bool [B, T], as the model gives it.

    Returns:
        [B, E] or [B, n, E], of the type of `emb`; zeros for a sentence without tokens.
    """
    emb = tf.convert_to_tensor(emb)
    real = tf.cast(mask, tf.bool)[..., None]  # [B, T, 1]
    if emb.shape.rank == 4:
        real = real[:, None]
    exact = tf.float64 if emb.dtype == tf.float64 else tf.float32
    values = tf.where(real, tf.cast(emb, exact), tf.zeros([], exact))
    count = tf.reduce_sum(tf.cast(real, exact), -2)
    return tf.cast(tf.math.divide_no_nan(tf.reduce_sum(values, -2), count), emb.dtype)


def _weight(name: str, size: int, initial: float, l2_coef: float | None) -> tf.Tensor:
    if tf.executing_eagerly() or tf.inside_function():
        return tf.fill([size], initial)
    v1 = tf.compat.v1
    return v1.get_variable(
        name,
        shape=(size,),
        initializer=v1.constant_initializer(initial),
        regularizer=None if not l2_coef else lambda w: l2_term(w, l2_coef),
        trainable=True,
    )
