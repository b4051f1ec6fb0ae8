"""What the tests of the Keras layer share."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf
from tiny import OPTIONS, SMALL_LSTM

from bilm.options import replace_options

# One layer, one direction: Keras traces a training step of it fast.
SMALL = replace_options(OPTIONS, lstm=SMALL_LSTM, bidirectional=False)


def padded(sentences: Sequence[Sequence[str]], longest: int | None = None) -> tf.Tensor:
    """Strings [B, T], padded with `''`."""
    size = max(map(len, sentences), default=0) if longest is None else longest
    rows = [[*tokens, *[""] * (size - len(tokens))] for tokens in sentences]
    return tf.constant(rows, tf.string, [len(sentences), size])


def classifier(elmo: Any, dtype: str = "string") -> keras.Model:
    """A functional model: the mean vector of a sentence to two values."""
    shape = (None,) if dtype == "string" else (None, 8)
    inputs = keras.Input(shape, dtype=dtype)
    pooled = keras.layers.GlobalAveragePooling1D()(elmo(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(pooled))
