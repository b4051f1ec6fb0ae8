"""Checkpoints: files that bilm-tf reads, and that hold what the options say."""

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from bilm.checkpoint import Checkpoint, latest_checkpoint, write_checkpoint
from bilm.errors import InputError

ARRAYS = {
    "lm/softmax/W": np.arange(6, dtype=np.float32).reshape(2, 3),
    "lm/softmax/W/Adagrad": np.ones((2, 3), np.float32),
    "global_step": np.float32(7),
}
SHAPES = {name: array.shape for name, array in ARRAYS.items()}
DATA = ".data-00000-of-00001"


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return write_checkpoint(tmp_path, 7, ARRAYS, keep=3)


def test_round_trip(prefix: str) -> None:
    checkpoint = Checkpoint(prefix)
    assert {name: tuple(s) for name, s in checkpoint.shapes.items()} == SHAPES
    for name, array in checkpoint.read(SHAPES).items():
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, ARRAYS[name], name)


def test_tensorflow_finds_and_reads_it(prefix: str, tmp_path: Path) -> None:
    assert tf.train.latest_checkpoint(tmp_path) == prefix
    assert tf.train.list_variables(prefix) == sorted(
        (name, list(shape)) for name, shape in SHAPES.items()
    )
    values = tf.train.load_variable(prefix, "lm/softmax/W")
    np.testing.assert_array_equal(values, ARRAYS["lm/softmax/W"])


def test_files_appear_under_their_names_alone(prefix: str, tmp_path: Path) -> None:
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"checkpoint", "model.ckpt-7.index", f"model.ckpt-7{DATA}"}


def test_the_last_ones_are_kept_in_the_order_of_writing(tmp_path: Path) -> None:
    for step in (1, 12, 3, 5, 3):
        write_checkpoint(tmp_path, step, ARRAYS, keep=3)
    assert {path.stem for path in tmp_path.glob("*.index")} == {
        f"model.ckpt-{step}" for step in (12, 5, 3)
    }
    assert latest_checkpoint(tmp_path) == str(tmp_path / "model.ckpt-3")
    assert (tmp_path / "checkpoint").read_text().splitlines() == [
        'model_checkpoint_path: "model.ckpt-3"',
        'all_model_checkpoint_paths: "model.ckpt-12"',
        'all_model_checkpoint_paths: "model.ckpt-5"',
        'all_model_checkpoint_paths: "model.ckpt-3"',
    ]


@pytest.mark.parametrize("folder", ["/elsewhere/run/", "C:\\\\run\\\\", "./", ""])
def test_paths_of_a_folder_that_was_moved(
    folder: str, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_text(
        f'model_checkpoint_path: "{folder}model.ckpt-7"\n'
        f'all_model_checkpoint_paths: "{folder}model.ckpt-6"\n'
        f'all_model_checkpoint_paths: "{folder}model.ckpt-7"\n'
    )
    assert latest_checkpoint(tmp_path) == prefix


def test_a_checkpoint_that_was_removed_is_not_the_last(
    prefix: str, tmp_path: Path
) -> None:
    write_checkpoint(tmp_path, 9, ARRAYS, keep=3)
    for path in tmp_path.glob("model.ckpt-9.*"):
        path.unlink()
    assert latest_checkpoint(tmp_path) == prefix


def test_all_that_does_not_fit_is_named(prefix: str) -> None:
    shapes = SHAPES | {"lm/softmax/W": (2, 4), "lm/softmax/b": (2,)}
    with pytest.raises(InputError) as error:
        Checkpoint(prefix).read(shapes)
    message = str(error.value)
    assert message.startswith(f"checkpoint {prefix} does not fit its options: ")
    assert "lm/softmax/W must be [2, 4] but is [2, 3]" in message
    assert "lm/softmax/b is missing" in message
    assert "global_step" not in message


def test_what_is_optional_may_be_missing(prefix: str) -> None:
    found = Checkpoint(prefix).read_optional(["global_step", "lm/other"])
    assert found == {"global_step": 7}


@pytest.mark.parametrize("suffix", [".index", DATA])
@pytest.mark.parametrize("size", [0, 20])
def test_a_truncated_file_is_refused(suffix: str, size: int, prefix: str) -> None:
    file = Path(prefix + suffix)
    assert file.stat().st_size > size
    file.write_bytes(file.read_bytes()[:size])
    with pytest.raises(InputError, match="model.ckpt-7 cannot be read"):
        Checkpoint(prefix).read(SHAPES)


def test_a_missing_file_of_data_is_refused(prefix: str) -> None:
    Path(prefix + DATA).unlink()
    with pytest.raises((InputError, FileNotFoundError), match="model.ckpt-7"):
        Checkpoint(prefix).read(SHAPES)


def test_no_checkpoint_says_what_is_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="model.ckpt-1"):
        Checkpoint(tmp_path / "model.ckpt-1")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        latest_checkpoint(tmp_path / "nowhere")
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileNotFoundError, match="notes.txt"):
        latest_checkpoint(tmp_path)


def test_what_killed_processes_have_left_is_removed(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = f"{platform.node()}.{dead.pid}.partial"
    for name in ("5.{}_temp", "5.state.npz.{}", "6.{}.index", f"6.{{}}{DATA}"):
        (tmp_path / f".model.ckpt-{name.format(left)}").touch()
    write_checkpoint(tmp_path, 7, ARRAYS, keep=3)
    assert not list(tmp_path.glob(".*"))
