import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from bilm.characters import encode_words
from bilm.data import UnicodeCharsVocabulary, Vocabulary
from bilm.errors import InputError
from bilm.wordtable import WordTable

WORDS = ["<S>", "</S>", "<UNK>", "the", "Zürich", "."]


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("\n".join(WORDS).encode() + b"\n")
    return path


@pytest.fixture
def vocab(vocab_file):
    return UnicodeCharsVocabulary(vocab_file, 8)


def row(*ids: int, length: int = 50) -> list[int]:
    return [*ids, *[260] * (length - len(ids))]


def test_words_and_ids(vocab_file):
    vocab = Vocabulary(vocab_file, True)
    assert (vocab.size, vocab.bos, vocab.eos, vocab.unk) == (6, 0, 1, 2)
    assert [vocab.word_to_id(word) for word in WORDS] == list(range(6))
    assert [vocab.id_to_word(i) for i in range(6)] == WORDS
    assert vocab.word_to_id("other") == 2
    assert vocab.decode(np.array([0, 3, 2, 1])) == "<S> the <UNK> </S>"


def test_sentences_of_words(vocab):
    expected = [0, 3, 2, 5, 1]
    for ids in (
        vocab.encode("the\u3000new ."),
        vocab.encode(["the", "new", "."], split=False),
        vocab.encode("the new .", reverse=True)[::-1],
    ):
        assert_array_equal(ids, expected)
        assert ids.dtype == np.int32
    assert_array_equal(vocab.encode(""), [0, 1])
    assert_array_equal(vocab.encode("<S> </S>"), [0, 0, 1, 1])


@pytest.mark.parametrize("word_id", [-1, 6])
def test_ids_out_of_the_vocabulary_are_refused(vocab, word_id):
    with pytest.raises(InputError, match=f"from 0 to 5 .* not {word_id}"):
        vocab.id_to_word(word_id)


def test_a_text_is_not_a_list_of_tokens(vocab):
    with pytest.raises(InputError, match="list of tokens, not the text 'a b'"):
        vocab.encode("a b", split=False)
    with pytest.raises(InputError, match="split=False"):
        vocab.encode_chars(["a", "b"])


@pytest.mark.parametrize(
    "content, message",
    [
        ("<S>\n</S>\n<UNK>\nthe\n\nof\n", "vocab.txt:5 is empty"),
        ("<S>\n</S>\n<UNK>\n \u3000\t\nof\n", "vocab.txt:4 is empty"),
        ("<S>\n</S>\n<UNK>\nthe\n\n", "vocab.txt:5 is empty"),
        ("<S>\n</S>\nthe\n", "vocab.txt lacks <UNK>: .*add what is missing"),
        ("the\n<UNK>\n", "lacks <S> and </S>"),
        ("", "lacks <S> and </S> and <UNK>"),
    ],
)
def test_faulty_files_are_refused(tmp_path, content, message):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content.encode())
    with pytest.raises(InputError, match=message):
        Vocabulary(path)


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes("<S>\n</S>\n<UNK>\n".encode("utf-16"))
    with pytest.raises(InputError, match="vocab.txt:1 looks like UTF-16"):
        UnicodeCharsVocabulary(path, 50)


@pytest.mark.parametrize("change", ["{}", "\ufeff{}", "{}\n", "{}\r\n"])
def test_line_ends_and_byte_order_mark_do_not_matter(tmp_path, change):
    path = tmp_path / "vocab.txt"
    newline = "\r\n" if "\r" in change else "\n"
    path.write_bytes(change.replace("{}", newline.join(WORDS)).encode())
    assert Vocabulary(path).words == WORDS


def test_the_last_of_duplicate_words_counts(tmp_path, caplog):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\n<UNK>\na\nb\na\nb\na\n")
    vocab = Vocabulary(path)
    assert (vocab.size, vocab.word_to_id("a"), vocab.word_to_id("b")) == (8, 7, 6)
    assert vocab.id_to_word(3) == "a"
    assert [r.getMessage().split(" with")[0] for r in caplog.records] == [
        f"{path} has 3 lines"
    ]


