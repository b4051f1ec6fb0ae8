"""The files of a model, opened to make its variables: character or word input.

Letters: V words, D `projection_dim`.
"""

import contextlib
import os
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np
import tensorflow as tf

from bilm.errors import InputError
from bilm.graph_mode import in_graph
from bilm.names import (
    VariableSpec,
    char_cnn_variables,
    embedding_variable,
    lstm_variables,
    model_variables,
)
from bilm.options import ModelOptions
from bilm.weights import dataset_shapes, read_embedding, stored_weights

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
