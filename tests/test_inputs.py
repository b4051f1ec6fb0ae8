import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal

from bilm import shards
from bilm.data import BidirectionalLMDataset, LMDataset, UnicodeCharsVocabulary
from bilm.inputs import distinct_numbers, step_inputs


@given(arrays(np.int32, st.integers(1, 30), elements=st.integers(0, 9)))
def test_distinct_numbers_come_in_order_of_appearance(numbers):
    distinct, places = distinct_numbers(numbers)
    assert distinct.tolist() == list(dict.fromkeys(numbers.tolist()))
    assert_array_equal(distinct[places], numbers)


@pytest.fixture
def text(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(["<S>", "</S>", "<UNK>", *"abcd"]))
    random = np.random.default_rng(0)
    lines = [" ".join(random.choice(list("abcdefgh"), 5)) for _ in range(40)]
    for i in range(2):
        (tmp_path / f"{i}.text").write_text("\n".join(lines[i::2]))
    return tmp_path


@pytest.mark.parametrize("kind", [LMDataset, BidirectionalLMDataset])
@pytest.mark.parametrize("uses_characters", [True, False])
@pytest.mark.parametrize("max_words", [4, 1000])
def test_records_and_dictionaries_give_the_same(
    text, kind, uses_characters, max_words, monkeypatch
):
    """With `max_words` 4 the directions have different tables most of the time."""
    monkeypatch.setattr(shards, "BLOCK_TOKENS", 20)
    monkeypatch.setattr(shards, "MAX_TABLE_WORDS", max_words)
    vocab = UnicodeCharsVocabulary(text / "vocab.txt", 6)

    def inputs(batches):
        return [step_inputs(each, uses_characters) for each in batches]

    def data():
        return kind(str(text / "*.text"), vocab, test=True)

    records = inputs(data().batches(3, 4, keep_incomplete=True))
    arrays = inputs(data().iter_batches(3, 4, keep_incomplete=True))
    assert not records[-1].weights.all()
    for one, other in zip(records, arrays, strict=True):
        assert len(one.tokens) == len(other.tokens)
        assert_array_equal(one.tokens[one.places], other.tokens[other.places])
        for name in ("labels", "weights"):
            assert_array_equal(getattr(one, name), getattr(other, name))
        for name, value in one._asdict().items():
            assert value.dtype == getattr(other, name).dtype, name


def test_tables_that_differ_are_brought_together(text, monkeypatch):
    monkeypatch.setattr(shards, "BLOCK_TOKENS", 20)
    monkeypatch.setattr(shards, "MAX_TABLE_WORDS", 4)
    vocab = UnicodeCharsVocabulary(text / "vocab.txt", 6)
    data = BidirectionalLMDataset(str(text / "*.text"), vocab, seed=1)
    batches = list(itertools.islice(data.batches(3, 4), 60))
    assert any(batch.forward.table is not batch.reverse.table for batch in batches)
    for batch in batches:
        one, other = step_inputs(batch, True), step_inputs(batch.as_dict(), True)
        assert len(one.tokens) == len(other.tokens)
        assert_array_equal(one.tokens[one.places], other.tokens[other.places])
