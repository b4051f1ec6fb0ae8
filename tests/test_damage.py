"""Files cut short and with a bit turned over: an `InputError`, or what was written.

The faults are drawn by seeds. They are made in a process of their own (see
`damaged.py`), so that a crash of a library would be an ordinary failure here.
"""

import contextlib
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tensorflow as tf
from forged import forge
from tiny import (
    GOLDEN,
    OPTIONS,
    Corpus,
    Model,
    random_values,
    write_lines,
    write_run,
)

from bilm import dump_bilm_embeddings, dump_token_embeddings, read_embeddings
from bilm.checkpoint import checkpoint_values, latest_checkpoint, write_checkpoint
from bilm.checkpoint_index import MAX_BYTES, check_index
from bilm.embeddings_file import EmbeddingsWriter, Progress, Storage
from bilm.errors import InputError, reading
from bilm.hdf5_files import CHECKSUM, checksum
from bilm.metrics_file import COLUMNS, read_rows
from bilm.names import model_variables, training_variables
from bilm.run_state import read_run_state
from bilm.stored_arrays import checkpoint_arrays, hdf5_arrays
from bilm.weights import read_weights, write_weights

HERE = Path(__file__).parent
SPECS = model_variables(OPTIONS)
SHAPE = SPECS[0].shape  # of char_embed


@pytest.mark.slow
def test_damaged_files_are_refused_or_right(tmp_path: Path) -> None:
    """200 of each kind of file; the batch lists what was neither."""
    command = [sys.executable, str(HERE / "damaged.py"), str(tmp_path)]
    batch = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert batch.returncode == 0, batch.stderr[-2000:]
    found = [line.split() for line in batch.stdout.splitlines()]
    assert len(found) == 8
    for kind, n_refused, n_right, *wrong in found:
        assert not wrong, kind
        assert int(n_refused) + int(n_right) == 200
        assert int(n_refused) > 90, kind  # each second one lacks its end


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    write_weights(tmp_path / "weights.hdf5", SPECS, random_values(SPECS))
    return tmp_path / "weights.hdf5"


def test_every_array_has_the_checksum_of_its_values(
    weights: Path, char_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens.hdf5"
    dump_token_embeddings(corpus.vocab, *char_model, tokens)
    for path in (weights, tokens):
        with h5py.File(path) as file:
            names = []
            file.visit(names.append)
            arrays = [file[n] for n in names if isinstance(file[n], h5py.Dataset)]
            assert len(arrays) == (1 if path == tokens else len(SPECS))
            for array in arrays:
                assert array.attrs[CHECKSUM] == checksum(array[()])
    assert checksum(np.array([1.5, -2], np.float32)) == 0xCCDF2C3A  # of other programs
    assert checksum(np.array([1.5, -2], ">f4")) == 0xCCDF2C3A


def test_files_of_others_have_no_checksum_and_load() -> None:
    assert hdf5_arrays(GOLDEN / "predict_relu_skip" / "weights.hdf5", True)


def replace(file: h5py.File, **settings: object) -> h5py.Dataset:
    del file["char_embed"]
    return file.create_dataset("char_embed", **settings)


def link(file: h5py.File, target: object) -> None:
    file["copy"] = file["char_embed"]
    del file["char_embed"]
    file["char_embed"] = target


def virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout(SHAPE, np.float32)
    layout[:] = h5py.VirtualSource("other.hdf5", "x", SHAPE)
    del file["char_embed"]
    file.create_virtual_dataset("char_embed", layout)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("char_embed"), "char_embed is missing"),
        (lambda f: f.create_dataset("more", data=1.0), "more is not expected"),
        (lambda f: replace(f, data=np.zeros(3)), r"is \[3\]"),
        (
            lambda f: replace(f, data=np.zeros(SHAPE, np.int32)),
            "char_embed must be float32 but is int32",
        ),
        (
            lambda f: replace(f, data=np.full(SHAPE, b"x")),
            r"char_embed must be float32 but is \|S1",
        ),
        (
            lambda f: replace(f, data=np.full(SHAPE, np.nan)),
            "not finite in char_embed",
        ),
        (
            lambda f: replace(f, data=np.full(SHAPE, 1e300)),
            "not finite in char_embed",
        ),
        (
            lambda f: f["char_embed"].write_direct(np.zeros(SHAPE, np.float32)),
            "values of char_embed are not those that were written, by their checksum",
        ),
        (
            lambda f: replace(f, shape=SHAPE, dtype="float32"),
            "values of char_embed were never written",
        ),
        (
            lambda f: replace(
                f, shape=SHAPE, dtype="float32", chunks=(1, 4)
            ).write_direct(np.zeros(4, np.float32), dest_sel=np.s_[0]),
            "values of char_embed were never written",
        ),
        (
            lambda f: replace(f, data=h5py.Empty("float32")),
            "char_embed has no values: make the file again",
        ),
        (virtual, "values of char_embed lie in other files"),
        (lambda f: link(f, h5py.SoftLink("/copy")), "char_embed is a link .*to /copy"),
        (
            lambda f: link(f, h5py.ExternalLink("other.hdf5", "x")),
            r"char_embed is a link \(to x in other.hdf5\), which is not followed",
        ),
        (
            lambda f: replace(
                f,
                shape=SHAPE,
                dtype="float32",
                external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)],
            ),
            "values of char_embed lie in other files",
        ),
    ],
)
def test_arrays_that_are_not_what_they_must_be_are_named(
    change: Callable[[h5py.File], object], message: str, weights: Path
) -> None:
    with h5py.File(weights, "r+") as file:
        change(file)
    with pytest.raises(InputError, match=f"weights.hdf5.*{message}"):
        read_weights(weights, SPECS)


