import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bilm import Batcher, TokenBatcher
from bilm.errors import InputError
from bilm.string_ids import (
    character_ids,
    sentence_lengths,
    split_sentences,
    word_ids,
    word_table,
)

C = 9
WORDS = ["<S>", "</S>", "<UNK>", "the", "the", "Ωμέγα", "of"]

# Each has a trap: the ends of a sentence, the limit of 7 bytes, right to left, four
# bytes a letter, cut inside a letter, a zero byte, an empty token inside a sentence.
SENTENCES = [
    ["<S>", "the", "</S>", "<s>", "<UNK>"],
    [],
    ["seven77", "eight888", "of"],
    ["שלום", "العربية"],
    ["𐍈𐍈", "😀", "Ωμέγα", "\x00", "a\x00"],
    ["", "a", "", "b"],
]


def padded(sentences: Sequence[Sequence[str | bytes]]) -> tf.Tensor:
    """Strings [B, T], padded with `''`."""
    size = max(map(len, sentences), default=0)
    rows = [[*tokens, *[""] * (size - len(tokens))] for tokens in sentences]
    return tf.constant(rows, tf.string, [len(sentences), size])


def as_text(token: bytes) -> str:
    return token.decode(errors="surrogateescape")


def assert_same_ids(sentences: Sequence[Sequence[str]], size: int = C) -> None:
    ids = character_ids(padded(sentences), size)
    assert ids.dtype == tf.int32
    assert_array_equal(ids, Batcher(None, size).batch_sentences(sentences))


@pytest.mark.parametrize("size", [3, 4, C, 50])
def test_ids_are_those_of_the_batcher(size: int) -> None:
    assert_same_ids(SENTENCES, size)
    for sentence in SENTENCES:
        assert_same_ids([sentence], size)


@pytest.mark.parametrize("sentences", [[], [[]], [[], []]])
def test_no_sentences_and_no_tokens(sentences: list[list[str]]) -> None:
    assert_same_ids(sentences)
    table = word_table(WORDS)
    assert word_ids(padded(sentences), table).shape == (len(sentences), 2)


@given(
    st.lists(st.lists(st.text(max_size=5), max_size=3).filter(lambda s: s[-1:] != [""]))
)
@settings(deadline=None, max_examples=60)
def test_any_text_gives_the_ids_of_the_batcher(sentences: list[list[str]]) -> None:
    assert_same_ids(sentences)


def test_any_bytes_and_all_of_unicode_give_the_ids_of_the_batcher() -> None:
    draw = random.Random(1)
    critical = bytes(range(0x7E, 0x100))  # continuations, leads, and what is neither
    tokens = [bytes(draw.choices(critical, k=draw.randint(1, 9))) for _ in range(20000)]
    tokens += [chr(code).encode(errors="surrogatepass") for code in range(0x110000)]
    ids = character_ids(tf.constant([tokens]), 6)
    expected = Batcher(None, 6).batch_sentences([[as_text(token) for token in tokens]])
    assert_array_equal(ids, expected)


def test_bytes_that_are_no_text_are_left_out_and_are_no_padding() -> None:
    tokens = tf.constant([[b"a\xffb", b"<S>\xff", b"\xff", b""]])
    expected = Batcher(None, C).batch_sentences([["ab", "<S>\udcff", "\udcff"]], 4)
    assert_array_equal(character_ids(tokens, C), expected)
    assert expected[0, 2, 1] == ord("<") + 1  # not the character of <S>


def test_a_sentence_ends_with_its_last_token_that_is_not_empty() -> None:
    tokens = tf.constant([["a", "", "b", "", ""], [""] * 5, ["", "", "", "", "a"]])
    assert_array_equal(sentence_lengths(tokens), [3, 0, 5])
    expected = Batcher(None, C).batch_sentences([["a", "", "b"], [], [*[""] * 4, "a"]])
    assert_array_equal(character_ids(tokens, C), expected)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64])
def test_given_lengths_decide(dtype: tf.DType) -> None:
    tokens = tf.constant([["a", "b", "c"], ["a", "", ""], ["a", "b", "c"]])
    lengths = tf.constant([2, 2, 0], dtype)
    sentences = [["a", "b"], ["a", ""], []]
    expected = Batcher(None, C).batch_sentences(sentences, max_length=3)
    assert_array_equal(character_ids(tokens, C, lengths), expected)
    known = word_ids(tokens, word_table([*WORDS, "a"]), lengths)
    assert_array_equal(known, [[1, 8, 3, 2, 0], [1, 8, 3, 2, 0], [1, 2, 0, 0, 0]])


def test_texts_are_split_as_python_splits_them() -> None:
    codes = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    texts = [f"a{chr(code)}b" for code in codes]
    expected = [len(text.split()) for text in texts]
    tokens = split_sentences(tf.constant(texts))
    assert_array_equal(sentence_lengths(tokens), expected)
    assert expected.count(2) > 20


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" \t\n",
        b" a  b ",
        "\u3000a\u00a0\u2028b\x1cc\r\n".encode(),
        b"a\xff \xffb",
    ],
)
def test_split_texts_have_the_tokens_of_python(text: bytes) -> None:
    tokens = split_sentences(tf.constant([text, b"x"]))
    found = [as_text(token) for token in tokens[0].numpy() if token]
    assert found == as_text(text).split()
    assert split_sentences(tf.constant([], tf.string)).shape == (0, 0)


def test_words_have_the_ids_of_the_token_batcher(tmp_path: Path) -> None:
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS), encoding="utf-8")
    expected = TokenBatcher(path).batch_sentences(SENTENCES)
    ids = word_ids(padded(SENTENCES), word_table(WORDS))
    assert ids.dtype == tf.int32
    assert_array_equal(ids, expected)
    assert ids[0, 2] == 1 + 4  # of a word that stands twice, the last line


def test_a_vocabulary_in_a_graph_needs_the_unknown_word() -> None:
    with pytest.raises(InputError, match="looked up in a graph needs <UNK>"):
        word_table(["<S>", "</S>", "a"])


def test_runs_in_functions_and_data_sets_of_any_shape() -> None:
    table = word_table(WORDS)
    texts = ["the of", "", "Ωμέγα"]
    sentences = [text.split() for text in texts]

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def encode(texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tokens = split_sentences(texts)
        return character_ids(tokens, C), word_ids(tokens, table)

    data = tf.data.Dataset.from_tensor_slices(texts).batch(3).map(encode)
    for characters, words in [encode(texts), *data]:
        assert characters.shape[2:] == [C]
        assert_array_equal(characters, Batcher(None, C).batch_sentences(sentences))
        assert_array_equal(words, word_ids(padded(sentences), table))
    assert encode.experimental_get_tracing_count() == 1
    empty = encode(tf.constant([], tf.string))
    assert [part.shape.as_list() for part in empty] == [[0, 2, C], [0, 2]]
    assert np.shape(encode(["a b c"])[1]) == (1, 5)
