"""The ways of calling a model that must agree: graph, `tf.function`, `Dataset.map`.

What they are compared with is `embed`, which takes tokens and pads nothing.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from test_golden_predict import assert_golden, batches_of_ids, read_model
from tiny import GOLDEN, Corpus, Model, assert_near

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    ScalarMix,
    TokenBatcher,
    dump_token_embeddings,
)

v1 = tf.compat.v1
LENGTH = 8
CASES = {
    "one sentence": [["1", "2", "3"]],
    "one token": [["7"]],
    "an empty sentence": [["1", "2"], [], ["3"]],
    "empty sentences alone": [[], []],
    "none": [],
    "a token of no letters": [["1", "", "2"], [""]],
    "over 48 bytes": [["1" * 49, "2" * 500]],
    "right to left": [["שלום", "עולם"], ["مرحبا"]],
    "four bytes": [["😀", "𝔘𝔫𝔦"], ["👩‍👩‍👧"]],
}
Call = Callable[[np.ndarray], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def model(char_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*char_model, stateful=False)


@pytest.fixture(scope="module", params=["graph", "function"])
def call(
    request: pytest.FixtureRequest, char_model: Model, model: BidirectionalLanguageModel
) -> Iterator[Call]:
    """A model called with ids of either type."""
    if request.param == "function":
        inside = tf.function(lambda ids: model(ids), reduce_retracing=True)
        yield lambda ids: {k: v.numpy() for k, v in inside(tf.constant(ids)).items()}
        return
    with tf.Graph().as_default():
        session = v1.Session()
        frozen = BidirectionalLanguageModel(*char_model, stateful=False)
        inputs = {
            dtype: v1.placeholder(dtype, (None, None, LENGTH))
            for dtype in ("int32", "int64")
        }
        ops = {dtype: frozen(ids) for dtype, ids in inputs.items()}
        session.run(v1.global_variables_initializer())

    def run(ids: np.ndarray) -> dict[str, np.ndarray]:
        kind = ids.dtype.name
        return session.run(ops[kind], {inputs[kind]: ids})

    yield run
    session.close()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("name", CASES)
def test_odd_shapes(
    name: str, dtype: type, call: Call, model: BidirectionalLanguageModel
) -> None:
    sentences = CASES[name]
    ids = Batcher(None, LENGTH).batch_sentences(sentences).astype(dtype)
    result = call(ids)
    assert result["lm_embeddings"].shape[:2] == (len(sentences), 3)
    assert result["lengths"].tolist() == [len(tokens) for tokens in sentences]
    for row, vectors in enumerate(model.embed(sentences)):
        found = result["lm_embeddings"][row]
        assert_near(found[:, : vectors.shape[1]], vectors)
        assert not found[:, vectors.shape[1] :].any()


def test_two_models_of_different_files(char_model: Model) -> None:
    """Golden numbers of both, called in turn."""
    folders = [GOLDEN / "predict_relu_skip", GOLDEN / "predict_tokens"]
    models = [read_model(folder) for folder in folders]
    found: list[list[dict[str, tf.Tensor]]] = [[], []]
    for batches in zip(*map(batches_of_ids, folders), strict=True):
        for results, each, ids in zip(found, models, batches, strict=True):
            results.append(each(ids))
    for folder, results in zip(folders, found, strict=True):
        assert_golden(results, np.load(folder / "expected.npz"))
    assert tf.executing_eagerly()


def test_tape_reaches_the_mix_alone(model: BidirectionalLanguageModel) -> None:
    mix = ScalarMix(3)
    ids = Batcher(None, LENGTH).batch_sentences([["1", "2"], ["3"]])

    @tf.function
    def loss() -> tf.Tensor:
        return tf.reduce_sum(tf.sin(mix(model(ids))))

    with tf.GradientTape() as tape:
        value = loss()
    assert {v.ref() for v in tape.watched_variables()} == {
        v.ref() for v in mix.trainable_variables
    }
    for gradient in tape.gradient(value, mix.trainable_variables):
        assert np.abs(gradient).max() > 0


@pytest.mark.parametrize("deterministic", [True, False])
def test_map_of_a_data_set(
    deterministic: bool, model: BidirectionalLanguageModel
) -> None:
    ids = Batcher(None, LENGTH).batch_sentences([[str(k)] * (k + 1) for k in range(9)])
    expected = model(ids)["lm_embeddings"].numpy()
    rows = tf.data.Dataset.from_tensor_slices((np.arange(9), ids)).batch(1)
    mapped = rows.map(
        lambda k, ids: (k, model(ids)["lm_embeddings"]),
        num_parallel_calls=4,
        deterministic=deterministic,
    )
    found = {int(k[0]): vectors[0].numpy() for k, vectors in mapped}
    assert set(found) == set(range(9))
    for k, vectors in found.items():
        assert_near(vectors, expected[k])


def test_token_ids_of_odd_shapes(
    char_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    dump_token_embeddings(corpus.vocab, *char_model, tmp_path / "words.hdf5")
    model = BidirectionalLanguageModel(
        *char_model, False, tmp_path / "words.hdf5", stateful=False
    )
    batcher = TokenBatcher(corpus.vocab)
    for sentences in ([["7"]], [[], ["1", "2"]], [[], []], []):
        result = tf.function(model)(tf.constant(batcher.batch_sentences(sentences)))
        for row, vectors in enumerate(model.embed(sentences, batcher=batcher)):
            found = result["lm_embeddings"][row].numpy()
            assert_near(found[:, : vectors.shape[1]], vectors)
