"""A biLM as a SavedModel: text in, vectors out, wherever TensorFlow runs.

What is written loads without this package, in TensorFlow Serving too, and keeps no
state: the vectors of a sentence depend on it alone.

Letters: B sentences, T tokens of the longest, C characters of a token, N layers, K
directions, D `projection_dim`.
"""

import logging
import os
import re
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from bilm.bidirectional import BidirectionalLanguageModel
from bilm.errors import InputError
from bilm.files import replacing_folder
from bilm.options import ModelOptions, read_model_options
from bilm.paths import check_output_folder
from bilm.served_model import ServedModel
from bilm.vocabulary import Vocabulary
from bilm.weights import check_words

logger = logging.getLogger(__name__)

Path = str | os.PathLike[str]

MAX_VERSION = 2**63 - 1

_CONTENT = re.compile(r"saved_model\.pb|fingerprint\.pb|variables|assets")


def export_saved_model(
    options_file: Path,
    weight_file: Path,
    folder: Path,
    *,
    vocab_file: Path | None = None,
    mix_weights: Sequence[float] | None = None,
    gamma: float = 1.0,
    version: int | None = None,
    overwrite: bool = False,
) -> str:
    """Write a SavedModel with the interface of the well-known ELMo module.

    Its signatures, each of any number of sentences of any length:

    - `default`, which is `serving_default` too: `strings` [B], sentences with white
      space between their tokens;
    - `tokens`: `tokens` strings [B, T], and `sequence_len` int32 [B], how many of them
      are the sentence's; what stands behind does not matter;
    - `ids`: `ids` int32 of a `Batcher` [B, T + 2, C], or of a `TokenBatcher` [B, T + 2]
      where the model reads words.

    Their outputs, float32 and zero where a sentence is padded:

    - `word_emb` [B, T, D]: context-free vectors of the tokens, which are layer 0;
    - `lstm_outputs1` [B, T, K * D] and so on: the LSTM layers;
    - `elmo` [B, T, K * D]: the mix of all layers;
    - `default` [B, K * D]: the mean of `elmo` over the tokens of a sentence, zeros
      where it has none.

    The weights are variables; those of the mix, `elmo_weights` [N + 1] and
    `elmo_gamma` [1] of the loaded object, are trainable.

    Args:
        options_file: `options.json`.
        weight_file: `weights.hdf5`.
        folder: where to write; it appears whole or not at all.
        vocab_file: of a word-level model, whose words then are part of the SavedModel.
        mix_weights: the N + 1 weights of a trained mix, W before its softmax, from
            layer 0 on; by default the plain average.
        gamma: the factor of a trained mix.
        version: write to this number inside `folder`, as TensorFlow Serving wants it.
        overwrite: replace a SavedModel that is there already.

    Returns:
        Path of the SavedModel.

    Raises:
        FileNotFoundError: a file is missing.
        InputError: a file or an argument breaks a rule, they do not fit each other, or
            the path is taken.
    """
    if version is not None and not 0 < version <= MAX_VERSION:
        raise InputError(
            f"version must be from 1 to {MAX_VERSION}, as TensorFlow Serving reads it, "
            f"not {version}"
        )
    path = os.fspath(folder if version is None else os.path.join(folder, str(version)))
    check_output_folder(path, _CONTENT, "bilm export", overwrite)
    options = read_model_options(options_file)
    weights = _checked_mix(mix_weights, gamma, options.lstm.n_layers + 1)
    words = _words(options, options_file, vocab_file)
    model = BidirectionalLanguageModel(
        options_file, weight_file, use_character_inputs=words is None, stateful=False
    )
    if words is not None:
        n_vectors = model.network.variables_by_name["lm/embedding"].shape[0]
        check_words(weight_file, n_vectors, len(words))
    _save(ServedModel(model.network, words, weights, gamma), path)
    logger.info("wrote %s, with the signatures default, tokens and ids", path)
    return path


def _checked_mix(
    weights: Sequence[float] | None, gamma: float, n_layers: int
) -> Sequence[float]:
    """The weights of the mix, which start at 0."""
    weights = [0.0] * n_layers if weights is None else [float(w) for w in weights]
    with np.errstate(over="ignore"):  # what float32 cannot hold is infinite there
        stored = np.array([*weights, gamma], np.float32)
    if len(weights) != n_layers or not np.isfinite(stored).all():
        raise InputError(
            f"a mix needs {n_layers} weights that float32 can hold, one for each layer "
            f"from 0 on, and such a gamma, not {weights} and {gamma}"
        )
    return weights


def _words(
    options: ModelOptions, options_file: Path, vocab_file: Path | None
) -> list[str] | None:
    """The words of a word-level model; None for one that reads characters."""
    vocab = None if vocab_file is None else Vocabulary(vocab_file)
    if options.char_cnn is not None:
        return None
    if vocab is None:
        raise InputError(
            f"{options_file} is of a word-level model, which needs vocab_file"
        )
    return vocab.words


def _save(served: ServedModel, path: str) -> None:
    """Write the SavedModel, whole or not at all."""
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with replacing_folder(path) as partial:
        try:
            tf.saved_model.save(served, str(partial), served.signatures())
        except tf.errors.OpError as error:  # such as a full disk
            raise OSError(f"{path} could not be written: {error.message}") from error
