"""The character encoder: a CNN over the bytes of a token, highway layers, projection.

Letters: U tokens, C characters of a token, E size of a character's embedding, w width
and n channels of a filter, F sum of all channels, D `projection_dim`.

Source: Kim et al. 2016, "Character-Aware Neural Language Models"; Jozefowicz et al.
2016, "Exploring the Limits of Language Modeling".
"""

from typing import NamedTuple

import tensorflow as tf

from bilm.products import product

ACTIVATIONS = {"relu": tf.nn.relu, "tanh": tf.nn.tanh}


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


def encode_characters(weights: CharCnn, ids: tf.Tensor) -> tf.Tensor:
    """Encode tokens: character ids int32 [U, C] to vectors [U, D].

    C may be less than the `max_characters_per_token` of the options: the positions
    after the longest token and the widest filter hold padding alone (`trim_padding`).
    """
    characters = tf.gather(weights.char_embed, ids)  # [U, C, E]
    activate = ACTIVATIONS[weights.activation]
    maxima = [_convolve_and_pool(characters, each) for each in weights.filters]
    # Bias and activation are monotonic: after the maximum they give the same values
    # for one position in place of all.
    biases = tf.concat([each.bias for each in weights.filters], 0)
    tokens = activate(tf.concat(maxima, 1) + biases)  # [U, F]
    for highway in weights.highways:
        tokens = _highway(highway, tokens)
    if weights.projection is not None:
        tokens = affine(weights.projection, tokens)
    return tokens


def affine(weights: Affine, inputs: tf.Tensor) -> tf.Tensor:
    """`inputs W + b`: [..., in] to [..., out]."""
    return product(inputs, weights.weight) + weights.bias


def _convolve_and_pool(characters: tf.Tensor, filters: Affine) -> tf.Tensor:
    """Maximum over all positions of a VALID convolution, without bias: [U, n]."""
    kernel = tf.squeeze(filters.weight, 0)  # [w, E, n]
    convolved = tf.nn.conv1d(tf.cast(characters, kernel.dtype), kernel, 1, "VALID")
    return tf.cast(tf.reduce_max(convolved, 1), tf.float32)


def _highway(weights: Highway, inputs: tf.Tensor) -> tf.Tensor:
    gate = tf.sigmoid(affine(weights.carry, inputs))
    return gate * tf.nn.relu(affine(weights.transform, inputs)) + (1 - gate) * inputs
