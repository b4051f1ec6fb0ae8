"""A model of words in two directions, by the commands from text to SavedModel."""

from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from tiny import (
    OPTIONS,
    WORDS,
    Corpus,
    assert_near,
    counting_sentences,
    read_arrays,
    write_lines,
)

from bilm.cli import main
from bilm.options import replace_options, training_dict, write_options

OPTIONS_OF_WORDS = replace_options(OPTIONS, char_cnn=None, n_train_tokens=120)


def test_all_the_way(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_options(tmp_path / "train.json", training_dict(OPTIONS_OF_WORDS))
    sentences = [*counting_sentences(5, seed=4), [], ["3", "unheard-of"]]
    text = write_lines(tmp_path / "text.txt", sentences)
    (tmp_path / "model").mkdir()
    vocab = f"--vocab_file {corpus.vocab}"
    model = f"--model model {vocab}"
    for command in (
        f"train --save_dir run {vocab} --train_prefix {corpus.train} --options "
        "train.json",
        "dump-weights --save_dir run --outfile model/weights.hdf5",
        f"dump-tokens {model} --outfile tokens.hdf5",
        f"dump-embeddings {model} --dataset_file {text} --outfile text.hdf5 "
        "--stateless",
        f"score --save_dir run {vocab} --text {text} --outfile scores.tsv",
        f"export {model} --out served",
    ):
        assert main(command.split()) == 0, command
    embedding = read_arrays(Path("model/weights.hdf5"))["embedding"]
    np.testing.assert_array_equal(
        read_arrays(Path("tokens.hdf5"))["embedding"], embedding
    )
    assert embedding.shape == (len(WORDS), 8)
    embed = tf.saved_model.load("served").signatures["default"]
    served = embed(tf.constant([" ".join(tokens) for tokens in sentences]))
    dumped = read_arrays(Path("text.hdf5"))
    for i, tokens in enumerate(sentences):
        words = [w if w in WORDS else "<UNK>" for w in tokens]
        layers = dumped[str(i)]
        assert layers.shape == (3, len(tokens), 16)
        np.testing.assert_array_equal(
            served["word_emb"][i, : len(tokens)],
            embedding[[WORDS.index(word) for word in words]],
        )
        np.testing.assert_array_equal(layers[0, :, 8:], layers[0, :, :8])
        for number in (1, 2):
            vectors = served[f"lstm_outputs{number}"][i, : len(tokens)]
            assert_near(vectors, layers[number])
    rows = [line.split("\t") for line in Path("scores.tsv").read_text().splitlines()]
    assert len(rows) == 1 + sum(len(tokens) + 2 for tokens in sentences)
    assert [row[2] for row in rows if row[3] == "0"] == ["unheard-of"]
