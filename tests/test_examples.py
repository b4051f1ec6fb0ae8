"""Every example runs as a user runs it: a program of its own, from another folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "usage_examples"

# Numbers that each example must print, whatever the weights.
PRINTED = {
    "usage_character.py": ["(2, 14, 50)", "(2, 3, 12, 32)", "layer 0   1.000"],
    "usage_token.py": ["(2, 12)", "(2, 3, 10, 32)"],
    "usage_cached.py": ["(3, 7, 32)", "(3, 5, 32)"],
}


def run(name: str, *args: str, folder: Path) -> str:
    """Run an example, and return what it prints."""
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.glob("usage_*.py")} == PRINTED.keys()


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_example_runs_and_leaves_nothing(name: str, tmp_path: Path) -> None:
    printed = run(name, folder=tmp_path)
    for text in PRINTED[name]:
        assert text in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_example_takes_a_model(tmp_path: Path) -> None:
    # Here its values are looked at too: by token ids and by characters they agree.
    model = ROOT / "tests" / "fixtures" / "golden" / "predict_relu_skip"
    printed = run("usage_token.py", "--model", str(model), folder=tmp_path)
    assert "No --model given" not in printed
    assert float(printed.split()[-1]) < 1e-5


@pytest.mark.slow
def test_demo_goes_the_whole_path(tmp_path: Path) -> None:
    printed = run("demo.py", "demo", "--epochs", "1", folder=tmp_path)
    assert "Perplexity of held-out text" in printed
    made = {path.name for path in (tmp_path / "demo").iterdir()}
    assert {"text", "run", "model", "embeddings.hdf5"} <= made
