"""How sentences are read: what is asked for, and the order in which tokens run.

Letters: n tokens of a window with `<S>` and `</S>` of each sentence, L layers asked
for, N LSTM layers, K directions, D `projection_dim`, B rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bilm.errors import InputError
from bilm.options import ModelOptions

BATCH_TOKENS = 4096
"""Tokens of a batch: with the original size, the gates of one layer take 256 MiB."""

WINDOW_BATCHES = 4  # batches' tokens of a window: the more, the more rows are alike
MAX_ROWS = 512  # of a batch; more do not make products faster
MAX_STEPS = 16  # of several rows before those that have ended are left out

Layers = str | int


class Reading(NamedTuple):
    """How sentences are embedded.

    Attributes:
        layers: `all`, `top`, `average` or the number of one layer, 0 to N.
        pool: `mean` for one vector a sentence, None for one a token.
        batch_tokens: tokens of a batch, `<S>` and `</S>` included.
        batch_size: most sentences of a batch; None for any number.
        stateful: whether a sentence starts from the state after the one before.
    """

    layers: Layers = "all"
    pool: str | None = None
    batch_tokens: int = BATCH_TOKENS
    batch_size: int | None = None
    stateful: bool = False


class Rows(NamedTuple):
    """Sequences that run side by side, the longest first."""

    starts: np.ndarray  # [B], among the tokens of the window in order of reading
    lengths: np.ndarray  # [B], descending


def layer_weights(layers: Layers, n_layers: int) -> np.ndarray:
    """The weights float32 [L, N + 1] of the network's layers in those asked for.

    Raises:
        InputError: there is no such layer.
    """
    each = np.eye(n_layers + 1, dtype=np.float32)
    if layers == "all":
        return each
    if layers == "average":
        return each.mean(0, keepdims=True)
    number = n_layers if layers == "top" else layers
    if type(number) is not int or not 0 <= number <= n_layers:
        raise InputError(
            f"layers must be 'all', 'top', 'average' or a number from 0 to {n_layers}, "
            f"not {layers!r}"
        )
    return each[[number]]


def check_reading(reading: Reading, options: ModelOptions) -> None:
    """Check what a user asks for.

    Raises:
        InputError: a value breaks a rule.
    """
    layer_weights(reading.layers, options.lstm.n_layers)
    if reading.pool not in (None, "mean"):
        raise InputError(f"pool must be 'mean' or None, not {reading.pool!r}")
    for name in ("batch_tokens", "batch_size"):
        value = getattr(reading, name)
        if value is not None and value < 1:
            raise InputError(f"{name} must be at least 1, but is {value}")


def vectors_shape(
    n_tokens: int, options: ModelOptions, reading: Reading
) -> tuple[int, ...]:
    """Shape of a sentence's array: [L, tokens, K * D].

    Without the first axis but for all layers, and without the tokens where pooled.
    """
    layers = [options.lstm.n_layers + 1] if reading.layers == "all" else []
    tokens = [n_tokens] if reading.pool is None else []
    return (*layers, *tokens, options.output_dim)


def reading_orders(lengths: np.ndarray, n_directions: int) -> list[np.ndarray]:
    """For each direction the places [n] of a window's tokens as they are read.

    Sentences follow one another; the backward direction reads each from its end.
    """
    forward = np.arange(lengths.sum())
    starts = np.repeat(np.cumsum(lengths) - lengths, lengths)
    backward = 2 * starts + np.repeat(lengths, lengths) - 1 - forward
    return [forward, backward][:n_directions]


def rows_by_length(lengths: np.ndarray, reading: Reading) -> Iterator[Rows]:
    """Cut sentences, sorted by length, into batches of a row each."""
    starts = np.cumsum(lengths) - lengths
    order = np.argsort(-lengths, kind="stable")
    n_rows = min(reading.batch_size or MAX_ROWS, reading.batch_tokens)
    for first in range(0, len(order), n_rows):
        batch = order[first : first + n_rows]
        yield Rows(starts[batch], lengths[batch])


def piece_steps(n_rows: int, steps_left: int, reading: Reading) -> int:
    """Steps to run before rows that have ended are left out."""
    most = max(1, reading.batch_tokens // n_rows)
    if n_rows > 1:
        most = min(most, MAX_STEPS)
    return min(most, steps_left)
