"""The files of a model, opened to make its variables: character or word input.

Letters: V words, D `projection_dim`.
"""

import contextlib
import os
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from bilm.errors import InputError
from bilm.graph_mode import in_graph
from bilm.names import (
    VariableSpec,
    char_cnn_variables,
    embedded_words,
    embedding_variable,
    lstm_variables,
    model_variables,
)
from bilm.options import ModelOptions
from bilm.weights import (
    check_words,
    dataset_shapes,
    read_embedding,
    stored_weights,
)

Path = str | os.PathLike[str]


class StoredModel(NamedTuple):
    """The variables of a model without its softmax."""

    specs: list[VariableSpec]
    values: Mapping[str, Any]  # by name; each is read when it is looked up


@contextlib.contextmanager
def open_model(
    options: ModelOptions,
    weight_file: Path,
    use_character_inputs: bool,
    embedding_weight_file: Path | None = None,
) -> Iterator[StoredModel]:
    """Open the files, to read the first values of the variables while they are open.

    Args:
        options: of the model.
        weight_file: `weights.hdf5`.
        use_character_inputs: by characters, else by word ids.
        embedding_weight_file: for word ids the file with their vectors [V, D]; by
            default they are in `weight_file`.

    Raises:
        FileNotFoundError: one of the files is missing.
        InputError: a file breaks a rule, or they do not fit each other.
    """
    if use_character_inputs:
        if options.char_cnn is None:
            raise InputError(
                "the options have no char_cnn: this is a word-level model; pass "
                "use_character_inputs=False"
            )
        specs = model_variables(options)
        with stored_weights(weight_file, specs, convert=_initial) as values:
            yield StoredModel(specs, values)
    else:
        with _open_by_words(options, weight_file, embedding_weight_file) as model:
            yield model


@contextlib.contextmanager
def open_for_layer(
    options: ModelOptions,
    weight_file: Path | None,
    embedding_weight_file: Path | None,
    words: Sequence[str] | None,
    n_words: int | None,
) -> Iterator[StoredModel]:
    """As `open_model`, or the variables without values where there is no file of them.

    Args:
        options: of the model.
        weight_file: `weights.hdf5`, or None.
        embedding_weight_file: for word ids in place of characters.
        words: of the vocabulary of word input, where it is known.
        n_words: where neither a file nor `words` says so, rows of the word embedding.

    Raises:
        FileNotFoundError: one of the files is missing.
        InputError: a file breaks a rule, or they do not fit each other; it is unknown
            how many words there are.
    """
    if weight_file is None:
        n_words = _n_words(options, embedding_weight_file, words, n_words)
        yield StoredModel(model_variables(options, n_words), {})
        return
    by_characters = options.char_cnn is not None and embedding_weight_file is None
    with open_model(
        options, weight_file, by_characters, embedding_weight_file
    ) as stored:
        n_vectors = embedded_words(stored.specs)
        if n_vectors is not None and words is not None:
            check_words(embedding_weight_file or weight_file, n_vectors, len(words))
        yield stored


@contextlib.contextmanager
def _open_by_words(
    options: ModelOptions, weight_file: Path, embedding_weight_file: Path | None
) -> Iterator[StoredModel]:
    width = options.lstm.projection_dim
    if embedding_weight_file is None:
        if "embedding" not in dataset_shapes(weight_file):
            raise InputError(
                f"token ids need vectors: {weight_file} has no 'embedding'; pass "
                "embedding_weight_file, written by dump_token_embeddings"
            )
        embedding_weight_file = weight_file
    embedding = read_embedding(embedding_weight_file, width)
    # The file may hold the encoder that the embedding replaces.
    specs = lstm_variables(options)
    unused = ["embedding"]
    if options.char_cnn is not None:
        unused += [s.hdf5 for s in char_cnn_variables(options.char_cnn, width)]
    spec = embedding_variable(len(embedding), width)
    with stored_weights(weight_file, specs, unused, _initial) as stored:
        values = ChainMap({spec.name: _initial(embedding)}, cast(dict, stored))
        yield StoredModel([spec, *specs], values)


def _n_words(
    options: ModelOptions,
    embedding_weight_file: Path | None,
    words: Sequence[str] | None,
    n_words: int | None,
) -> int | None:
    """Rows of the word embedding where no file says so; None for character input."""
    if embedding_weight_file is not None:
        raise InputError(
            "embedding_weight_file without weight_file: the LSTMs need weights too"
        )
    if n_words is None and options.char_cnn is None:
        if words is None:
            raise InputError(
                "a word-level model without weight_file needs vocab_file or n_words, "
                "to know how many words it has"
            )
        n_words = len(words)
    if n_words is not None and words is not None:
        check_words("the configuration", n_words, len(words))
    return n_words


def _initial(values: np.ndarray) -> Any:
    """What a variable takes its first values from: no copy stays, here or in a graph.

    Eagerly a tensor in the memory of the array, which nobody else may hold. A constant
    in a graph would count towards the 2 GiB of its GraphDef; what reads the array when
    the variable is initialised does not.
    """
    if not in_graph():
        return tf.experimental.dlpack.from_dlpack(values.__dlpack__())

    def read() -> tf.Tensor:
        # A copy, or the variables of two sessions would have the same memory.
        tensor = tf.numpy_function(values.copy, [], tf.float32)
        return tf.ensure_shape(tensor, values.shape)

    return read
