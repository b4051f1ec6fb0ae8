"""Options and variables of a training, from a model's files."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from tiny import OPTIONS, Model, read_arrays, write_arrays

from bilm.errors import InputError
from bilm.imported_weights import imported_options, imported_values, say_imported
from bilm.names import model_variables
from bilm.options import prediction_dict, replace_options, write_options
from bilm.presets import preset

N_WORDS = OPTIONS.n_tokens_vocab
WORD_INPUT = replace_options(OPTIONS, char_cnn=None)


@pytest.fixture
def softmax_file(tmp_path: Path) -> Path:
    draw = np.random.default_rng(3)
    shapes = {"softmax/W": (N_WORDS, 8), "softmax/b": (N_WORDS,)}
    arrays = {name: draw.random(shape, np.float32) for name, shape in shapes.items()}
    write_arrays(tmp_path / "softmax.hdf5", arrays)
    return tmp_path / "softmax.hdf5"


def test_options_of_a_training_come_through_prediction(tmp_path: Path) -> None:
    path = tmp_path / "options.json"
    write_options(path, prediction_dict(OPTIONS))
    assert json.loads(path.read_text())["char_cnn"]["n_characters"] == 262
    assert imported_options(path, N_WORDS) == OPTIONS


def test_what_training_needs_and_a_file_lacks_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "options.json"
    tree = prediction_dict(OPTIONS)
    write_options(path, {key: tree[key] for key in ("lstm", "char_cnn")})
    with caplog.at_level(logging.INFO, "bilm"):
        options = imported_options(path, N_WORDS)
        say_imported(path, options, {})
    assert options == replace_options(
        preset("original"),
        lstm=OPTIONS.lstm,
        char_cnn=OPTIONS.char_cnn,
        n_tokens_vocab=N_WORDS,
    )
    assert "dropout (0.1), all_clip_norm_val (10.0), n_epochs (10)" in caplog.text
    assert "n_negative_samples_batch (8192): they are those of the" in caplog.text


def test_values_are_those_of_the_files(
    char_model: Model, softmax_file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "bilm"):
        values = imported_values(OPTIONS, char_model.weight_file, softmax_file)
        say_imported(char_model.options_file, OPTIONS, values)
    assert "newly drawn" not in caplog.text
    stored = read_arrays(char_model.weight_file)
    for spec in model_variables(OPTIONS):
        np.testing.assert_array_equal(values.pop(spec.name), stored[spec.hdf5])
    stored = read_arrays(softmax_file)
    assert values.keys() == {"lm/softmax/W", "lm/softmax/b"}
    for name, array in values.items():
        np.testing.assert_array_equal(array, stored[name.removeprefix("lm/")])


def test_what_no_file_holds_is_said(
    word_model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    shared = replace_options(WORD_INPUT, share_embedding_softmax=True)
    with caplog.at_level(logging.INFO, "bilm"):
        for options in (WORD_INPUT, shared):
            values = imported_values(options, word_model.weight_file)
            say_imported(word_model.options_file, options, values)
    assert values["lm/embedding"].shape == (N_WORDS, 8)
    first, second = caplog.messages
    assert first == (
        "no file holds lm/softmax/W [13, 8], lm/softmax/b [13]: newly drawn"
    )
    assert second == "no file holds lm/softmax/b [13]: newly drawn"


def test_a_softmax_of_another_size_is_refused(
    char_model: Model, softmax_file: Path
) -> None:
    other = replace_options(OPTIONS, n_tokens_vocab=N_WORDS + 1)
    with pytest.raises(InputError, match=r"softmax/W must be \[14, 8\] but is \[13, 8"):
        imported_values(other, char_model.weight_file, softmax_file)
    with pytest.raises(InputError, match="softmax/W is missing"):
        imported_values(OPTIONS, char_model.weight_file, char_model.weight_file)
