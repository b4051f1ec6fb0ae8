"""How many multiply-adds the products of a training step need.

Letters as in CONTRIBUTING.md: U distinct tokens, C characters of a token as cut for the
step, B rows, T steps, F filters' channels, D projection, H LSTM cell, S samples.
"""

import numpy as np

from bilm.characters import PAD_CHARACTER
from bilm.encoder import GROUPS
from bilm.inputs import StepInputs
from bilm.options import TrainingOptions

# The gradient of `y = x W` is two products of the size of the forward one.
FORWARD_AND_BACKWARD = 3


def multiply_adds(options: TrainingOptions, inputs: StepInputs) -> int:
    """Multiply-adds of one replica's step; twice as many floating point operations.

    Counted are products alone: convolutions (at each position, backwards too), highway
    layers, projections, LSTM and softmax; no activations, no updates, no copies.

    Args:
        options: of the training.
        inputs: of the step: their shapes tell U, C and S.
    """
    n_directions, *steps_and_rows = inputs.places.shape
    n_tokens = n_directions * steps_and_rows[0] * steps_and_rows[1]
    per_token = _lstm(options) + _softmax(options, inputs.sampled.shape[1])
    forward = n_tokens * per_token
    if options.char_cnn is not None:
        for group in np.array_split(inputs.tokens, GROUPS):  # as the encoder cuts them
            longest = int(np.count_nonzero((group != PAD_CHARACTER).any(0)))
            forward += len(group) * _encoder(options, longest, group.shape[1])
    return FORWARD_AND_BACKWARD * forward


def _encoder(options: TrainingOptions, longest: int, n_characters: int) -> int:
    """Of a distinct token, forward."""
    cnn, size = options.char_cnn, options.lstm.projection_dim
    assert cnn is not None
    convolutions = sum(
        min(n_characters - width + 1, longest + 1)
        * width
        * cnn.embedding_dim
        * channels
        for width, channels in cnn.filters
    )
    highway = 2 * cnn.n_filters**2
    projection = cnn.n_filters * size if cnn.n_filters != size else 0
    return convolutions + cnn.n_highway * highway + projection


def _lstm(options: TrainingOptions) -> int:
    """Of a token of one direction, all layers, forward."""
    lstm = options.lstm
    gates = 2 * lstm.projection_dim * 4 * lstm.dim  # the input has size D in each layer
    projection = (
        lstm.dim * lstm.projection_dim if lstm.dim != lstm.projection_dim else 0
    )
    return lstm.n_layers * (gates + projection)


def _softmax(options: TrainingOptions, n_samples: int) -> int:
    """Of a token of one direction, forward: the samples and the label, or all words."""
    n_words = n_samples + 1 if n_samples else options.n_tokens_vocab
    return n_words * options.lstm.projection_dim
