"""What a training text is warned of before the first step."""

import gzip
import logging
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tiny import OPTIONS, write_lines

from bilm.corpus_sample import read_sample, warn_of_text
from bilm.data import Vocabulary
from bilm.options import TrainingOptions, replace_options

N_WORDS = 400
FREQUENT_FIRST = [f"w{i}" for i in range(N_WORDS)]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 tokens, the frequencies of which fall as those of a language."""
    chance = 1 / (np.arange(N_WORDS) + 3)
    draw = np.random.default_rng(0)
    ids = draw.choice(N_WORDS, (2000, 10), p=chance / chance.sum())
    lines = [[FREQUENT_FIRST[i] for i in row] for row in ids]
    return write_lines(tmp_path_factory.mktemp("sample") / "text.txt", lines)


def warnings(
    caplog: pytest.LogCaptureFixture, text: Path, words: list[str], **flags: Any
) -> list[str]:
    """What is said of a text with a vocabulary of these words."""
    file = text.with_name("vocab.txt")
    write_lines(file, [[word] for word in ["<S>", "</S>", "<UNK>", *words]])
    vocab = Vocabulary(file)
    options = replace_options(options_of(vocab), **flags)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        warn_of_text([str(text)], vocab, options)
    return [record.getMessage() for record in caplog.records]


def options_of(vocab: Vocabulary) -> TrainingOptions:
    return replace_options(
        OPTIONS,
        n_tokens_vocab=vocab.size,
        n_train_tokens=20_000,
        sample_softmax=True,
    )


def test_a_sound_text_gives_no_warning(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert warnings(caplog, text, FREQUENT_FIRST) == []


def test_a_vocabulary_that_is_not_in_order_of_frequency(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Training perplexity 4, test perplexity 250: shuffled, or appended at the end."""
    shuffled = random.Random(0).sample(FREQUENT_FIRST, N_WORDS)
    appended = [*FREQUENT_FIRST[1:], FREQUENT_FIRST[0]]
    for words in shuffled, appended:
        (line,) = warnings(caplog, text, words)
        assert "not in order of frequency" in line and "make the vocabulary by" in line
    assert f"'w0', {text.read_text().split().count('w0')} times in 20000" in line
    assert f"on line {N_WORDS + 3};" in line
    assert warnings(caplog, text, shuffled, sample_softmax=False) == []


def test_many_words_out_of_the_vocabulary(
    text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (line,) = warnings(caplog, text, FREQUENT_FIRST[:60])
    known = {*FREQUENT_FIRST[:60]}
    share = np.mean([word not in known for word in text.read_text().split()])
    assert share > 0.2
    assert line.startswith(f"{100 * share:.1f} % of the tokens are not in the vocab")
    assert warnings(caplog, text, FREQUENT_FIRST[:350]) == []


def test_long_tokens_of_multi_byte_scripts_are_cut(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """20 letters of three bytes each, which differ in the last one alone."""
    words = ["क" * 20 + "x", "क" * 20 + "y"]
    text = write_lines(tmp_path / "text.txt", [["a"] * 96 + ["b"] * 2 + words])
    chars = replace_options(OPTIONS.char_cnn, max_characters_per_token=50)
    flags = {"char_cnn": chars, "n_train_tokens": 0}
    (line,) = warnings(caplog, text, ["a", "b", *words], **flags)
    assert line.startswith("2.0 % of the tokens are longer than 48 bytes")
    assert "is the text tokenised?" in line
    text = write_lines(tmp_path / "text.txt", [["a"] * 199, words[:1]])
    assert warnings(caplog, text, ["a", *words], **flags) == []


@pytest.mark.parametrize(("given", "wrong"), [(15_000, 1), (25_000, 1), (17_000, 0)])
def test_a_wrong_number_of_training_tokens(
    given: int, wrong: int, text: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = warnings(caplog, text, FREQUENT_FIRST, n_train_tokens=given)
    assert len(lines) == wrong
    if wrong:
        assert lines[0].startswith(f"n_train_tokens is {given:,}, but the text has abo")
        assert "20,000 tokens" in lines[0]


def test_a_sample_is_the_beginning_of_every_file(text: Path, tmp_path: Path) -> None:
    other = write_lines(tmp_path / "other.txt", [["z"]] * 30)
    sample = read_sample([str(text), str(other)], 1000)
    assert sample.counts.total() == 500 + 30
    assert sample.all_tokens == pytest.approx(20_030, rel=0.05)
    packed = tmp_path / "text.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    assert read_sample([str(packed)], 1000).all_tokens is None
    assert read_sample([str(packed)]).all_tokens == 20_000


def test_a_text_without_tokens_has_nothing_to_warn_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = write_lines(tmp_path / "text.txt", [[], []])
    assert warnings(caplog, text, FREQUENT_FIRST) == []