def test_a_group_within_itself_is_no_endless_loop(weights: Path) -> None:
    with h5py.File(weights, "r+") as file:
        file["CNN/again"] = file["/"]
    assert read_weights(weights, SPECS).keys() == {spec.name for spec in SPECS}


def test_sentence_vectors_have_checksums(char_model: Model, tmp_path: Path) -> None:
    out = tmp_path / "out.hdf5"
    text = write_lines(tmp_path / "text", [["3", "4"], [], ["5"]])
    dump_bilm_embeddings(None, text, *char_model, out, dtype="float16")
    assert [len(array) for array in read_embeddings(out)] == [3, 3, 3]
    with h5py.File(out, "r+") as file:
        file["2"][0, 0, 0] += 1
    with pytest.raises(InputError, match="out.hdf5 .* values of 2 are not those"):
        list(read_embeddings(out))
    with pytest.raises(InputError, match="out.hdf5 .* values of 2 are not those"):
        hdf5_arrays(out, values=True)
    with h5py.File(out, "r+") as file:
        del file["1"]
    with pytest.raises(InputError, match="vectors of 2 lines, but not of line 1"):
        list(read_embeddings(out))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("lm/char_embed", np.full(SHAPE, np.inf), "not finite in lm/char_embed"),
        ("lm/char_embed/Adagrad", np.full(SHAPE, np.nan), "finite in .*embed/Adagrad"),
        ("lm/char_embed/Adagrad", np.zeros(3), r"embed/Adagrad must be \[261, 4\]"),
        ("lm/softmax/b", np.zeros(2), r"lm/softmax/b must be \[13\] but is \[2\]"),
        ("lm/softmax/b", None, "lm/softmax/b is missing"),
        ("global_step", np.nan, "global_step must be a whole number"),
    ],
)
def test_variables_that_are_not_what_they_must_be_are_named(
    name: str, value: object, message: str, tmp_path: Path
) -> None:
    values: dict[str, object] = random_values(training_variables(OPTIONS))
    values[name] = value
    there = {key: each for key, each in values.items() if each is not None}
    prefix = write_checkpoint(tmp_path, 3, there, keep=1)
    with pytest.raises(InputError, match=f"model.ckpt-3.*{message}"):
        checkpoint_values(OPTIONS, prefix)


