"""Perplexity of a trained model on a held-out text."""

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from tqdm.auto import tqdm

from bilm.checkpoint import checkpoint_values
from bilm.errors import InputError
from bilm.inputs import Dataset, StepInputs, check_dataset, step_inputs
from bilm.language_model import full_losses
from bilm.names import training_variables
from bilm.network import Network
from bilm.options import TrainingOptions, as_training_options
from bilm.prefetch import Prefetcher
from bilm.progress import perplexity_of

logger = logging.getLogger(__name__)

# Directions of a sound model differ by some percent.
SUSPICIOUS_RATIO = 2


class Evaluation(NamedTuple):
    """Perplexities of a text."""

    forward: float  # exp of the forward direction's mean loss
    backward: float | None  # None where there is one direction
    perplexity: float  # exp of the mean of the directions' mean losses
    n_tokens: int  # predicted in each direction: words, and an end for each sentence
    seconds: float


def test(
    options: TrainingOptions | Mapping[str, Any],
    ckpt_file: str | os.PathLike[str],
    data: Dataset,
    batch_size: int = 256,
    *,
    unroll_steps: int = 20,
    drop_incomplete: bool = False,
) -> float:
    """Perplexity of a checkpoint on a data set opened with `test=True`.

    Parameters and errors as in `evaluate`, whose `perplexity` it returns.
    """
    result = evaluate(
        options,
        ckpt_file,
        data,
        batch_size,
        unroll_steps=unroll_steps,
        drop_incomplete=drop_incomplete,
    )
    return result.perplexity


def evaluate(
    options: TrainingOptions | Mapping[str, Any],
    ckpt_file: str | os.PathLike[str],
    data: Dataset,
    batch_size: int = 256,
    *,
    unroll_steps: int = 20,
    drop_incomplete: bool = False,
) -> Evaluation:
    """Perplexities of a checkpoint on a data set, by the full softmax.

    The state carries over from sentence to sentence of a row. Rows take the sentences
    as if one token were read at a time, so that `unroll_steps` changes speed alone.

    Args:
        options: training options; `batch_size` and `unroll_steps` in them do not count.
        ckpt_file: prefix of the checkpoint.
        data: opened with `test=True`; `LMDataset` where `bidirectional` is false.
        batch_size: rows that are read in parallel.
        unroll_steps: tokens of each row in one call.
        drop_incomplete: leave out, as bilm-tf does, the tokens at the end of the text
            from where on not all rows have one.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: options, checkpoint and data do not fit each other, or the data
            has no token to evaluate.
    """
    checked = as_training_options(options)
    check_dataset(checked, data)
    network = trained_network(checked, ckpt_file)
    how = (batch_size, unroll_steps, drop_incomplete)
    return Evaluator(network, checked, data, *how).run()


class Evaluator:
    """Perplexities of a network on a data set, as often as they are asked for.

    The arguments are those of `evaluate`, but for the network, which may be one in
    training: it computes in float32 here.
    """

    def __init__(
        self,
        network: Network,
        options: TrainingOptions,
        data: Dataset,
        batch_size: int = 256,
        unroll_steps: int = 20,
        drop_incomplete: bool = False,
    ):
        self._options = options
        self._data = data
        self._rows = batch_size
        self._unroll_steps = unroll_steps
        self._drop_incomplete = drop_incomplete
        self._zero_state = network.zero_state(batch_size)
        self._losses = full_losses(network.in_float32(), options.resets_state)

    def run(self) -> Evaluation:
        """Evaluate once, from the zero state.

        Raises:
            InputError: the data is not text, or has no token.
        """
        start = time.perf_counter()
        losses, n_tokens = self._mean_losses()
        return perplexities(losses, n_tokens, time.perf_counter() - start)

    def _inputs(self) -> Iterator[StepInputs]:
        for batch in self._data.batches(
            self._rows, self._unroll_steps, fill_steps=1, keep_incomplete=True
        ):
            inputs = step_inputs(
                batch,
                self._options.char_cnn is not None,
                resets_state=self._options.resets_state,
            )
            yield _complete_steps(inputs) if self._drop_incomplete else inputs

    def _mean_losses(self) -> tuple[np.ndarray, int]:
        """Mean loss of each direction [K], and the number of tokens of each."""
        state, totals, counts = self._zero_state, np.zeros(()), np.zeros(())
        with (
            Prefetcher(self._inputs()) as batches,
            tqdm(
                unit="token",
                unit_scale=True,
                leave=None,  # below another bar it goes away
                disable=not sys.stderr.isatty(),
            ) as bar,
        ):
            for each in batches:
                losses, state = self._losses(each, state)
                # In float64: a long text has many small losses.
                totals = totals + losses.numpy().sum((1, 2), dtype=np.float64)
                counts = counts + each.weights.sum((1, 2), dtype=np.float64)
                bar.update(int(each.weights[0].sum()))
        if not np.all(counts):
            raise InputError(
                f"the held-out data has no token to evaluate in {self._rows} complete "
                "rows: give more text, or a smaller batch_size"
            )
        return totals / counts, int(np.max(counts))


def trained_network(
    options: TrainingOptions, ckpt_file: str | os.PathLike[str]
) -> Network:
    """The network of a checkpoint with its softmax, not to be trained.

    Raises:
        FileNotFoundError: there is no such checkpoint.
        InputError: its variables do not fit the options, or cannot be read.
    """
    values = checkpoint_values(options, os.fspath(ckpt_file), with_slots=False)
    return Network(options, training_variables(options), values, trainable=False)


def perplexities(losses: np.ndarray, n_tokens: int, seconds: float) -> Evaluation:
    """Perplexities by the mean losses [K] of the directions over `n_tokens` each.

    Where they are far apart, a warning says why that may be.
    """
    of_directions = [perplexity_of(loss) for loss in losses]
    if max(of_directions) > SUSPICIOUS_RATIO * min(of_directions):
        logger.warning(
            "forward perplexity is %.4g and backward %.4g: training carries its states "
            "on for ever and never comes back to the zero state, from which this "
            "evaluation starts; restart the training from this checkpoint for some "
            "hundred steps, which start from zero again, or train with "
            "--reset_state_every",
            *of_directions,
        )
    return Evaluation(
        forward=of_directions[0],
        backward=of_directions[1] if len(losses) > 1 else None,
        perplexity=perplexity_of(np.mean(losses)),
        n_tokens=n_tokens,
        seconds=seconds,
    )


def _complete_steps(inputs: StepInputs) -> StepInputs:
    """Count the steps alone in which every row of each direction has a token."""
    complete = inputs.weights.min((0, 2), keepdims=True)
    return inputs._replace(weights=inputs.weights * complete)
