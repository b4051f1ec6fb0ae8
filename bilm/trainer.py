"""One training step on all devices: losses, gradients, clipping and Adagrad."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from bilm.adagrad import (
    INITIAL_ACCUMULATOR,
    Adagrad,
    Gradient,
    clip_by_global_norm,
    join_duplicates,
)
from bilm.checkpoint import GLOBAL_STEP, TRAIN_PERPLEXITY, Checkpoint, write_checkpoint
from bilm.devices import make_strategy
from bilm.inputs import StepInputs
from bilm.language_model import (
    input_signature,
    state_signature,
    token_losses,
    training_loss,
)
from bilm.loss_scale import LossScale
from bilm.names import ADAGRAD, N_CHARACTERS, frozen_variables, training_variables
from bilm.network import BilmState, Network, seeded_dropout
from bilm.options import TrainingOptions


class StepResult(NamedTuple):
    """What a training step tells."""

    loss: tf.Tensor  # mean over replicas, directions and tokens, sampled or full
    norm: tf.Tensor  # global norm of the gradient of loss * unroll_steps, unclipped
    norms: tf.Tensor  # norm of each variable's gradient, in the network's order
    vectors: tf.Tensor  # [U, D] token embeddings, of the first replica
    outputs: list[tf.Tensor]  # last layer's outputs [T, B, D] of each direction, too


class Trainer:
    """Network, optimizer and step counter of a training.

    Attributes:
        options: of the training.
        n_replicas: devices, each with rows and a state of its own.
        network: with its softmax.
        adagrad: its slots.
        loss_scale: of float16.
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
    ):
        """Create the variables.

        Args:
            options: with `n_tokens_vocab` known.
            seed: of initial values and dropout.
            values: variables, slots and `global_step` by their names in a checkpoint,
                any of them; the others start as in a new training.
            n_replicas: number of devices.
            mixed_precision: `bfloat16` or `float16` for the products of encoder and
                LSTM layers; None for float32 throughout.
            jit_compile: compile the LSTM layers by XLA.

        Raises:
            InputError: there are not as many devices.
        """
        values = values or {}
        self.options = options
        self.n_replicas = n_replicas
        self._strategy = make_strategy(n_replicas)
        with self._strategy.scope():
            self.network = Network(
                options,
                training_variables(options),
                values,
                seed,
                compute_dtype=mixed_precision or "float32",
                jit_compile=jit_compile,
                frozen=frozen_variables(options),
            )
            self.adagrad = Adagrad(self.network.learnt)
            self.loss_scale = LossScale(active=mixed_precision == "float16")
        for name, slot in self._slots().items():
            if name in values:
                slot.assign(values[name])
        self.global_step = int(values.get(GLOBAL_STEP, 0))
        self._seed = seed
        self._step = tf.function(
            self._step_of_all,
            autograph=False,
            input_signature=(
                (input_signature(self.network, options.unroll_steps),) * n_replicas,
                (state_signature(self.network),) * n_replicas,
                tf.TensorSpec([2], tf.int32),
                tf.TensorSpec([], tf.float32),
            ),
        )

    def _slots(self) -> dict[str, Any]:
        """The slots by their names in a checkpoint."""
        names = [f"{spec.name}/{ADAGRAD}" for spec in self.network.learnt_specs]
        return dict(zip(names, self.adagrad.slots, strict=True))

    def zero_states(self) -> tuple[BilmState, ...]:
        """The state of each replica at the start of a text."""
        return (self.network.zero_state(self.options.batch_size),) * self.n_replicas

    def join_states(self, states: Sequence[BilmState]) -> list[np.ndarray]:
        """Arrays [rows of all replicas, units]: c and m of each layer."""
        each = [tf.nest.flatten(state) for state in states]
        return [np.concatenate(parts) for parts in zip(*each, strict=True)]

    def split_states(self, arrays: Sequence[np.ndarray]) -> tuple[BilmState, ...]:
        """Give each replica its rows of what `join_states` returned."""
        like = self.network.zero_state(1)
        parts = [np.split(array, self.n_replicas) for array in arrays]
        return tuple(
            tf.nest.pack_sequence_as(like, [tf.constant(part) for part in mine])
            for mine in zip(*parts, strict=True)
        )

    def step(
        self, inputs: Sequence[StepInputs], states: Sequence[BilmState]
    ) -> tuple[tuple[BilmState, ...], StepResult]:
        """Make one update.

        Args:
            inputs: of `bilm.inputs.step_inputs`, for each replica.
            states: that the batch before ended with, of each replica.

        Returns:
            The states after this batch, and its numbers before the update.
        """
        place = np.array([self._seed % 2**31, self.global_step], np.int32)
        rate = np.float32(self.options.learning_rate)
        results = self._step(tuple(inputs), tuple(states), place, rate)
        self.global_step += 1
        return results

    def save(self, save_dir: str, perplexity: float, keep: int) -> str:
        """Write a checkpoint of this step; returns its prefix."""
        tensors: dict[str, tf.Tensor] = {
            GLOBAL_STEP: float(self.global_step),
            TRAIN_PERPLEXITY: perplexity,
        }
        slots = self._slots()
        for name, variable in self.network.variables_by_name.items():
            tensors[name] = variable
            if (slot := f"{name}/{ADAGRAD}") not in slots:  # frozen
                # Restarts of bilm-tf want to find the slot of each variable.
                slots[slot] = tf.fill(variable.shape, INITIAL_ACCUMULATOR)
        tensors |= slots
        return write_checkpoint(save_dir, self.global_step, tensors, keep)

    def _step_of_all(
        self,
        inputs: tuple[StepInputs, ...],
        states: tuple[BilmState, ...],
        seed: tf.Tensor,
        rate: tf.Tensor,
    ) -> tuple[tuple[BilmState, ...], StepResult]:
        def replica() -> tuple[BilmState, StepResult]:
            context = tf.distribute.get_replica_context()
            mine = int(tf.get_static_value(context.replica_id_in_sync_group))
            # Masks differ between replicas: their rows are different rows.
            own_seed = tf.random.experimental.stateless_fold_in(seed, mine)
            return self._update(inputs[mine], states[mine], own_seed, rate)

        states, result = self._strategy.run(replica)
        every = self._strategy.experimental_local_results
        final = [
            tf.nest.map_structure(lambda value, i=i: every(value)[i], states)
            for i in range(self.n_replicas)
        ]
        return tuple(final), tf.nest.map_structure(lambda v: every(v)[0], result)

    def _update(
        self, inputs: StepInputs, state: BilmState, seed: tf.Tensor, rate: tf.Tensor
    ) -> tuple[BilmState, StepResult]:
        """What each replica does with its rows."""
        variables = self.network.learnt
        dropout = seeded_dropout(self.options.dropout, seed)
        with tf.GradientTape() as tape:
            loss_of = training_loss(self.network, inputs, self.options.samples)
            batch = token_losses(self.network, inputs, state, dropout, loss_of)
            loss = tf.reduce_mean(batch.losses)
            target = self.loss_scale.multiply(loss * self.options.unroll_steps)
        gradients = [
            _dense_where_smaller(gradient, variable)
            for gradient, variable in zip(
                tape.gradient(target, variables), variables, strict=True
            )
        ]
        loss, *gradients = _mean_over_replicas([loss, *gradients])
        gradients = [self.loss_scale.divide(join_duplicates(g)) for g in gradients]
        clipped, norms, norm = clip_by_global_norm(
            gradients, self.options.all_clip_norm_val
        )
        self.loss_scale.apply_if_finite(
            norm, lambda: self.adagrad.apply(variables, clipped, rate)
        )
        result = StepResult(loss, norm, norms, batch.vectors, batch.outputs)
        return batch.state, result


def checkpoint_values(
    options: TrainingOptions, prefix: str, with_slots: bool = True
) -> dict[str, np.ndarray]:
    """Values of a checkpoint, by their names in it.

    Args:
        options: that its variables must fit.
        prefix: path up to and with the step.
        with_slots: also slots and step, as far as the checkpoint has them.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: its variables do not fit, or cannot be read.
    """
    checkpoint = Checkpoint(prefix)
    specs = training_variables(options)
    values = checkpoint.read({spec.name: spec.shape for spec in specs})
    if with_slots:
        slots = [f"{spec.name}/{ADAGRAD}" for spec in specs]
        values |= checkpoint.read_optional([*slots, GLOBAL_STEP])
    return values


def _dense_where_smaller(gradient: Gradient, variable: tf.Variable) -> Gradient:
    """The characters' table has fewer rows than a batch has characters."""
    if variable.shape[0] <= N_CHARACTERS:
        return tf.convert_to_tensor(gradient)
    return gradient


def _mean_over_replicas(values: list) -> list:
    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return values
    return context.all_reduce(tf.distribute.ReduceOp.MEAN, values)