SOFTMAX = "lm/softmax/b"  # [13]


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: setattr(entry.shape.dim[0], "size", -5),
        lambda entry: [entry.shape.dim.add(size=2**62) for _ in range(2)],
        lambda entry: [entry.shape.dim.add(size=size) for size in (2**62, 2**62, 0)],
        lambda entry: [entry.shape.dim.add(size=1) for _ in range(300)],
        lambda entry: entry.slices.add().extent.add(start=5),
    ],
)
def test_shapes_that_cannot_be_are_refused_before_tensorflow_ends_the_process(
    change: Callable[[Any], object], tmp_path: Path
) -> None:
    prefix = write_run(tmp_path, OPTIONS)
    forge(Path(f"{prefix}.index"), SOFTMAX, change)
    with pytest.raises(ValueError, match=f"{SOFTMAX} has no possible shape"):
        check_index(f"{prefix}.index")
    with pytest.raises(InputError, match=f"{prefix} cannot be read .{SOFTMAX} has no"):
        checkpoint_values(OPTIONS, prefix)


def test_entries_that_do_not_fit_their_values_are_refused(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, OPTIONS)
    index = Path(f"{prefix}.index")
    good = index.read_bytes()
    right = checkpoint_values(OPTIONS, prefix)
    forge(index, SOFTMAX, lambda entry: None)
    found = checkpoint_values(OPTIONS, prefix)
    np.testing.assert_array_equal(found[SOFTMAX], right[SOFTMAX])
    huge = {"size": 2**60, "offset": 2**60, "shard_id": 7}
    for field, value in huge.items():
        index.write_bytes(good)
        forge(index, SOFTMAX, lambda e, f=field, v=value: setattr(e, f, v))
        with pytest.raises(InputError, match=f"{prefix} cannot be read"):
            checkpoint_values(OPTIONS, prefix)
    index.write_bytes(good)
    forge(index, SOFTMAX, lambda entry: setattr(entry, "dtype", 7))  # a text
    with pytest.raises(InputError, match="softmax/b must be float32 but is string"):
        checkpoint_values(OPTIONS, prefix)
    text = [each for each in checkpoint_arrays(prefix, True) if each.name == SOFTMAX]
    assert [(each.dtype, each.n_bytes) for each in text] == [("string", 0)]
    index.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(
        InputError, match=r"index has more than 16,777,216 bytes, too m"
    ):
        checkpoint_values(OPTIONS, prefix)


def test_doubles_are_no_variables(tmp_path: Path) -> None:
    values = random_values(training_variables(OPTIONS))
    names = sorted(values)
    tensors = [tf.constant(values[name], tf.float64) for name in names]
    tf.raw_ops.SaveV2(
        prefix=f"{tmp_path}/model.ckpt-1",
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        tensors=tensors,
    )
    with pytest.raises(InputError, match="char_embed must be float32 but is float64"):
        checkpoint_values(OPTIONS, f"{tmp_path}/model.ckpt-1")


def test_a_last_checkpoint_that_is_not_there_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefix = write_run(tmp_path, OPTIONS)
    index = tmp_path / "checkpoint"
    index.write_text(index.read_text() + 'model_checkpoint_path: "model.ckpt-9"')
    assert latest_checkpoint(tmp_path) == prefix
    assert "is model.ckpt-9, but it is not there; model.ckpt-7 is taken" in caplog.text
    with open(index, "r+b") as file:
        file.truncate(1 << 25)
    with pytest.raises(InputError, match="checkpoint has more than 16,777,216 bytes"):
        latest_checkpoint(tmp_path)


class Code:
    """Would be run by a reader that unpickles."""

    def __reduce__(self) -> tuple:
        return Path.touch, (Path("was_run"),)


