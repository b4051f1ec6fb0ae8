import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bilm.texttable import TextTable
from bilm.wordtable import PADDING, WordTable

SPACES = [chr(i) for i in range(sys.maxunicode + 1) if chr(i).isspace()]

# Tokens of few letters come again; zero bytes, long ones and other alphabets.
texts = st.lists(
    st.one_of(
        st.text("ab\0é", max_size=3),
        st.text("abcd", min_size=13, max_size=19),
        st.sampled_from([" ", " ", "\n", *SPACES]),
        st.text(st.characters(exclude_categories=["Cs"])),
    )
).map("".join)


@pytest.fixture
def words():
    return TextTable(WordTable(padded=True))


def tokens_of(words, text):
    return [words.table.words[row] for row in words.look_up(text.encode()).words]


@given(st.lists(texts, max_size=4))
@settings(deadline=None, max_examples=200)
def test_tokens_are_those_of_split(several):
    words = TextTable(WordTable(padded=True))
    for text in several + several:
        assert tokens_of(words, text) == text.split()
    assert len(set(words.table.words)) == len(words.table)


@given(texts)
@settings(deadline=None)
def test_lines_have_their_tokens_and_ends(text):
    lines = TextTable(WordTable(padded=True)).look_up(text.encode())
    whole = [line + "\n" for line in text.split("\n")]
    if whole[-1] == "\n":
        del whole[-1]
    assert lines.counts.tolist() == [len(line.split()) for line in whole]
    sizes = [len(line.encode()) for line in whole]
    ends = np.minimum(np.cumsum(sizes), len(text.encode()))
    assert_array_equal(lines.ends, ends)


def test_every_space_separates(words):
    assert tokens_of(words, "a".join(SPACES)) == ["a"] * (len(SPACES) - 1)
    assert words.table.words == ["", "a"]


def test_words_of_one_slot_are_told_apart(words, monkeypatch):
    monkeypatch.setattr("bilm.texttable._slots", lambda low, _: np.zeros(len(low), int))
    for text in ("a b a c", "b a a d c b", "c d"):
        assert tokens_of(words, text) == text.split()


def test_padding_is_no_word(words):
    assert words.look_up(b"a b a\n").words.tolist() == [1, 2, 1]
    assert PADDING == 0 and words.table.words == ["", "a", "b"]
