"""Small models for the numeric tests: options, random weights, batches, closeness."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import oracle

from bilm.names import VariableSpec
from bilm.options import CharCnnOptions, LstmOptions, TrainingOptions

FILTERS = ((1, 2), (2, 3), (4, 4))
CHARACTERS = 8  # of a token


def options(
    *,
    characters: bool = True,
    filters: tuple[tuple[int, int], ...] = FILTERS,
    activation: str = "relu",
    n_highway: int = 1,
    dim: int = 7,
    projection_dim: int = 5,
    n_layers: int = 2,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
    skip: bool = False,
    bidirectional: bool = True,
    **training: Any,
) -> TrainingOptions:
    """Options of a model that runs in milliseconds; `training` as the fields are."""
    cnn = CharCnnOptions(filters, 3, CHARACTERS, n_highway, activation)
    lstm = LstmOptions(dim, projection_dim, n_layers, cell_clip, proj_clip, skip)
    defaults = {
        "dropout": 0.0,
        "all_clip_norm_val": 10.0,
        "n_epochs": 1,
        "batch_size": 2,
        "n_tokens_vocab": 11,
        "unroll_steps": 3,
        "sample_softmax": False,
    }
    return TrainingOptions(
        lstm, cnn if characters else None, bidirectional, **(defaults | training)
    )


def random_values(
    specs: Iterable[VariableSpec], seed: int = 0, scale: float = 0.7
) -> dict[str, np.ndarray]:
    """Weights of every sort, float32, by their names in a checkpoint."""
    random = np.random.default_rng(seed)
    return {
        spec.name: (scale * random.standard_normal(spec.shape)).astype(np.float32)
        for spec in specs
    }


def character_rows(words: Sequence[bytes]) -> np.ndarray:
    """Training ids [n, C] of tokens."""
    rows = [oracle.character_ids(word, CHARACTERS) for word in words]
    return np.array(rows, np.int32)


def batch(model: TrainingOptions, seed: int = 0) -> dict[str, np.ndarray]:
    """A batch as the data sets give it, of random words with repetitions."""
    random = np.random.default_rng(seed)
    shape, n_words = (model.batch_size, model.unroll_steps), model.n_tokens_vocab
    sizes = random.integers(0, CHARACTERS, n_words)
    characters = character_rows([random.bytes(size) for size in sizes])
    entries = {}
    for suffix in oracle.SUFFIXES[: model.n_directions]:
        ids, targets = random.integers(0, n_words, (2, *shape), np.int32)
        entries[f"token_ids{suffix}"] = ids
        entries[f"next_token_id{suffix}"] = targets
        if model.char_cnn is not None:
            entries[f"tokens_characters{suffix}"] = characters[ids]
    return entries


def random_state(model: TrainingOptions, seed: int = 0) -> oracle.State:
    """A state [K][N] of (c, m), as a batch before might have left it."""
    random = np.random.default_rng(seed)
    return [
        [
            tuple(
                random.uniform(-1, 1, part.shape).astype(np.float32) for part in layer
            )
            for layer in direction
        ]
        for direction in oracle.zero_state(model, model.batch_size)
    ]


def assert_close(actual: Any, expected: Any, tolerance: float = 1e-5) -> None:
    """Check that no value differs by more than this part of the largest one."""
    expected = np.asarray(expected)
    largest = np.max(np.abs(expected), initial=0)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * largest)
