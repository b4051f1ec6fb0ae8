"""Predictions of `BidirectionalLanguageModel` against those of bilm-tf.

tests/fixtures/golden/README.md says how the numbers were made.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tiny import GOLDEN, assert_near, read_arrays

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    TokenBatcher,
    dump_bilm_embeddings,
    dump_token_embeddings,
)

FOLDERS = sorted(GOLDEN.glob("predict_*"))
WITH_DUMPS = [
    folder for folder in FOLDERS if (folder / "bilm_embeddings.hdf5").exists()
]
folders = functools.partial(pytest.mark.parametrize, "folder", ids=lambda f: f.name)
MAX_BATCH_SIZE = 6


def read_model(folder: Path) -> BidirectionalLanguageModel:
    cached = folder / "token_embeddings.hdf5"
    return BidirectionalLanguageModel(
        folder / "options.json",
        folder / "weights.hdf5",
        use_character_inputs=not cached.exists(),
        embedding_weight_file=cached if cached.exists() else None,
        max_batch_size=MAX_BATCH_SIZE,
    )


def batches_of_ids(folder: Path) -> Iterator[np.ndarray]:
    """Ids of each golden batch, as our batchers make them."""
    token_vocab = folder / "token_vocab.txt"
    options = json.loads((folder / "options.json").read_text())
    batcher: Any
    if token_vocab.exists():
        batcher = TokenBatcher(token_vocab)
    else:
        length = options["char_cnn"]["max_characters_per_token"]
        batcher = Batcher(GOLDEN / "vocab.txt", length)
    batches = json.loads((folder / "batches.json").read_text())
    return map(batcher.batch_sentences, batches)


def assert_golden(batches: list[dict[str, Any]], expected: Any) -> None:
    """Compare the results of all batches, values only where a token is."""
    assert f"{len(batches)}/ids" not in expected
    for k, result in enumerate(batches):
        mask = expected[f"{k}/mask"]
        np.testing.assert_array_equal(result["mask"], mask)
        np.testing.assert_array_equal(result["lengths"], expected[f"{k}/lengths"])
        vectors, golden = (
            np.moveaxis(np.asarray(values), 1, 2)[mask.astype(bool)]
            for values in (result["lm_embeddings"], expected[f"{k}/lm_embeddings"])
        )
        assert_near(vectors, golden, f"batch {k}")
    ids = expected["0/ids"]
    real = ids.reshape(*ids.shape[:2], -1).any(-1)
    golden = expected["0/token_embeddings"]
    tokens = np.asarray(batches[0]["token_embeddings"])
    assert_near(tokens[real], golden[real], "tokens")


def assert_golden_states(model: BidirectionalLanguageModel, expected: Any) -> None:
    """Compare the state of all rows after the last batch."""
    for name, direction in zip(("forward", "backward"), model.states(), strict=True):
        for layer, state in enumerate(direction):
            place = f"final_state/{name}/{layer}"
            assert_near(state.c, expected[f"{place}/c"], f"{place}/c")
            assert_near(state.m, expected[f"{place}/h"], f"{place}/h")


def test_there_are_golden_folders() -> None:
    assert len(FOLDERS) == 5 and len(WITH_DUMPS) == 4


@folders(argvalues=FOLDERS)
def test_batches_one_after_the_other_and_the_final_state(folder: Path) -> None:
    expected = np.load(folder / "expected.npz")
    model = read_model(folder)
    batches = []
    for k, ids in enumerate(batches_of_ids(folder)):
        np.testing.assert_array_equal(ids, expected[f"{k}/ids"])
        batches.append(model(ids))
    assert_golden(batches, expected)
    assert_golden_states(model, expected)


@folders(argvalues=[GOLDEN / "predict_relu_skip", GOLDEN / "predict_tokens"])
def test_inside_a_function(folder: Path) -> None:
    expected = np.load(folder / "expected.npz")
    model = read_model(folder)
    shape = [None, None, *expected["0/ids"].shape[2:]]
    call = tf.function(model, input_signature=[tf.TensorSpec(shape, tf.int32)])
    assert_golden([call(ids) for ids in batches_of_ids(folder)], expected)
    assert_golden_states(model, expected)


@folders(argvalues=WITH_DUMPS)
def test_dump_of_sentences(folder: Path, tmp_path: Path) -> None:
    dump_bilm_embeddings(
        GOLDEN / "vocab.txt",
        GOLDEN / "text.txt",
        folder / "options.json",
        folder / "weights.hdf5",
        tmp_path / "embeddings.hdf5",
    )
    expected = read_arrays(folder / "bilm_embeddings.hdf5")
    actual = read_arrays(tmp_path / "embeddings.hdf5")
    assert set(actual) == {str(i) for i in range(16)}
    for name, layers in actual.items():
        assert layers.dtype == np.float32
        assert_near(layers, expected[name], f"line {name}")


@folders(argvalues=WITH_DUMPS)
def test_dump_of_words(folder: Path, tmp_path: Path) -> None:
    dump_token_embeddings(
        GOLDEN / "vocab.txt",
        folder / "options.json",
        folder / "weights.hdf5",
        tmp_path / "words.hdf5",
    )
    expected = read_arrays(folder / "token_embeddings_vocab.hdf5")
    actual = read_arrays(tmp_path / "words.hdf5")
    assert list(actual) == list(expected) == ["embedding"]
    assert_near(actual["embedding"], expected["embedding"])
