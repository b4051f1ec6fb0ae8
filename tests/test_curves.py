"""`bilm plot`."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from bilm.cli import main
from bilm.curves import AXES, PANELS, draw
from bilm.metrics_file import COLUMNS, MetricsFile, read_rows

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two runs of three lines; one of them has held-out text."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for number, folder in enumerate(folders):
        metrics = MetricsFile(folder / "metrics.csv")
        for step in (10, 20, 30):
            metrics.write(
                step=step,
                hours=step / 100,
                train_perplexity=500 / step + number,
                softmax="sampled",
                learning_rate=0.2,
                gradient_norm=3.0,
                tokens_per_second=1000 + step,
            )
            if number:
                metrics.write(step=step, hours=step / 100, valid_perplexity=900 / step)
    return folders


def test_curves_have_the_numbers_of_the_files(folders: list[Path]) -> None:
    runs = {folder.name: read_rows(folder / "metrics.csv") for folder in folders}
    figure = draw(runs)
    axes = np.reshape(figure.axes, (len(PANELS), len(AXES)))
    for column, x in enumerate(([10, 20, 30], [0.1, 0.2, 0.3])):
        one, two, heldout = axes[0][column].lines
        np.testing.assert_allclose(one.get_xdata(), x)
        np.testing.assert_allclose(one.get_ydata(), [50, 25, 500 / 30], rtol=1e-6)
        np.testing.assert_allclose(two.get_ydata(), one.get_ydata() + 1, rtol=1e-6)
        np.testing.assert_allclose(heldout.get_ydata(), [90, 45, 30], rtol=1e-6)
        assert [line.get_label() for line in (one, two, heldout)] == [
            "one: training (sampled)",
            "two: training (sampled)",
            "two: held-out",
        ]
        assert two.get_color() == heldout.get_color() != one.get_color()
        assert len(axes[3][column].lines) == 2


def test_the_command_draws_a_picture(
    folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plot", str(folders[0])]) == 0
    picture = folders[0] / "curve.png"
    assert capsys.readouterr().out == f"{picture}\n"
    assert picture.read_bytes().startswith(PNG)


def test_what_cannot_be_drawn_is_said(
    folders: list[Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert main(["plot", str(tmp_path)]) == 2
    assert "metrics.csv: give the folder of a run" in capsys.readouterr().err
    (tmp_path / "metrics.csv").write_text(",".join(COLUMNS) + "\n")
    assert main(["plot", str(tmp_path)]) == 2
    assert "has no line yet" in capsys.readouterr().err
    assert main(["plot", str(folders[0]), "--outfile", str(tmp_path / "c.doc")]) == 2
    assert ".png, .pdf, .svg" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["plot", str(folders[0])]) == 2
    assert "pip install 'bilm[plot]'" in capsys.readouterr().err
    assert not (folders[0] / "curve.png").exists()
