"""`weights.hdf5`: from checkpoints and back, and files that do not fit."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    random_values,
    read_arrays,
    with_lstm,
    write_arrays,
    write_run,
)

from bilm.errors import InputError
from bilm.files import replacing
from bilm.names import model_variables, training_variables
from bilm.options import (
    ModelOptions,
    read_model_options,
    read_training_options,
    replace_options,
)
from bilm.training import dump_weights, load_options_latest_checkpoint
from bilm.weights import read_embedding, read_weights, write_weights

SPECS = model_variables(OPTIONS)
VALUES = random_values(SPECS)
WORD_INPUT = replace_options(OPTIONS, char_cnn=None, lstm=SMALL_LSTM)
VARIANTS = {
    "characters": OPTIONS,
    "one layer": with_lstm(OPTIONS, n_layers=1),
    "forward only": replace_options(OPTIONS, bidirectional=False),
    "words": WORD_INPUT,
    "shared softmax": replace_options(WORD_INPUT, share_embedding_softmax=True),
    "no projection": with_lstm(OPTIONS, dim=8),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of weights that fits `SPECS`."""
    write_weights(tmp_path / "weights.hdf5", SPECS, VALUES)
    return tmp_path / "weights.hdf5"


def error_of_changed(path: Path, **changes: np.ndarray | None) -> str:
    """What reading says where arrays are replaced; None removes one."""
    arrays = read_arrays(path) | changes
    write_arrays(path, {k: a for k, a in arrays.items() if a is not None})
    with pytest.raises(InputError) as error:
        read_weights(path, SPECS)
    assert str(path) in str(error.value)
    return str(error.value)


def test_round_trip(path: Path) -> None:
    values = read_weights(path, SPECS)
    assert values.keys() == VALUES.keys()
    for name, value in values.items():
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, VALUES[name], name)


@pytest.mark.parametrize("name", VARIANTS)
def test_from_a_checkpoint_to_a_file_of_weights(name: str, tmp_path: Path) -> None:
    options = VARIANTS[name]
    (tmp_path / "run").mkdir()
    write_run(tmp_path / "run", options)
    dump_weights(tmp_path / "run", tmp_path / "weights.hdf5")
    n_words = options.n_tokens_vocab if options.char_cnn is None else None
    values = read_weights(tmp_path / "weights.hdf5", model_variables(options, n_words))
    expected = random_values(training_variables(options))
    assert not {name for name in expected.keys() - values if "softmax" not in name}
    for variable, value in values.items():
        np.testing.assert_array_equal(value, expected[variable], variable)


def test_names_do_not_depend_on_layers_and_directions(tmp_path: Path) -> None:
    options = replace_options(with_lstm(OPTIONS, n_layers=1), bidirectional=False)
    write_run(tmp_path, options)
    dump_weights(tmp_path, tmp_path / "weights.hdf5")
    found = [n for n in read_arrays(tmp_path / "weights.hdf5") if "CNN" not in n]
    cell = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"
    assert {*found} == {"char_embed", *(f"{cell}/{n}" for n in ("B", "W_0", "W_P_0"))}


def test_missing_misshapen_and_extra_arrays_are_named(path: Path) -> None:
    message = error_of_changed(
        path,
        char_embed=np.zeros((262, 4), np.float32),
        other=np.zeros(3, np.float32),
        **{"CNN/b_cnn_1": None, "CNN_proj/b_proj": np.zeros(8, np.int32)},
    )
    assert message.startswith(f"{path} does not fit its options: ")
    assert "char_embed must be [261, 4] but is [262, 4]" in message
    assert "other is not expected" in message
    assert "CNN/b_cnn_1 is missing" in message
    assert "CNN_proj/b_proj must be float32 but is int32" in message
    assert "W_cnn_1" not in message


def test_arrays_that_are_not_finite_are_named(path: Path) -> None:
    bad = np.zeros(8, np.float32)
    bad[3] = np.nan
    message = error_of_changed(path, **{"CNN_proj/b_proj": bad})
    assert "not finite in CNN_proj/b_proj" in message


def test_a_word_model_in_the_place_of_characters_is_recognised(tmp_path: Path) -> None:
    specs = model_variables(WORD_INPUT, 13)
    write_weights(tmp_path / "weights.hdf5", specs, random_values(specs))
    with pytest.raises(InputError, match="use_character_inputs=False"):
        read_weights(tmp_path / "weights.hdf5", SPECS)


