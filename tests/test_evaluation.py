"""Perplexities of held-out text."""

from pathlib import Path
from typing import Any

import numpy as np
import oracle
import pytest
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    WORDS,
    Corpus,
    counting_sentences,
    random_values,
    write_run,
)

from bilm import evaluation
from bilm.errors import InputError
from bilm.evaluation import evaluate
from bilm.names import training_variables
from bilm.options import TrainingOptions, replace_options

WORD_INPUT = replace_options(OPTIONS, char_cnn=None)
FORWARD_ONLY = replace_options(WORD_INPUT, bidirectional=False, lstm=SMALL_LSTM)
SENTENCES = counting_sentences(40, seed=2)  # the held-out text
N_TOKENS = sum(len(tokens) + 1 for tokens in SENTENCES)


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_run(tmp_path_factory.mktemp("both_ways"), WORD_INPUT)


@pytest.fixture(scope="module")
def forward_only(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_run(tmp_path_factory.mktemp("forward_only"), FORWARD_ONLY)


def rows_of(sentences: list[list[str]], n_rows: int) -> list[list[list[str]]]:
    """Sentences of each row: whenever some are used up, the first takes the next."""
    rows: list[list[list[str]]] = [[] for _ in range(n_rows)]
    free_at = [0] * n_rows
    for sentence in sentences:
        row = min(range(n_rows), key=lambda r: (free_at[r], r))
        rows[row].append(sentence)
        free_at[row] += len(sentence) + 1
    return rows


def plain_losses(options: TrainingOptions, sentences: list[list[str]]) -> np.ndarray:
    """Losses [K, T] of one row, a token at a time."""
    values = oracle.double(random_values(training_variables(options)))
    ids = [[WORDS.index(word) for word in ["<S>", *s, "</S>"]] for s in sentences]
    batch = {}
    for suffix, order in zip(oracle.SUFFIXES, (1, -1), strict=True):
        ordered = [sentence[::order] for sentence in ids]
        inputs = [word for sentence in ordered for word in sentence[:-1]]
        labels = [word for sentence in ordered for word in sentence[1:]]
        batch[f"token_ids{suffix}"] = np.array([inputs])
        batch[f"next_token_id{suffix}"] = np.array([labels])
    state = oracle.zero_state(options, rows=1)
    return oracle.batch_losses(options, values, batch, state)[0][:, :, 0]


@pytest.mark.parametrize("n_rows", [1, 3])
def test_equals_a_plain_computation(
    n_rows: int, both_ways: str, corpus: Corpus, data: Any
) -> None:
    heldout = data(WORD_INPUT, corpus.heldout, test=True)
    result = evaluate(WORD_INPUT, both_ways, heldout, n_rows)
    rows = [plain_losses(WORD_INPUT, row) for row in rows_of(SENTENCES, n_rows)]
    losses = np.concatenate(rows, 1)
    assert losses.shape == (2, N_TOKENS) and result.n_tokens == N_TOKENS
    forward, backward = np.exp(losses.mean(1))
    assert abs(forward - backward) > 1
    np.testing.assert_allclose(result.forward, forward, 1e-5)
    np.testing.assert_allclose(result.backward, backward, 1e-5)
    # not the mean of the perplexities, but that of the logs
    np.testing.assert_allclose(result.perplexity, np.exp(losses.mean()), 1e-5)
    np.testing.assert_allclose(result.perplexity, np.sqrt(forward * backward), 1e-5)
    assert result.seconds > 0


@pytest.mark.parametrize("n_rows", [1, 7, 64])
def test_every_token_counts_whatever_the_rows_and_steps(
    n_rows: int, forward_only: str, corpus: Corpus, data: Any
) -> None:
    results = []
    for unroll_steps in (1, 5):
        heldout = data(FORWARD_ONLY, corpus.heldout, test=True)
        result = evaluate(
            FORWARD_ONLY, forward_only, heldout, n_rows, unroll_steps=unroll_steps
        )
        assert result.n_tokens == N_TOKENS
        assert result.backward is None and result.perplexity == result.forward
        results.append(result.perplexity)
    np.testing.assert_allclose(*results, rtol=1e-6)


def test_without_the_incomplete_end_there_are_fewer_tokens(
    forward_only: str, corpus: Corpus, data: Any
) -> None:
    heldout = data(FORWARD_ONLY, corpus.heldout, test=True)
    result = evaluate(FORWARD_ONLY, forward_only, heldout, 7, drop_incomplete=True)
    with pytest.raises(
        InputError, match="in 99 complete rows: give more text, or a sm"
    ):
        evaluate(FORWARD_ONLY, forward_only, heldout, 99, drop_incomplete=True)
    lengths = [sum(len(s) + 1 for s in row) for row in rows_of(SENTENCES, 7)]
    assert result.n_tokens == 7 * min(lengths) < N_TOKENS


def test_an_empty_text_is_refused(forward_only: str, data: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    heldout = data(FORWARD_ONLY, tmp_path / "empty.txt", test=True)
    with pytest.raises(InputError, match="empty.txt|held-out"):
        evaluate(FORWARD_ONLY, forward_only, heldout)


def test_data_and_checkpoint_must_fit_the_options(
    forward_only: str, corpus: Corpus, data: Any, tmp_path: Path
) -> None:
    both = data(WORD_INPUT, corpus.heldout, test=True)
    with pytest.raises(InputError, match="LMDataset"):
        evaluate(FORWARD_ONLY, forward_only, both)
    with pytest.raises(InputError, match="RNN_0/.* is missing"):
        evaluate(WORD_INPUT, forward_only, both)
    with pytest.raises(FileNotFoundError, match="model.ckpt-1"):
        evaluate(WORD_INPUT, tmp_path / "model.ckpt-1", both)


@pytest.mark.parametrize("losses, warned", [([4.0, 4.2], False), ([4.0, 5.0], True)])
def test_directions_far_apart_are_warned_of(
    losses: list[float],
    warned: bool,
    both_ways: str,
    corpus: Corpus,
    data: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = (np.array(losses), 9)
    monkeypatch.setattr(evaluation.Evaluator, "_mean_losses", lambda _: found)
    evaluate(WORD_INPUT, both_ways, data(WORD_INPUT, corpus.heldout, test=True))
    assert ("forward perplexity is 54.6 and backward 148.4" in caplog.text) == warned
