"""The rows of a step, dealt out to workers: all of them, each once."""

import types
from pathlib import Path

import numpy as np
import pytest
from random_text import open_text, options, write_text

from bilm.inputs import join_positions, training_inputs
from bilm.pieces import Pieces
from bilm.workers import Workers

N_WORKERS, DEVICES, ROUNDS = 3, 2, 2
N_REPLICAS = N_WORKERS * DEVICES


def pieces_of(index: int) -> list[int]:
    """Of a worker, without the others."""
    replicas = range(index * DEVICES, (index + 1) * DEVICES)
    worker = types.SimpleNamespace(n_replicas=N_REPLICAS, replicas=replicas)
    return Workers.pieces(worker, ROUNDS)


def test_each_piece_has_one_worker() -> None:
    assert [pieces_of(index) for index in range(N_WORKERS)] == [
        [0, 1, 6, 7],
        [2, 3, 8, 9],
        [4, 5, 10, 11],
    ]


@pytest.mark.parametrize("characters", [True, False], ids=["characters", "words"])
def test_workers_see_the_batches_of_one_process(
    characters: bool, tmp_path: Path
) -> None:
    """So they see each token of an epoch once, as that process does."""
    text = write_text(tmp_path)
    model = options(
        characters, accumulate=ROUNDS, sample_softmax=True, n_negative_samples_batch=9
    )
    whole, *workers = (
        training_inputs(model, open_text(text, model), N_REPLICAS, [0], pieces=pieces)
        for pieces in (None, *map(pieces_of, range(N_WORKERS)))
    )
    for _ in range(5):
        batch, batches = next(whole), [next(worker) for worker in workers]
        assert join_positions([each.position for each in batches]) == batch.position
        for index, mine in enumerate(batches):
            for number, inputs in zip(pieces_of(index), mine.inputs, strict=True):
                for found, expected in zip(inputs, batch.inputs[number], strict=True):
                    np.testing.assert_array_equal(found, expected)


def test_rows_of_all_workers_are_joined_and_split_again() -> None:
    rows = np.arange(N_REPLICAS * ROUNDS * 2 * 3, dtype=np.float32).reshape(-1, 3)
    every = np.stack(
        [np.split(rows, N_REPLICAS * ROUNDS)[i] for w in range(3) for i in pieces_of(w)]
    ).reshape(N_WORKERS, ROUNDS * DEVICES, 2, 3)
    for index in range(N_WORKERS):
        worker = types.SimpleNamespace(
            devices=DEVICES,
            n_replicas=N_REPLICAS,
            pieces=lambda _, index=index: pieces_of(index),
            gather_array=lambda _: every,
        )
        pieces = Pieces(worker, ROUNDS)
        np.testing.assert_array_equal(pieces.join(every[index]), rows)
        np.testing.assert_array_equal(np.stack(pieces.split(rows)), every[index])
        assert pieces.rounds("abcd") == [("a", "b"), ("c", "d")]
