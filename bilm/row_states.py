"""The states of a model's rows, carried from each call to the next.

Letters: B rows of a call, K directions, N layers.
"""

import tensorflow as tf

from bilm.network import BilmState, Network
from bilm.prediction import Embeddings, embed_sentences


class RowStates:
    """Variables with the states of rows, and the calls that go on from them.

    Attributes:
        embed: the function from ids to `Embeddings`.
    """

    def __init__(
        self, network: Network, ids: tf.TensorSpec, max_rows: int | None
    ) -> None:
        """Make the variables, zeros.

        Args:
            network: what embeds.
            ids: of a call.
            max_rows: most rows of a call; None for no states: each call starts from
                zeros.
        """
        self._network = network
        self._max_rows = max_rows
        self._variables: BilmState = ()
        if max_rows is not None:
            with tf.init_scope():  # also where a tf.function calls for the first time
                self._variables = tf.nest.map_structure(
                    lambda zeros: tf.Variable(zeros, trainable=False, name="lm/state"),
                    network.zero_state(max_rows),
                )
        # Nothing needs autograph, and tracing is faster without.
        self.embed = tf.function(self._embed, input_signature=[ids], autograph=False)

    def reset(self) -> tf.Operation | None:
        """Set all states to zero; in a TensorFlow 1 graph, return what does so."""
        variables = tf.nest.flatten(self._variables)
        return tf.group(*[each.assign(tf.zeros_like(each)) for each in variables])

    def tensors(self) -> BilmState:
        """The states of all rows; of none where there are no states."""
        if self._max_rows is None:
            return self._network.zero_state(0)
        return tf.nest.map_structure(tf.convert_to_tensor, self._variables)

    def _embed(self, ids: tf.Tensor) -> Embeddings:
        rows = tf.shape(ids)[0]
        if self._max_rows is None:
            zeros = self._network.zero_state(rows)
            return embed_sentences(self._network, ids, zeros)[0]
        at_most = tf.debugging.assert_less_equal(
            rows, self._max_rows, "a stateful call takes max_batch_size rows"
        )
        with tf.control_dependencies([at_most] if at_most is not None else []):
            state = tf.nest.map_structure(lambda v: v[:rows], self._variables)
        embeddings, final = embed_sentences(self._network, ids, state)
        for variable, value in zip(
            tf.nest.flatten(self._variables), tf.nest.flatten(final), strict=True
        ):
            variable[:rows].assign(value)
        return embeddings
