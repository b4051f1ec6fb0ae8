"""A small run for the tests of resuming: sampled, with dropout, on three shards."""

import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tiny import OPTIONS, SMALL_LSTM, WORDS, counting_sentences, write_lines

from bilm.checkpoint import Checkpoint
from bilm.options import replace_options, training_dict, write_options
from bilm.run_state import RunState, read_run_state

N_STEPS = 20
RUN = replace_options(
    OPTIONS,
    lstm=SMALL_LSTM,
    batch_size=4,
    unroll_steps=2,
    n_train_tokens=10 * 8,
    n_epochs=2,
    dropout=0.2,
    sample_softmax=True,
)


class Folder(NamedTuple):
    """Where a run has its files."""

    path: Path
    save_dir: Path

    def flags(self, more: str = "") -> list[str]:
        """Of `bilm train`; lines every 3 steps, checkpoints every 5."""
        return (
            f"train --save_dir {self.save_dir} --vocab_file {self.path}/vocab.txt "
            f"--train_prefix {self.path}/shard-*.txt --options {self.path}/run.json "
            f"--log_dir {self.path}/logs --seed 3 --log_every 3 --checkpoint_every 5 "
            f"--keep 3 {more}"
        ).split()


def make_folder(path: Path) -> Folder:
    """Write vocabulary, shards and options."""
    write_lines(path / "vocab.txt", [[word] for word in WORDS])
    for shard in range(3):
        lines = counting_sentences(12 + shard, seed=shard)
        write_lines(path / f"shard-{shard}.txt", lines)
    write_options(path / "run.json", training_dict(RUN))
    return Folder(path, path / "run")


def another_run(folder: Folder, path: Path) -> Folder:
    """A copy of the run and of what it is made of."""
    shutil.copytree(folder.path, path, dirs_exist_ok=True)
    return Folder(path, path / "run")


def values_of(prefix: str | Path) -> dict[str, np.ndarray]:
    """All that a checkpoint holds, read to the last byte."""
    checkpoint = Checkpoint(prefix)
    return checkpoint.read_optional(checkpoint.shapes)


def assert_same_end(found: str | Path, expected: str | Path) -> None:
    """Two checkpoints with their states are the same to the last bit."""
    ours, theirs = values_of(found), values_of(expected)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        np.testing.assert_array_equal(ours[name], value, name)
    ours_state, state = map(read_run_state, (found, expected))
    for mine, array in zip(ours_state.arrays, state.arrays, strict=True):
        np.testing.assert_array_equal(mine, array)
    assert_same_values(ours_state, state)


def assert_same_values(found: RunState, expected: RunState) -> None:
    """Position, generators and progress are the same."""
    for name, value in expected.values.items():
        assert found.values[name] == value, name
