import os
import subprocess
import sys
from pathlib import Path

import pytest

from bilm.commands.quiet_import import remarks_left_out

ROOT = Path(__file__).parent.parent


def test_only_remarks_are_left_out(capfd: pytest.CaptureFixture[str]) -> None:
    lines = [
        "WARNING: All log messages before absl::InitializeLog() is called are written",
        "I0000 00:00:1 1 cudart_stub.cc:31] Could not find cuda drivers",
        "W0000 00:00:1 1 a warning",
        "WARNING: of another kind",
        "Illegal instruction",
    ]
    with remarks_left_out():
        os.write(2, "".join(f"{line}\n" for line in lines).encode())
    os.write(2, b"and after\n")
    assert capfd.readouterr().err.splitlines() == [*lines[2:], "and after"]


def test_the_last_words_of_a_crash_are_kept() -> None:
    code = (
        "import os\n"
        "from bilm.commands.quiet_import import remarks_left_out\n"
        "with remarks_left_out():\n"
        "    os.write(2, b'no AVX here')\n"
        "    os.abort()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stderr=subprocess.PIPE,  # which ends when the last process has closed it
    )
    assert result.returncode < 0
    assert result.stderr == b"no AVX here"


@pytest.mark.slow
def test_an_error_behind_the_import_is_one_line(tmp_path: Path) -> None:
    model = ROOT / "tests" / "fixtures" / "golden" / "predict_one_layer"
    text = tmp_path / "text.txt"
    text.write_text("a b\n", encoding="utf-8")
    flags = ["--dataset_file", text, "--outfile", tmp_path / "x.hdf5", "--layers", "9"]
    result = subprocess.run(
        [sys.executable, "-m", "bilm", "dump-embeddings", "--model", model, *flags],
        cwd=ROOT,
        env={k: v for k, v in os.environ.items() if k != "TF_CPP_MIN_LOG_LEVEL"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "layers must be 'all', 'top', 'average' or a number from 0 to 1" in line
