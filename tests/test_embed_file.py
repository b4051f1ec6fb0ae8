"""Files of sentence vectors: what is stored, in which order, and how to go on."""

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tiny import (
    DIGITS,
    GOLDEN,
    Model,
    assert_near,
    counting_sentences,
    write_lines,
)

from bilm import (
    BidirectionalLanguageModel,
    dump_bilm_embeddings,
    embeddings_file,
    read_embeddings,
)
from bilm.cli import main
from bilm.embeddings_file import in_units
from bilm.errors import InputError

LINES = [["3", "4"], [], ["a", "/", "."], ["3", "4"], *([["7"]] * 9), DIGITS]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "text.txt", LINES)


@pytest.fixture
def whole(char_model: Model, text: Path, tmp_path: Path) -> list[np.ndarray]:
    """All layers of each line, stateful, as bilm-tf has them."""
    return dump(char_model, text, tmp_path / "whole.hdf5")


def dump(model: Model, text: Any, outfile: Path, **settings: Any) -> list[np.ndarray]:
    dump_bilm_embeddings(None, text, *model, outfile, **settings)
    return list(read_embeddings(outfile))


def assert_all_near(actual: list[np.ndarray], expected: list[np.ndarray]) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        assert_near(one, other)


def test_keys_are_in_the_order_of_the_lines(whole: list, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "whole.hdf5") as file:
        assert list(file) == [str(i) for i in range(len(LINES))]  # 10 after 9
    assert [array.shape[1] for array in whole] == list(map(len, LINES))


def test_files_of_bilm_tf_are_read_in_the_order_of_the_lines() -> None:
    folder = GOLDEN / "predict_relu_skip"
    lines = (GOLDEN / "text.txt").read_text(encoding="utf-8").splitlines()
    read = list(read_embeddings(folder / "bilm_embeddings.hdf5"))
    assert [a.shape[1] for a in read] == [len(line.split()) for line in lines]


def test_other_files_are_refused(tmp_path: Path) -> None:
    folder = GOLDEN / "predict_tokens"
    with pytest.raises(InputError, match="no sentence vectors: .* but embedding"):
        list(read_embeddings(folder / "token_embeddings.hdf5"))
    with pytest.raises(InputError, match="not a readable HDF5"):
        list(read_embeddings(folder / "options.json"))
    with pytest.raises(FileNotFoundError, match="none.hdf5"):
        list(read_embeddings(tmp_path / "none.hdf5"))


@pytest.mark.parametrize("layers", ["top", "average", 1])
def test_layers(
    layers: Any, char_model: Model, text: Path, whole: list, tmp_path: Path
) -> None:
    expected = {
        "top": lambda array: array[2],
        "average": lambda array: array.mean(0),
        1: lambda array: array[1],
    }
    chosen = dump(char_model, text, tmp_path / "out.hdf5", layers=layers)
    assert_all_near(chosen, [expected[layers](array) for array in whole])


def test_half_precision_compressed_and_pooled(
    char_model: Model, text: Path, whole: list, tmp_path: Path
) -> None:
    for compression in ("lzf", "gzip"):
        small = dump(
            char_model,
            text,
            tmp_path / "out.hdf5",
            dtype="float16",
            compression=compression,
        )
        for array, full in zip(small, whole, strict=True):
            assert array.dtype == np.float16 and array.shape == full.shape
            np.testing.assert_allclose(array, full, atol=2e-3)
        with h5py.File(tmp_path / "out.hdf5") as file:
            assert file["0"].compression == compression
    pooled = dump(char_model, text, tmp_path / "out.hdf5", pool="mean")
    assert pooled[1].shape == (3, 16) and not pooled[1].any()
    assert_near(pooled[-1], whole[-1].mean(1))


def test_sentences_and_their_lines(
    char_model: Model, text: Path, whole: list, tmp_path: Path
) -> None:
    vectors = dump(char_model, text, tmp_path / "out.hdf5", sentence_to_index=True)
    assert_all_near(vectors, whole)
    with h5py.File(tmp_path / "out.hdf5") as file:
        lines_of = json.loads(file["sentence_to_index"][0])
    assert lines_of["3 4"] == [0, 3] and lines_of[""] == [1]
    assert sorted(sum(lines_of.values(), [])) == list(range(len(LINES)))
    assert lines_of["a / ."] == [2]


