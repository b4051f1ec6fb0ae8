"""ELMo vectors: a learnt mix of the layers of a biLM.

`gamma * sum_k softmax(W + 1/n)_k layer_k` over n layers; W starts at 0 and gamma at 1,
so that an untrained mix is the plain average.

Source: Peters et al. 2018, "Deep Contextualized Word Representations".

Letters: B sentences, n layers, T tokens, E size of a layer's vectors.
"""

import warnings
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bilm.errors import InputError
from bilm.graph_mode import in_graph

LAYER_NORM_EPSILON = 1e-12
NOT_TRAINED = (
    "weight_layers has variables in a TensorFlow 1 graph alone; here the mix stays the "
    "plain average: use bilm.ScalarMix, which can be trained"
)


def weight_layers(
    name: str,
    bilm_ops: Mapping[str, tf.Tensor],
    l2_coef: float | None = None,
    use_top_only: bool = False,
    do_layer_norm: bool = False,
) -> dict[str, Any]:
    """Mix the layers of `BidirectionalLanguageModel` in a TensorFlow 1 graph.

    As in bilm-tf, the weights are the variables `NAME_ELMo_W` [n] and `NAME_ELMo_gamma`
    [1], trainable, made or reused as the variable scope says, and the l2 term is added
    to `REGULARIZATION_LOSSES` when W is made. Eagerly and inside a `tf.function` there
    are no variables: the weights stay at their initial values, and a warning says so.
    `ScalarMix` is for these.

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
    if not in_graph():
        warnings.warn(NOT_TRAINED, stacklevel=2)
    n_layers = _size(bilm_ops["lm_embeddings"], 1)
    gamma = _weight(f"{name}_ELMo_gamma", 1, 1.0, None)
    logits = None
    if not use_top_only:
        logits = _weight(f"{name}_ELMo_W", n_layers, 0.0, l2_coef)
    return {
        "weighted_op": mixed(bilm_ops, logits, gamma, do_layer_norm),
        "regularization_op": l2_term(logits, l2_coef),
    }


class ScalarMix(tf.Module):
    """A mix of layers with variables of its own, to train eagerly or by `tf.function`.

    The numbers are those of `weight_layers`; untrained it is the plain average.

    Attributes:
        logits: W float32 [n_layers], zeros at first; None with `use_top_only`.
        gamma: float32 [1], 1 at first.
    """

    def __init__(
        self,
        n_layers: int,
        l2_coef: float | None = None,
        use_top_only: bool = False,
        do_layer_norm: bool = False,
        name: str | None = None,
    ) -> None:
        """Make the variables, `NAME_ELMo_W` and `NAME_ELMo_gamma`.

        Args:
            n_layers: layers to mix, the token vector included: LSTM layers + 1.
            l2_coef: coefficient of `l2_loss()`; None for none.
            use_top_only: take the last layer alone, times gamma.
            do_layer_norm: first bring each layer to mean 0 and variance 1 over all
                tokens of the batch; not with `use_top_only`.
            name: of the module; `scalar_mix` by default.
        """
        super().__init__(name)
        self.n_layers = n_layers
        self.l2_coef = l2_coef
        self.do_layer_norm = do_layer_norm
        self.gamma = tf.Variable(tf.ones([1]), name=f"{self.name}_ELMo_gamma")
        self.logits = None
        if not use_top_only:
            self.logits = tf.Variable(tf.zeros([n_layers]), name=f"{self.name}_ELMo_W")

    def __call__(self, bilm_ops: Mapping[str, tf.Tensor]) -> tf.Tensor:
        """Mix `lm_embeddings` float32 [B, n, T, E] to [B, T, E].

        Args:
            bilm_ops: what the model returned, with `mask` bool [B, T].

        Raises:
            InputError: there are more or fewer layers than `n_layers`.
        """
        found = _size(bilm_ops["lm_embeddings"], 1)
        if found != self.n_layers:
            raise InputError(
                f"n_layers of {self.name} is {self.n_layers}, but lm_embeddings has "
                f"{found} layers: give ScalarMix that number, LSTM layers + 1"
            )
        return mixed(bilm_ops, self.logits, self.gamma, self.do_layer_norm)

    def l2_loss(self) -> tf.Tensor:
        """The l2 term `l2_coef * sum(W^2)`, a scalar to add to the loss."""
        return l2_term(self.logits, self.l2_coef)


def mix_layers(layers: tf.Tensor, logits: tf.Tensor, gamma: tf.Tensor) -> tf.Tensor:
    """Mix layers [B, n, T, E] by logits W [n] and gamma [1] to [B, T, E]."""
    weights = tf.nn.softmax(logits + 1.0 / _size(layers, 1))
    return gamma * tf.einsum("k,bkte->bte", weights, layers)


def l2_term(logits: tf.Tensor | None, l2_coef: float | None) -> tf.Tensor:
    """`l2_coef * sum(W^2)`; 0 where there is no coefficient or no W."""
    if logits is None or l2_coef is None:
        return tf.constant(0.0)
    return l2_coef * tf.reduce_sum(tf.square(logits))


def normalise_layers(layers: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Bring each layer of [B, n, T, E] to mean 0 and variance 1.

    Over all values of all tokens of the batch that `mask` bool [B, T] says are there.
    """
    real = tf.cast(mask, layers.dtype)[:, None, :, None]  # [B, 1, T, 1]
    axes = [0, 2, 3]
    count = tf.maximum(tf.reduce_sum(real) * _size(layers, 3), 1.0)  # of no tokens, 1
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


def mixed(
    bilm_ops: Mapping[str, tf.Tensor],
    logits: tf.Tensor | None,
    gamma: tf.Tensor,
    do_layer_norm: bool,
) -> tf.Tensor:
    """Mix by W [n], or without W take the last layer, times gamma: to [B, T, E].

    Args:
        bilm_ops: with `lm_embeddings` float32 [B, n, T, E] and `mask` bool [B, T].
        logits: W [n]; None for the last layer.
        gamma: [1].
        do_layer_norm: first bring each layer to mean 0 and variance 1.
    """
    layers = tf.convert_to_tensor(bilm_ops["lm_embeddings"])
    if logits is None:
        return layers[:, -1] * gamma
    if do_layer_norm:
        layers = normalise_layers(layers, bilm_ops["mask"])
    return mix_layers(layers, logits, gamma)


def _size(tensor: tf.Tensor, axis: int) -> int:
    """Size of an axis: a number also after `disable_v2_behavior`."""
    return tf.TensorShape(tensor.shape).as_list()[axis]


def _weight(name: str, size: int, initial: float, l2_coef: float | None) -> tf.Tensor:
    if not in_graph():
        return tf.fill([size], initial)
    v1 = tf.compat.v1
    return v1.get_variable(
        name,
        shape=(size,),
        initializer=v1.constant_initializer(initial),
        regularizer=None if l2_coef is None else lambda w: l2_term(w, l2_coef),
        trainable=True,
    )
