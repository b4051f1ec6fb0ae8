"""The character encoder: a CNN over the bytes of a token, highway layers, projection.

Letters: U tokens, C characters of a token, E size of a character's embedding, w width
and n channels of a filter, F sum of all channels, D `projection_dim`.

Source: Kim et al. 2016, "Character-Aware Neural Language Models"; Jozefowicz et al.
2016, "Exploring the Limits of Language Modeling".
"""

from typing import Any, NamedTuple

import tensorflow as tf

from bilm.products import product

ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.nn.tanh}
GROUPS = 4  # of a training step's tokens, each cut to a length of its own


class Affine(NamedTuple):
    """Weights of `x W + b`."""

    weight: tf.Tensor  # [in, out]; of a convolution [1, w, E, n]
    bias: tf.Tensor  # [out]


class Highway(NamedTuple):
    """Weights of one highway layer, both maps [F, F]."""

    carry: Affine  # what the files call "carry" gates the transformed input
    transform: Affine


class CharCnn(NamedTuple):
    """Weights of the character encoder."""

    char_embed: tf.Tensor  # [261, E]; in prediction [262, E], row 0 zeros
    filters: tuple[Affine, ...]
    highways: tuple[Highway, ...]
    projection: Affine | None  # [F, D], None where F = D
    activation: str


def encode_characters(
    weights: CharCnn, ids: tf.Tensor, groups: int = GROUPS
) -> tf.Tensor:
    """Encode tokens: character ids int32 [U, C] to vectors [U, D].

    The tokens are taken in a few groups, each cut to its longest one, which saves time
    where they come in the order of their length; any order gives the same vectors.
    """
    activate = ACTIVATIONS[weights.activation]
    count = tf.shape(ids)[0]
    maxima = [
        _pooled_filters(weights, ids[count * g // groups : count * (g + 1) // groups])
        for g in range(groups)
    ]
    # Bias and activation are monotonic: after the maximum they give the same values
    # for one position in place of all.
    biases = tf.concat([each.bias for each in weights.filters], 0)
    tokens = activate(tf.concat(maxima, 0) + biases)  # [U, F]
    for highway in weights.highways:
        tokens = _highway(highway, tokens)
    if weights.projection is not None:
        tokens = affine(weights.projection, tokens)
    return tokens


def affine(weights: Affine, inputs: tf.Tensor) -> tf.Tensor:
    """`inputs W + b`: [..., in] to [..., out]."""
    return product(inputs, weights.weight) + weights.bias


def trim_padding(
    ids: tf.Tensor, is_padding: tf.Tensor, widest_filter: int
) -> tf.Tensor:
    """Cut the characters' axis of [U, C] without changing any maximum of the CNN.

    Behind the longest token stand windows of padding alone, all alike: one for the
    widest filter is kept.
    """
    return ids[:, : longest_token(is_padding) + widest_filter]


def longest_token(is_padding: tf.Tensor) -> tf.Tensor:
    """Characters of the longest of the tokens bool [U, C], as an int32."""
    used = tf.cast(tf.reduce_any(~is_padding, 0), tf.int32)  # [C]
    return tf.reduce_max(used * tf.range(1, tf.size(used) + 1))


def _pooled_filters(weights: CharCnn, ids: tf.Tensor) -> tf.Tensor:
    """Maxima of all filters over a token's positions, without biases: [U, F]."""
    padding = weights.char_embed.shape[0] - 1  # the last id of either phase
    widest = max(each.weight.shape[1] for each in weights.filters)
    longest = longest_token(tf.equal(ids, padding))
    characters = tf.gather(weights.char_embed, ids[:, : longest + widest])
    windows = _windows(characters, widest)
    maxima = [_pooled(windows, longest, each.weight) for each in weights.filters]
    return tf.concat(maxima, 1)


def _windows(characters: tf.Tensor, width: int) -> tf.Tensor:
    """Each character of [U, C, E] with those after it, or zeros: [U, C, w E]."""
    count = tf.shape(characters)[1]
    followed = tf.pad(characters, [[0, 0], [0, width - 1], [0, 0]])
    return tf.concat([followed[:, i : i + count] for i in range(width)], 2)


def _pooled(windows: tf.Tensor, longest: tf.Tensor, weight: tf.Tensor) -> tf.Tensor:
    """Maximum over positions of a VALID convolution: [U, C, widest E] to [U, n].

    One product over all windows: with 16 values a character TensorFlow's convolution,
    and more so its gradient, reaches a fraction of that speed on a CPU.
    """
    _, width, size, channels = weight.shape
    # Windows behind the longest token are all alike: a narrow filter has several.
    positions = tf.minimum(tf.shape(windows)[1] - (width - 1), longest + 1)
    kernel = tf.reshape(weight, [width * size, channels])
    values = product(windows[:, :positions, : width * size], kernel)
    return _maximum_over_positions(values)


@tf.custom_gradient
def _maximum_over_positions(values: tf.Tensor) -> Any:
    """Maximum over axis 1 of [U, P, n], with a gradient of few passes over [U, P, n].

    Positions that share the maximum share its gradient, as in `tf.reduce_max`.
    """
    maximum = tf.reduce_max(values, 1)

    def gradient(d_maximum: tf.Tensor) -> tf.Tensor:
        chosen = tf.equal(values, maximum[:, None])
        count = tf.reduce_sum(tf.cast(chosen, d_maximum.dtype), 1)
        return tf.where(chosen, (d_maximum / count)[:, None], 0.0)

    return maximum, gradient


def _highway(weights: Highway, inputs: tf.Tensor) -> tf.Tensor:
    gate = tf.sigmoid(affine(weights.carry, inputs))
    return gate * tf.nn.relu(affine(weights.transform, inputs)) + (1 - gate) * inputs
