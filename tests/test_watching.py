"""Held-out text, bad steps and metrics of a run, also one that was stopped."""

import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from events import read_events, scalars
from runs import RUN, Folder, assert_same_end, make_folder
from tiny import counting_sentences, write_lines

from bilm.announcements import warn_of_best
from bilm.checkpoint import latest_checkpoint
from bilm.cli import main
from bilm.data import BidirectionalLMDataset
from bilm.errors import InputError
from bilm.evaluation import Evaluation, evaluate
from bilm.guard import Guard
from bilm.metrics_file import COLUMNS, MetricsFile, read_rows
from bilm.options import (
    read_training_options,
    replace_options,
    training_dict,
    write_options,
)
from bilm.summaries import Summaries
from bilm.training import load_vocab
from bilm.validation import Validation

HELDOUT = counting_sentences(10, seed=9)
WATCHED = (
    "--valid_every 4 --lr_schedule linear --warmup_steps 2 --accumulate 2 "
    "--n_train_tokens 160 --valid_prefix"
)
CLOCK = {"hours", "tokens_per_second", "data_wait"}  # columns that no run repeats


class Runs(NamedTuple):
    """The same run without and with a stop."""

    whole: Folder
    parts: Folder


def word_level(path: Path) -> Folder:
    """Word input takes less time to trace."""
    folder = make_folder(path)
    options = replace_options(RUN, char_cnn=None)
    write_options(path / "run.json", training_dict(options))
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    folders = []
    for stops in ([""], ["--stop_after 7", "--resume"]):
        folder = word_level(tmp_path_factory.mktemp("watched"))
        heldout = write_lines(folder.path / "heldout.txt", HELDOUT)
        for stop in stops:
            assert main(folder.flags(f"{stop} {WATCHED} {heldout}")) == 0
        folders.append(folder)
    return Runs(*folders)


def rows_of(folder: Folder) -> list[dict[str, str]]:
    return [dict(row) for row in read_rows(folder.save_dir / "metrics.csv")]


@pytest.mark.slow
def test_the_best_checkpoint_tests_as_the_log_said(runs: Runs) -> None:
    valid = [row for row in rows_of(runs.whole) if row["valid_perplexity"]]
    assert [row["step"] for row in valid] == ["4", "8", "12", "16", "20"]
    best = min(valid, key=lambda row: float(row["valid_perplexity"]))
    folder = runs.whole.save_dir / "best"
    prefix = latest_checkpoint(folder)
    assert prefix.endswith(f"ckpt-{best['step']}")
    options = read_training_options(folder / "options.json")
    vocab = load_vocab(runs.whole.path / "vocab.txt")
    text = BidirectionalLMDataset(runs.whole.path / "heldout.txt", vocab, test=True)
    result = evaluate(options, prefix, text)
    np.testing.assert_allclose(
        [float(best[f"valid_{name}"]) for name in ("perplexity", "forward")],
        [result.perplexity, result.forward],
        rtol=1e-6,
    )


@pytest.mark.slow
def test_metrics_have_what_tensorboard_has(runs: Runs) -> None:
    rows = rows_of(runs.whole)
    events = read_events(runs.whole.path / "logs")
    for column, tag in (
        ("train_perplexity", "train_perplexity"),
        ("gradient_norm", "norm_grad"),
        ("learning_rate", "learning_rate"),
        ("valid_perplexity", "valid_perplexity"),
        ("valid_backward", "valid_perplexity/backward"),
    ):
        found = [(int(r["step"]), float(r[column])) for r in rows if r[column]]
        assert [step for step, _ in found] == [point.step for point in events[tag]]
        values = [value for _, value in found]
        np.testing.assert_allclose(values, scalars(events, tag), rtol=1e-6)
    lines = [row for row in rows if row["train_perplexity"]]
    assert {row["softmax"] for row in lines} == {"sampled"}
    assert [row["step"] for row in lines] == "3 6 9 12 15 18 20".split()
    # 2 steps of warm-up, then down to 0 in 18: step 3 is the third.
    expected = [0.2 * (21 - int(row["step"])) / 18 for row in lines]
    found = [float(row["learning_rate"]) for row in lines]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert {row["bad_steps"] for row in lines} == {"0"}


@pytest.mark.slow
def test_a_stopped_run_goes_on_as_if_it_had_not_stopped(runs: Runs) -> None:
    ends = [latest_checkpoint(folder.save_dir) for folder in runs]
    assert_same_end(ends[1], ends[0])
    for folder in (runs.whole, runs.parts):
        best = latest_checkpoint(folder.save_dir / "best")
        assert (
            Path(best).name == Path(latest_checkpoint(runs[0].save_dir / "best")).name
        )
    whole, parts = (
        [{k: v for k, v in row.items() if k not in CLOCK} for row in rows_of(folder)]
        for folder in runs
    )
    assert parts == whole
    hours = [float(row["hours"]) for row in rows_of(runs.parts)]
    assert hours == sorted(hours) and hours[0] > 0


