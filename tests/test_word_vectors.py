"""Word vectors of text files: formats, lines that break a rule, and frozen training."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import OPTIONS, SMALL_LSTM, WORDS, Corpus

from bilm.adagrad import INITIAL_ACCUMULATOR
from bilm.checkpoint import Checkpoint
from bilm.cli import main
from bilm.errors import InputError
from bilm.inputs import training_inputs
from bilm.names import ADAGRAD, EMBEDDING, embedding_variable, training_variables
from bilm.network import initial_value
from bilm.options import replace_options, training_dict, write_options
from bilm.trainer import Trainer
from bilm.training import load_vocab
from bilm.word_vectors import initial_embedding, read_word_vectors

WIDTH = SMALL_LSTM.projection_dim
WORD_INPUT = replace_options(
    OPTIONS, char_cnn=None, lstm=SMALL_LSTM, bidirectional=False, n_train_tokens=36
)
FROZEN = replace_options(WORD_INPUT, freeze_embedding=True)

GLOVE = "7 0.5 -1 2e-3\nother 9 9 9\n3 1 2 3\n. . . 4 5 6\n"
EXPECTED = {"7": [0.5, -1, 0.002], "3": [1, 2, 3]}


def written(folder: Path, text: str) -> Path:
    path = folder / "vectors.txt"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("text", [GLOVE, f"4 3\n{GLOVE}", GLOVE.replace("\n", " \r\n")])
def test_formats(text: str, corpus: Corpus, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    zipped = tmp_path / "vectors.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    for file in (path, zipped):
        read = read_word_vectors(file, load_vocab(corpus.vocab), WIDTH)
        assert [WORDS[i] for i in np.flatnonzero(read.found)] == ["3", "7"]
        for word, values in EXPECTED.items():
            vector = read.vectors[WORDS.index(word)]
            np.testing.assert_array_equal(vector, np.array(values, np.float32))
        assert read.n_other == 2


WRONG = {
    "7 1 2 3\n3 1 2\n": ":2 has vectors of 2 values, but projection_dim .* is 3",
    "7 1 2 3 4\n": ":1 has vectors of 4 values, but projection_dim of the options is 3",
    "9 4\n7 1 2 3 4\n": ":1 has vectors of 4 values",
    "7 1 2 3\n\n": ":2 has vectors of 0 values",
    "unheard 1 2 x\n": ":1 has 'x' where a finite number is needed",
    "7 1 nan 3\n": ":1 has 'nan' where a finite number is needed",
    "7 1 2 1e99\n": ":1 has '1e99' where a finite number is needed",
    "7 1 2 3\n3 1 2 3\n7 1 2 3\n": ":3 has the word '7' again",
    "3 3\n7 1 2 3\n3 1 2 3\n": ":1 announces 3 words, but 2 follow",
}


@pytest.mark.parametrize("text", WRONG)
def test_lines_that_break_a_rule_are_named(
    text: str, corpus: Corpus, tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=f"^{path}{WRONG[text]}"):
        read_word_vectors(path, load_vocab(corpus.vocab), WIDTH)


def test_words_without_a_vector_are_drawn_and_said(
    corpus: Corpus, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, vocab = written(tmp_path, GLOVE), load_vocab(corpus.vocab)
    with caplog.at_level(logging.INFO, "bilm"):
        values = initial_embedding(path, vocab, WORD_INPUT, seed=4)[EMBEDDING]
    drawn = initial_value(embedding_variable(len(WORDS), WIDTH), 4, 0)
    differ = [w for w, a, b in zip(WORDS, values, drawn, strict=True) if any(a != b)]
    assert differ == ["3", "7"] and values.dtype == np.float32
    assert (
        "has vectors of 2 of the 13 words of the vocabulary (15.4 %), and of 2 others; "
        "to be trained; drawn at random, such as <S> </S> <UNK> 0 1 2 4" in caplog.text
    )
    with pytest.raises(InputError, match="has no word of the vocabulary"):
        initial_embedding(written(tmp_path, "a 1 2 3\n"), vocab, WORD_INPUT, 4)
    with pytest.raises(InputError, match="word input, but the options have char_cnn"):
        initial_embedding(path, vocab, OPTIONS, 4)


def test_a_frozen_embedding_stays_and_has_no_share_of_the_norm(
    data: Any, tmp_path: Path
) -> None:
    # Also where it is the softmax's; test_command_trains_from_vectors has one alone.
    options = replace_options(FROZEN, share_embedding_softmax=True)
    trainer = Trainer(options, seed=1)
    before = {n: v.numpy() for n, v in trainer.network.variables_by_name.items()}
    batches = training_inputs(options, data(options, seed=1), 1, [1])
    _, result = trainer.step(next(batches).inputs, trainer.zero_states())
    for name, variable in trainer.network.variables_by_name.items():
        assert np.any(variable.numpy() != before[name]) == (name != EMBEDDING), name
    assert len(result.norms) == len(before) - 1
    norm = np.linalg.norm(result.norms)
    np.testing.assert_allclose(result.norm, norm, rtol=1e-5)
    checkpoint = Checkpoint(trainer.save(str(tmp_path), 1.0, keep=1))
    slots = checkpoint.read_optional(
        f"{spec.name}/{ADAGRAD}" for spec in training_variables(options)
    )
    assert len(slots) == len(before)
    assert np.all(slots[f"{EMBEDDING}/{ADAGRAD}"] == INITIAL_ACCUMULATOR)


def test_the_others_learn_as_beside_a_free_embedding(data: Any) -> None:
    norms = {}
    for frozen in (True, False):
        options = replace_options(FROZEN, freeze_embedding=frozen)
        trainer = Trainer(options, seed=1)
        batch = next(training_inputs(options, data(options, seed=1), 1, [1]))
        _, result = trainer.step(batch.inputs, trainer.zero_states())
        names = [spec.name for spec in trainer.network.learnt_specs]
        norms[frozen] = dict(zip(names, result.norms.numpy(), strict=True))
    assert norms[False].pop(EMBEDDING) > 0
    assert norms[True].keys() == norms[False].keys()
    for name, norm in norms[True].items():
        np.testing.assert_allclose(norm, norms[False][name], rtol=1e-5)


def test_command_trains_from_vectors_that_stay(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = written(tmp_path, GLOVE), tmp_path / "run"
    write_options(tmp_path / "options.json", training_dict(WORD_INPUT))
    files = (
        f"--save_dir {run} --vocab_file {corpus.vocab} --train_prefix {corpus.train}"
    )
    how = f"--options {tmp_path}/options.json --seed 3 --n_gpus 1"
    flags = f"train {files} {how}".split()
    init = ["--embedding_init", str(path), "--freeze_embedding"]
    assert main([*flags, *init]) == 0
    assert "15.4 %), and of 2 others; frozen" in capsys.readouterr().err
    assert json.loads((run / "options.json").read_text())["freeze_embedding"] is True
    vectors = Checkpoint(run / "model.ckpt-3").read({EMBEDDING: (13, WIDTH)})[EMBEDDING]
    for word, values in EXPECTED.items():
        expected = np.array(values, np.float32)
        np.testing.assert_array_equal(vectors[WORDS.index(word)], expected)
    assert main([*flags, "--embedding_init", str(tmp_path / "no.txt")]) == 2
    assert "no.txt not found: the folder" in capsys.readouterr().err
