"""A biLM from text to vectors in TensorFlow's operations alone, to be saved.

Letters: B sentences, T tokens of the longest, N layers, K directions, D
`projection_dim`.
"""

import functools
from collections.abc import Sequence

import tensorflow as tf

from bilm.elmo import mix_layers
from bilm.given_ids import ids_spec
from bilm.network import Network
from bilm.prediction import embed_sentences
from bilm.string_ids import ids_of_tokens, split_sentences, word_table


class ServedModel(tf.Module):
    """What a SavedModel of a biLM consists of.

    Attributes:
        elmo_weights: W of the mix [N + 1], before its softmax; trainable.
        elmo_gamma: its factor [1]; trainable.
    """

    def __init__(
        self,
        network: Network,
        words: Sequence[str] | None,
        mix_weights: Sequence[float],
        gamma: float,
    ) -> None:
        """Take the variables of a network.

        Args:
            network: without softmax.
            words: of the vocabulary, for word input.
            mix_weights: N + 1 values.
            gamma: the factor of the mix.
        """
        super().__init__(name="bilm")
        self.variables_by_name = network.variables_by_name
        self.elmo_weights = tf.Variable(
            mix_weights, name="elmo_weights", dtype=tf.float32
        )
        self.elmo_gamma = tf.Variable([gamma], name="elmo_gamma", dtype=tf.float32)
        # To be saved, the table must be an attribute.
        self._table = None if words is None else word_table(words)
        self._to_ids = ids_of_tokens(network.options, self._table)
        self._ids = ids_spec(network.options, words is None)
        # One function, which all signatures call, so that it is traced once.
        self._outputs = tf.function(
            functools.partial(self._embed, network), [self._ids], autograph=False
        )

    def signatures(self) -> dict[str, tf.function]:
        """The functions to save, by the names to call them by."""
        strings = tf.TensorSpec([None], tf.string, "strings")
        tokens = tf.TensorSpec([None, None], tf.string, "tokens")
        sequence_len = tf.TensorSpec([None], tf.int32, "sequence_len")
        default = tf.function(self._of_strings, [strings], autograph=False)
        return {
            "default": default,
            "serving_default": default,
            "tokens": tf.function(
                self._of_tokens, [tokens, sequence_len], autograph=False
            ),
            "ids": tf.function(self._of_ids, [self._ids], autograph=False),
        }

    def _of_strings(self, strings: tf.Tensor) -> dict[str, tf.Tensor]:
        return self._outputs(self._to_ids(split_sentences(strings)))

    def _of_ids(self, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        debugging = tf.debugging
        checks = [
            debugging.assert_non_negative(ids, "ids must not be negative"),
            debugging.assert_greater_equal(
                tf.shape(ids)[1], 2, "each sentence of ids needs <S> and </S>"
            ),
        ]
        with tf.control_dependencies(checks):
            return self._outputs(tf.identity(ids))

    def _of_tokens(
        self, tokens: tf.Tensor, sequence_len: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        checks = _length_checks(tokens, sequence_len)
        with tf.control_dependencies(checks):
            ids = self._to_ids(tokens, lengths=tf.identity(sequence_len))
        return self._outputs(ids)

    def _embed(self, network: Network, ids: tf.Tensor) -> dict[str, tf.Tensor]:
        state = network.zero_state(tf.shape(ids)[0])
        embeddings, _ = embed_sentences(network, ids, state)
        layers = embeddings.lm_embeddings  # [B, N + 1, T, K * D]
        elmo = mix_layers(layers, self.elmo_weights, self.elmo_gamma)
        counts = tf.cast(tf.maximum(embeddings.lengths, 1), tf.float32)
        outputs = {
            # Layer 0 has the token's vector once for each direction.
            "word_emb": layers[:, 0, :, : network.options.lstm.projection_dim],
            "elmo": elmo,
            "default": tf.reduce_sum(elmo, 1) / counts[:, None],
        }
        for number in range(1, layers.shape[1]):
            outputs[f"lstm_outputs{number}"] = layers[:, number]
        return outputs


def _length_checks(tokens: tf.Tensor, lengths: tf.Tensor) -> list[tf.Operation]:
    """Operations that fail unless lengths [B] are those of sentences in [B, T]."""
    n_rows, n_tokens = tf.unstack(tf.shape(tokens))
    debugging = tf.debugging
    return [
        debugging.assert_equal(
            tf.shape(lengths)[0], n_rows, "sequence_len needs a number for each row"
        ),
        debugging.assert_non_negative(lengths, "sequence_len must not be negative"),
        debugging.assert_less_equal(
            lengths, n_tokens, "sequence_len must not be more than a row has tokens"
        ),
    ]
