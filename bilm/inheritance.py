"""The weights that a new training inherits from another model.

Slots, step and place in the text are those of a new training. Rows of the softmax and
of a word embedding belong to words, so they follow the words to their places in another
vocabulary.
"""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bilm.checkpoint import checkpoint_values, latest_checkpoint
from bilm.errors import InputError
from bilm.files import CHECKPOINT_INDEX, OPTIONS_FILE, WEIGHTS_FILE
from bilm.imported_weights import imported_options, imported_values, say_imported
from bilm.model_files import SOFTMAX_PREFIX, stored_words
from bilm.names import softmax_variables, training_variables
from bilm.network import initial_value
from bilm.options import TrainingOptions, read_training_options, replace_options
from bilm.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


class Ancestor(NamedTuple):
    """A model to start from."""

    name: str  # path of what was read
    options_file: Path  # of it
    options: TrainingOptions  # `n_tokens_vocab` is that of `values`
    values: Mapping[str, np.ndarray]  # by their names in a checkpoint, softmax or not


def read_ancestor(source: str | os.PathLike[str], n_words: int) -> Ancestor:
    """Read options and weights of a model.

    Args:
        source: the folder of a run, or the prefix of one of its checkpoints; or a
            folder with `options.json` and `weights.hdf5`, and perhaps
            `softmax_weights.hdf5`.
        n_words: V of the new training, for a model whose own is not known.

    Raises:
        FileNotFoundError: there is no model.
        InputError: its files do not fit each other, or are damaged.
    """
    path = Path(source)
    if Path(f"{path}.index").is_file():
        return _of_checkpoint(path.parent, str(path))
    if (path / CHECKPOINT_INDEX).is_file():
        return _of_checkpoint(path, latest_checkpoint(path))
    weights, softmax = path / WEIGHTS_FILE, path / (SOFTMAX_PREFIX + WEIGHTS_FILE)
    if not weights.is_file():
        raise FileNotFoundError(
            f"{path} is no model: expected a run ({CHECKPOINT_INDEX}, {OPTIONS_FILE}), "
            f"the prefix of a checkpoint, or {OPTIONS_FILE} and {WEIGHTS_FILE}"
        )
    softmax_file = softmax if softmax.is_file() else None
    known = stored_words(weights, softmax_file)
    options = imported_options(path / OPTIONS_FILE, known or n_words)
    values = imported_values(options, weights, softmax_file)
    return Ancestor(str(weights), path / OPTIONS_FILE, options, values)


def inherited_values(
    ancestor: Ancestor,
    options: TrainingOptions,
    vocab: Vocabulary,
    old_vocab: Vocabulary | None = None,
    seed: int = 0,
) -> dict[str, np.ndarray]:
    """What a new training starts from; variables left out are drawn by `Trainer`.

    What the model lacks is logged, and how many words keep their rows, how many get
    new ones.

    Args:
        ancestor: the model.
        options: of the new training: the ancestor's, but for `n_tokens_vocab` and what
            does not change the network.
        vocab: of the new training.
        old_vocab: that the ancestor was trained with; None where it is the same.
        seed: of the rows of new words.

    Raises:
        InputError: the ancestor has rows of words, but they are not as many as those of
            its vocabulary.
    """
    values = dict(ancestor.values)
    of_words = [s for s in training_variables(options) if s.name in _by_word(options)]
    held = [spec for spec in of_words if spec.name in values]
    if held:
        _check_size(ancestor, old_vocab or vocab, given=old_vocab is not None)
    say_imported(ancestor.options_file, ancestor.options, values)
    if not held:
        return values
    new, old = _shared_words(vocab, old_vocab or vocab)
    for spec in held:
        position = training_variables(options).index(spec)
        rows = initial_value(spec, seed, position)
        rows[new] = values[spec.name][old]
        values[spec.name] = rows
    logger.info(
        "%d words keep their rows of %s, %d words get new ones; %d words of %s are not "
        "in the new vocabulary",
        len(new),
        ", ".join(spec.name for spec in held),
        vocab.size - len(new),
        ancestor.options.n_tokens_vocab - len(new),
        ancestor.name,
    )
    return values


def inherited_options(ancestor: Ancestor, vocab: Vocabulary) -> TrainingOptions:
    """The ancestor's options for a new text, whose tokens are to be counted."""
    return replace_options(
        ancestor.options, n_tokens_vocab=vocab.size, n_train_tokens=0
    )


def _of_checkpoint(folder: Path, prefix: str) -> Ancestor:
    options_file = folder / OPTIONS_FILE
    options = read_training_options(options_file)
    values = checkpoint_values(options, prefix, with_slots=False)
    return Ancestor(prefix, options_file, options, values)


def _by_word(options: TrainingOptions) -> set[str]:
    """Names of the variables that have a row for each word."""
    return {spec.name for spec in softmax_variables(options)} | {"lm/embedding"}


def _check_size(ancestor: Ancestor, vocab: Vocabulary, given: bool) -> None:
    size = ancestor.options.n_tokens_vocab
    if vocab.size == size:
        return
    way_out = (
        "give the one it was trained with"
        if given
        else "where it was trained with another one, give that by --init_vocab_file"
    )
    raise InputError(
        f"{ancestor.name} has rows for {size} words, but its vocabulary is to have "
        f"{vocab.size}: {way_out}"
    )


def _shared_words(new: Vocabulary, old: Vocabulary) -> tuple[np.ndarray, np.ndarray]:
    """Ids of the words that are in both, in each of them."""
    words = [(i, new.id_to_word(i)) for i in range(new.size)]
    pairs = [(i, old.word_to_id(word)) for i, word in words if word in old]
    ids = np.array(pairs, np.int64).reshape(-1, 2)
    return ids[:, 0], ids[:, 1]
