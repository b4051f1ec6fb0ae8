"""A run that was stopped and goes on is one that never stopped."""

import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf
from events import read_events
from runs import (
    N_STEPS,
    RUN,
    Folder,
    another_run,
    assert_same_end,
    make_folder,
    values_of,
)
from tiny import WORDS, counting_sentences, write_lines

from bilm import checkpoint, saver
from bilm.checkpoint import latest_checkpoint
from bilm.cli import main
from bilm.errors import InputError
from bilm.inputs import training_inputs
from bilm.options import (
    read_training_options,
    replace_options,
    training_dict,
    write_options,
)
from bilm.run_state import read_run_state
from bilm.saved_run import SavedRun, on_devices
from bilm.trainer import Trainer

ROOT = Path(__file__).parent.parent


class Whole(NamedTuple):
    """A run without a stop."""

    folder: Folder
    lines: list[str]
    moments: list[Path]  # copies of its folder, as a kill at that moment leaves it


class Parts(NamedTuple):
    """The same run in several processes' worth of calls."""

    folder: Folder
    codes: list[int]
    lines: list[list[str]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    folder = make_folder(tmp_path_factory.mktemp("whole"))
    kept = tmp_path_factory.mktemp("moments")
    moments: list[Path] = []

    def before(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            if len(moments) < 40 and folder.save_dir.exists():
                moments.append(kept / f"moment-{len(moments)}")
                shutil.copytree(folder.save_dir, moments[-1])
            return function(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", before(os.replace))
        patch.setattr(checkpoint, "_remove", before(checkpoint._remove))
        code, lines = command(folder.flags())
    assert code == 0
    return Whole(folder, lines, moments)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """SIGTERM in step 7; six steps more; as after a kill, back to the checkpoint of 10;
    a full disk and a lost folder in step 17; the end."""
    folder = make_folder(tmp_path_factory.mktemp("parts"))
    codes, lines = [], []

    def part(*more: str) -> None:
        code, told = command(folder.flags(" ".join(more)))
        codes.append(code)
        lines.append(told)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "step", step_that(7, terminate))
        part("--resume")  # which may begin a run, too
    part("--resume", "--stop_after", "6")
    kill_after_step_13(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saver, "PAUSES", (0, 0, 0))
        failing = Failing(times=2)
        patch.setattr(tf.raw_ops, "SaveV2", failing)
        patch.setattr(Trainer, "step", step_that(17, lambda: lose(folder)))
        part("--resume")
    return Parts(folder, codes, lines)


def command(flags: list[str]) -> tuple[int, list[str]]:
    """Run `bilm`; its exit code, and what the package logs meanwhile."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logging.getLogger("bilm").addHandler(handler)
    try:
        return main(flags), lines
    finally:
        logging.getLogger("bilm").removeHandler(handler)


def step_that(number: int, does: Any) -> Any:
    """A step of the trainer, during which something happens once."""
    step = Trainer.step

    def patched(self: Trainer, *args: Any) -> Any:
        if self.global_step == number - 1:
            does()
        return step(self, *args)

    return patched


def kill_after_step_13(folder: Folder) -> None:
    """Leave what a kill -9 before the checkpoint of that step leaves."""
    index = folder.save_dir / "checkpoint"
    kept = [line for line in index.read_text().splitlines() if "-13" not in line]
    index.write_text("\n".join(kept))
    for number, events in enumerate(sorted((folder.path / "logs").iterdir())):
        with open(events, "ab") as file:
            file.write(b"half a record"[: 6 * number])  # the last one's


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def lose(folder: Folder) -> None:
    """Checkpoints so far, options and all."""
    shutil.rmtree(folder.save_dir)


class Failing:
    """Fails some times as on a full disk, then writes."""

    def __init__(self, times: int) -> None:
        self.times, self.write = times, tf.raw_ops.SaveV2

    def __call__(self, **arguments: Any) -> None:
        self.times -= 1
        if self.times >= 0:
            Path(f"{arguments['prefix']}.data-00000-of-00001").write_text("half")
            raise tf.errors.ResourceExhaustedError(None, None, "No space left")
        self.write(**arguments)


def curves(lines: list[str]) -> list[str]:
    """What the lines about steps say, without speeds and times."""
    found = [re.match(r"step .*gradient norm [^,]+", line) for line in lines]
    return [match[0] for match in found if match]


def test_the_end_is_the_same_to_the_last_bit(whole: Whole, parts: Parts) -> None:
    end = f"model.ckpt-{N_STEPS}"
    assert_same_end(parts.folder.save_dir / end, whole.folder.save_dir / end)


def test_the_log_is_the_same(whole: Whole, parts: Parts) -> None:
    expected = curves(whole.lines)
    assert len(expected) == 7
    found = [line for part in parts.lines for line in curves(part)]
    assert found[3].startswith("step 12 ") and found[3] == found[4]  # done again
    assert found[:4] + found[5:] == expected


def test_signals_and_limits_stop_with_a_checkpoint(parts: Parts) -> None:
    assert parts.codes == [143, 0, 0]
    first, second, third = ("\n".join(lines) for lines in parts.lines)
    assert "this is a new run" in first
    for told, step in ((first, 7), (second, 13)):
        assert f"stopped after step {step}" in told and "--resume" in told
        assert f"saved {parts.folder.save_dir}/model.ckpt-{step}" in told
    assert "going on from" in third and "after 10 steps" in third


def test_a_full_disk_and_a_lost_folder_end_no_run(parts: Parts) -> None:
    told = "\n".join(parts.lines[2])
    assert "cannot be written (No space left): attempt 1 of 4" in told
    assert "model.ckpt-17 after 2 failures" in told
    found = {path.name for path in parts.folder.save_dir.iterdir()}
    files = ("index", "data-00000-of-00001", "state.npz")
    names = [f"model.ckpt-{step}.{file}" for step in (17, 20) for file in files]
    assert found == {"checkpoint", "options.json", "metrics.csv", *names}
    assert read_training_options(parts.folder.save_dir / "options.json") == RUN


def test_no_step_is_twice_in_tensorboard(whole: Whole, parts: Parts) -> None:
    found, expected = (read_events(run.folder.path / "logs") for run in (parts, whole))
    assert found.keys() == expected.keys()
    for tag, points in expected.items():
        assert [point.step for point in found[tag]] == [point.step for point in points]
        for ours, theirs in zip(found[tag], points, strict=True):
            np.testing.assert_array_equal(ours.value, theirs.value, tag)


def test_a_kill_at_any_moment_of_a_save_leaves_a_good_checkpoint(whole: Whole) -> None:
    steps = []
    for moment in whole.moments:
        try:
            prefix = latest_checkpoint(moment)
        except FileNotFoundError:
            assert not steps  # it was during the first save
            continue
        values, state = values_of(prefix), read_run_state(prefix)
        steps.append(int(values["global_step"]))
        assert prefix.endswith(f"ckpt-{steps[-1]}")
        assert state.values["global_step"] == steps[-1]
        later = whole.folder.save_dir / f"model.ckpt-{steps[-1]}"
        if later.with_suffix(f"{later.suffix}.index").exists():  # not removed since
            assert_same_end(prefix, later)
    assert len(steps) > 15 and steps == sorted(steps)
    assert set(steps) == {5, 10, 15, 20}


def test_a_second_training_is_refused_and_may_overwrite(
    whole: Whole,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = another_run(whole.folder, tmp_path)
    before = sorted(run.save_dir.iterdir())
    assert main(run.flags()) == 2
    told = capsys.readouterr().err
    assert "already holds a run" in told and "--resume" in told
    assert sorted(run.save_dir.iterdir()) == before
    (run.save_dir / "notes.txt").touch()
    monkeypatch.setattr(Trainer, "step", refuse)
    assert main(run.flags("--overwrite")) == 2
    names = {path.name for path in run.save_dir.iterdir()}
    assert names == {"notes.txt", "options.json"}
    points = read_events(run.path / "logs")
    assert not points


def refuse(*_: object) -> None:
    raise InputError("a step")


@pytest.mark.parametrize(
    ("change", "parts"),
    [
        ("--learning_rate 0.1", ("learning_rate is 0.1 and was 0.2",)),
        ("--seed 4", ("seed is 4 and was 3",)),
        ("--batch_size 5", ("rows_of_all_devices is 5 and was 4",)),
        ("--accumulate 2", ("accumulate is 2 and was 1", "rows_of_all_devices is 8")),
        ("other rows", ("rows_of_all_devices is 8 and was 4",)),
        ("--n_gpus 3", ("4 rows on 1 devices", "--n_gpus")),
        ("vocabulary", ("vocabulary.sha256 is",)),
        ("shard", ("shards.shard-1.txt is ", " bytes and was ")),
        ("more shards", ("shards.shard-3.txt is 6 bytes and was not there",)),
        ("no state", ("state.npz is missing", "bilm restart")),
        ("damaged state", ("state.npz cannot be read", "bilm restart")),
    ],
)
def test_what_is_not_the_same_is_refused(
    change: str,
    parts: tuple[str, ...],
    whole: Whole,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = another_run(whole.folder, tmp_path)
    flags = change if change.startswith("--") else ""
    state = run.save_dir / f"model.ckpt-{N_STEPS}.state.npz"
    if change == "other rows":
        other = replace_options(RUN, batch_size=8)
        write_options(tmp_path / "run.json", training_dict(other))
    if change == "vocabulary":
        write_lines(tmp_path / "vocab.txt", [[word] for word in [*WORDS[:-1], "x"]])
    if change == "shard":
        write_lines(tmp_path / "shard-1.txt", counting_sentences(99, seed=7))
    if change == "more shards":
        write_lines(tmp_path / "shard-3.txt", [["7", "8", "9"]])
    if change == "no state":
        state.unlink()
    if change == "damaged state":
        state.write_bytes(state.read_bytes()[:100])
    assert main(run.flags(f"--resume {flags}")) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    for part in parts:
        assert part in last


def test_more_epochs_are_a_warning_and_a_finished_run_has_nothing_to_do(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = another_run(whole.folder, tmp_path)
    flags = run.flags("--resume")
    del flags[flags.index("--options") :][:2]  # those of the run
    monkeypatch.setattr(Trainer, "step", refuse)
    code, lines = command(flags)
    assert code == 0 and "training is done" in lines[-1]
    assert latest_checkpoint(run.save_dir).endswith(f"-{N_STEPS}")
    code, lines = command([*flags, "--n_epochs", "3"])
    assert code == 2
    assert any("goes on, though n_epochs is 3 and was 2" in line for line in lines)
    assert read_training_options(run.save_dir / "options.json").n_epochs == 3


def test_other_devices_share_the_rows(whole: Whole, data: Any, tmp_path: Path) -> None:
    folder = whole.folder
    state = read_run_state(folder.save_dir / f"model.ckpt-{N_STEPS}")
    saved = SavedRun("", state)
    options = on_devices(RUN, saved, 2)
    assert options.batch_size == RUN.batch_size // 2
    trainer = Trainer(options, n_replicas=2)
    states = trainer.split_states(state.arrays)
    for upper, lower, array in zip(
        *map(tf.nest.flatten, states), state.arrays, strict=True
    ):
        np.testing.assert_array_equal(np.concatenate([upper, lower]), array)
    for ours, array in zip(trainer.join_states(states), state.arrays, strict=True):
        np.testing.assert_array_equal(ours, array)

    def labels(n_devices: int) -> np.ndarray:
        model = on_devices(RUN, saved, n_devices)
        text = data(model, f"{folder.path}/shard-*.txt", shuffle_on_load=True)
        position = state.values["position"]
        batch = next(training_inputs(model, text, n_devices, [9], position))
        return np.concatenate([inputs.labels for inputs in batch.inputs], axis=2)

    np.testing.assert_array_equal(labels(2), labels(1))
    np.testing.assert_array_equal(labels(4), labels(1))
    with pytest.raises(InputError, match="4 rows on 1 devices, which 3"):
        on_devices(RUN, saved, 3)


@pytest.mark.slow
def test_a_cluster_of_one(tmp_path: Path) -> None:
    """No terminal, no locale, no GPU, a package that is only read, a moved folder."""
    (tmp_path / "é").mkdir()
    folder = make_folder(tmp_path / "é")
    package = files_of(ROOT / "bilm")
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "",
        "HOME": str(tmp_path / "nowhere"),
    }
    done = subprocess.run(
        [sys.executable, "-m", "bilm", *folder.flags("--stop_after 6")],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"stopped after step 6" in done.stderr and b"\r" not in done.stderr
    assert files_of(ROOT / "bilm") == package

    moved = folder._replace(save_dir=tmp_path / "moved")
    folder.save_dir.rename(moved.save_dir)
    text = f"--vocab_file {folder.path}/vocab.txt --test_prefix {folder.path}/s*-0.txt"
    assert main(f"test --save_dir {moved.save_dir} {text}".split()) == 0
    weights = tmp_path / "weights.hdf5"
    dump = f"dump-weights --save_dir {moved.save_dir} --outfile {weights}"
    assert main(dump.split()) == 0 and weights.exists()
    assert main(moved.flags("--resume --stop_after 2")) == 0
    assert latest_checkpoint(moved.save_dir) == str(moved.save_dir / "model.ckpt-8")


def files_of(package: Path) -> list[tuple[Path, float]]:
    """All that Python itself did not compile, with the time when it was written."""
    paths = (p for p in package.rglob("*.*") if "__pycache__" not in p.parts)
    return sorted((path, path.stat().st_mtime) for path in paths)
