"""The network: owns the variables, and composes encoder, LSTM layers and losses.

One class serves training, evaluation and prediction. State goes in and comes out; who
calls decides to carry or to drop it.

Letters: K directions, N layers, T steps, B rows, U distinct tokens, D `projection_dim`,
H LSTM `dim`, C characters of a token.
"""

import copy
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from bilm.encoder import Affine, CharCnn, Highway, encode_characters
from bilm.lstm import (
    Clips,
    LstmState,
    LstmWeights,
    Repeated,
    lanes_gates,
    scan,
    scan_lanes,
    zero_state,
)
from bilm.names import VariableSpec, lstm_variables
from bilm.options import CharCnnOptions, ModelOptions
from bilm.unrolled_lstm import unroll

# [K][N]: the state of each layer of each direction.
BilmState = tuple[tuple[LstmState, ...], ...]


class Network(tf.Module):
    """Variables of a biLM, by their names in a checkpoint, and what they compute.

    Attributes:
        options: what the network was built from.
        specs: one `VariableSpec` for each variable, in order.
        learnt_specs: those of the variables that are not frozen.
        variables_by_name: name in a checkpoint to variable.
    """

    def __init__(
        self,
        options: ModelOptions,
        specs: Sequence[VariableSpec],
        values: Mapping[str, np.ndarray] | None = None,
        seed: int = 0,
        trainable: bool = True,
        compute_dtype: str = "float32",
        jit_compile: bool = False,
        frozen: Collection[str] = (),
        variables: Mapping[str, tf.Variable] | None = None,
    ):
        """Create the variables.

        Args:
            options: of either phase.
            specs: of `bilm.names`: with or without softmax.
            values: initial values by name; those not given are drawn.
            seed: of the drawn values.
            trainable: whether gradient tapes watch the variables.
            compute_dtype: of the products of encoder and LSTM layers; `bfloat16` or
                `float16` for mixed precision.
            jit_compile: compile the unrolled LSTM layers by XLA.
            frozen: names of variables that keep their values in training.
            variables: by name, to compute with in place of new ones.
        """
        super().__init__(name="lm")
        self.options = options
        self.specs = list(specs)
        self.learnt_specs = [spec for spec in self.specs if spec.name not in frozen]
        self._compute_dtype = tf.as_dtype(compute_dtype)
        self._unroll = (
            tf.function(unroll, jit_compile=True, autograph=False)
            if jit_compile
            else unroll
        )
        self._scan_lanes = tf.function(scan_lanes, jit_compile=True, autograph=False)
        self.variables_by_name = (
            self._new_variables(values or {}, seed, trainable)
            if variables is None
            else dict(variables)
        )

    def _new_variables(
        self, values: Mapping[str, np.ndarray], seed: int, trainable: bool
    ) -> dict[str, tf.Variable]:
        variables = {}
        for position, spec in enumerate(self.specs):
            value = values.get(spec.name)
            if value is None:
                value = initial_value(spec, seed, position)
            variables[spec.name] = tf.Variable(
                value,
                trainable=trainable and spec in self.learnt_specs,
                dtype=tf.float32,
                name=spec.name,
            )
        return variables

    @property
    def learnt(self) -> list[tf.Variable]:
        """Variables that training changes, in the order of `learnt_specs`."""
        return [self.variables_by_name[spec.name] for spec in self.learnt_specs]

    @property
    def softmax(self) -> Affine:
        """Softmax weights [V, D], perhaps the word embedding's, and bias [V]."""
        shared = self.variables_by_name.get("lm/embedding")
        weight = self.variables_by_name.get("lm/softmax/W", shared)
        return Affine(weight, self.variables_by_name["lm/softmax/b"])

    def encode(self, tokens: tf.Tensor) -> tf.Tensor:
        """Context-free vectors [U, D] of character ids [U, C] or word ids [U]."""
        if "lm/embedding" in self.variables_by_name:
            return tf.gather(self.variables_by_name["lm/embedding"], tokens)
        return encode_characters(self.char_cnn(), tokens)

    def char_cnn(self) -> CharCnn:
        """Weights of the character encoder."""
        options = self.options.char_cnn
        assert options is not None
        return _char_cnn(options, self.variables_by_name, self._of_compute_dtype)

    def zero_state(self, rows: Any) -> BilmState:
        """The state at the start of a text."""
        lstm = self.options.lstm
        layer = zero_state(rows, lstm.dim, lstm.projection_dim)
        return ((layer,) * lstm.n_layers,) * self.options.n_directions

    def in_float32(self) -> "Network":
        """A network of the same variables whose products are in float32."""
        other = copy.copy(self)
        other._compute_dtype = tf.float32
        return other

    def unroll(
        self,
        inputs: Sequence[tf.Tensor],
        state: BilmState,
        dropout: "Dropout",
        keep: Sequence[tf.Tensor] | None = None,
    ) -> tuple[list[tf.Tensor], BilmState]:
        """Run T steps, T static, of all directions: training.

        Args:
            inputs: for each direction token vectors [T, B, D].
            state: before the first step.
            dropout: `Dropout` or `no_dropout`.
            keep: for each direction as in `bilm.unrolled_lstm.unroll`; None: states
                are kept.

        Returns:
            Last layer's outputs [T, B, D] of each direction, and the state after.
        """
        layers, final = [], []
        for direction, vectors in enumerate(inputs):
            run = partial(self._unroll, keep=None if keep is None else keep[direction])
            outputs, state_after = self._direction(
                direction, vectors, state[direction], run, dropout
            )
            layers.append(dropout(outputs[-1], direction, len(outputs)))
            final.append(state_after)
        return layers, tuple(final)

    def scan(
        self,
        inputs: Sequence[tf.Tensor],
        lengths: tf.Tensor | None,
        state: BilmState,
        keep: Sequence[tf.Tensor] | None = None,
    ) -> tuple[list[list[tf.Tensor]], BilmState]:
        """Run any number of steps, each row to its length: evaluation and prediction.

        Args:
            inputs: for each direction token vectors [T, B, D], the backward ones
                reversed within each row's length.
            lengths: int32 [B], or None as in `bilm.lstm.scan`.
            state: before the first step.
            keep: as in `unroll`.

        Returns:
            [K][N] outputs [T, B, D], in the order of each direction's inputs, and the
            state after each row's last real step.
        """

        def run_by(keep: tf.Tensor | None) -> Callable[..., Any]:
            def run(
                x: tf.Tensor, before: LstmState, weights: LstmWeights, clips: Clips
            ) -> tuple[tf.Tensor, LstmState]:
                return scan(x, lengths, before, weights, clips, keep)

            return run

        kept = keep or [None] * len(inputs)
        results = [
            self._direction(
                direction,
                vectors,
                state[direction],
                run_by(kept[direction]),
                no_dropout,
            )
            for direction, vectors in enumerate(inputs)
        ]
        return [outputs for outputs, _ in results], tuple(s for _, s in results)

    def scan_lanes(
        self,
        inputs: Sequence[Repeated],
        starts: tf.Tensor,
        steps: tf.Tensor,
        first: BilmState,
        state: BilmState,
    ) -> tuple[list[list[tf.Tensor]], BilmState]:
        """Run rows that hold several sequences each: prediction in bulk.

        Args:
            inputs: for each direction token vectors [U, D], and their places
                [steps, B] as it reads them.
            starts: bool [T, B]: where a row begins a sequence, in both directions.
            steps: how many of the T steps to run.
            first: state of one row before a sequence.
            state: of B rows before the first step.

        Returns:
            [K][N] outputs [T, B, D], and the state after the last step.
        """

        size, width = tf.shape(starts)[0], self.options.lstm.projection_dim

        def run(
            x: tf.Tensor | Repeated, states: Any, weights: LstmWeights, clips: Clips
        ) -> tuple[tf.Tensor, LstmState]:
            tensors = LstmWeights(*map(_tensor, weights))
            gates = lanes_gates(x, steps, size, tensors.kernel[:width])
            recurrent = tensors._replace(kernel=tensors.kernel[width:])
            return self._scan_lanes(gates, starts, steps, *states, recurrent, clips)

        results = [
            self._direction(direction, vectors, states, run, no_dropout)
            for direction, (vectors, states) in enumerate(
                zip(inputs, _of_layers(first, state), strict=True)
            )
        ]
        return [outputs for outputs, _ in results], tuple(s for _, s in results)

    def _direction(
        self,
        direction: int,
        inputs: tf.Tensor,
        state: Sequence[Any],
        run: Callable[..., tuple[tf.Tensor, LstmState]],
        dropout: "Dropout",
    ) -> tuple[list[tf.Tensor], tuple[LstmState, ...]]:
        """All layers of one direction: their outputs, and the state after."""
        lstm = self.options.lstm
        clips = Clips(lstm.cell_clip, lstm.proj_clip)
        outputs, final = [], []
        for layer, weights in enumerate(self._lstm_weights(direction)):
            inputs = dropout(inputs, direction, layer)
            output, after = run(inputs, state[layer], weights, clips)
            if lstm.use_skip_connections and layer > 0:
                output += inputs  # the state stays without it
            outputs.append(output)
            final.append(after)
            inputs = output
        return outputs, tuple(final)

    def _lstm_weights(self, direction: int) -> list[LstmWeights]:
        lstm = self.options.lstm
        names = [spec.name for spec in lstm_variables(self.options)]
        per_layer = 2 if lstm.dim == lstm.projection_dim else 3
        start = direction * lstm.n_layers * per_layer
        layers = []
        for first in range(start, start + lstm.n_layers * per_layer, per_layer):
            kernel, bias, *projection = [
                self.variables_by_name[n] for n in names[first:][:per_layer]
            ]
            matrices = map(self._of_compute_dtype, [kernel, *projection])
            layers.append(LstmWeights(next(matrices), bias, next(matrices, None)))
        return layers

    def _of_compute_dtype(self, weight: tf.Variable) -> tf.Tensor:
        return tf.cast(weight, self._compute_dtype)


