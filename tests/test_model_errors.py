"""`BidirectionalLanguageModel`: ids and files that it refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tiny import OPTIONS, Model, with_lstm, write_model

from bilm import Batcher, BidirectionalLanguageModel
from bilm.errors import InputError

LENGTH = 8
IDS = Batcher(None, LENGTH).batch_sentences([["3", "4"], ["9" * 10]])


@pytest.fixture(scope="module")
def stateful(char_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*char_model, max_batch_size=5)


@pytest.fixture(scope="module")
def words(word_model: Model) -> BidirectionalLanguageModel:
    return BidirectionalLanguageModel(*word_model, use_character_inputs=False)


def test_more_rows_than_a_stateful_model_has_are_refused(
    stateful: BidirectionalLanguageModel,
) -> None:
    with pytest.raises(InputError, match="at most max_batch_size = 5 .* got 6"):
        stateful(np.repeat(IDS[:1], 6, 0))


def test_too_many_rows_inside_a_function_end_it(
    stateful: BidirectionalLanguageModel,
) -> None:
    spec = tf.TensorSpec([None, None, LENGTH], tf.int32)
    call = tf.function(stateful, input_signature=[spec])
    with pytest.raises(tf.errors.InvalidArgumentError, match="max_batch_size"):
        call(np.repeat(IDS[:1], 6, 0))


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS[0], r"\[None, None, 8\] .* of shape \[4, 8\]"),
        (IDS[:, :, :7], r"of shape \[2, 4, 7\]"),
        (IDS.astype(np.float32), "are float32"),
        (IDS + 2, "below 262, but range from 2 to 263"),
        (IDS - 1, "range from -1 to 260"),
        (IDS[:, :1], r"must be 2 tokens at least, but .* of shape \[2, 1, 8\]"),
        (IDS[:, :0], r"must be 2 tokens at least, but .* of shape \[2, 0, 8\]"),
        (np.roll(IDS, 1, 1), r"sentence 1 of the ids has padding \(0\) before"),
        ([[1, 2], [3]], r"must be one array of numbers, not \[\[1, 2\], \[3\]\]"),
        (None, "must be one array of numbers, not None"),
        (object(), "must be one array of numbers, not <object"),
    ],
)
def test_wrong_character_ids_are_refused(
    ids: np.ndarray, message: str, stateful: BidirectionalLanguageModel
) -> None:
    with pytest.raises(InputError, match=message):
        stateful(ids)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (IDS, r"\[None, None\] .* of shape \[2, 4, 8\]"),
        ([[1, 14, 2]], "below 14, but range from 1 to 14"),
        ([[1, -3, 2]], "range from -3 to 2"),
        ([[0, 1, 3, 2]], r"sentence 0 of the ids has padding \(0\) before a token"),
    ],
)
def test_wrong_word_ids_are_refused(
    ids: Any, message: str, words: BidirectionalLanguageModel
) -> None:
    with pytest.raises(InputError, match=message):
        words(ids)


@pytest.mark.parametrize(
    ("sentences", "message"),
    [
        (None, "sentences must be lists of tokens, not None"),
        ([["a"], None], "sentences must be lists of tokens, not None"),
        ([7], "sentences must be lists of tokens, not 7"),
        ([["a", None]], "a token must be a str, not None"),
        ([[b"a"]], "a token must be a str, not b'a'"),
        (["a b"], "not the text 'a b'"),
    ],
)
def test_wrong_sentences_are_refused(
    sentences: Any, message: str, stateful: BidirectionalLanguageModel
) -> None:
    with pytest.raises(InputError, match=message):
        Batcher(None, LENGTH).batch_sentences(sentences)
    with pytest.raises(InputError, match=message):
        list(stateful.embed(sentences))


def test_sentences_may_come_one_by_one() -> None:
    batcher = Batcher(None, LENGTH)
    ids = batcher.batch_sentences(iter(tokens) for tokens in [["3", "4"], ["9" * 10]])
    np.testing.assert_array_equal(ids, IDS)


def test_a_model_and_its_kind_of_input_must_fit(
    char_model: Model, word_model: Model
) -> None:
    with pytest.raises(InputError, match="use_character_inputs=False"):
        BidirectionalLanguageModel(*word_model)
    with pytest.raises(InputError, match="token ids need vectors: .*dump_token_embed"):
        BidirectionalLanguageModel(*char_model, use_character_inputs=False)
    with pytest.raises(InputError, match="char_embed"):
        BidirectionalLanguageModel(char_model.options_file, word_model.weight_file)


def test_weights_of_another_size_are_refused(char_model: Model, tmp_path: Path) -> None:
    other = write_model(tmp_path, with_lstm(OPTIONS, dim=20, n_layers=1))
    with pytest.raises(InputError, match="Cell1/.* is missing") as error:
        BidirectionalLanguageModel(char_model.options_file, other.weight_file)
    assert "must be [16, 64] but is [16, 80]" in str(error.value)