@pytest.mark.parametrize(
    "arrays",
    [
        {"values": np.array([Code()], object)},
        {"values": np.zeros(3, np.uint8)},
        {"values": np.frombuffer(b"[" * 100_000, np.uint8)},
        {"values": np.frombuffer(b"[]", np.uint8)},
        {"values": np.frombuffer(b"{}", np.uint8), "lstm_0": np.array([np.nan])},
        {"lstm_0": np.zeros(3)},
        {},
    ],
)
def test_a_state_that_is_none_is_refused_and_runs_nothing(
    arrays: dict[str, np.ndarray], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    np.savez(tmp_path / "model.ckpt-1.state.npz", **arrays)
    with pytest.raises(InputError, match="ckpt-1.state.npz.*by bilm restart"):
        read_run_state(tmp_path / "model.ckpt-1")
    assert not Path("was_run").exists()


@pytest.mark.parametrize(("value", "states"), [("{}", np.nan), ("[]", 0.0)])
def test_a_state_of_other_values_is_no_state(
    value: str, states: float, tmp_path: Path
) -> None:
    values = np.frombuffer(value.encode(), np.uint8)
    path = tmp_path / "model.ckpt-1.state.npz"
    np.savez(path, values=values, lstm_0=np.full((2, 3), states))
    with pytest.raises(InputError, match="npz is no state of a run: go on with the w"):
        read_run_state(tmp_path / "model.ckpt-1")


def test_a_state_that_is_no_npz_is_said_without_advice_to_unpickle(
    tmp_path: Path,
) -> None:
    (tmp_path / "model.ckpt-1.state.npz").write_bytes(b"x\n")
    with pytest.raises(InputError, match="cannot be read .it is no npz file, or cut"):
        read_run_state(tmp_path / "model.ckpt-1")


def test_a_record_of_a_dump_that_is_none_is_refused_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out.partial").touch()
    np.savez(tmp_path / "out.partial.npz", settings=np.array([Code()], object))
    with pytest.raises(InputError, match="partial.npz.*begin anew without --resume"):
        EmbeddingsWriter(tmp_path / "out", Storage(), {}, resume=True)
    assert not Path("was_run").exists()


def test_vectors_that_a_dump_left_are_checked_before_it_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def left_over() -> int:
        with (
            contextlib.suppress(KeyboardInterrupt),
            EmbeddingsWriter(tmp_path / "out", Storage(), {}, resume=True) as writer,
        ):
            n_lines = writer.progress.n_lines
            writer.append([np.ones((3, 2, 4), np.float32)], Progress(n_lines + 1))
            raise KeyboardInterrupt
        return n_lines

    assert [left_over() for _ in range(3)] == [0, 1, 2]
    with h5py.File(tmp_path / "out.partial", "r+") as file:
        file["1"][...] = 0
    assert left_over() == 0
    assert "values of 1 are not those that were written" in caplog.text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"step,epoch\n", ":1 must have the columns"),
        (b"\xff\n", " cannot be read"),
        (b"1,2\n", ":3 cannot be read"),
        (b"1,,x,,,,,,,,,,\n", ":3 cannot be read"),
        (b"1,,0.5,1,full,,,,0.2,,,,\n,,,\n", ":4 cannot be read"),
    ],
)
def test_damaged_metrics_are_named_by_their_line(
    content: bytes, message: str, tmp_path: Path
) -> None:
    head = ",".join(COLUMNS).encode() + b"\n3,,0.5,1,full,,,,0.2,,,,\n"
    whole = content if content.startswith(b"step") else head + content
    (tmp_path / "metrics.csv").write_bytes(whole)
    with pytest.raises(InputError, match=f"metrics.csv{message}"):
        read_rows(tmp_path / "metrics.csv")


def test_errors_of_libraries_are_one_line() -> None:
    with pytest.raises(InputError, match=r"^x cannot be read \(KeyError\): where"):
        with reading("x"):
            raise KeyError
    with pytest.raises(FileNotFoundError), reading("x"):
        raise FileNotFoundError("y")
