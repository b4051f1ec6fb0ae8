"""Tiny models for the tests, and a language that they can learn.

The counting language: a sentence counts from a random digit up to 9. After the first
word every word follows from the one before, and read backwards after 9 only the start
is to be guessed, so both directions have the same best perplexity: a sentence costs
ln 10 and has 6.5 tokens (5.5 words and `</S>`) on the average, exp(ln 10 / 6.5) = 1.43.
"""

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np

from bilm.names import VariableSpec, model_variables, training_variables
from bilm.options import (
    CharCnnOptions,
    LstmOptions,
    ModelOptions,
    TrainingOptions,
    prediction_dict,
    replace_options,
    training_dict,
    write_options,
)

GOLDEN = Path(__file__).parent / "fixtures" / "golden"

DIGITS = [str(digit) for digit in range(10)]
WORDS = ["<S>", "</S>", "<UNK>", *DIGITS]

LSTM = LstmOptions(
    dim=16,
    projection_dim=8,
    n_layers=2,
    cell_clip=3,
    proj_clip=3,
    use_skip_connections=True,
)
CHAR_CNN = CharCnnOptions(
    filters=((1, 4), (2, 4), (3, 4)),
    embedding_dim=4,
    max_characters_per_token=8,
    n_highway=1,
)
OPTIONS = TrainingOptions(
    lstm=LSTM,
    char_cnn=CHAR_CNN,
    bidirectional=True,
    dropout=0.0,
    all_clip_norm_val=10.0,
    n_epochs=1,
    n_train_tokens=480,
    batch_size=4,
    n_tokens_vocab=len(WORDS),
    unroll_steps=3,
    n_negative_samples_batch=6,
    sample_softmax=False,
)
# Without characters, to be combined: the smallest network there is.
SMALL_LSTM = LstmOptions(dim=5, projection_dim=3, n_layers=1)


class Corpus(NamedTuple):
    """Files of the counting language."""

    vocab: Path
    train: Path
    heldout: Path


class Run(NamedTuple):
    """A finished training."""

    options: TrainingOptions
    save_dir: Path
    log_dir: Path
    prefix: str  # as `train` returned it
    log: str  # lines that the package logged


class Model(NamedTuple):
    """Files of a model to embed with."""

    options_file: Path
    weight_file: Path


def counting_sentences(n_sentences: int, seed: int) -> list[list[str]]:
    """Sentences of the counting language."""
    draw = random.Random(seed)
    return [DIGITS[draw.randrange(10) :] for _ in range(n_sentences)]


def write_lines(path: Path, lines: list[list[str]]) -> Path:
    """Write tokens, a sentence a line."""
    text = "".join(" ".join(tokens) + "\n" for tokens in lines)
    path.write_text(text, encoding="utf-8")
    return path


def with_lstm(options: Any, **flags: Any) -> Any:
    """Copy options with other values of their LSTM."""
    return replace_options(options, lstm=replace_options(options.lstm, **flags))


def with_chars(options: Any, **flags: Any) -> Any:
    """Copy options with other values of their character encoder."""
    return replace_options(options, char_cnn=replace_options(options.char_cnn, **flags))


def random_values(specs: list[VariableSpec], seed: int = 0) -> dict[str, np.ndarray]:
    """Values far from initial ones, no bias zero, by the names of a checkpoint."""
    draw = np.random.default_rng(seed)
    return {s.name: draw.normal(0, 0.5, s.shape).astype(np.float32) for s in specs}


def write_model(
    folder: Path, options: ModelOptions, n_words: int | None = None, seed: int = 0
) -> Model:
    """Write a model with random weights; `n_words` for word input."""
    specs = model_variables(options, n_words)
    arrays = random_values(specs, seed)
    write_arrays(
        folder / "weights.hdf5", {spec.hdf5: arrays[spec.name] for spec in specs}
    )
    write_options(folder / "options.json", prediction_dict(options))
    return Model(folder / "options.json", folder / "weights.hdf5")


def write_run(folder: Path, options: TrainingOptions, seed: int = 0) -> str:
    """Write what a training leaves, with random weights; returns the prefix."""
    from bilm.checkpoint import write_checkpoint  # loads TensorFlow

    write_options(folder / "options.json", training_dict(options))
    values = random_values(training_variables(options), seed)
    return write_checkpoint(folder, 7, values, keep=1)


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an HDF5 file."""
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read all datasets of an HDF5 file, by their full names."""
    arrays: dict[str, np.ndarray] = {}

    def keep(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(keep)
    return arrays


def assert_near(actual: Any, expected: Any, name: str = "") -> None:
    """Equal to 1e-5 of the expected array's largest value."""
    expected = np.asarray(expected)
    largest = np.abs(expected).max(initial=0)
    np.testing.assert_allclose(actual, expected, 0, 1e-5 * largest, err_msg=name)