def test_a_vocabulary_without_unk_is_closed(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("<S>\n</S>\na\n")
    vocab = Vocabulary(path, require_unk=False)
    assert_array_equal(vocab.encode("a"), [0, 2, 1])
    with pytest.raises(InputError, match="the word 'b' is not in .*vocab.txt"):
        vocab.encode("a b")
    with pytest.raises(InputError, match="lacks the word <UNK>"):
        _ = vocab.unk


def test_special_ids_of_characters(vocab_file):
    vocab = UnicodeCharsVocabulary(vocab_file, 50)
    names = ("bos_char", "eos_char", "bow_char", "eow_char", "pad_char")
    assert [getattr(vocab, name) for name in names] == [256, 257, 258, 259, 260]
    expected = [row(258, 256, 259), row(258, 257, 259), row(258, *b"the", 259)]
    for i, word in enumerate(["<S>", "</S>", "the"]):
        assert_array_equal(vocab.word_to_char_ids(word), expected[i])
    assert_array_equal(vocab.encode_chars("the"), [expected[i] for i in (0, 2, 1)])
    assert vocab.encode_chars("the").dtype == np.int32


def test_sentences_of_characters(vocab):
    forward = vocab.encode_chars("the <S> unknownword")
    assert forward.shape == (5, 8)
    assert_array_equal(forward[1], row(258, *b"the", 259, length=8))
    assert_array_equal(forward[2], forward[0])  # literal <S> is the special word
    assert_array_equal(forward[3], [258, *b"unknow", 259])
    assert_array_equal(
        vocab.encode_chars("the <S> unknownword", reverse=True), forward[::-1]
    )
    assert_array_equal(
        vocab.encode_chars(["the", "<S>", "unknownword"], split=False), forward
    )


def test_characters_of_the_vocabulary(vocab):
    ids = vocab.word_char_ids
    assert ids.shape == (6, 8) and ids.dtype == np.int32
    assert_array_equal(ids, [vocab.word_to_char_ids(word) for word in WORDS])
    assert vocab.word_char_ids is ids


@pytest.mark.parametrize("length", [2, 0, -1])
def test_too_few_characters_are_refused(vocab_file, length):
    with pytest.raises(
        InputError, match=f"needs at least 3 characters .* not {length}"
    ):
        UnicodeCharsVocabulary(vocab_file, length)


def test_words_without_characters():
    words = ["", "\ud83d", "a\ud83db"]
    assert_array_equal(
        encode_words(words, 5),
        [[258, 259, 260, 260, 260]] * 2 + [[258, 97, 98, 259, 260]],
    )
    assert encode_words([], 5).shape == (0, 5)


def test_long_words_are_cut_by_bytes():
    for last in "xy":
        ids = encode_words(["क" * 20 + last], 50)[0]
        assert_array_equal(ids, [258, *("क" * 16).encode(), 259])


@given(
    st.lists(st.text(st.characters(codec=None)) | st.just("</S>")), st.integers(3, 12)
)
@settings(deadline=None)
def test_characters_of_any_word(words, length):
    expected = []
    for word in words:
        middle = [257] if word == "</S>" else list(word.encode("utf-8", "ignore"))
        expected.append(row(258, *middle[: length - 2], 259, length=length))
    ids = encode_words(words, length)
    assert_array_equal(ids, np.array(expected).reshape(-1, length))
    assert ids.dtype == np.int16


@given(st.lists(st.lists(st.text("abc", max_size=2))))
@settings(deadline=None)
def test_a_word_table_encodes_each_word_once(calls):
    encoded = []

    def encode(words):
        encoded.extend(words)
        return np.array([[len(word), hash(word) % 99] for word in words]).reshape(-1, 2)

    table = WordTable(encode)
    for words in calls:
        rows = table.rows(words)
        assert [table.words[r] for r in rows] == words
        assert_array_equal(table.column(0)[rows], encode(words))
        del encoded[len(encoded) - len(words) :]
    assert encoded == table.words and len(set(encoded)) == len(encoded) == len(table)


def test_a_large_vocabulary_loads_fast(tmp_path):
    path = tmp_path / "vocab.txt"
    words = WORDS[:3] + [f"word{i}" for i in range(100_000)]
    path.write_text("\n".join(words))
    start = time.process_time()
    vocab = UnicodeCharsVocabulary(path, 50)
    assert time.process_time() - start < 1.0  # 800,000 words in seconds
    assert vocab.size == len(words)
    assert "word_char_ids" not in vars(vocab)  # made only when asked for


def test_tensorflow_is_not_imported():
    code = "import bilm.data, sys; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
