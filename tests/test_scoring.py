"""Log-probabilities: against a plain computation, `evaluate`, and in files."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import oracle
import pytest
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    WORDS,
    Corpus,
    assert_near,
    counting_sentences,
    random_values,
    write_lines,
    write_run,
)

from bilm.cli import main
from bilm.errors import InputError
from bilm.evaluation import evaluate, trained_network
from bilm.names import training_variables
from bilm.options import TrainingOptions, replace_options
from bilm.reading import Reading
from bilm.scoring import Scorer, SentenceScores, score
from bilm.training import load_vocab

WORD_INPUT = replace_options(OPTIONS, char_cnn=None)
FORWARD_ONLY = replace_options(WORD_INPUT, bidirectional=False, lstm=SMALL_LSTM)
SENTENCES = [*counting_sentences(8, seed=2), [], ["unheard", "3"], ["7"]]
N_TOKENS = sum(len(tokens) + 1 for tokens in SENTENCES)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders of random runs."""
    options = {"words": WORD_INPUT, "one way": FORWARD_ONLY}
    folders = {name: tmp_path_factory.mktemp("run") for name in options}
    for name, folder in folders.items():
        write_run(folder, options[name])
    return folders


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("text") / "text.txt", SENTENCES)


def scored(
    folder: Path, options: TrainingOptions, corpus: Corpus, **settings: Any
) -> list[SentenceScores]:
    chars = options.char_cnn
    vocab = load_vocab(corpus.vocab, chars and chars.max_characters_per_token)
    return list(score(options, folder / "model.ckpt-7", vocab, SENTENCES, **settings))


@pytest.fixture(scope="module")
def scorer(runs: dict[str, Path], corpus: Corpus) -> Scorer:
    """Of the words; traced once."""
    network = trained_network(WORD_INPUT, runs["words"] / "model.ckpt-7")
    return Scorer(network, load_vocab(corpus.vocab))


@pytest.fixture(scope="module")
def results(runs: dict[str, Path], corpus: Corpus) -> list[SentenceScores]:
    """Of the words, from zero."""
    return scored(runs["words"], WORD_INPUT, corpus)


def plain_log_probs(sentences: list[list[str]]) -> np.ndarray:
    """Log-probabilities [2, m] of one row of sentences as each direction reads them."""
    values = oracle.double(random_values(training_variables(WORD_INPUT)))
    batch = {}
    for suffix, order in zip(oracle.SUFFIXES, (1, -1), strict=True):
        ids = [
            [WORDS.index(w if w in WORDS else "<UNK>") for w in each[::order]]
            for each in (["<S>", *tokens, "</S>"] for tokens in sentences)
        ]
        batch[f"token_ids{suffix}"] = np.array([[i for s in ids for i in s[:-1]]])
        batch[f"next_token_id{suffix}"] = np.array([[i for s in ids for i in s[1:]]])
    state = oracle.zero_state(WORD_INPUT, rows=1)
    return -oracle.batch_losses(WORD_INPUT, values, batch, state)[0][:, :, 0]


@pytest.mark.parametrize("batch_tokens", [1, 12, 4096])
def test_each_sentence_equals_a_plain_computation(
    batch_tokens: int, scorer: Scorer
) -> None:
    results = list(scorer.scores(SENTENCES, Reading(batch_tokens=batch_tokens)))
    assert [each.tokens for each in results] == SENTENCES
    for each in results:
        forward, backward = plain_log_probs([list(each.tokens)])
        assert each.forward.dtype == np.float32 and each.backward is not None
        assert_near(each.forward, forward)
        assert_near(each.backward, backward[::-1])
        assert_near(each.sums, [forward.sum(), backward.sum()])
    assert [each.known.tolist() for each in results[-2:]] == [[False, True], [True]]


@pytest.mark.parametrize("name", ["words", "one way"])
def test_stateful_sums_are_those_of_the_evaluation(
    name: str, runs: dict[str, Path], corpus: Corpus, data: Any, text: Path
) -> None:
    options = WORD_INPUT if name == "words" else FORWARD_ONLY
    prefix = runs[name] / "model.ckpt-7"
    expected = evaluate(options, prefix, data(options, text, test=True), batch_size=1)
    assert expected.n_tokens == N_TOKENS
    results = scored(runs[name], options, corpus, stateful=True, batch_tokens=7)
    means = sum(each.sums for each in results) / N_TOKENS
    perplexities = [expected.forward, expected.backward][: len(means)]
    np.testing.assert_allclose(np.exp(-means), perplexities, rtol=1e-5)
    assert all((each.backward is None) == (name == "one way") for each in results)


