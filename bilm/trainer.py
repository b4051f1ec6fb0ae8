"""One training step on all devices: losses, gradients, clipping and Adagrad."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bilm.adagrad import INITIAL_ACCUMULATOR, Gradient
from bilm.checkpoint import write_checkpoint
from bilm.devices import check_memory, replica_number
from bilm.inputs import StepInputs
from bilm.language_model import (
    Losses,
    input_signature,
    state_signature,
    token_losses,
    training_loss,
)
from bilm.names import (
    ADAGRAD,
    GLOBAL_STEP,
    TRAIN_PERPLEXITY,
    frozen_variables,
    training_variables,
)
from bilm.network import BilmState, Network, seeded_dropout
from bilm.options import TrainingOptions
from bilm.pieces import Pieces
from bilm.update import Update
from bilm.workers import Workers

N_WISHES = 2  # of a worker: to stop, to save; what they are is up to the caller


class StepResult(NamedTuple):
    """What a training step tells."""

    loss: tf.Tensor  # mean over pieces, directions and tokens, sampled or full
    finite: tf.Tensor  # bool: loss and gradient are, so that the update was made
    norm: tf.Tensor  # global norm of the gradient of loss * unroll_steps, unclipped
    norms: tf.Tensor  # norm of each variable's gradient, in the network's order
    wishes: tf.Tensor  # [N_WISHES], above 0 where a worker gave a wish to this step
    vectors: tf.Tensor  # [U, D] token embeddings, of the first replica's last piece
    outputs: list[tf.Tensor]  # last layer's outputs [T, B, D] of each direction, too


class Trainer:
    """Network, optimizer and step counter of a training.

    The rows of a step are pieces of `batch_size` rows, each with a state of its own:
    first one for each device of all workers, then the next one for each, as often as
    `accumulate` says. They make one update together. A worker has the inputs and the
    states of the pieces of its own devices.

    Attributes:
        options: of the training.
        workers: who takes part in it.
        pieces: those of this worker.
        network: with its softmax.
        update: what becomes of the gradients.
        global_step: number of updates made, also before a restart.
    """

    def __init__(
        self,
        options: TrainingOptions,
        seed: int = 0,
        values: Mapping[str, np.ndarray] | None = None,
        n_replicas: int = 1,
        mixed_precision: str | None = None,
        jit_compile: bool = False,
        workers: Workers | None = None,
    ):
        """Create the variables.

        Args:
            options: with `n_tokens_vocab` known.
            seed: of initial values and dropout.
            values: variables, slots and `global_step` by their names in a checkpoint,
                any of them; the others start as in a new training.
            n_replicas: number of devices, where there is this process alone.
            mixed_precision: `bfloat16` or `float16` for the products of encoder and
                LSTM layers; None for float32 throughout.
            jit_compile: compile the LSTM layers by XLA.
            workers: who takes part; the values are then those of the chief. None for
                this process alone.

        Raises:
            InputError: there are not as many devices, or not the memory.
        """
        values = values or {}
        self.options = options
        self.workers = workers or Workers(n_replicas)
        self.pieces = Pieces(self.workers, options.accumulate)
        specs = training_variables(options)
        check_memory(sum(math.prod(spec.shape) for spec in specs))
        self._strategy = self.workers.strategy
        scales_loss = mixed_precision == "float16"
        with self._strategy.scope():
            self.network = Network(
                options,
                specs,
                values,
                seed,
                compute_dtype=mixed_precision or "float32",
                jit_compile=jit_compile,
                frozen=frozen_variables(options),
            )
            self.update = Update(
                self.network,
                options,
                self.workers,
                values,
                scales_loss,
            )
        self.global_step = self.workers.chief_s(int(values.get(GLOBAL_STEP, 0)))
        self._seed = seed
        self._trace()

    def _trace(self) -> None:
        """Make the functions of a step, each for one shape of its arguments."""
        options, n_devices = self.options, self.workers.devices
        state = state_signature(self.network)
        inputs = input_signature(
            self.network, options.unroll_steps, options.resets_state
        )
        piece = (
            (inputs,) * n_devices,
            (state,) * n_devices,
            tf.TensorSpec([2], tf.int32),
            tf.TensorSpec([], tf.int32),
        )
        others = ((state, state),) * (self.pieces.count - n_devices)
        rate = tf.TensorSpec([], tf.float32)
        wishes = tf.TensorSpec([N_WISHES], tf.float32)
        self._add, self._step = (
            tf.function(function, autograph=False, input_signature=signature)
            for function, signature in (
                (self._add_piece, piece),
                (self._update_by_last_piece, (*piece, others, rate, wishes)),
            )
        )

    def zero_states(self) -> tuple[BilmState, ...]:
        """The state of each piece at the start of a text."""
        return (self.network.zero_state(self.options.batch_size),) * self.pieces.count

    def join_states(self, states: Sequence[BilmState]) -> list[np.ndarray]:
        """Arrays [rows of all pieces, units] of all workers: c and m of each layer."""
        each = [tf.nest.flatten(state) for state in states]
        return [self.pieces.join(np.stack(parts)) for parts in zip(*each, strict=True)]

    def split_states(self, arrays: Sequence[np.ndarray]) -> tuple[BilmState, ...]:
        """Give each piece of this worker its rows of what `join_states` returned."""
        like = self.network.zero_state(1)
        parts = [self.pieces.split(array) for array in arrays]
        return tuple(
            tf.nest.pack_sequence_as(like, [tf.constant(part) for part in mine])
            for mine in zip(*parts, strict=True)
        )

    def step(
        self,
        inputs: Sequence[StepInputs],
        states: Sequence[BilmState],
        learning_rate: float | None = None,
        wishes: Sequence[bool] = (False,) * N_WISHES,
    ) -> tuple[tuple[BilmState, ...], StepResult]:
        """Make one update, unless loss or gradient is not finite.

        Args:
            inputs: of `bilm.inputs.step_inputs`, for each piece.
            states: that the batch before ended with, of each piece.
            learning_rate: of this update; None for that of the options.
            wishes: of this worker, for the others to learn of.

        Returns:
            The states after this batch, and its numbers before the update. A step
            without an update is counted, but leaves the states as they were, too.
        """
        place = np.array([self._seed % 2**31, self.global_step], np.int32)
        if learning_rate is None:
            learning_rate = self.options.learning_rate
        others: list[tuple[BilmState, BilmState]] = []
        *first, last = zip(
            self.pieces.rounds(inputs), self.pieces.rounds(states), strict=True
        )
        for number, (of_round, before) in enumerate(first):
            after = self._add(of_round, before, place, np.int32(number))
            others += zip(before, after, strict=True)
        results = self._step(
            *last,
            place,
            np.int32(len(first)),
            tuple(others),
            np.float32(learning_rate),
            np.array(wishes, np.float32),
        )
        self.global_step += 1
        return results

    def save(self, save_dir: str, perplexity: float, keep: int) -> str:
        """Write a checkpoint of this step; returns its prefix."""
        tensors: dict[str, tf.Tensor] = {
            GLOBAL_STEP: float(self.global_step),
            TRAIN_PERPLEXITY: perplexity,
        }
        slots: dict[str, tf.Tensor] = {**self.update.slots}
        for name, variable in self.network.variables_by_name.items():
            tensors[name] = variable
            if (slot := f"{name}/{ADAGRAD}") not in slots:  # frozen
                # Restarts of bilm-tf want to find the slot of each variable.
                slots[slot] = tf.fill(variable.shape, INITIAL_ACCUMULATOR)
        tensors |= slots
        return write_checkpoint(save_dir, self.global_step, tensors, keep)

    def _add_piece(
        self,
        inputs: tuple[StepInputs, ...],
        states: tuple[BilmState, ...],
        place: tf.Tensor,
        number: tf.Tensor,
    ) -> tuple[BilmState, ...]:
        """Add up the gradients of a piece on each replica; returns the states after.

        The pieces are those of round `number` of `accumulate`.
        """

        def replica() -> BilmState:
            mine, seed = self._place_of_piece(place, number)
            batch, gradients = self._gradients(inputs[mine], states[mine], seed)
            self.update.add(tf.reduce_mean(batch.losses), gradients)
            return batch.state

        return self._of_each(self._strategy.run(replica))

    def _update_by_last_piece(
        self,
        inputs: tuple[StepInputs, ...],
        states: tuple[BilmState, ...],
        place: tf.Tensor,
        number: tf.Tensor,
        others: tuple[tuple[BilmState, BilmState], ...],
        rate: tf.Tensor,
        wishes: tf.Tensor,
    ) -> tuple[tuple[BilmState, ...], StepResult]:
        """Make the update; `others` are the states before and after the other pieces.

        Returns:
            The states of all pieces, and the result.
        """

        def replica() -> tuple[list[BilmState], StepResult]:
            mine, seed = self._place_of_piece(place, number)
            batch, gradients = self._gradients(inputs[mine], states[mine], seed)
            loss = tf.reduce_mean(batch.losses)
            updated = self.update.apply(loss, gradients, rate, wishes)
            result = StepResult(*updated, batch.vectors, batch.outputs)
            pairs = [*others[mine :: self.workers.devices], (states[mine], batch.state)]
            return [_choose(result.finite, new, old) for old, new in pairs], result

        kept, result = self._strategy.run(replica)
        by_round = [self._of_each(states) for states in kept]
        return sum(by_round, ()), self._of_each(result)[0]

    def _of_each(self, value: Any) -> tuple[Any, ...]:
        """What each replica returned."""
        every = self._strategy.experimental_local_results
        return tuple(
            tf.nest.map_structure(lambda v, i=i: every(v)[i], value)
            for i in range(self.workers.devices)
        )

    def _place_of_piece(
        self, place: tf.Tensor, number: tf.Tensor
    ) -> tuple[int, tf.Tensor]:
        """The device of this worker whose code this is, and the seed of its masks.

        Masks differ between pieces: their rows are different rows.
        """
        replica = replica_number()
        piece = number * self.workers.n_replicas + replica
        seed = tf.random.experimental.stateless_fold_in(place, piece)
        return replica - self.workers.replicas[0], seed

    def _gradients(
        self, inputs: StepInputs, state: BilmState, seed: tf.Tensor
    ) -> tuple[Losses, list[Gradient]]:
        """What each replica does with a piece of its rows."""
        dropout = seeded_dropout(self.options.dropout, seed)
        with tf.GradientTape() as tape:
            loss_of = training_loss(self.network, inputs, self.options.samples)
            batch = token_losses(self.network, inputs, state, dropout, loss_of)
            loss = tf.reduce_mean(batch.losses) * self.options.unroll_steps
            target = self.update.loss_scale.multiply(loss)
        return batch, self.update.gradients(target, tape)


def _choose(condition: tf.Tensor, state: BilmState, other: BilmState) -> BilmState:
    return tf.nest.map_structure(lambda a, b: tf.where(condition, a, b), state, other)