@pytest.mark.parametrize("size", [0, 100, 5000])
def test_a_truncated_file_is_refused(size: int, path: Path) -> None:
    content = path.read_bytes()
    assert len(content) > size
    path.write_bytes(content[:size])
    with pytest.raises(InputError, match="not a readable HDF5 file"):
        read_weights(path, SPECS)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing.hdf5"):
        read_weights(tmp_path / "nothing.hdf5", SPECS)


def test_links_to_other_files_are_not_followed(path: Path) -> None:
    with h5py.File(path, "a") as file:
        del file["CNN_proj/b_proj"]
        file["CNN_proj/b_proj"] = h5py.ExternalLink("other.hdf5", "b_proj")
    with pytest.raises(InputError, match="b_proj is a link .*b_proj in other.hdf5"):
        read_weights(path, SPECS)


def test_prediction_options_stand_beside_the_weights(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir(), out.mkdir()
    write_run(run, OPTIONS)
    before = (run / "options.json").read_bytes()
    assert str(dump_weights(run, out / "elmo.hdf5")) == str(out / "options.json")
    assert (run / "options.json").read_bytes() == before
    written = json.loads((out / "options.json").read_text())
    assert written["char_cnn"]["n_characters"] == 262
    network = ModelOptions(OPTIONS.lstm, OPTIONS.char_cnn, OPTIONS.bidirectional)
    assert read_model_options(out / "options.json") == network


def test_training_options_stay_where_weights_go_to_the_folder_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path, OPTIONS)
    before = (tmp_path / "options.json").read_bytes()
    monkeypatch.chdir(tmp_path)  # the folder has two names
    written = Path(dump_weights(tmp_path, "elmo.hdf5"))
    assert written.resolve() == (tmp_path / "elmo_options.json").resolve()
    assert (tmp_path / "options.json").read_bytes() == before
    assert read_training_options(tmp_path / "options.json") == OPTIONS
    assert json.loads(written.read_text())["char_cnn"]["n_characters"] == 262


def test_training_options_of_another_run_stay_too(tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    run.mkdir(), out.mkdir()
    write_run(run, OPTIONS)
    before = (run / "options.json").read_bytes()
    (out / "options.json").write_bytes(before)  # that the run was trained by
    assert str(dump_weights(run, out / "w.hdf5")) == str(out / "w_options.json")
    assert (out / "options.json").read_bytes() == before


def test_a_run_may_have_either_number_of_characters(tmp_path: Path) -> None:
    write_run(tmp_path, OPTIONS)
    file = tmp_path / "options.json"
    tree = json.loads(file.read_text())
    assert tree["char_cnn"]["n_characters"] == 261
    tree["char_cnn"]["n_characters"] = 262
    file.write_text(json.dumps(tree))
    options, _ = load_options_latest_checkpoint(tmp_path)
    assert options["char_cnn"]["n_characters"] == 261
    dump_weights(tmp_path, tmp_path / "weights.hdf5")
    read_weights(tmp_path / "weights.hdf5", SPECS)


def test_embedding_files(tmp_path: Path) -> None:
    file = tmp_path / "words.hdf5"
    vectors = np.arange(12, dtype=np.float32).reshape(4, 3)
    write_arrays(file, {"embedding": vectors})
    np.testing.assert_array_equal(read_embedding(file, 3), vectors)
    with pytest.raises(InputError, match=r"\[words, 5\].* but has \[4, 3\]"):
        read_embedding(file, 5)
    vectors[2, 1] = np.inf
    write_arrays(file, {"embedding": vectors})
    with pytest.raises(InputError, match="not finite"):
        read_embedding(file, 3)
    write_arrays(file, {"vectors": vectors})
    with pytest.raises(InputError, match="no dataset 'embedding' .*vectors"):
        read_embedding(file, 3)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "file.txt"
    for content in ("old", "new"):
        with replacing(file) as partial:
            partial.write_text(content)
    with pytest.raises(KeyError), replacing(file) as partial:
        partial.write_text("half")
        raise KeyError
    assert [path.read_text() for path in tmp_path.iterdir()] == ["new"]
