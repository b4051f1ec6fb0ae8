"""The rows of a step, cut into pieces: which of them a worker has, and in which order.

A step has `accumulate` rounds, and each round a piece for each device of all workers,
in their order. So the pieces are counted.
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from bilm.workers import Workers

Item = TypeVar("Item")


class Pieces:
    """The pieces of a worker.

    Args:
        workers: of the training.
        n_rounds: `accumulate` of the options.

    Attributes:
        count: of this worker's pieces.
    """

    def __init__(self, workers: Workers, n_rounds: int):
        self._workers, self._n_rounds = workers, n_rounds
        self.count = workers.devices * n_rounds

    def rounds(self, mine: Sequence[Item]) -> list[tuple[Item, ...]]:
        """What this worker has for its pieces, for each round."""
        size = self._workers.devices
        return [tuple(mine[i : i + size]) for i in range(0, self.count, size)]

    def join(self, mine: np.ndarray) -> np.ndarray:
        """Rows of all pieces [rows, units], of those of each worker [count, B, units].

        All workers call it together.
        """
        every = self._workers.gather_array(mine)  # [W, count, B, units]
        shape = len(every), self._n_rounds, self._workers.devices, *mine.shape[1:]
        by_round = every.reshape(shape).swapaxes(0, 1)
        return by_round.reshape(-1, mine.shape[-1])

    def split(self, rows: np.ndarray) -> list[np.ndarray]:
        """Rows of each piece of this worker, of what `join` returned."""
        pieces = np.split(rows, self._workers.n_replicas * self._n_rounds)
        return [pieces[number] for number in self._workers.pieces(self._n_rounds)]
