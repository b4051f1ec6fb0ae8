"""Options and variables of a training, from the files of a model to embed with.

`options.json` of prediction may lack what training needs; `weights.hdf5` holds the
network, and a file beside it, which few models have, the softmax.
"""

import logging
import os
from collections.abc import Mapping

import numpy as np

from bilm.jsonfiles import read_object
from bilm.names import (
    model_variables,
    softmax_variables,
    training_variables,
)
from bilm.options import (
    TrainingOptions,
    prediction_dict,
    read_model_options,
    training_dict,
    training_options_from_dict,
)
from bilm.presets import preset
from bilm.weights import read_weights

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]
PRESET = "original"  # whose training options stand for those that a file lacks
# Keys of a training that have no default.
NEEDED = (
    "dropout",
    "all_clip_norm_val",
    "n_epochs",
    "batch_size",
    "unroll_steps",
    "n_negative_samples_batch",
)


def imported_options(options_file: Path, n_tokens_vocab: int) -> TrainingOptions:
    """Training options of a model's `options.json`, of either phase.

    What training needs and the file lacks is that of the preset `original`; see
    `say_imported`.

    Args:
        options_file: `options.json`; unknown keys are left out with a warning.
        n_tokens_vocab: V, words of the softmax.

    Raises:
        FileNotFoundError: there is no such file.
        InputError: a key breaks a rule.
    """
    network = prediction_dict(read_model_options(options_file))
    found, _ = read_object(options_file)
    usual = training_dict(preset(PRESET))
    keys = usual.keys() - {"lstm", "char_cnn", "bidirectional"}
    training = {key: found.get(key, usual[key]) for key in keys}
    training["n_tokens_vocab"] = n_tokens_vocab
    return training_options_from_dict({**training, **network}, str(options_file))


def imported_values(
    options: TrainingOptions, weight_file: Path, softmax_file: Path | None = None
) -> dict[str, np.ndarray]:
    """Variables that a model's files hold, for `Trainer` or to be changed before.

    Those that no file holds are not in the result; see `say_imported`.

    Args:
        options: of the training, with the V of the files.
        weight_file: `weights.hdf5`.
        softmax_file: `softmax/W` [V, D] and `softmax/b` [V], as
            `dump_weights(..., include_softmax=True)` writes them; None where there is
            none.

    Returns:
        float32 arrays by their names in a checkpoint.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: what is missing, misshapen or not finite in a file.
    """
    n_words = options.n_tokens_vocab if options.char_cnn is None else None
    values = read_weights(weight_file, model_variables(options, n_words))
    if softmax_file is not None:
        values |= read_weights(softmax_file, softmax_variables(options))
    return values


def say_imported(
    options_file: Path, options: TrainingOptions, values: Mapping[str, np.ndarray]
) -> None:
    """Say what training needs and the files of a model lack.

    Args:
        options_file: `options.json`.
        options: of the training, which came of it.
        values: of its variables, by their names in a checkpoint.
    """
    found, _ = read_object(options_file)
    if missing := [key for key in NEEDED if key not in found]:
        given = training_dict(options)
        logger.info(
            "%s has no training options %s: they are those of the preset %s",
            options_file,
            ", ".join(f"{key} ({given[key]})" for key in missing),
            PRESET,
        )
    specs = training_variables(options)
    new = [f"{s.name} {list(s.shape)}" for s in specs if s.name not in values]
    if new:
        logger.info("no file holds %s: newly drawn", ", ".join(new))
