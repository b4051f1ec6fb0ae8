"""How sentences are read: what is asked for, and the order in which tokens run.

Letters: n tokens of a window (stateful with `<S>` and `</S>`), L layers asked
for, N LSTM layers, K directions, D `projection_dim`, B lanes, S steps.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bilm.errors import InputError
from bilm.options import ModelOptions
from bilm.vocabulary import check_tokens

BATCH_TOKENS = 4096
"""Tokens of a batch: with the original size, the gates of one layer take 256 MiB."""

WINDOW_BATCHES = 8  # batches' tokens of a stateless window: more fill more lanes
LANES = (1, 8, 16, 32, 48, 64, 96, 128)
"""Numbers of lanes: few, for each is compiled; more are no faster, 256 slower."""

MAX_STEPS = 1024  # of a piece, whose last steps may be idle
STEP_ROWS = 32  # rows whose products cost what a step costs whatever its rows

Layers = str | int
Sentences = Iterable[Sequence[str]]


class Reading(NamedTuple):
    """How sentences are embedded.

    Attributes:
        layers: `all`, `top`, `average` or the number of one layer, 0 to N.
        pool: `mean` for one vector a sentence, None for one a token.
        batch_tokens: tokens of a batch.
        batch_size: most sentences that run side by side; None for any number.
        stateful: whether a sentence starts from the state after the one before.
    """

    layers: Layers = "all"
    pool: str | None = None
    batch_tokens: int = BATCH_TOKENS
    batch_size: int | None = None
    stateful: bool = False


class Lanes(NamedTuple):
    """Sequences that run side by side, in lanes of one after the other."""

    tokens: np.ndarray  # int [S, B], among those of the window in order of reading
    real: np.ndarray  # bool [S, B], false behind the end of a lane
    starts: np.ndarray  # bool [S, B], true at the first token of a sequence


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


def window_tokens(reading: Reading) -> int:
    """Tokens that are embedded before the first of them are handed out."""
    return reading.batch_tokens * (1 if reading.stateful else WINDOW_BATCHES)


def sentence_windows(
    sentences: Sentences, n_tokens: int
) -> Iterator[list[Sequence[str]]]:
    """Take sentences of at most that many tokens with their ends, at least one.

    Raises:
        InputError: a sentence is a text.
    """
    check_tokens(sentences)
    taken: list[Sequence[str]] = []
    size = 0
    for tokens in sentences:
        check_tokens(tokens)
        length = len(tokens) + 2
        if taken and size + length > n_tokens:
            yield taken
            taken, size = [], 0
        taken.append(tokens)
        size += length
    if taken:
        yield taken


def one_lane(n_tokens: int) -> Lanes:
    """All tokens as one sequence that goes on from the state before."""
    tokens = np.arange(n_tokens)[:, None]
    return Lanes(tokens, np.full(tokens.shape, True), np.full(tokens.shape, False))


def pack_lanes(lengths: np.ndarray, reading: Reading) -> Lanes:
    """Put the sentences, the longest first, each into the shortest lane.

    Args:
        lengths: [sentences] tokens of each.
        reading: `batch_tokens` and `batch_size` limit the number of lanes.
    """
    n_lanes = _number_of_lanes(lengths, reading)
    lanes = [(0, lane) for lane in range(n_lanes)]  # a heap of (length, lane)
    begins = np.cumsum(lengths) - lengths
    placed = []
    for sentence in np.argsort(-lengths, kind="stable"):
        at, lane = heapq.heappop(lanes)
        placed.append((begins[sentence], lengths[sentence], at, lane))
        heapq.heappush(lanes, (at + int(lengths[sentence]), lane))
    shape = (max(length for length, _ in lanes), n_lanes)
    packed = Lanes(np.zeros(shape, int), np.zeros(shape, bool), np.zeros(shape, bool))
    for begin, length, at, lane in placed:
        if length:
            steps = slice(at, at + length)
            packed.tokens[steps, lane] = np.arange(begin, begin + length)
            packed.real[steps, lane] = True
            packed.starts[at, lane] = True
    return packed


def piece_steps(n_steps: int, n_lanes: int, batch_tokens: int) -> int:
    """Steps to run at once, of few numbers, for each is compiled.

    The steps of a batch, or the first of 64, 256 and 1,024 that holds all there are.
    """
    most = min(max(1, batch_tokens // n_lanes), MAX_STEPS)
    enough = next((size for size in (64, 256) if n_steps <= size), MAX_STEPS)
    return min(most, enough)


def _number_of_lanes(lengths: np.ndarray, reading: Reading) -> int:
    """The number with which the sentences are expected to take the least time."""
    most = min(reading.batch_size or LANES[-1], reading.batch_tokens, LANES[-1])
    numbers = [number for number in LANES if number < most] + [most]

    def cost(number: int) -> float:
        steps = max(lengths.max(initial=0), lengths.sum() / number)
        return steps * (number + STEP_ROWS)

    return min(numbers, key=cost)
