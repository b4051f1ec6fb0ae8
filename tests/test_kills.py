"""A run that is killed again and again, at random moments, ends as one that is not.

Each kill falls shortly after a checkpoint; saves take most of the time of these small
steps, so that many fall into one. BILM_KILLS in the environment sets how many there
are. A process imports TensorFlow once and is forked before it computes anything, so
that each of the trainings starts at once.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from runs import RUN, Folder, assert_same_end, make_folder

from bilm.cli import main
from bilm.options import replace_options, training_dict, write_options

N_KILLS = int(os.environ.get("BILM_KILLS", "2"))
EPOCHS_PER_KILL = 2  # of ten steps each
LONGEST_WAIT = 0.4  # seconds between a checkpoint and a kill


@pytest.mark.slow
def test_a_run_killed_at_random_moments_has_the_same_end(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    n_epochs = EPOCHS_PER_KILL * (N_KILLS + 1)
    options = replace_options(RUN, n_epochs=n_epochs)
    write_options(tmp_path / "run.json", training_dict(options))
    arguments = [str(tmp_path), str(N_KILLS)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-5000:]
    assert f"{N_KILLS} kills" in done.stdout
    end = f"model.ckpt-{10 * n_epochs}"
    assert_same_end(folder.path / "killed" / end, folder.path / "whole" / end)


def train_and_kill(path: Path, n_kills: int) -> str:
    """Train whole, then with kills; what was killed when, for those who read it."""
    folder = Folder(path, path / "whole")
    assert os.waitpid(start(folder), 0)[1] == 0
    folder = Folder(path, path / "killed")
    draw = random.Random()
    told = []
    for _ in range(n_kills):
        before = last_line(folder)
        child = start(folder)
        while last_line(folder) == before:
            time.sleep(0.001)
        time.sleep(draw.uniform(0, LONGEST_WAIT))
        os.kill(child, signal.SIGKILL)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL, "it was done before"
        partial = len(list(folder.save_dir.glob(".*.partial*")))
        told.append(f"{last_line(folder)} and {partial} half-written files")
    assert os.waitpid(start(folder), 0)[1] == 0
    assert not list(folder.save_dir.glob(".*.partial*"))
    return "\n".join([*told, f"{n_kills} kills"])


def start(folder: Folder) -> int:
    """Begin or resume the run in a child; its process number."""
    child = os.fork()
    if not child:
        code = 1
        try:
            flags = f"--resume --checkpoint_every 2 --log_dir {folder.save_dir}"
            code = main(folder.flags(flags))
        finally:
            os._exit(code)
    return child


def last_line(folder: Folder) -> str:
    """The file that names the checkpoints, which always is whole."""
    path = folder.save_dir / "checkpoint"
    return path.read_text().splitlines()[-1] if path.exists() else "no checkpoint"


if __name__ == "__main__":
    import tensorflow  # noqa: F401  before the forks

    import bilm.training  # noqa: F401

    print(train_and_kill(Path(sys.argv[1]), int(sys.argv[2])))
