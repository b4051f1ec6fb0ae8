"""`bilm inspect`: what it prints of a file is what NumPy finds in it."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from tiny import (
    CHAR_CNN,
    GOLDEN,
    OPTIONS,
    Model,
    read_arrays,
    write_arrays,
    write_run,
)

from bilm import stored_arrays
from bilm.checkpoint import Checkpoint, latest_checkpoint
from bilm.cli import main
from bilm.inspection import inspect
from bilm.names import model_variables, softmax_variables
from bilm.options import training_dict, write_options
from bilm.stored_arrays import Moments
from bilm.tree import Entry, draw

MODEL = GOLDEN / "predict_relu_skip"


def rows_of(text: str) -> dict[str, list[str]]:
    """Cells of each array of a tree, by its whole name."""
    found, path = {}, []
    for line in text.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        name, *cells = line.strip().split("  ")
        path[depth:] = [name]
        cells = [cell.strip() for cell in cells if cell]
        if cells:
            found["/".join(path)] = cells
    return found


def assert_described(rows: dict[str, list[str]], arrays: dict[str, Any]) -> None:
    for name, array in arrays.items():
        shape, dtype, _, mean, norm, *rest = rows[name]
        assert (shape, dtype, rest) == (str(list(array.shape)), str(array.dtype), [])
        exact = np.asarray(array, np.float64)
        assert float(mean) == pytest.approx(exact.mean(), rel=6e-3)
        assert float(norm) == pytest.approx(np.linalg.norm(exact), rel=6e-4)


def test_weights_are_described(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = read_arrays(MODEL / "weights.hdf5")
    path = str(MODEL / "weights.hdf5")
    assert main(["inspect", path]) == 0
    whole = capsys.readouterr().out
    title, *tree, total = whole.strip().splitlines()
    assert title == f"{path}: HDF5"
    rows = rows_of("\n".join(tree[1:]))
    assert rows.keys() == arrays.keys()
    assert_described(rows, arrays)
    n_values = sum(array.size for array in arrays.values())
    assert total == f"{n_values:,} parameters, {4 * n_values / 1000:.1f} kB"
    monkeypatch.setattr(stored_arrays, "BLOCK_VALUES", 7)  # in many pieces: the same
    assert main(["inspect", path]) == 0
    assert capsys.readouterr().out == whole


def test_checkpoint_has_one_tree_by_each_of_its_names(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, OPTIONS)
    checkpoint = Checkpoint(prefix)
    arrays = checkpoint.read_optional(checkpoint.shapes)
    text = inspect(prefix)
    rows = rows_of(text)
    assert_described(rows, arrays)
    n_values = sum(array.size for array in arrays.values())
    assert f"\n{n_values:,} parameters, " in text
    for name in ("model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"):
        assert inspect(tmp_path / name) == text
    assert inspect(tmp_path / "checkpoint") == text
    folder = inspect(tmp_path)
    assert folder.endswith(f"\n\n{text}")
    assert folder.startswith(f"{tmp_path / 'options.json'}: options\n")


def test_slots_and_counters_are_no_parameters() -> None:
    prefix = latest_checkpoint(GOLDEN / "train_words_forward_only/final")
    shapes = Checkpoint(prefix).shapes
    learnt = sum(
        int(np.prod(shape))
        for name, shape in shapes.items()
        if name.startswith("lm/") and not name.endswith("Adagrad")
    )
    text = inspect(prefix, values=False)
    assert f"\n{learnt:,} parameters, " in text
    assert f"\n{learnt:,} values of Adagrad, " in text
    # A slot stands under its variable.
    assert "\n  embedding  " in text and "\n    Adagrad  " in text


def test_sentences_are_one_line(tmp_path: Path) -> None:
    draw_values = np.random.default_rng(0)
    lines = [draw_values.normal(size=(3, n, 4)).astype("f4") for n in (2, 0, 11)]
    path = tmp_path / "vectors.hdf5"
    write_arrays(path, {str(i): array for i, array in enumerate(lines)})
    with h5py.File(path, "a") as file:
        file.create_dataset("sentence_to_index", data=["{}"], dtype=h5py.string_dtype())
    text = inspect(path)
    values = np.concatenate([array.ravel() for array in lines]).astype(float)
    mean, norm = f"{values.mean():.3g}", f"{np.linalg.norm(values):.4g}"
    expected = ["[3, 0 to 11, 4]", "float32", "624 B", mean, norm]
    assert rows_of(text)["0 to 2"] == expected
    assert rows_of(text)["sentence_to_index"][:2] == ["[1]", "object"]
    assert text.splitlines()[-1].startswith("157 values, ")


def test_values_are_not_read_without_need(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Moments, "add", lambda *_: pytest.fail("values were read"))
    text = inspect(MODEL / "token_embeddings_vocab.hdf5", values=False)
    assert rows_of(text)["embedding"] == ["[93, 10]", "float32", "3.72 kB"]
    assert "mean" not in text


def test_what_is_not_finite_is_counted(tmp_path: Path) -> None:
    values = np.array([1.0, np.nan, -np.inf, 3.0], "f4")
    write_arrays(tmp_path / "w.hdf5", {"x": values, "y": np.array(2.0)})
    rows = rows_of(inspect(tmp_path / "w.hdf5"))
    assert rows["x"][3:] == ["2", "3.162", "2 not finite"]
    assert rows["y"] == ["[]", "float64", "8 B", "2", "2"]


def test_options_say_what_they_mean(tmp_path: Path, word_model: Model) -> None:
    network = sum(int(np.prod(spec.shape)) for spec in model_variables(OPTIONS))
    softmax = sum(int(np.prod(spec.shape)) for spec in softmax_variables(OPTIONS))
    path = tmp_path / "options.json"
    write_options(path, training_dict(OPTIONS))
    lines = inspect(path).splitlines()
    assert lines[-2:] == [
        f"vectors of 16 values, {network:,} parameters",
        f"{softmax:,} more parameters in training, of the softmax",
    ]
    filters = json.dumps(CHAR_CNN.filters)
    assert rows_of("\n".join(lines[1:-2]))["char_cnn/filters"] == [filters]
    lstms = sum(
        int(np.prod(spec.shape))
        for spec in model_variables(OPTIONS)
        if "RNN" in spec.name
    )
    words = f"vectors of 16 values, {lstms:,} parameters and 8 more for each word"
    assert words in inspect(word_model.options_file).splitlines()


def test_options_of_prediction_need_nothing_of_training(tmp_path: Path) -> None:
    content = {k: v for k, v in training_dict(OPTIONS).items() if k != "dropout"}
    path = tmp_path / "options.json"
    path.write_text(json.dumps(content))
    *_, network, training = inspect(path).splitlines()
    assert network.startswith("vectors of 16 values, ")
    assert training.startswith("not valid for training: ") and "dropout" in training
    del content["n_tokens_vocab"]
    path.write_text(json.dumps(content))
    assert inspect(path).splitlines()[-1] == network


def test_options_that_are_wrong_are_shown_all_the_same(tmp_path: Path) -> None:
    content = training_dict(OPTIONS)
    content["lstm"]["projection_dim"] = 17
    path = tmp_path / "options.json"
    path.write_text(json.dumps(content))
    text = inspect(path)
    assert rows_of(text)["lstm/projection_dim"] == ["17"]
    last = text.splitlines()[-1]
    assert last.startswith("not valid: ") and "projection_dim" in last and "17" in last


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nothing", "nothing not found: the folder"),
        ("text.txt", "text.txt is no checkpoint, HDF5 file or .json file of options"),
        ("empty", "holds no options.json, HDF5 file or checkpoint, but nothing"),
        ("damaged.hdf5", "damaged.hdf5 is not a readable HDF5 file"),
        ("list.json", "must hold a JSON object"),
    ],
)
def test_what_cannot_be_looked_into(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.txt").write_text("the cat sat\n")
    (tmp_path / "list.json").write_text("[1]")
    content = (MODEL / "weights.hdf5").read_bytes()
    (tmp_path / "damaged.hdf5").write_bytes(content[:2000])
    assert main(["inspect", str(tmp_path / name)]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and words in err


def test_trees_are_in_order_of_numbers() -> None:
    names = ["W_10", "W_9", "a/W_2", "W_10/slot"]
    entries = [Entry(tuple(name.split("/")), (str(i),)) for i, name in enumerate(names)]
    expected = ["        n", "W_9     1", "W_10    0", "  slot  3", "a", "  W_2   2"]
    assert draw(entries, ["n"]).splitlines() == expected
