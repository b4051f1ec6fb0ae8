"""What the devices of a step send each other, and the form that sends the least.

A dense gradient is summed up in a ring (all-reduce): of its bytes, each of R devices
sends 2 (R - 1) / R. A sparse one, whose rows are other words on each device, is sent to
all whole (all-gather): each sends its rows R - 1 times. So a sparse gradient is the
smaller one up to a number of devices, which depends on the vocabulary.

Source for both rings: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce".
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from bilm.names import EMBEDDING, N_CHARACTERS, SOFTMAX, VariableSpec
from bilm.options import TrainingOptions

_FLOAT, _INDEX = 4, 4  # bytes


class GradientSize(NamedTuple):
    """What is to be sent of a variable.

    Attributes:
        name: of the variable in a checkpoint.
        values: float32 values of the variable.
        rows: of a sparse gradient on each device, a word counted as often as it is
            looked up; None for a dense one.
        row: float32 values of a row.
    """

    name: str
    values: int
    rows: int | None
    row: int

    def dense_bytes(self, n_devices: int) -> float:
        """That each device sends where all of it is summed up."""
        return 2 * (n_devices - 1) / n_devices * _FLOAT * self.values

    def sparse_bytes(self, n_devices: int) -> float:
        """That each device sends where its rows go to all others."""
        assert self.rows is not None
        return (n_devices - 1) * self.rows * (_FLOAT * self.row + _INDEX)

    def is_sent_sparse(self, n_devices: int) -> bool:
        """Whether that is less."""
        if self.rows is None:
            return False
        return self.sparse_bytes(n_devices) <= self.dense_bytes(n_devices)


class Traffic(NamedTuple):
    """Bytes that each device sends in a step."""

    dense: float
    sparse: float

    @staticmethod
    def of(sizes: Sequence[GradientSize], n_devices: int) -> "Traffic":
        """Add up those of all variables, each in its smaller form."""
        dense = sparse = 0.0
        for size in sizes:
            if size.is_sent_sparse(n_devices):
                sparse += size.sparse_bytes(n_devices)
            else:
                dense += size.dense_bytes(n_devices)
        return Traffic(dense, sparse)


def gradient_sizes(
    specs: Sequence[VariableSpec], options: TrainingOptions
) -> list[GradientSize]:
    """The gradients of a step on each device, in the order of the variables."""
    return [
        GradientSize(
            spec.name,
            math.prod(spec.shape),
            _rows(spec, options),
            math.prod(spec.shape[1:]),
        )
        for spec in specs
    ]


def _rows(spec: VariableSpec, options: TrainingOptions) -> int | None:
    """How many words a step looks up in a variable; None for a dense gradient."""
    is_embedding = spec.name == EMBEDDING
    is_softmax = spec.name.startswith(SOFTMAX) or (
        is_embedding and options.share_embedding_softmax
    )
    is_dense = options.accumulate > 1 or spec.shape[0] <= N_CHARACTERS
    if is_dense or not (is_embedding or is_softmax):
        return None
    if is_softmax and not options.samples:
        return None
    tokens = options.n_directions * options.unroll_steps * options.batch_size
    samples = options.n_directions * options.n_negative_samples_batch
    return is_embedding * tokens + is_softmax * (tokens + samples)