def test_gzipped_text_and_standard_input(
    char_model: Model,
    text: Path,
    whole: list,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zipped = tmp_path / "text.gz"
    zipped.write_bytes(gzip.compress(text.read_bytes()))
    assert_all_near(dump(char_model, zipped, tmp_path / "out.hdf5"), whole)
    for content in (text.read_bytes(), zipped.read_bytes()):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        out = str(tmp_path / "stdin.hdf5")
        folder = str(char_model.options_file.parent)
        flags = ["--dataset_file", "-", "--model", folder, "--outfile", out]
        assert main(["dump-embeddings", *flags]) == 0
        assert_all_near(list(read_embeddings(out)), whole)


def test_size_is_said_before_the_first_vector(
    char_model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    text = write_lines(tmp_path / "text.txt", [DIGITS * 3] * 300)
    out = tmp_path / "out.hdf5"
    dump(char_model, text, out)
    (said,) = [r.args for r in caplog.records if "will take about" in r.msg]
    number, unit = said[1].split()
    assert unit == "MB"
    assert float(number) * 1e6 == pytest.approx(out.stat().st_size, rel=0.1)


def test_a_full_disk_is_an_error_before_the_first_vector(
    char_model: Model, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = types.SimpleNamespace(free=10_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    monkeypatch.setattr(BidirectionalLanguageModel, "embed_windows", None)
    with pytest.raises(InputError, match="about .* kB, but .* has 10 kB free"):
        dump(char_model, text, tmp_path / "out.hdf5")
    assert not list(tmp_path.glob("out*"))


def test_units() -> None:
    assert [in_units(n) for n in (7, 1234, 10**9, 10**15)] == [
        "7 B",
        "1.23 kB",
        "1 GB",
        "1e+03 TB",
    ]


# Going on after a stop


@pytest.fixture
def long_text(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "long.txt", counting_sentences(60, seed=3))


def stop_after(monkeypatch: pytest.MonkeyPatch, n_windows: int) -> None:
    """Let a dump stop by Ctrl-C after some windows."""
    embed = BidirectionalLanguageModel.embed_windows

    def stopping(*args: Any) -> Iterator[Any]:
        for number, window in enumerate(embed(*args)):
            if number == n_windows:
                raise KeyboardInterrupt
            yield window

    monkeypatch.setattr(BidirectionalLanguageModel, "embed_windows", stopping)


@pytest.mark.parametrize("commit_seconds", [0, 1000])
@pytest.mark.parametrize("stateful", [True, False])
def test_resumed_is_uninterrupted(
    stateful: bool,
    commit_seconds: float,
    char_model: Model,
    long_text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(embeddings_file, "COMMIT_SECONDS", commit_seconds)
    settings = {"stateful": stateful, "max_tokens": 8, "sentence_to_index": True}
    whole = dump(char_model, long_text, tmp_path / "whole.hdf5", **settings)
    out = tmp_path / "out.hdf5"
    for _ in range(2):
        with monkeypatch.context() as patch:
            stop_after(patch, 2)
            with pytest.raises(KeyboardInterrupt):
                dump(char_model, long_text, out, resume=True, **settings)
        assert not out.exists() and (tmp_path / "out.hdf5.partial").exists()
    resumed = dump(char_model, long_text, out, resume=True, **settings)
    assert_all_near(resumed, whole)
    assert "lines of" in caplog.text and "are there already" in caplog.text
    assert not list(tmp_path.glob("*.partial*"))
    with h5py.File(out) as file, h5py.File(tmp_path / "whole.hdf5") as expected:
        assert list(file) == list(expected)
        assert file["sentence_to_index"][0] == expected["sentence_to_index"][0]


def test_without_resume_a_dump_begins_anew(
    char_model: Model,
    long_text: Path,
    text: Path,
    whole: list,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out.hdf5"
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            dump(char_model, long_text, out, max_tokens=16)
    for settings in ({"layers": "top"}, {"dtype": "float16"}, {"stateful": False}):
        with pytest.raises(InputError, match="other settings"):
            dump(char_model, long_text, out, resume=True, **settings)
    with pytest.raises(InputError, match="does not begin with"):
        dump(char_model, text, out, resume=True, max_tokens=16)
    assert_all_near(dump(char_model, text, out), whole)
    assert not list(tmp_path.glob("*.partial*"))


def test_a_stop_in_the_first_window_leaves_nothing(
    char_model: Model, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_after(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        dump(char_model, text, tmp_path / "out.hdf5")
    assert not list(tmp_path.glob("out*"))


def test_a_broken_partial_file_is_begun_anew(
    char_model: Model,
    long_text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    out, settings = tmp_path / "out.hdf5", {"max_tokens": 16}
    whole = dump(char_model, long_text, tmp_path / "whole.hdf5", **settings)
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        with pytest.raises(KeyboardInterrupt):
            dump(char_model, long_text, out, **settings)
    partial = tmp_path / "out.hdf5.partial"
    partial.write_bytes(partial.read_bytes()[:2000])
    assert_all_near(dump(char_model, long_text, out, resume=True, **settings), whole)
    assert f"lines are complete in {partial}: continue with --resume" in caplog.text
    assert f"{partial} is broken (" in caplog.text and "starting anew" in caplog.text


PROGRAM = """
import sys
from bilm import dump_bilm_embeddings, embeddings_file
embeddings_file.COMMIT_SECONDS = 0.2
text, options, weights, out = sys.argv[1:]
dump_bilm_embeddings(None, text, options, weights, out, max_tokens=16)
"""


@pytest.mark.slow
def test_a_killed_dump_can_be_continued(char_model: Model, tmp_path: Path) -> None:
    text = write_lines(tmp_path / "text.txt", counting_sentences(4000, seed=4))
    out = tmp_path / "out.hdf5"
    root = Path(__file__).parent.parent
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(text), *map(str, char_model), str(out)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.DEVNULL,
    )
    while not (tmp_path / "out.hdf5.partial.npz").exists():
        assert process.poll() is None
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGKILL)
    process.wait()
    resumed = dump(char_model, text, out, resume=True)
    whole = dump(char_model, text, tmp_path / "whole.hdf5")
    assert_all_near(resumed, whole)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dtype": "float64"}, "dtype must be one of"),
        ({"compression": "zip"}, "compression must be one of"),
        ({"layers": 3}, "from 0 to 2"),
        ({"max_tokens": 0}, "batch_tokens must be at least 1"),
    ],
)
def test_wrong_settings_are_refused(
    settings: dict[str, Any],
    message: str,
    char_model: Model,
    text: Path,
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=message):
        dump(char_model, text, tmp_path / "out.hdf5", **settings)


def test_a_link_is_followed(char_model: Model, text: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link = tmp_path / "out.hdf5"
    link.symlink_to(tmp_path / "disk" / "vectors")
    dump(char_model, text, link)
    assert link.is_symlink() and os.listdir(tmp_path / "disk") == ["vectors"]
