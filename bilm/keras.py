"""ELMo as a layer of Keras 3: ids or tokens in, vectors and their mask out.

Letters: B sentences, T tokens of the longest, C characters of a token, K directions, D
`projection_dim`.
"""

import os
import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bilm.errors import InputError
from bilm.keras_layers import (
    Bilm,
    LayerMix,
    TokenMask,
    is_guessed,
    n_tokens,
    token_mask,
)
from bilm.names import embedded_words
from bilm.options import (
    ModelOptions,
    model_options_from_dict,
    prediction_dict,
    read_model_options,
)
from bilm.stored_model import open_for_layer
from bilm.vocabulary import Vocabulary

Path = str | os.PathLike[str]


@keras.saving.register_keras_serializable("bilm")
class ElmoEmbedding(keras.layers.Layer):
    """ELMo vectors of sentences: a biLM, and one or several learnt mixes of its layers.

    Called with ids or with strings it returns vectors [B, T, K * D] of the type that
    the dtype policy computes in, zero where a sentence is padded (not with
    `do_layer_norm`), and with a mask that the layers behind it use. With several mixes
    it returns a dict of such vectors by their names, and runs the biLM once.

    - Ids are those of a `Batcher` [B, T + 2, C], or of a `TokenBatcher` [B, T + 2]
      where the model reads words; any type of integers.
    - Strings are tokens in UTF-8 [B, T], padded with `''`. Their ids are made in the
      graph. An `''` before the last token is a word of no letters.

    The biLM is frozen unless `trainable`; the mixes are trained. `layer.bilm.trainable`
    is the same switch later on, while `layer.trainable`, as in all of Keras, is one for
    all weights, those of the biLM included. As there, `compile` again after a change.

    Stateful, row r of a call starts from the state that row r of the call before ended
    with, in `fit` and `predict` too; `reset_states()` zeroes them.

    A model that is saved as `x.keras` holds all but the states, and loads without the
    files of the biLM where `bilm.keras` has been imported. `from_config` gives all but
    the weights: such a layer refuses to compute until they are loaded.

    Attributes:
        bilm: the layer with the weights of the biLM, float32 under every policy.
        mixes: the layers with those of each mix, by its name: `logits` (W [N + 1],
            before its softmax) and `gamma` [1].
    """

    def __init__(
        self,
        options_file: Path | Mapping[str, Any],
        weight_file: Path | None,
        mix: str | Sequence[str] = "elmo",
        trainable: bool = False,
        dropout: float = 0.0,
        stateful: bool = False,
        *,
        vocab_file: Path | Sequence[str] | None = None,
        embedding_weight_file: Path | None = None,
        max_batch_size: int = 128,
        l2_coef: float | None = None,
        use_top_only: bool = False,
        do_layer_norm: bool = False,
        n_words: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Read the model.

        Args:
            options_file: `options.json` of prediction or of training, or its content.
            weight_file: `weights.hdf5`; None: the weights are to be loaded.
            mix: name of the mix; several names for several mixes.
            trainable: whether the biLM is trained too, not the mixes alone.
            dropout: rate in [0, 1) of values dropped from each mix in training; inside
                the biLM none are dropped.
            stateful: whether calls carry the states of rows over.
            vocab_file: of models of words, for strings: the vocabulary, or its words.
            embedding_weight_file: the file of `dump_token_embeddings`, for word ids in
                place of characters.
            max_batch_size: most rows of a stateful call.
            l2_coef: adds `l2_coef * sum(W^2)` of each mix to the losses; None: nothing.
            use_top_only: take the last layer alone, times gamma, in place of a mix.
            do_layer_norm: first bring each layer to mean 0 and variance 1 over all
                tokens of the batch; not with `use_top_only`.
            n_words: where no file says so, rows of the word embedding.
            **kwargs: `name` and `dtype` of a Keras layer.

        Raises:
            FileNotFoundError: a file is missing.
            InputError: a file or an argument breaks a rule, or they do not fit each
                other.
        """
        super().__init__(**kwargs)
        self._mix = _checked_names(mix)
        _check_settings(trainable, stateful, dropout, max_batch_size)
        self.supports_jit = False  # XLA has no operation that finds distinct tokens
        self.stateful = stateful
        self._settings = {
            "stateful": stateful,
            "max_batch_size": max_batch_size,
            "l2_coef": l2_coef,
            "use_top_only": use_top_only,
            "do_layer_norm": do_layer_norm,
        }
        options = _options(options_file)
        words = _words(vocab_file)
        with open_for_layer(
            options, weight_file, embedding_weight_file, words, n_words
        ) as model:
            self.bilm = Bilm(
                options,
                *model,
                words if embedded_words(model.specs) is not None else None,
                max_batch_size if stateful else None,
                trainable,
                self.dtype_policy,
            )
        n_layers = options.lstm.n_layers + 1
        self.mixes = {
            name: LayerMix(
                name, n_layers, l2_coef, use_top_only, do_layer_norm, self.dtype_policy
            )
            for name in self._names
        }
        self.dropout = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    @property
    def _names(self) -> list[str]:
        return [self._mix] if isinstance(self._mix, str) else list(self._mix)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As every layer; arrays keep their type, of which Keras 3.3 makes float32."""
        if isinstance(inputs, np.ndarray):
            inputs = tf.convert_to_tensor(inputs)
        if not (hasattr(inputs, "dtype") and hasattr(inputs, "shape")):
            raise InputError(
                "ElmoEmbedding takes one tensor, of ids or of strings padded with '' "
                f"(tf.constant makes it of lists), not {reprlib.repr(inputs)}"
            )
        return super().__call__(inputs, *args, **kwargs)

    def build(self, input_shape: Any) -> None:
        """Nothing: the weights are there from the beginning."""
        self.built = True

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> Any:
        """Embed ids or strings.

        Args:
            inputs: as the class says.
            training: whether values are dropped.

        Raises:
            InputError: the inputs break a rule, or the weights have no values.
        """
        layers, real = self.bilm(inputs)
        mixed = {
            name: self.dropout(mix(layers, real), training=training)
            for name, mix in self.mixes.items()
        }
        return self._as_asked(mixed)

    def compute_output_spec(self, inputs: Any, training: bool | None = None) -> Any:
        """Shapes and type of what `call` returns."""
        if not is_guessed(inputs.dtype):  # values of it are refused
            self.bilm.check_kind(inputs.dtype, inputs.shape)
        rows, places = inputs.shape[:2]
        size = self.bilm.network.options.output_dim
        shape = (rows, n_tokens(inputs.dtype, places), size)
        return self._as_asked(
            {name: keras.KerasTensor(shape, self.compute_dtype) for name in self.mixes}
        )

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> Any:
        """Mask bool [B, T] of the tokens that are there, for each mix."""
        symbolic = isinstance(inputs, keras.KerasTensor)
        mask = TokenMask()(inputs) if symbolic else token_mask(inputs)
        return self._as_asked({name: mask for name in self.mixes})

    def reset_states(self) -> None:
        """Let the next call start from zeros, as the first did."""
        self.bilm.reset_states()

    def get_config(self) -> dict[str, Any]:
        """All but the weights: files are given by what they hold."""
        return {
            **super().get_config(),
            "options_file": prediction_dict(self.bilm.network.options),
            "weight_file": None,
            "mix": self._mix,
            "trainable": self.bilm.trainable,
            "frozen": not self.trainable,
            "dropout": self.dropout.rate,
            "vocabulary": self.bilm.vocabulary,
            "n_words": embedded_words(self.bilm.network.specs),
            **self._settings,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "ElmoEmbedding":
        """Make the layer without the values of its biLM, which are to be loaded."""
        config = dict(config)
        frozen = config.pop("frozen", False)
        text = config.pop("vocabulary", None)
        words = None if text is None else text.split("\n")
        layer = super().from_config({**config, "vocab_file": words})
        if frozen:
            layer.trainable = False
        return layer

    def _as_asked(self, by_name: dict[str, Any]) -> Any:
        """One value for a mix given as a text, a dict for several."""
        return by_name[self._mix] if isinstance(self._mix, str) else by_name


def _checked_names(mix: str | Sequence[str]) -> str | list[str]:
    listed = [mix] if isinstance(mix, str) else mix
    names = list(listed) if isinstance(listed, Iterable) else [None]
    good = all(isinstance(name, str) and name and "/" not in name for name in names)
    if not names or not good or len(set(names)) != len(names):
        raise InputError(
            "mix must be a name, or several different ones, not empty and without "
            f"'/', as weights are called by them, not {mix!r}"
        )
    return mix if isinstance(mix, str) else names


def _check_settings(
    trainable: bool, stateful: bool, dropout: float, max_batch_size: int
) -> None:
    for name, value in {"trainable": trainable, "stateful": stateful}.items():
        if not isinstance(value, bool):
            raise InputError(f"{name} must be True or False, not {value!r}")
    if not (isinstance(dropout, int | float) and 0 <= dropout < 1):
        raise InputError(
            "dropout must be a number from 0 to below 1, the share of values that is "
            f"dropped, not {dropout!r}"
        )
    if not (isinstance(max_batch_size, int) and max_batch_size >= 1):
        raise InputError(
            f"max_batch_size must be a whole number from 1 on, not {max_batch_size!r}"
        )


def _options(given: Path | Mapping[str, Any]) -> ModelOptions:
    if isinstance(given, Mapping):
        return model_options_from_dict(given)
    return read_model_options(given)


def _words(given: Path | Sequence[str] | None) -> Sequence[str] | None:
    if given is None or not isinstance(given, str | os.PathLike):
        return given
    return Vocabulary(given).words
