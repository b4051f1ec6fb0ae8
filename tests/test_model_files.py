"""A checkpoint to a model's files and back, and what had to be made new."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest
from tiny import (
    OPTIONS,
    WORDS,
    Corpus,
    Model,
    random_values,
    read_arrays,
    with_lstm,
    write_lines,
    write_run,
)

from bilm.adagrad import INITIAL_ACCUMULATOR
from bilm.checkpoint import Checkpoint, latest_checkpoint
from bilm.cli import main
from bilm.errors import InputError
from bilm.names import ADAGRAD, training_variables
from bilm.options import TrainingOptions, read_training_options, replace_options
from bilm.training import dump_weights, import_weights

WORD_INPUT = replace_options(OPTIONS, char_cnn=None)
VARIANTS = {
    "characters": OPTIONS,
    "words": with_lstm(WORD_INPUT, n_layers=1),
    "shared": replace_options(WORD_INPUT, share_embedding_softmax=True),
    "forward only": replace_options(OPTIONS, bidirectional=False),
}


def dumped(folder: Path, options: TrainingOptions = OPTIONS) -> Model:
    """The files of a random run."""
    (folder / "run").mkdir()
    (folder / "model").mkdir()
    write_run(folder / "run", options)
    weights = folder / "model" / "weights.hdf5"
    options_file = dump_weights(folder / "run", weights, include_softmax=True)
    return Model(Path(options_file), weights)


@pytest.mark.parametrize("name", VARIANTS)
def test_checkpoint_to_hdf5_to_checkpoint_is_bit_equal(
    name: str, tmp_path: Path
) -> None:
    options = VARIANTS[name]
    model, softmax = dumped(tmp_path, options), tmp_path / "model/softmax_weights.hdf5"
    prefix = import_weights(*model, tmp_path / "back", softmax_file=softmax)
    assert prefix == latest_checkpoint(tmp_path / "back")
    assert read_training_options(tmp_path / "back" / "options.json") == options
    expected = random_values(training_variables(options))
    checkpoint = Checkpoint(prefix)
    found = checkpoint.read({name: array.shape for name, array in expected.items()})
    for variable, value in expected.items():
        np.testing.assert_array_equal(found[variable], value, variable)
    slots = checkpoint.read_optional(f"{name}/{ADAGRAD}" for name in expected)
    assert len(slots) == len(expected)
    assert all(np.all(slot == INITIAL_ACCUMULATOR) for slot in slots.values())


def test_softmax_file_has_the_names_of_the_format(tmp_path: Path) -> None:
    dumped(tmp_path)
    arrays = read_arrays(tmp_path / "model" / "softmax_weights.hdf5")
    shapes = {name: array.shape for name, array in arrays.items()}
    assert shapes == {"softmax/W": (13, 8), "softmax/b": (13,)}
    assert all(array.dtype == np.float32 for array in arrays.values())


def test_without_a_softmax_it_is_drawn_anew(
    char_model: Model, tmp_path: Path, corpus: Corpus, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "bilm"):
        prefixes = [
            import_weights(*char_model, tmp_path / name, seed=seed, **settings)
            for name, seed, settings in (
                ("a", 1, {}),
                ("b", 1, {"vocab_file": corpus.vocab}),
                ("c", 2, {}),
            )
        ]
    assert "no file holds lm/softmax/W [13, 8], lm/softmax/b [13]" in caplog.text
    assert "Adagrad slots" in caplog.text
    weights = [Checkpoint(p).read({"lm/softmax/W": (13, 8)}) for p in prefixes]
    a, b, c = (each["lm/softmax/W"] for each in weights)
    np.testing.assert_array_equal(a, b)
    assert np.abs(a - c).max() > 0.1 and a.std() < 2 * 8**-0.5


def test_number_of_words_must_be_known_and_the_same(
    tmp_path: Path, corpus: Corpus
) -> None:
    model = dumped(tmp_path)
    other = write_lines(tmp_path / "vocab.txt", [[word] for word in WORDS[:-1]])
    softmax = tmp_path / "model" / "softmax_weights.hdf5"
    with pytest.raises(
        InputError, match="vocab.txt has 12 words, but the model has 13"
    ):
        import_weights(*model, tmp_path / "new", softmax_file=softmax, vocab_file=other)
    tree = json.loads(model.options_file.read_text())
    network = {key: tree[key] for key in ("lstm", "char_cnn", "bidirectional")}
    model.options_file.write_text(json.dumps(network))
    with pytest.raises(InputError, match="nothing says how many words"):
        import_weights(*model, tmp_path / "new")
    assert not (tmp_path / "new").exists()
    prefix = import_weights(*model, tmp_path / "new", vocab_file=other)
    assert Checkpoint(prefix).shapes["lm/softmax/b"] == [12]


def test_a_run_is_not_overwritten(char_model: Model, tmp_path: Path) -> None:
    prefix = write_run(tmp_path, OPTIONS)
    with pytest.raises(InputError, match="holds a run already"):
        import_weights(*char_model, tmp_path)
    assert latest_checkpoint(tmp_path) == prefix
    with pytest.raises(InputError, match="must not be an input"):
        import_weights(*char_model, char_model.options_file.parent)


def test_commands_go_there_and_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path, WORD_INPUT)
    (tmp_path / "model").mkdir()
    flags = f"--save_dir {tmp_path} --outfile {tmp_path}/model/weights.hdf5"
    assert main(["dump-weights", *flags.split(), "--include_softmax"]) == 0
    back = f"import-weights --model {tmp_path}/model --save_dir {tmp_path}/back"
    softmax = f"--softmax_file {tmp_path}/model/softmax_weights.hdf5"
    assert main(f"{back} {softmax}".split()) == 0
    assert "newly drawn" not in capsys.readouterr().err
    assert Checkpoint(latest_checkpoint(tmp_path / "back")).shapes["lm/embedding"]
    assert main(f"{back} --softmax_file {tmp_path}/no.hdf5".split()) == 2
    assert "no.hdf5 not found: the folder" in capsys.readouterr().err
