"""A new training that starts from the weights of another model."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    WORDS,
    Corpus,
    Model,
    write_arrays,
    write_lines,
    write_model,
    write_run,
)

from bilm.checkpoint import Checkpoint, latest_checkpoint
from bilm.cli import main
from bilm.data import Vocabulary
from bilm.errors import InputError
from bilm.inheritance import inherited_options, inherited_values, read_ancestor
from bilm.names import GLOBAL_STEP, model_variables, training_variables
from bilm.network import initial_value
from bilm.options import TrainingOptions, replace_options
from bilm.trainer import Trainer

SMALL = replace_options(OPTIONS, lstm=SMALL_LSTM, batch_size=3, unroll_steps=2)
WORD_INPUT = replace_options(SMALL, char_cnn=None)
# Two words of the old vocabulary are gone, two are new, the others stand elsewhere.
OTHER = ["<S>", "</S>", "<UNK>", "seven", *reversed(WORDS[5:]), "eight", "nine"]
SHARED = [word for word in OTHER if word in WORDS]


def vocabulary(folder: Path, words: list[str]) -> Vocabulary:
    path = write_lines(folder / f"vocab-{len(words)}.txt", [[word] for word in words])
    return Vocabulary(path)


def by_word(options: TrainingOptions) -> set[str]:
    names = {"lm/softmax/W", "lm/softmax/b"}
    return names if options.char_cnn else names | {"lm/embedding"}


@pytest.mark.parametrize("options", [SMALL, WORD_INPUT], ids=["characters", "words"])
def test_rows_follow_their_words_and_the_rest_is_equal(
    options: TrainingOptions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bilm")
    prefix = write_run(tmp_path, options)
    old, new = vocabulary(tmp_path, WORDS), vocabulary(tmp_path, OTHER)
    ancestor = read_ancestor(tmp_path, new.size)
    assert ancestor.name == prefix and ancestor.options == options
    mine = inherited_options(ancestor, new)
    assert (mine.n_tokens_vocab, mine.n_train_tokens) == (len(OTHER), 0)
    values = inherited_values(ancestor, mine, new, old, seed=4)
    specs = training_variables(mine)
    assert values.keys() == {spec.name for spec in specs}
    for position, spec in enumerate(specs):
        assert values[spec.name].shape == spec.shape
        if spec.name not in by_word(options):
            np.testing.assert_array_equal(values[spec.name], ancestor.values[spec.name])
            continue
        drawn = initial_value(spec, 4, position)
        for row, word in enumerate(OTHER):
            expected = drawn[row]
            if word in WORDS:
                expected = ancestor.values[spec.name][WORDS.index(word)]
            np.testing.assert_array_equal(values[spec.name][row], expected, word)
    assert len(SHARED) == 11
    assert "11 words keep their rows of lm/" in caplog.text
    assert "3 words get new ones; 2 words of " in caplog.text


def test_the_same_vocabulary_changes_nothing(tmp_path: Path) -> None:
    prefix = write_run(tmp_path, SMALL)
    vocab = vocabulary(tmp_path, WORDS)
    ancestor = read_ancestor(prefix, vocab.size)  # a checkpoint by its prefix
    values = inherited_values(ancestor, inherited_options(ancestor, vocab), vocab)
    assert values.keys() == ancestor.values.keys()
    for name, value in ancestor.values.items():
        np.testing.assert_array_equal(values[name], value, name)


def test_weights_alone_have_no_softmax_and_it_is_said(
    char_model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "bilm")
    new = vocabulary(tmp_path, OTHER)
    ancestor = read_ancestor(char_model.options_file.parent, new.size)
    values = inherited_values(ancestor, inherited_options(ancestor, new), new)
    assert values.keys() == {spec.name for spec in model_variables(OPTIONS)}
    assert "no file holds lm/softmax/W [14, 8], lm/softmax/b [14]: newly" in caplog.text


def test_weights_with_a_softmax_carry_it_over(tmp_path: Path) -> None:
    write_model(tmp_path, OPTIONS)
    arrays = {"softmax/W": np.ones((13, 8), np.float32), "softmax/b": np.arange(13.0)}
    arrays["softmax/b"] = arrays["softmax/b"].astype(np.float32)
    write_arrays(tmp_path / "softmax_weights.hdf5", arrays)
    old, new = vocabulary(tmp_path, WORDS), vocabulary(tmp_path, OTHER)
    ancestor = read_ancestor(tmp_path, new.size)
    values = inherited_values(ancestor, inherited_options(ancestor, new), new, old)
    expected = [WORDS.index(word) if word in WORDS else 0 for word in OTHER]
    np.testing.assert_array_equal(values["lm/softmax/b"], expected)


def test_rows_need_the_vocabulary_they_belong_to(tmp_path: Path) -> None:
    write_run(tmp_path, SMALL)
    new = vocabulary(tmp_path, OTHER)
    ancestor = read_ancestor(tmp_path, new.size)
    mine = inherited_options(ancestor, new)
    with pytest.raises(InputError, match="13 words, .* 14: .*--init_vocab_file"):
        inherited_values(ancestor, mine, new)
    wrong = vocabulary(tmp_path, WORDS[:-1])
    with pytest.raises(InputError, match="13 words, .* 12: give the one it was"):
        inherited_values(ancestor, mine, new, wrong)


def test_the_command_starts_a_run_of_its_own(
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, run = tmp_path / "source", tmp_path / "run"
    source.mkdir()
    before = Checkpoint(write_run(source, SMALL)).read_optional
    vocab = write_lines(tmp_path / "vocab.txt", [[word] for word in OTHER])
    flags = (
        f"finetune --init_from {source} --init_vocab_file {corpus.vocab} "
        f"--vocab_file {vocab} --train_prefix {corpus.train} --save_dir {run} "
        "--n_train_tokens 12 --learning_rate 1e-9"
    ).split()
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", refuse)  # it dies before its first step
        assert main(flags) == 2
    assert "11 words keep their rows" in capsys.readouterr().err
    train = (
        f"train --resume --vocab_file {vocab} --train_prefix {corpus.train} "
        f"--save_dir {run}"
    )
    assert main(train.split()) == 0  # with what it inherited
    prefix = latest_checkpoint(run)
    after = Checkpoint(prefix).read_optional
    assert after([GLOBAL_STEP])[GLOBAL_STEP] == 2  # 7 in the run that it came from
    for name in ("lm/char_embed", "lm/RNN_0/rnn/lstm_cell/kernel"):
        np.testing.assert_allclose(after([name])[name], before([name])[name], atol=1e-7)
        slot = after([f"{name}/Adagrad"])[f"{name}/Adagrad"]
        assert slot.min() >= 1 and np.median(slot) < 1.5  # begun anew at 1
    assert main(flags) == 2
    assert "already holds a run" in capsys.readouterr().err


def refuse(*_: object) -> None:
    raise InputError("a step")


def test_what_is_no_model_is_refused(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags: list[Any] = ["finetune", "--init_from", tmp_path, "--save_dir", "run"]
    flags += ["--vocab_file", corpus.vocab, "--train_prefix", corpus.train]
    assert main([*map(str, flags)]) == 2
    told = capsys.readouterr().err
    assert f"{tmp_path} is no model" in told and "weights.hdf5" in told
