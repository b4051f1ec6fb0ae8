"""Ids that a model is given, checked as far as they are known before they are used.

Letters: B sentences, T tokens, C characters.
"""

import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bilm.errors import InputError
from bilm.names import VariableSpec, embedded_words
from bilm.options import ModelOptions

N_CHARACTERS = 262  # of prediction: 0 pads a sentence


def ids_spec(options: ModelOptions, use_character_inputs: bool) -> tf.TensorSpec:
    """What ids a model takes: int32 [B, T, C] of characters, or [B, T] of words."""
    if not use_character_inputs:
        return tf.TensorSpec([None, None], tf.int32)
    assert options.char_cnn is not None
    size = options.char_cnn.max_characters_per_token
    return tf.TensorSpec([None, None, size], tf.int32)


def n_ids(specs: Sequence[VariableSpec]) -> int:
    """How many ids a network of these variables knows, with 0, the padding."""
    words = embedded_words(specs)
    return N_CHARACTERS if words is None else words + 1


def as_ids(given: Any, spec: tf.TensorSpec, n_ids: int) -> tf.Tensor:
    """Ids as int32.

    Args:
        given: what is like an array of them.
        spec: of ids [B, T, C] or [B, T].
        n_ids: how many there are, with 0, the padding.

    Raises:
        InputError: type, rank, width or range break a rule.
    """
    try:
        ids = tf.convert_to_tensor(given)
    except (TypeError, ValueError):
        raise InputError(
            f"ids must be one array of numbers, not {reprlib.repr(given)}: a Batcher "
            "makes them of lists of tokens"
        ) from None
    check_kind(ids.dtype, ids.shape, spec)
    if tf.executing_eagerly():
        _check_range(ids.numpy(), n_ids)
    return tf.cast(ids, tf.int32)


def check_kind(dtype: tf.DType, shape: tf.TensorShape, spec: tf.TensorSpec) -> None:
    """Check type and shape of ids, as far as the shape is known.

    Raises:
        InputError: they do not fit `spec`.
    """
    if not dtype.is_integer or not spec.shape.is_compatible_with(shape):
        raise InputError(
            f"ids must be int32 of shape {spec.shape.as_list()} (batch, tokens"
            f"{', characters' if spec.shape.rank == 3 else ''}), but are "
            f"{dtype.name} of shape {shape.as_list()}"
        )


def check_places(shape: Sequence[int | None]) -> None:
    """Check that ids [B, T, C] or [B, T] have places for `<S>` and `</S>`.

    Raises:
        InputError: they have not.
    """
    if shape[1] is not None and shape[1] < 2:
        raise InputError(
            "each sentence has <S> and </S>, so that there must be 2 tokens at least, "
            f"but the ids are of shape {list(shape)}"
        )


def check_sentences(ids: np.ndarray, max_batch_size: int | None) -> None:
    """Check that ids are sentences as a Batcher makes them, padding behind them.

    Args:
        ids: [B, T, C] or [B, T].
        max_batch_size: most of them, None for any number.

    Raises:
        InputError: they are not, or too many.
    """
    if max_batch_size is not None and len(ids) > max_batch_size:
        raise InputError(
            f"a stateful call takes at most max_batch_size = {max_batch_size} "
            f"sentences, but got {len(ids)}; pass a larger max_batch_size, or "
            "stateful=False for any number"
        )
    check_places(ids.shape)
    real = (ids != 0).any(axis=tuple(range(2, ids.ndim)))  # [B, T]
    gaps = np.flatnonzero((real[:, 1:] & ~real[:, :-1]).any(1))
    if len(gaps):
        raise InputError(
            f"sentence {gaps[0]} of the ids has padding (0) before a token: padding "
            "belongs behind a sentence"
        )


def _check_range(values: np.ndarray, n_ids: int) -> None:
    if values.size and not (values.min() >= 0 and values.max() < n_ids):
        raise InputError(
            f"ids must be at least 0 and below {n_ids}, but range from "
            f"{values.min()} to {values.max()}; the Batcher of the same vocabulary "
            "makes them"
        )
