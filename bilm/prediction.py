"""Embeddings of sentences: the network run over whole sentences of any length.

Letters: B sentences, T tokens of the longest with `<S>` and `</S>`, C characters of a
token, K directions, N layers, D `projection_dim`.
"""

from typing import NamedTuple

import tensorflow as tf

from bilm.encoder import encode_characters, trim_padding
from bilm.network import BilmState, Network

FIRST_ID = 1  # prediction ids are training ids + 1; 0 pads a sentence
PADDING = 261  # prediction id of the character that fills a token up


class Embeddings(NamedTuple):
    """Embeddings of a batch of sentences, `<S>` and `</S>` removed but where said."""

    lm_embeddings: tf.Tensor  # [B, N + 1, T - 2, K * D]
    lengths: tf.Tensor  # int32 [B], tokens of each sentence
    token_embeddings: tf.Tensor  # [B, T, D], context-free, with `<S>` and `</S>`
    mask: tf.Tensor  # bool [B, T - 2], true for tokens


def embed_sentences(
    network: Network, ids: tf.Tensor, state: BilmState
) -> tuple[Embeddings, BilmState]:
    """Embed a padded batch.

    Args:
        network: without softmax.
        ids: int32 [B, T, C] of a Batcher or [B, T] of a TokenBatcher.
        state: of B rows, from which the sentences start.

    Returns:
        The embeddings, zero where a sentence is padded, and the state after the last
        token of each sentence.
    """
    # A character-level token always starts with a begin-of-word mark.
    real = ids > 0 if ids.shape.rank == 2 else ids[:, :, 0] > 0
    lengths = tf.reduce_sum(tf.cast(real, tf.int32), 1)
    tokens = encode_tokens(network, ids)
    forward = tf.transpose(tokens, [1, 0, 2])  # [T, B, D]
    directions = range(network.options.n_directions)
    inputs = [_in_reading_order(forward, lengths, d) for d in directions]
    outputs, final = network.scan(inputs, lengths, state)
    layers = [tf.concat([forward] * len(directions), 2)]
    for layer in zip(*outputs, strict=True):
        in_text_order = [_in_reading_order(layer[d], lengths, d) for d in directions]
        layers.append(tf.concat(in_text_order, 2))
    mask = tf.sequence_mask(lengths - 2, tf.shape(ids)[1] - 2)
    stacked = tf.transpose(tf.stack(layers), [2, 0, 1, 3])[:, :, 1:-1]
    lm_embeddings = tf.where(mask[:, None, :, None], stacked, 0.0)
    return Embeddings(lm_embeddings, lengths - 2, tokens, mask), final


def encode_tokens(network: Network, ids: tf.Tensor) -> tf.Tensor:
    """Context-free vectors of prediction ids: [..., C] or word ids [...] to [..., D].

    Each distinct token is encoded once.
    """
    embedding = network.variables_by_name.get("lm/embedding")
    if embedding is not None:
        vectors = tf.gather(embedding, tf.maximum(ids - FIRST_ID, 0))
        return tf.where((ids > 0)[..., None], vectors, 0.0)
    size, before = ids.shape[-1], tf.shape(ids)[:-1]
    distinct, places = tf.raw_ops.UniqueV2(x=tf.reshape(ids, [-1, size]), axis=[0])
    vectors = encode_distinct(network, distinct)
    dim = network.options.lstm.projection_dim
    return tf.reshape(tf.gather(vectors, places), tf.concat([before, [dim]], 0))


def encode_distinct(network: Network, characters: tf.Tensor) -> tf.Tensor:
    """Context-free vectors [U, D] of prediction ids [U, C], each row encoded."""
    char_cnn = network.char_cnn()
    # The table of prediction has a row of zeros for id 0, which no file holds.
    table = tf.pad(tf.convert_to_tensor(char_cnn.char_embed), [[FIRST_ID, 0], [0, 0]])
    # Padding of a sentence is cut off too, which the encoder itself does not know.
    is_padding = tf.equal(characters, 0) | tf.equal(characters, PADDING)
    trimmed = trim_padding(characters, is_padding, network.options.widest_filter)
    return encode_characters(char_cnn._replace(char_embed=table), trimmed, groups=1)


def _in_reading_order(
    values: tf.Tensor, lengths: tf.Tensor, direction: int
) -> tf.Tensor:
    """Values [T, B, D] as a direction reads them; twice gives the order of the text."""
    if direction == 0:
        return values
    return tf.reverse_sequence(values, lengths, seq_axis=0, batch_axis=1)
