"""Embeddings of words and of data sets, in HDF5."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import WORDS, Corpus, Model, assert_near, read_arrays, write_lines

from bilm import (
    Batcher,
    BidirectionalLanguageModel,
    dump,
    dump_bilm_embeddings,
    dump_token_embeddings,
)
from bilm.errors import InputError

LINES = [
    ["3", "4", "5"],
    [],
    ["a", "/", "a", "."],  # no path of groups
    ["3", "4", "5"],  # the same again
    ["Zürich"],
    ["0", "1", "2", "3", "4", "5", "6"],
    [],
]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "text.txt", LINES)


def dump_text(
    model: Model, text: Path, outfile: Path, vocab: Any = None, **settings: Any
) -> dict[str, np.ndarray]:
    dump_bilm_embeddings(vocab, text, *model, outfile, **settings)
    return read_arrays(outfile)


def test_each_line_has_a_dataset(
    char_model: Model, text: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arrays = dump_text(char_model, text, tmp_path / "out.hdf5")
    assert {name: array.shape for name, array in arrays.items()} == {
        str(i): (3, len(tokens), 16) for i, tokens in enumerate(LINES)
    }
    assert {array.dtype for array in arrays.values()} == {np.dtype(np.float32)}
    (warning,) = [
        r
        for r in caplog.records
        if r.name == "bilm.dump" and r.levelno == logging.WARNING
    ]
    assert warning.getMessage().startswith("2 blank lines of")
    assert str(text) in warning.getMessage()


def test_a_text_without_lines_is_warned_of(
    char_model: Model, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = write_lines(tmp_path / "empty.txt", [])
    assert not dump_text(char_model, text, tmp_path / "out.hdf5")
    assert f"{text} has no line, so there is nothing to embed" in caplog.messages


def test_stateful_lines_go_on_from_the_line_before(
    char_model: Model, text: Path, tmp_path: Path
) -> None:
    arrays = dump_text(char_model, text, tmp_path / "out.hdf5")
    model = BidirectionalLanguageModel(*char_model, max_batch_size=1)
    batcher = Batcher(None, 8)
    for i, tokens in enumerate(LINES):
        vectors = model(batcher.batch_sentences([tokens]))["lm_embeddings"][0]
        assert_near(arrays[str(i)], vectors, f"line {i}")
    np.testing.assert_array_equal(arrays["0"][0], arrays["3"][0])
    assert np.abs(arrays["0"][1:] - arrays["3"][1:]).max() > 0.01


def test_stateless_lines_do_not_depend_on_the_batches(
    char_model: Model, text: Path, tmp_path: Path
) -> None:
    one, three, many = (
        dump_text(
            char_model, text, tmp_path / "out.hdf5", stateful=False, batch_size=size
        )
        for size in (1, 3, 32)
    )
    assert one.keys() == three.keys() == many.keys()
    for name, layers in one.items():
        assert_near(three[name], layers, name)
        assert_near(many[name], layers, name)
    assert_near(one["0"], one["3"])
    last = write_lines(tmp_path / "last.txt", LINES[5:6])
    alone = dump_text(
        char_model, last, tmp_path / "out.hdf5", stateful=False, batch_size=1
    )
    assert_near(alone["0"], one["5"])


def test_a_text_without_lines_gives_a_file_without_datasets(
    char_model: Model, tmp_path: Path
) -> None:
    text = write_lines(tmp_path / "text.txt", [])
    assert dump_text(char_model, text, tmp_path / "out.hdf5") == {}


def test_words_of_a_vocabulary(
    char_model: Model, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "WORDS_AT_ONCE", 5)  # of 13: the last piece is shorter
    dump_token_embeddings(corpus.vocab, *char_model, tmp_path / "words.hdf5")
    arrays = read_arrays(tmp_path / "words.hdf5")
    assert list(arrays) == ["embedding"]
    assert arrays["embedding"].dtype == np.float32
    model = BidirectionalLanguageModel(*char_model, stateful=False)
    ids = Batcher(None, 8).batch_sentences([WORDS[2:]])
    in_sentence = model(ids)["token_embeddings"][0].numpy()
    # <S> and </S> lead the vocabulary, but stand around a sentence.
    order = [0, len(WORDS) - 1, *range(1, len(WORDS) - 1)]
    assert_near(arrays["embedding"], in_sentence[order])


def test_words_of_a_word_model_are_its_embedding(
    word_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    dump_token_embeddings(corpus.vocab, *word_model, tmp_path / "words.hdf5")
    copied = read_arrays(tmp_path / "words.hdf5")["embedding"]
    np.testing.assert_array_equal(
        copied, read_arrays(word_model.weight_file)["embedding"]
    )
    other = write_lines(tmp_path / "vocab.txt", [[word] for word in WORDS[:-1]])
    with pytest.raises(InputError, match="vectors of 13 words, .* has 12"):
        dump_token_embeddings(other, *word_model, tmp_path / "other.hdf5")
    assert not (tmp_path / "other.hdf5").exists()


def test_a_word_model_needs_its_vocabulary(
    word_model: Model, corpus: Corpus, tmp_path: Path
) -> None:
    text = write_lines(tmp_path / "text.txt", [["3", "unheard"], ["9", "<UNK>"]])
    with pytest.raises(InputError, match="word-level model, which needs vocab_file"):
        dump_text(word_model, text, tmp_path / "out.hdf5")
    arrays = dump_text(word_model, text, tmp_path / "out.hdf5", corpus.vocab)
    np.testing.assert_array_equal(arrays["0"][0, 1], arrays["1"][0, 1])
    assert arrays["0"].shape == (3, 2, 16)
    other = write_lines(tmp_path / "more.txt", [[word] for word in [*WORDS, "unheard"]])
    with pytest.raises(InputError, match="vectors of 13 words, .* has 14"):
        dump_text(word_model, text, tmp_path / "other.hdf5", other)


def test_a_file_appears_whole_or_not_at_all(char_model: Model, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_bytes(b"1 2 3\n4 5\n\xff\n")  # the third line is not UTF-8
    (tmp_path / "out").mkdir()
    outfile = tmp_path / "out" / "out.hdf5"
    with pytest.raises(InputError, match="text.txt:3"):
        dump_text(char_model, text, outfile)
    assert not list(outfile.parent.iterdir())
    outfile.write_text("from before")
    with pytest.raises(InputError):
        dump_text(char_model, text, outfile)
    assert [path.read_text() for path in outfile.parent.iterdir()] == ["from before"]


def test_missing_files_are_named(char_model: Model, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing.txt"):
        dump_text(char_model, tmp_path / "nothing.txt", tmp_path / "out.hdf5")
    text = write_lines(tmp_path / "text.txt", LINES)
    missing = char_model._replace(weight_file=tmp_path / "nothing.hdf5")
    with pytest.raises(FileNotFoundError, match="nothing.hdf5"):
        dump_text(missing, text, tmp_path / "out.hdf5")


def test_an_output_never_takes_the_place_of_an_input(
    char_model: Model, corpus: Corpus, text: Path, tmp_path: Path
) -> None:
    link = tmp_path / "link.txt"
    link.symlink_to(text)
    vocab = corpus.vocab
    for inputs, outfile in [((None, text), text), ((None, link), text)] + [
        ((vocab, text), path) for path in (vocab, *char_model)
    ]:
        before = Path(outfile).read_bytes()
        with pytest.raises(InputError, match="must not be an input"):
            dump_bilm_embeddings(*inputs, *char_model, outfile)
        assert Path(outfile).read_bytes() == before
    for outfile in (vocab, *char_model):
        before = Path(outfile).read_bytes()
        with pytest.raises(InputError, match="must not be an input"):
            dump_token_embeddings(vocab, *char_model, outfile)
        assert Path(outfile).read_bytes() == before
