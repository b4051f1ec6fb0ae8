"""A run that is killed again and again, at random moments, ends as one that is not.

Set BILM_KILLS for another number of kills. A process imports TensorFlow once, and is
forked before it computes anything, so that each child starts at once.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from runs import assert_same_end, make_folder

N_KILLS = int(os.environ.get("BILM_KILLS", 3))
TESTS = Path(__file__).parent


@pytest.mark.slow
def test_a_run_killed_at_random_moments_has_the_same_end(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    done = subprocess.run(
        [sys.executable, TESTS / "killer.py", folder.path, str(N_KILLS)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS.parent)])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    end = f"model.ckpt-{100 * N_KILLS}"
    assert f"{N_KILLS} kills" in done.stdout
    assert_same_end(tmp_path / "killed" / end, tmp_path / "whole" / end)
