"""Every example runs as a user runs it: a program of its own, from another folder."""

import os
import re
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
    "usage_keras.py": [
        "mix output      (5, 10, 32)",
        "0 weights are trained",
        "25 weights are trained",
        "saved, loaded",
    ],
    "usage_graph.py": ["'input_ELMo_W', 'input_ELMo_gamma'", "(2, 10, 32)"],
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
    if losses := re.findall(r"loss +([\d.]+), after .* steps ([\d.]+)", printed):
        ((before, after),) = losses
        assert float(after) < 0.9 * float(before)
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


@pytest.mark.slow
def test_pos_tagging_prints_a_table(tmp_path: Path) -> None:
    text = (ROOT / "tests" / "fixtures" / "golden" / "text.txt").read_text("utf-8")
    lines = [f"{line} {i}".split() for i in range(6) for line in text.splitlines()]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for name, content in (
        ("brown.txt", lines),
        ("brown.tags.txt", [[token[-1] for token in line] for line in lines]),
    ):
        rows = "".join(f"{' '.join(line)}\n" for line in content)
        (corpus / name).write_text(rows, encoding="utf-8")
    sizes = ("--epochs", "1", "--steps", "2", "--seeds", "1")
    printed = run("pos_tagging.py", str(corpus), "pos", *sizes, folder=tmp_path)
    for kind in ("word embeddings", "ELMo", "both"):
        assert f"| {kind} | " in printed
    training = (tmp_path / "pos" / "train.txt").read_text("utf-8").splitlines()
    test = {" ".join(line) for line in lines[9::10]}
    assert len(training) == len(lines) - len(lines[9::10])
    assert not test & set(training)