def _of_layers(
    first: BilmState, state: BilmState
) -> list[list[tuple[LstmState, LstmState]]]:
    """[K][N] pairs of both states."""
    return [list(zip(*of, strict=True)) for of in zip(first, state, strict=True)]


def _tensor(weight: Any) -> tf.Tensor | None:
    return None if weight is None else tf.convert_to_tensor(weight)


Dropout = Callable[[tf.Tensor, int, int], tf.Tensor]


def no_dropout(values: tf.Tensor, direction: int, layer: int) -> tf.Tensor:
    """Evaluation and prediction leave the values as they are."""
    return values


def seeded_dropout(rate: float, seed: tf.Tensor) -> Dropout:
    """Dropout whose masks follow from `seed` int32 [2] and the place in the network."""
    if rate == 0:
        return no_dropout

    def dropout(values: tf.Tensor, direction: int, layer: int) -> tf.Tensor:
        place = tf.random.experimental.stateless_fold_in(seed, 2 * layer + direction)
        return tf.nn.experimental.stateless_dropout(values, rate, place)

    return dropout


def initial_value(spec: VariableSpec, seed: int, position: int) -> np.ndarray:
    """Draw the initial values of a variable; `position` is its place in the model."""
    random = np.random.default_rng([seed, position])
    kind, scale = spec.initial
    if kind == "constant":
        return np.full(spec.shape, scale, np.float32)
    if kind == "normal":
        return random.standard_normal(spec.shape, np.float32) * np.float32(scale)
    if kind == "glorot":
        scale = (6 / sum(spec.shape)) ** 0.5
    values = random.random(spec.shape, np.float32)
    return values * np.float32(2 * scale) - np.float32(scale)


def _char_cnn(
    options: CharCnnOptions,
    variables: Mapping[str, tf.Variable],
    cast: Callable[[tf.Variable], tf.Tensor],
) -> CharCnn:
    def pair(weight: str, bias: str) -> Affine:
        return Affine(cast(variables[f"lm/{weight}"]), variables[f"lm/{bias}"])

    filters = [
        pair(f"CNN/W_cnn_{i}", f"CNN/b_cnn_{i}") for i in range(len(options.filters))
    ]
    highways = [
        Highway(
            pair(f"CNN_high_{i}/W_carry", f"CNN_high_{i}/b_carry"),
            pair(f"CNN_high_{i}/W_transform", f"CNN_high_{i}/b_transform"),
        )
        for i in range(options.n_highway)
    ]
    projected = "lm/CNN_proj/W_proj" in variables
    projection = pair("CNN_proj/W_proj", "CNN_proj/b_proj") if projected else None
    embed = variables["lm/char_embed"]
    return CharCnn(
        embed, tuple(filters), tuple(highways), projection, options.activation
    )
