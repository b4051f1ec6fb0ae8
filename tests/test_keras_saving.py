"""`ElmoEmbedding` in files of Keras, and its configuration."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras_cases import SMALL, classifier, padded
from programs.load_keras import Tagger
from tiny import Corpus, Model, assert_near, write_model

from bilm.errors import InputError
from bilm.keras import ElmoEmbedding

ROOT = Path(__file__).parent.parent
ROWS = [["1", "2", "3"], ["8", "", ""], ["4", "x", ""]]


def changed(elmo: ElmoEmbedding) -> ElmoEmbedding:
    """The layer with other weights than those of its files."""
    for number, weight in enumerate(elmo.weights):
        weight.assign_add(tf.fill(weight.shape, 0.01 * (number + 1)))
    return elmo


@pytest.mark.slow
def test_a_process_loads_without_the_files(
    char_model: Model, word_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    """Functional, subclassed and of words, after all files of the biLM have gone."""
    files = [shutil.copy(f, tmp_path) for f in (*char_model, corpus.vocab)]
    inputs = keras.Input((None,), dtype="string")
    both = changed(ElmoEmbedding(*files[:2], mix=("a", "b"), dropout=0.1))(inputs)
    words = ElmoEmbedding(*word_model, vocab_file=files[2], trainable=True)
    tagger = Tagger(changed(ElmoEmbedding(*files[:2], dtype="mixed_bfloat16")))
    tagger.compile("adam", "mse")
    tagger.fit(tf.constant(ROWS), np.ones((3, 3, 2)), verbose=0)
    models = {
        "functional": keras.Model(inputs, keras.layers.Add()([both["a"], both["b"]])),
        "subclassed": tagger,
        "words": classifier(changed(words)),
    }
    for file in files:
        os.remove(file)
    expected = {}
    for name, model in models.items():
        expected[name] = model.predict(tf.constant(ROWS), verbose=0)
        model.save(tmp_path / f"{name}.keras")
        (tmp_path / f"{name}.json").write_text(json.dumps(ROWS))
    program = Path(__file__).parent / "programs" / "load_keras.py"
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for name, values in expected.items():
        assert_near(np.load(tmp_path / f"{name}.npy"), values, name)


def test_configuration_has_all_but_the_weights(
    char_model: Model, word_model: Model, corpus: Corpus
) -> None:
    layers = [
        ElmoEmbedding(*char_model),
        ElmoEmbedding(
            *char_model,
            mix=("a", "b"),
            trainable=True,
            dropout=0.5,
            stateful=True,
            max_batch_size=7,
            l2_coef=0.1,
            do_layer_norm=True,
            name="one",
            dtype="mixed_float16",
        ),
        ElmoEmbedding(*word_model, vocab_file=corpus.vocab, use_top_only=True),
        ElmoEmbedding(*word_model),  # takes ids alone
    ]
    layers[0].trainable = False
    for layer in layers:
        config = json.loads(json.dumps(layer.get_config()))
        copy = ElmoEmbedding.from_config(config)
        assert copy.get_config() == layer.get_config()
        shapes = [(w.name, w.shape, w.trainable) for w in layer.weights]
        assert [(w.name, w.shape, w.trainable) for w in copy.weights] == shapes
        copy.set_weights(layer.get_weights())
        ids = np.ones((1, 3) if "n_words" in shapes else (1, 3, 8), np.int32)
        ids = ids if layer.get_config()["n_words"] is None else ids[..., 0]
        for one, other in zip(
            tf.nest.flatten(copy(ids)), tf.nest.flatten(layer(ids)), strict=True
        ):
            np.testing.assert_array_equal(one, other)


def test_weights_that_were_not_loaded_are_refused(
    char_model: Model, tmp_path: Path
) -> None:
    elmo = ElmoEmbedding(*char_model)
    model = classifier(elmo)
    clone = keras.models.clone_model(model)
    message = "25 weights of the biLM .lm_char_embed and so on. are not numbers"
    strings = padded([["1", "2"], ["3"]])
    for call in (clone, lambda x: clone.predict(x, verbose=0)):
        with pytest.raises(InputError, match=message):
            call(strings)
    model.save_weights(tmp_path / "all.weights.h5")
    clone.load_weights(tmp_path / "all.weights.h5")
    expected = model.predict(strings, verbose=0)
    assert_near(clone.predict(strings, verbose=0), expected)
    by_hand = ElmoEmbedding(char_model.options_file, None)
    by_hand.bilm.set_weights(elmo.bilm.get_weights())
    assert_near(by_hand(strings), elmo(strings))
    weight = elmo.bilm.weights[-1]
    by_hand = ElmoEmbedding(char_model.options_file, None)
    for target, source in zip(by_hand.bilm.weights, elmo.bilm.weights, strict=True):
        if source is not weight:
            target.assign(source)
    with pytest.raises(InputError, match="^.*\n\n.*1 weights of the biLM"):
        by_hand(strings)


def test_without_files_a_layer_must_know_its_words(
    word_model: Model, char_model: Model, corpus: Corpus
) -> None:
    layer = ElmoEmbedding(word_model.options_file, None, vocab_file=corpus.vocab)
    assert layer.get_config()["n_words"] == 13
    layer = ElmoEmbedding(char_model.options_file, None, vocab_file=corpus.vocab)
    assert layer.get_config()["n_words"] is None  # it reads characters
    for settings, message in (
        ({}, "a word-level model without weight_file needs vocab_file or n_words"),
        ({"embedding_weight_file": "x"}, "embedding_weight_file without weight_file"),
        ({"vocab_file": corpus.vocab, "n_words": 12}, "12 words, .* vocabulary has 13"),
    ):
        with pytest.raises(InputError, match=message):
            ElmoEmbedding(word_model.options_file, None, **settings)


def test_states_are_not_saved(char_model: Model, tmp_path: Path) -> None:
    elmo = ElmoEmbedding(*char_model, stateful=True)
    model, strings = classifier(elmo), padded([["1", "2"], ["3"]])
    first = model.predict(strings, verbose=0)
    assert np.abs(model.predict(strings, verbose=0) - first).max() > 1e-3
    model.save(tmp_path / "x.keras")
    again = keras.models.load_model(tmp_path / "x.keras")
    assert_near(again.predict(strings, verbose=0), first)


def test_training_goes_on_after_loading(tmp_path: Path) -> None:
    """With the state of the optimiser, and the biLM trained as before."""
    elmo = ElmoEmbedding(*write_model(tmp_path, SMALL), trainable=True, l2_coef=0.1)
    model, strings = classifier(elmo), padded([["1", "2"], ["3"]])
    model.compile("adam", "mse")
    model.fit(strings, np.ones((2, 2)), verbose=0)
    model.save(tmp_path / "x.keras")
    again = keras.models.load_model(tmp_path / "x.keras")
    losses = [
        each.fit(strings, np.ones((2, 2)), epochs=3, verbose=0).history["loss"]
        for each in (model, again)
    ]
    np.testing.assert_allclose(*losses, rtol=1e-4)
    assert len(again.trainable_weights) == len(model.trainable_weights) == 16 + 2 + 2


def test_export_as_a_saved_model(char_model: Model, tmp_path: Path) -> None:
    model = classifier(ElmoEmbedding(*char_model))
    model.export(tmp_path / "served")
    strings = padded([["1", "2"], ["3"]])
    served = tf.saved_model.load(tmp_path / "served")
    assert_near(served.serve(strings), model.predict(strings, verbose=0))