def test_stateful_sums_follow_the_documents(
    corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = replace_options(FORWARD_ONLY, reset_state="document")
    write_run(tmp_path, options)
    lines = [["1", "2"], ["3"], [], ["4", "5"], [], [], ["6"]]
    write_lines(tmp_path / "a.txt", lines)
    write_lines(tmp_path / "b.txt", [["7", "8"], []])
    text = f"{tmp_path}/?.txt"
    files = f"--save_dir {tmp_path} --vocab_file {corpus.vocab}"
    assert main(f"test {files} --test_prefix {text} --batch_size 1".split()) == 0
    tested = capsys.readouterr().out.splitlines()[:3]
    flags = f"--stateful --max_tokens 4 --outfile {tmp_path}/scores.tsv"
    for more in ("", "--max_tokens 4096"):
        assert main(f"score {files} --text {text} {flags} {more}".split()) == 0
        assert capsys.readouterr().out.splitlines()[:3] == tested


@pytest.mark.parametrize("batch_tokens", [7, 4096])
def test_stateful_is_one_row_in_the_order_of_the_text(
    batch_tokens: int, scorer: Scorer
) -> None:
    reading = Reading(batch_tokens=batch_tokens, stateful=True)
    results = list(scorer.scores(SENTENCES, reading))
    forward, backward = plain_log_probs(SENTENCES)
    assert_near(np.concatenate([each.forward for each in results]), forward)
    ours = np.concatenate([np.asarray(each.backward)[::-1] for each in results])
    assert_near(ours, backward)


def test_a_text_is_no_sentence_and_another_vocabulary_none(
    runs: dict[str, Path], corpus: Corpus, tmp_path: Path
) -> None:
    vocab = load_vocab(corpus.vocab)
    prefix = runs["words"] / "model.ckpt-7"
    with pytest.raises(InputError, match="must be a list of tokens, not the text '1"):
        list(score(WORD_INPUT, prefix, vocab, ["1 2"]))
    other = load_vocab(write_lines(tmp_path / "v", [[word] for word in WORDS[:-1]]))
    with pytest.raises(InputError, match="n_tokens_vocab of the options is 13"):
        score(WORD_INPUT, prefix, other, SENTENCES)


# The command


def command(folder: Path, corpus: Corpus, text: Path, flags: str = "") -> int:
    files = f"--save_dir {folder} --vocab_file {corpus.vocab} --text {text}"
    return main(f"score {files} {flags}".split())


def rows_of(table: str) -> list[list[str]]:
    return [line.split("\t") for line in table.removesuffix("\n").split("\n")]


def test_table_of_tokens(
    runs: dict[str, Path],
    corpus: Corpus,
    text: Path,
    results: list[SentenceScores],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(runs["words"], corpus, text) == 0
    out, err = capsys.readouterr()
    head, *rows = rows_of(out)
    assert head == ["sentence", "position", "token", "known", "forward", "backward"]
    assert len(rows) == N_TOKENS + len(SENTENCES)
    for number, each in enumerate(results):
        mine = [row for row in rows if row[0] == str(number)]
        assert [row[2] for row in mine] == ["<S>", *each.tokens, "</S>"]
        assert [row[3] for row in mine[1:-1]] == [str(int(k)) for k in each.known]
        assert mine[0][4] == "" and mine[-1][5] == ""
        forward = np.array([row[4] for row in mine[1:]], np.float32)
        np.testing.assert_array_equal(forward, each.forward)
        backward = np.array([row[5] for row in mine[:-1]], np.float32)
        np.testing.assert_array_equal(backward, each.backward)
    assert "1 of" in err and "out of the vocabulary and scored as <UNK>" in err
    assert "perplexity" in err


def test_arrays_in_a_file(
    runs: dict[str, Path],
    corpus: Corpus,
    text: Path,
    tmp_path: Path,
    results: list[SentenceScores],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bilm.scores_file.SENTENCES_AT_ONCE", 3)
    flags = f"--format hdf5 --outfile {tmp_path}/scores.hdf5"
    assert command(runs["words"], corpus, text, flags) == 0
    with h5py.File(tmp_path / "scores.hdf5") as file:
        arrays = {name: dataset[()] for name, dataset in file.items()}
    assert arrays["forward"].dtype == arrays["backward"].dtype == np.float32
    starts = np.cumsum(arrays["tokens"])[:-1]
    for name in ("forward", "backward"):
        pieces = np.split(arrays[name], starts)
        for piece, each in zip(pieces, results, strict=True):
            np.testing.assert_array_equal(piece, getattr(each, name))
    np.testing.assert_array_equal(arrays["sums"], [each.sums for each in results])
    assert arrays["unknown"].tolist() == [0] * 9 + [1, 0]
    means = arrays["sums"].mean(1) / arrays["tokens"]
    np.testing.assert_allclose(arrays["perplexity"], np.exp(-means))


def test_nothing_is_left_of_a_text_without_sentences(
    runs: dict[str, Path],
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    empty, out = write_lines(tmp_path / "empty.txt", []), tmp_path / "out.tsv"
    assert command(runs["words"], corpus, empty, f"--outfile {out}") == 2
    assert "there is no sentence in" in capsys.readouterr().err
    text = write_lines(tmp_path / "text.txt", [["1"]])
    assert command(runs["words"], corpus, text, f"--outfile {text}") == 2
    assert "must not be an input" in capsys.readouterr().err
    assert command(runs["words"], corpus, text, "--format hdf5") == 2
    assert "--format hdf5 needs a file: give --outfile" in capsys.readouterr().err
    assert {path.name for path in tmp_path.iterdir()} == {"empty.txt", "text.txt"}
