import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bilm import batcher as batcher_module
from bilm.data import Batcher, TokenBatcher, UnicodeCharsVocabulary
from bilm.errors import InputError

GOLDEN = Path(__file__).parent / "fixtures" / "golden"
BOS = [259, 257, 260, 261, 261, 261]
EOS = [259, 258, 260, 261, 261, 261]
A = [259, 98, 260, 261, 261, 261]
EMPTY = [259, 260, 261, 261, 261, 261]
PAD = [0] * 6


@pytest.fixture
def batcher():
    return Batcher(None, 6)


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\na\nb\n")
    return path


@pytest.mark.parametrize(
    "name",
    [
        "predict_no_lstm_projection",
        "predict_one_layer",
        "predict_relu_skip",
        "predict_tight_clip",
        "predict_tokens",
    ],
)
def test_golden_ids(name):
    folder = GOLDEN / name
    options = json.loads((folder / "options.json").read_text())
    batches = json.loads((folder / "batches.json").read_text(encoding="utf-8"))
    length = options["char_cnn"]["max_characters_per_token"]
    batchers = [Batcher(GOLDEN / "vocab.txt", length), Batcher(None, length)]
    if name == "predict_tokens":
        batchers = [TokenBatcher(folder / "token_vocab.txt")]
    with np.load(folder / "expected.npz") as expected:
        for batcher in batchers:
            for k, sentences in enumerate(batches):
                ids = batcher.batch_sentences(sentences)
                assert_array_equal(ids, expected[f"{k}/ids"])
                assert ids.dtype == np.int32


def test_sentences_are_delimited_and_padded(batcher):
    ids = batcher.batch_sentences([["a"], ["a", "a"]])
    assert_array_equal(ids, [[BOS, A, EOS, PAD], [BOS, A, A, EOS]])
    assert_array_equal(batcher.batch_sentences([("a",), []])[1], [BOS, EOS, PAD])


def test_sentences_of_words(vocab_file):
    batcher = TokenBatcher(vocab_file)
    ids = batcher.batch_sentences([["a", "x", "b"], ["b"], []])
    assert_array_equal(ids, [[1, 4, 3, 5, 2], [1, 5, 2, 0, 0], [1, 2, 0, 0, 0]])
    assert ids.dtype == np.int32


def test_no_sentences_and_empty_ones(batcher, vocab_file):
    words = TokenBatcher(vocab_file)
    assert batcher.batch_sentences([]).shape == (0, 2, 6)
    assert batcher.batch_sentences([], max_length=3).shape == (0, 5, 6)
    assert words.batch_sentences([]).shape == (0, 2)
    assert_array_equal(batcher.batch_sentences([[]]), [[BOS, EOS]])
    assert_array_equal(words.batch_sentences([[]]), [[1, 2]])


def test_a_fixed_length_pads_and_cuts(batcher, vocab_file):
    sentences = [["a"], ["a"] * 9, []]
    ids = batcher.batch_sentences(sentences, max_length=2)
    expected = [[BOS, A, EOS, PAD], [BOS, A, A, EOS], [BOS, EOS, PAD, PAD]]
    assert_array_equal(ids, expected)
    ids = TokenBatcher(vocab_file).batch_sentences(sentences, max_length=2)
    assert_array_equal(ids, [[1, 4, 2, 0], [1, 4, 4, 2], [1, 2, 0, 0]])
    assert_array_equal(batcher.batch_sentences([["a"]], max_length=0), [[BOS, EOS]])
    with pytest.raises(InputError, match="must not be negative, but is -1"):
        batcher.batch_sentences(sentences, max_length=-1)


def test_tokens_without_characters_are_warned_of_once(batcher, caplog):
    for _ in range(2):
        ids = batcher.batch_sentences([["\ud83d", "a", ""]])
        assert_array_equal(ids, [[BOS, EMPTY, A, EMPTY, EOS]])
    (record,) = caplog.records
    assert record.getMessage().startswith("2 tokens have no characters")


def test_literal_special_words_mean_the_same_in_both(batcher, vocab_file, caplog):
    sentences = [["<S>", "a", "</S>"]]
    ids = batcher.batch_sentences(sentences * 2)
    assert_array_equal(ids, [[BOS, BOS, A, EOS, EOS]] * 2)
    ids = TokenBatcher(vocab_file).batch_sentences(sentences)
    assert_array_equal(ids, [[1, 1, 4, 2, 2]])
    messages = [record.getMessage() for record in caplog.records]
    assert [message[:28] for message in messages] == [
        "4 tokens are <S> or </S>, wh",
        "2 tokens are <S> or </S>, wh",
    ]


@pytest.mark.parametrize("sentences", ["a b", ["a b"], [["a"], "b"], [b"a"]])
def test_a_text_is_not_a_list_of_tokens(batcher, sentences):
    with pytest.raises(InputError, match="must be a list of tokens, not the text"):
        batcher.batch_sentences(sentences)


@pytest.mark.parametrize("token", [None, 3, b"a"])
def test_a_token_must_be_a_text(batcher, token):
    with pytest.raises(InputError, match=f"must be a str, not {token!r}"):
        batcher.batch_sentences([["a", token]])
    assert_array_equal(batcher.batch_sentences([["a"]]), [[BOS, A, EOS]])


def test_a_closed_vocabulary_recovers_from_an_unknown_word(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\na\nb\n")
    batcher = TokenBatcher(path)
    with pytest.raises(InputError, match="'x' is not in"):
        batcher.batch_sentences([["a", "x"]])
    assert_array_equal(batcher.batch_sentences([["a", "b"]]), [[1, 3, 4, 2]])


def test_a_vocabulary_file_that_is_given_is_checked(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing.txt"):
        Batcher(tmp_path / "missing.txt", 50)
    (tmp_path / "vocab.txt").write_text("a\n")
    with pytest.raises(InputError, match="vocab.txt lacks <S>"):
        Batcher(tmp_path / "vocab.txt", 50)
    with pytest.raises(InputError, match="at least 3"):
        Batcher(None, 2)


@given(st.lists(st.lists(st.text(max_size=9), max_size=3), max_size=3))
@settings(max_examples=40, deadline=None)
def test_batches_are_training_ids_plus_one(sentences):
    batcher = Batcher(None, 6)
    vocab = UnicodeCharsVocabulary(GOLDEN / "vocab.txt", 6)
    ids = batcher.batch_sentences(sentences)
    for row, tokens in zip(ids, sentences, strict=True):
        expected = vocab.encode_chars(tokens, split=False) + 1
        assert_array_equal(row[: len(expected)], expected)
        assert not row[len(expected) :].any()


def test_the_cache_is_bounded(monkeypatch):
    monkeypatch.setattr(batcher_module, "MAX_CACHED_WORDS", 5)
    batcher = Batcher(None, 6)
    for i in range(40):
        ids = batcher.batch_sentences([[str(i), "a"]])
        assert_array_equal(ids, Batcher(None, 6).batch_sentences([[str(i), "a"]]))
        assert len(batcher._table) <= 5 + 4
