"""From a checkpoint to the files of a model to embed with, and back.

`weights.hdf5` holds the network and `options.json` beside it how to run it;
`softmax_weights.hdf5`, where it is asked for, the words that the network predicts.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bilm.checkpoint import checkpoint_values, latest_checkpoint
from bilm.errors import InputError
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE, WEIGHTS_FILE, files_of_run
from bilm.imported_weights import imported_options, imported_values, say_imported
from bilm.jsonfiles import read_object
from bilm.names import model_variables, softmax_variables
from bilm.options import (
    TrainingOptions,
    as_training_options,
    prediction_dict,
    read_training_options,
    training_dict,
    write_options,
)
from bilm.paths import check_no_input
from bilm.trainer import Trainer
from bilm.vocabulary import Vocabulary
from bilm.weights import dataset_shapes, write_weights

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]
SOFTMAX_PREFIX = "softmax_"  # before the name of the weights file


def dump_weights(
    tf_save_dir: Path, outfile: Path, *, include_softmax: bool = False
) -> str:
    """Write the last checkpoint's weights as HDF5, and prediction options beside them.

    The options go to `options.json` in the folder of `outfile`; where there are options
    of a training, which stay, to `STEM_options.json`.

    Args:
        tf_save_dir: folder of the run.
        outfile: `weights.hdf5`.
        include_softmax: also write `softmax/W` float32 [V, D] and `softmax/b` [V] to
            `softmax_weights.hdf5` beside it (`softmax_` and the name of `outfile`);
            where the softmax shares the word embedding, `softmax/b` alone.

    Returns:
        Path of the prediction options.

    Raises:
        FileNotFoundError: the run has no options or no checkpoint.
        InputError: they do not fit each other, or `outfile` is one of the run's files.
    """
    options = read_training_options(os.path.join(tf_save_dir, OPTIONS_FILE))
    prefix = latest_checkpoint(tf_save_dir)
    folder, name = os.path.split(os.path.abspath(outfile))
    check_no_input(outfile, files_of_run(tf_save_dir))
    if name == OPTIONS_FILE:
        raise InputError(
            f"{outfile} is to hold weights, but that is the name of the options that "
            f"are written beside them: name it {WEIGHTS_FILE}"
        )
    n_words = options.n_tokens_vocab if options.char_cnn is None else None
    values = checkpoint_values(options, prefix, with_slots=False)
    write_weights(outfile, model_variables(options, n_words), values)
    if include_softmax:
        softmax_file = os.path.join(folder, SOFTMAX_PREFIX + name)
        write_weights(softmax_file, softmax_variables(options), values)
        logger.info("wrote %s", softmax_file)
    stem = os.path.splitext(name)[0]
    taken = _holds_training(os.path.join(folder, OPTIONS_FILE))
    options_name = f"{stem}_{OPTIONS_FILE}" if taken else OPTIONS_FILE
    options_path = os.path.join(folder, options_name)
    write_options(options_path, prediction_dict(options))
    logger.info("wrote %s and %s from %s", outfile, options_path, prefix)
    return options_path


def _holds_training(options_file: str) -> bool:
    """Whether there are options of a training."""
    return os.path.exists(options_file) and "batch_size" in read_object(options_file)[0]


def import_weights(
    options_file: Path,
    weight_file: Path,
    save_dir: Path,
    *,
    softmax_file: Path | None = None,
    vocab_file: Path | None = None,
    seed: int = 0,
) -> str:
    """Make a training checkpoint, of step 0, from the files of a model.

    What the files hold is taken bit by bit. Options that training needs and the file
    lacks are those of the preset `original`; the softmax, where there is no file of
    it, is drawn anew, and the Adagrad slots are those of a new training. All this is
    said.

    Args:
        options_file: `options.json` of prediction or training.
        weight_file: `weights.hdf5`.
        save_dir: folder of the run to make; it must not hold one yet.
        softmax_file: `softmax_weights.hdf5`, where there is one.
        vocab_file: vocabulary of the run, which says how many words the softmax has;
            without it the softmax file, a word-level model's embedding or the options
            say it, in this order.
        seed: of what is drawn.

    Returns:
        Prefix of the checkpoint.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file breaks a rule, files do not fit each other, nothing says
            the number of words, or the folder holds a run.
    """
    save_dir = os.fspath(save_dir)
    check_no_input(os.path.join(save_dir, OPTIONS_FILE), [options_file])
    _check_new(save_dir)
    n_words = _number_of_words(options_file, weight_file, softmax_file, vocab_file)
    options = imported_options(options_file, n_words)
    values = imported_values(options, weight_file, softmax_file)
    say_imported(options_file, options, values)
    prefix = save_initial_checkpoint(options, save_dir, seed, values)
    logger.info("the Adagrad slots of %s are those of a new training", prefix)
    return prefix


def save_initial_checkpoint(
    options: TrainingOptions | Mapping[str, Any],
    save_dir: Path,
    seed: int = 0,
    values: Mapping[str, np.ndarray] | None = None,
) -> str:
    """Write options and a checkpoint of a training that is to begin.

    Args:
        options: of the training, with `n_tokens_vocab` known.
        save_dir: folder of the run; made where missing.
        seed: of initial values.
        values: those of them that are known, by their names in a checkpoint.

    Returns:
        Prefix of the checkpoint.
    """
    checked = as_training_options(options)
    trainer = Trainer(checked, seed, values)
    os.makedirs(save_dir, exist_ok=True)
    write_options(os.path.join(save_dir, OPTIONS_FILE), training_dict(checked))
    untrained = float(checked.n_tokens_vocab)  # perplexity of equal probabilities
    return trainer.save(os.fspath(save_dir), untrained, keep=1)


def _check_new(save_dir: str) -> None:
    if os.path.exists(os.path.join(save_dir, CHECKPOINT_INDEX)):
        raise InputError(
            f"{save_dir} holds a run already, whose checkpoints would be lost: give a "
            "new folder"
        )


def _number_of_words(
    options_file: Path,
    weight_file: Path,
    softmax_file: Path | None,
    vocab_file: Path | None,
) -> int:
    """V, by the first of the sources that knows it; vocabulary and files must agree."""
    stored = stored_words(weight_file, softmax_file)
    if vocab_file is not None:
        n_words = Vocabulary(vocab_file).size
        if stored not in (None, n_words):
            raise InputError(
                f"{vocab_file} has {n_words} words, but the model has {stored}: give "
                "the vocabulary it was trained with"
            )
        return n_words
    if known := stored or read_object(options_file)[0].get("n_tokens_vocab"):
        return known
    raise InputError(
        f"nothing says how many words the softmax of {weight_file} has: give the "
        "vocabulary of the run"
    )


def stored_words(weight_file: Path, softmax_file: Path | None) -> int | None:
    """V of the softmax, or of a word-level model's embedding."""
    sources = [(weight_file, "embedding")]
    if softmax_file is not None:
        sources.insert(0, (softmax_file, "softmax/b"))
    shapes = [dataset_shapes(path).get(name) for path, name in sources]
    return next((shape[0] for shape in shapes if shape), None)
