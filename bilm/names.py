"""The one table of variables: their names in each file, shapes and initial values.

Letters: C characters' embedding size, F sum of the CNN filters, D `projection_dim`,
H LSTM `dim`, V words of the vocabulary.

A checkpoint calls the forget-gate kernel of the first forward layer
`lm/RNN_0/rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`, `weights.hdf5` calls it
`RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/W_0`. Whatever creates, saves, loads or converts
variables walks through the lists made here, so that the names stand in one place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bilm.options import CharCnnOptions, ModelOptions, TrainingOptions

N_CHARACTERS = 261  # byte values, <S>, </S>, begin and end of word, padding
GLOBAL_STEP = "global_step"  # scalars of a checkpoint, beside its variables
TRAIN_PERPLEXITY = "train_perplexity"
ADAGRAD = "Adagrad"  # slot NAME/Adagrad beside each variable of a checkpoint
EMBEDDING = "lm/embedding"
SOFTMAX = "lm/softmax/"  # begins the names of W and b


class Initial(NamedTuple):
    """Initial values of a variable.

    `uniform`: U(-scale, scale); `normal`: N(0, scale^2); `constant`: scale;
    `glorot`: U(-a, a) with a = sqrt(6 / (rows + columns)), scale is not used.
    """

    kind: str
    scale: float = 0.0


ZEROS = Initial("constant", 0.0)


class VariableSpec(NamedTuple):
    """A variable of the network.

    Attributes:
        name: in checkpoints and in the network.
        hdf5: in `weights.hdf5`; for the softmax in a file of its own.
        shape: the same in both files.
        initial: its values before training.
    """

    name: str
    hdf5: str
    shape: tuple[int, ...]
    initial: Initial


def char_cnn_variables(
    options: CharCnnOptions, projection_dim: int
) -> list[VariableSpec]:
    """Variables of the character encoder, in the order of the computation."""
    n_filters = options.n_filters
    specs = [
        _spec("char_embed", (N_CHARACTERS, options.embedding_dim), _uniform(1.0)),
    ]
    for i, (width, channels) in enumerate(options.filters):
        shape = (1, width, options.embedding_dim, channels)
        specs += [
            _spec(f"CNN/W_cnn_{i}", shape, _convolution_initial(options, width)),
            _spec(f"CNN/b_cnn_{i}", (channels,), ZEROS),
        ]
    square, scaled = (n_filters, n_filters), Initial("normal", n_filters**-0.5)
    for i in range(options.n_highway):
        specs += [
            _spec(f"CNN_high_{i}/W_carry", square, scaled),
            _spec(f"CNN_high_{i}/b_carry", (n_filters,), Initial("constant", -2.0)),
            _spec(f"CNN_high_{i}/W_transform", square, scaled),
            _spec(f"CNN_high_{i}/b_transform", (n_filters,), ZEROS),
        ]
    if n_filters != projection_dim:
        specs += [
            _spec("CNN_proj/W_proj", (n_filters, projection_dim), scaled),
            _spec("CNN_proj/b_proj", (projection_dim,), ZEROS),
        ]
    return specs


def embedding_variable(n_words: int, projection_dim: int) -> VariableSpec:
    """The word embedding [V, D] of models with word input."""
    return _spec("embedding", (n_words, projection_dim), _uniform(1.0))


def embedded_words(specs: Sequence[VariableSpec]) -> int | None:
    """V, rows of the word embedding among variables; None for character input."""
    return next((spec.shape[0] for spec in specs if spec.name == EMBEDDING), None)


def lstm_variables(options: ModelOptions) -> list[VariableSpec]:
    """Variables of all LSTM layers, forward direction first."""
    lstm = options.lstm
    specs = []
    for direction in range(options.n_directions):
        for layer in range(lstm.n_layers):
            name = _checkpoint_cell(options, direction, layer)
            hdf5 = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            kernel = (2 * lstm.projection_dim, 4 * lstm.dim)
            specs += [
                VariableSpec(
                    f"{name}/kernel", f"{hdf5}/W_0", kernel, Initial("glorot")
                ),
                VariableSpec(f"{name}/bias", f"{hdf5}/B", (4 * lstm.dim,), ZEROS),
            ]
            if lstm.dim != lstm.projection_dim:
                shape = (lstm.dim, lstm.projection_dim)
                specs.append(
                    VariableSpec(
                        f"{name}/projection/kernel",
                        f"{hdf5}/W_P_0",
                        shape,
                        Initial("glorot"),
                    )
                )
    return specs


def softmax_variables(options: TrainingOptions) -> list[VariableSpec]:
    """Softmax weights [V, D], where not shared with the embedding, and bias [V]."""
    n_words, dim = options.n_tokens_vocab, options.lstm.projection_dim
    specs = [_spec("softmax/b", (n_words,), ZEROS)]
    if not options.share_embedding_softmax:
        specs.insert(
            0, _spec("softmax/W", (n_words, dim), Initial("normal", dim**-0.5))
        )
    return specs


def model_variables(
    options: ModelOptions, n_words: int | None = None
) -> list[VariableSpec]:
    """Variables of the biLM without its softmax: what `weights.hdf5` holds.

    Args:
        options: of either phase.
        n_words: rows of the word embedding; None for character input.
    """
    if n_words is not None:
        encoder = [embedding_variable(n_words, options.lstm.projection_dim)]
    else:
        assert options.char_cnn is not None
        encoder = char_cnn_variables(options.char_cnn, options.lstm.projection_dim)
    return encoder + lstm_variables(options)


def training_variables(options: TrainingOptions) -> list[VariableSpec]:
    """All variables that training learns."""
    n_words = options.n_tokens_vocab if options.char_cnn is None else None
    return model_variables(options, n_words) + softmax_variables(options)


def frozen_variables(options: TrainingOptions) -> list[str]:
    """Names of the variables that training does not change.

    A shared embedding is frozen as the softmax's weights, too.
    """
    return [EMBEDDING] if options.freeze_embedding else []


def _spec(path: str, shape: tuple[int, ...], initial: Initial) -> VariableSpec:
    """A variable whose name differs between the files by the prefix `lm/` alone."""
    return VariableSpec(f"lm/{path}", path, shape, initial)


def _uniform(limit: float) -> Initial:
    return Initial("uniform", limit)


def _convolution_initial(options: CharCnnOptions, width: int) -> Initial:
    if options.activation == "relu":
        return _uniform(0.05)
    return Initial("normal", (width * options.embedding_dim) ** -0.5)


def _checkpoint_cell(options: ModelOptions, direction: int, layer: int) -> str:
    """Name of an LSTM cell, from which bilm-tf drops the parts that have one value."""
    scope = f"RNN_{direction}/" if options.bidirectional else ""
    cell = f"multi_rnn_cell/cell_{layer}/" if options.lstm.n_layers > 1 else ""
    return f"lm/{scope}rnn/{cell}lstm_cell"
