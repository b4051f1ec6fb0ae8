"""The layers of Keras inside `bilm.keras.ElmoEmbedding`: biLM, mix and mask.

The biLM is the `Network` of training and prediction, with variables made by Keras.

Letters: B sentences, T tokens of the longest, C characters of a token, N LSTM layers,
n = N + 1 layers to mix, E size of a layer's vectors.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bilm.elmo import mixed
from bilm.errors import InputError
from bilm.given_ids import (
    as_ids,
    check_kind,
    check_places,
    check_sentences,
    ids_spec,
    n_ids,
)
from bilm.graph_mode import in_graph
from bilm.names import VariableSpec, embedded_words
from bilm.network import Network
from bilm.options import ModelOptions
from bilm.row_states import RowStates
from bilm.string_ids import ids_of_tokens, sentence_lengths, word_table

if tuple(map(int, keras.__version__.split(".")[:2])) < (3, 3):
    raise ImportError(
        f"bilm.keras needs Keras 3.3 or later, not {keras.__version__}: pip install "
        "--upgrade keras"
    )
if keras.config.backend() != "tensorflow":
    raise ImportError(
        f"bilm.keras needs Keras on TensorFlow, not on {keras.config.backend()}: set "
        "KERAS_BACKEND=tensorflow in the environment before Keras is imported"
    )


class Bilm(keras.layers.Layer):
    """A biLM whose variables are weights of Keras, from ids or strings to all layers.

    Attributes:
        vocabulary: the words for strings as word input, a line each; None where there
            are none. Keras would look at each item of a list.
        network: what computes; its `specs` are of the weights, in their order.
    """

    def __init__(
        self,
        options: ModelOptions,
        specs: Sequence[VariableSpec],
        values: Mapping[str, Any],
        words: Sequence[str] | None,
        max_rows: int | None,
        trainable: bool,
        dtype: Any,
    ) -> None:
        """Make the weights, float32 whatever the policy.

        Args:
            options: of the model.
            specs: of its variables.
            values: first ones, by name. A weight without is not a number until one is
                loaded.
            words: of the vocabulary, or None.
            max_rows: most rows of a stateful call; None: no states are carried.
            trainable: whether the weights are trained.
            dtype: policy, whose computations decide the precision of the products.

        Raises:
            InputError: a TensorFlow 1 graph is being built.
        """
        if in_graph():
            raise InputError(
                "Keras has no layers in a TensorFlow 1 graph: take "
                "BidirectionalLanguageModel and weight_layers there"
            )
        super().__init__(name="bilm", dtype=dtype)
        self.supports_masking = True  # of inputs a mask says nothing new
        self.supports_jit = False  # XLA has no operation that finds distinct tokens
        self.vocabulary = None if words is None else "\n".join(words)
        self._max_rows = max_rows
        self._has_values = all(spec.name in values for spec in specs)
        variables = {
            spec.name: self._weight(spec, values.get(spec.name)).value for spec in specs
        }
        self.network = Network(
            options, specs, variables=variables, compute_dtype=_products(self)
        )
        by_characters = embedded_words(specs) is None
        self._ids = ids_spec(options, by_characters)
        self._table = None if words is None else word_table(words)
        self._reads_strings = by_characters or words is not None
        self._states = RowStates(self.network, self._ids, max_rows)
        self.trainable = trainable
        self.built = True

    def call(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """All layers float32 [B, n, T, E] of ids or strings, and mask bool [B, T].

        Raises:
            InputError: type, shape or values break a rule, or weights have no values.
        """
        if _only_shapes():
            return self._zeros(token_mask(inputs))
        if isinstance(inputs, tf.RaggedTensor):
            raise InputError(
                "ElmoEmbedding takes no ragged tensors: pad strings by "
                "tokens.to_tensor(''), ids by to_tensor()"
            )
        self.check_kind(inputs.dtype.name, inputs.shape)
        self._check_values()
        embeddings = self._states.embed(self._to_ids(inputs))
        layers = embeddings.lm_embeddings
        # No tape needs what a frozen biLM has computed on the way.
        return (layers if self.trainable else tf.stop_gradient(layers)), embeddings.mask

    def compute_mask(self, inputs: Any, previous_mask: Any) -> None:
        """None: `ElmoEmbedding` gives the mask."""
        return None

    def check_kind(self, dtype: str, shape: Sequence[int | None]) -> None:
        """Check type and shape of ids or strings, as far as they are known.

        Raises:
            InputError: they are not such as the model takes.
        """
        if dtype != "string":
            if not tf.as_dtype(dtype).is_integer:
                raise InputError(
                    f"ElmoEmbedding takes strings or whole numbers, not {dtype}: begin "
                    "the model with keras.Input((None,), dtype='string'), or with "
                    f"keras.Input({tuple(self._ids.shape[1:])}, dtype='int32')"
                )
            check_kind(tf.as_dtype(dtype), tf.TensorShape(shape), self._ids)
            check_places(shape)
        elif not self._reads_strings:
            raise InputError(
                "strings need the vocabulary of a word-level model: pass vocab_file to "
                "ElmoEmbedding"
            )
        elif len(shape) != 2:
            raise InputError(
                "strings must be tokens of shape [batch, tokens], padded with '', but "
                f"are of shape {list(shape)}: bilm.string_ids.split_sentences splits "
                "sentences"
            )

    def reset_states(self) -> None:
        """Let the next call start from zeros."""
        self._states.reset()

    def _zeros(self, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """What `call` returns, without values."""
        options, (rows, tokens) = self.network.options, tf.unstack(tf.shape(mask))
        size = [rows, options.lstm.n_layers + 1, tokens, options.output_dim]
        return tf.zeros(size), mask

    def _to_ids(self, inputs: tf.Tensor) -> tf.Tensor:
        if inputs.dtype == tf.string:
            inputs = ids_of_tokens(self.network.options, self._table)(inputs)
        ids = as_ids(inputs, self._ids, n_ids(self.network.specs))
        if tf.executing_eagerly():
            check_sentences(ids.numpy(), self._max_rows)
        return ids

    def _weight(self, spec: VariableSpec, value: Any) -> keras.Variable:
        def first(shape: Sequence[int], dtype: str) -> tf.Tensor:
            return tf.fill(shape, float("nan")) if value is None else value

        return self.add_weight(
            name=spec.name.replace("/", "_"),  # which Keras wants for its paths
            shape=spec.shape,
            dtype="float32",
            initializer=first,
            autocast=False,
        )

    def _check_values(self) -> None:
        """Refuse to compute with weights that were neither read nor loaded."""
        if self._has_values:
            return
        with tf.init_scope():
            missing = [w.name for w in self.weights if _has_nan(w.value)]
        if missing:
            raise InputError(
                f"{len(missing)} weights of the biLM ({missing[0]} and so on) are not "
                "numbers, as a layer made by its configuration has none: load them "
                "(load_model, load_weights, set_weights), or pass weight_file"
            )
        self._has_values = True


class LayerMix(keras.layers.Layer):
    """A learnt mix of layers, the numbers of `weight_layers`.

    Attributes:
        logits: W float32 [n], zeros at first; None with `use_top_only`.
        gamma: float32 [1], 1 at first.
    """

    def __init__(
        self,
        name: str,
        n_layers: int,
        l2_coef: float | None,
        use_top_only: bool,
        do_layer_norm: bool,
        dtype: Any,
    ) -> None:
        """Make the weights, as those of `ScalarMix`, float32 whatever the policy."""
        super().__init__(name=name, dtype=dtype, autocast=False)  # of the inputs
        self.do_layer_norm = do_layer_norm
        exact = {"dtype": "float32", "autocast": False}
        self.gamma = self.add_weight(
            name=f"{name}_ELMo_gamma", shape=(1,), initializer="ones", **exact
        )
        self.logits = None
        if not use_top_only:
            self.logits = self.add_weight(
                name=f"{name}_ELMo_W",
                shape=(n_layers,),
                initializer="zeros",
                regularizer=None if l2_coef is None else keras.regularizers.L2(l2_coef),
                **exact,
            )
        self.built = True

    def call(self, layers: tf.Tensor, real: tf.Tensor) -> tf.Tensor:
        """Mix float32 [B, n, T, E], where bool [B, T] is real, to [B, T, E]."""
        ops = {"lm_embeddings": layers, "mask": real}
        values = mixed(ops, self.logits, self.gamma, self.do_layer_norm)
        return tf.cast(values, self.compute_dtype)


@keras.saving.register_keras_serializable("bilm")
class TokenMask(keras.layers.Layer):
    """`token_mask` as a layer, for the graph of a functional model."""

    supports_masking = True  # of inputs a mask says nothing new

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """The mask of `token_mask`."""
        return token_mask(inputs)

    def compute_output_spec(self, inputs: Any) -> keras.KerasTensor:
        """Shape and type."""
        rows, tokens = inputs.shape[:2]
        return keras.KerasTensor((rows, n_tokens(inputs.dtype, tokens)), "bool")


def token_mask(inputs: tf.Tensor) -> tf.Tensor:
    """Mask bool [B, T] of ids [B, T + 2, C] or [B, T + 2], or of strings [B, T]."""
    if inputs.dtype == tf.string:
        return tf.sequence_mask(sentence_lengths(inputs), tf.shape(inputs)[1])
    if is_guessed(inputs.dtype.name):
        return tf.ones(tf.shape(inputs)[:2], tf.bool)
    # <S> and </S> are two tokens more, so behind a sentence two places are left.
    real = inputs if inputs.shape.rank == 2 else inputs[:, :, 0]
    return real[:, 2:] > 0


def n_tokens(dtype: str, places: int | None) -> int | None:
    """T of strings or ids with so many places; ids have `<S>` and `</S>` too."""
    if dtype == "string" or places is None:
        return places
    return None if is_guessed(dtype) else places - 2


def is_guessed(dtype: str) -> bool:
    """Whether this is the type that Keras supposes where it knows a shape alone."""
    return tf.as_dtype(dtype).is_floating


def _only_shapes() -> bool:
    """Whether Keras only builds a model, in a graph that never runs.

    That of a subclassed model is loaded after it is built, and its inputs have no type.
    """
    if tf.executing_eagerly():
        return False
    graph = tf.compat.v1.get_default_graph()
    return getattr(graph, "name", "").startswith("scratch_graph")


def _products(layer: keras.layers.Layer) -> str:
    """Type of a network's products: that of the layer where it has 16 bits."""
    half = layer.compute_dtype in ("float16", "bfloat16")
    return layer.compute_dtype if half else "float32"


def _has_nan(variable: tf.Variable) -> bool:
    return bool(tf.reduce_any(tf.math.is_nan(variable)))