def test_a_run_that_diverges_ends_and_names_what_is_good(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = word_level(tmp_path)
    assert main(folder.flags("--learning_rate 1e38 --max_bad_steps 3")) == 2
    told = capsys.readouterr().err
    assert "3 steps in a row" in told and "--learning_rate" in told
    assert "changes nothing: its loss is nan" in told
    text = (folder.save_dir / "bad_batches.txt").read_text()
    blocks = text.split("step ")[1:]
    assert len(blocks) == 3
    rows = blocks[0].splitlines()[1:]
    assert len(rows) == 8  # 4 in each direction
    assert all(len(row.split()) == 2 for row in rows)
    assert rows[0].split()[0] in told


# The parts by themselves


def step_result(loss: float, norm: float) -> Any:
    finite = math.isfinite(loss) and math.isfinite(norm)
    return SimpleNamespace(loss=loss, norm=norm, finite=finite)


BATCH: Any = SimpleNamespace(records=SimpleNamespace(lines=lambda: ["a b", "c d"]))


def test_bad_steps_are_counted_in_a_row_and_in_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard(3, tmp_path / "bad.txt", lambda: "run/model.ckpt-5")
    good, bad = step_result(1.0, 2.0), step_result(1.0, math.inf)
    for step, result in enumerate([bad, bad, good, bad, bad]):
        guard.add(step, result, BATCH)
    other = Guard(3, tmp_path / "bad.txt", lambda: "run/model.ckpt-5")
    other.restore(guard.state())
    assert other.bad_steps == 4 and len(caplog.messages) == 4
    assert (
        "(4 such steps so far, 2 in a row); its batch begins with 'a b'"
        in (caplog.messages[-1])
    )
    other.add(5, bad, BATCH)
    message = "3 steps in a row, up to step 5.*good checkpoint is run/model.ckpt-5"
    with pytest.raises(InputError, match=message):
        other.settle()
    assert (tmp_path / "bad.txt").read_text().count("\ta b\n\tc d\n") == 5


def test_spikes_of_the_gradient_are_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard(3, tmp_path / "bad.txt", lambda: "")
    for step in range(150):
        guard.add(step, step_result(1.0, 25.0 if step in (7, 120) else 2.0), BATCH)
    guard.settle()
    (line,) = caplog.messages  # not of step 7, when nothing was usual yet
    assert line.startswith("the gradient norm of step 120 is 25, 1")


def validation(values: list[float], saved: list[int], patience: int) -> Validation:
    results = iter(Evaluation(v, v, v, 9, 0.1) for v in values)
    evaluator: Any = SimpleNamespace(run=lambda: next(results))
    return Validation(evaluator, lambda: saved.append(1) or "best", patience)


def test_patience_counts_evaluations_that_are_not_better(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "bilm")
    saved: list[int] = []
    first = validation([9.0, 8.0, 8.5], saved, 2)
    for step in (1, 2, 3):
        first.run(step)
    assert (first.best, first.best_step, len(saved)) == (8.0, 2, 2)
    assert not first.exhausted
    second = validation([math.nan, 7.0], saved, 2)
    second.restore(first.state())
    second.run(4)
    assert second.exhausted and "2 evaluations in a row" in caplog.messages[-1]
    second.run(5)
    assert not second.exhausted and second.best == 7.0


def test_a_best_checkpoint_that_cannot_be_written_is_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def save() -> str:
        raise tf.errors.ResourceExhaustedError(None, None, "No space left")

    results: Any = SimpleNamespace(run=lambda: Evaluation(8, 8, 8, 9, 0.1))
    found = Validation(results, save)
    found.run(1)
    assert found.best == math.inf
    assert "the best checkpoint cannot be written: No space left" in caplog.text


def test_metrics_are_cut_back_to_a_step(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.csv"
    metrics = MetricsFile(path)
    assert metrics.cut_back(5) == 0.0 and not path.exists()
    for step in (2, 4, 6):
        metrics.write(step=step, hours=step / 8, train_perplexity=1 / 3)
    with open(path, "a") as file:
        file.write("8,1")  # as a kill leaves it
    assert [row["step"] for row in read_rows(path)] == ["2", "4", "6"]
    assert metrics.cut_back(5) == 0.5
    rows = read_rows(path)
    assert [row["step"] for row in rows] == ["2", "4"]
    assert tuple(rows[0]) == COLUMNS and rows[0]["train_perplexity"] == "0.3333333"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="metrics.csv:1 must have the columns step"):
        read_rows(path)


def test_metrics_that_cannot_be_written_are_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "run").touch()
    metrics = MetricsFile(tmp_path / "run" / "metrics.csv")
    for step in (1, 2):
        metrics.write(step=step)
    assert len(caplog.messages) == 1 and "cannot be written" in caplog.text


def test_batches_of_steps_to_be_made_again_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "bad.txt"
    path.write_text("step 4\n\tstep 9 b\nstep 7\n\tc d\nstep 12\n\te\n")
    guard = Guard(3, path, lambda: "")
    guard.cut_back(7)
    assert path.read_text() == "step 4\n\tstep 9 b\nstep 7\n\tc d\n"
    guard.cut_back(4)
    assert path.read_text() == "step 4\n\tstep 9 b\n"
    Guard(3, tmp_path / "none.txt", lambda: "").cut_back(0)


def test_batches_that_cannot_be_kept_are_named_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    guard = Guard(3, tmp_path / "no" / "bad.txt", lambda: "")
    guard.add(5, step_result(math.nan, 1.0), BATCH)
    guard.settle()
    said, lost = caplog.messages
    assert "its batch begins with 'a b', the 2 rows of it" in said
    assert "bad.txt cannot be written: [Errno 2] No such file" in lost


def test_a_file_of_tensorboard_that_cannot_be_written_is_said_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    trainer: Any = SimpleNamespace()
    summaries = Summaries(None, trainer)
    for _ in range(2):
        with summaries._tolerated():
            raise tf.errors.FailedPreconditionError(None, None, "logs is no folder")
    (message,) = caplog.messages
    assert message == "TensorBoard's file cannot be written: logs is no folder"


def test_the_best_checkpoint_of_a_run_before_is_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    warn_of_best(str(tmp_path))
    assert not caplog.messages
    best = tmp_path / "best"
    best.mkdir()
    (best / "checkpoint").write_text("")
    warn_of_best(str(tmp_path))
    (message,) = caplog.messages
    assert message.startswith(f"{best} is of a run before, and will be replaced")
