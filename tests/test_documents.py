"""States that are zeroed where documents end."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tiny import OPTIONS, SMALL_LSTM, Corpus, write_lines

from bilm import shards
from bilm.data import LMDataset, Vocabulary
from bilm.errors import InputError
from bilm.evaluation import evaluate
from bilm.inputs import check_dataset, training_inputs
from bilm.lstm import Clips, LstmState, LstmWeights, scan
from bilm.options import replace_options
from bilm.trainer import Trainer
from bilm.training import save_initial_checkpoint, train
from bilm.unrolled_lstm import unroll

# Two documents of two sentences each, then one of a long sentence.
TEXT = [["0", "1"], ["2"], [], ["3"], ["4", "5"], [], list("6789")]
DOCUMENTS = replace_options(
    OPTIONS, lstm=SMALL_LSTM, char_cnn=None, reset_state="document"
)


def begins_of(batches: Any, n_batches: int) -> list[list[tuple[str, bool]]]:
    """Of each row: every input word, and whether a document begins with it."""
    rows: Any = None
    for _ in range(n_batches):
        batch = next(batches)
        rows = rows or [[] for _ in batch.words]
        for row, words, begins in zip(
            rows, batch.words, batch.begins_document, strict=True
        ):
            row += zip([batch.table.words[w] for w in words], begins, strict=True)
    return rows


def expected_row(sentences: list[tuple[int, list[str]]]) -> list[tuple[str, bool]]:
    """Of sentences with the number of their document."""
    row, before = [], None
    for document, tokens in sentences:
        row += [("<S>", document != before), *((token, False) for token in tokens)]
        before = document
    return row


@pytest.mark.parametrize("block_tokens", [1, 10**6])
@pytest.mark.parametrize("reverse", [False, True])
def test_a_document_begins_where_a_blank_line_stood(
    corpus: Corpus,
    tmp_path: Path,
    block_tokens: int,
    reverse: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards, "BLOCK_TOKENS", block_tokens)
    text = write_lines(tmp_path / "text.txt", TEXT)
    data = LMDataset(text, Vocabulary(corpus.vocab), reverse=reverse)
    numbers = [0, 0, 1, 2, 2, 3, 4]  # a blank line is by itself
    sentences = []
    for epoch in range(2):
        for number, tokens in zip(numbers, TEXT, strict=True):
            words = [*tokens] if not reverse else [*reversed(tokens)]
            sentences.append((10 * epoch + number, words))
    expected = expected_row(sentences)
    if reverse:
        expected = [("</S>" if w == "<S>" else w, begins) for w, begins in expected]
    (row,) = begins_of(data.batches(1, 3), 11)  # 17 tokens an epoch
    assert row == expected[:33]


def test_each_row_compares_its_own_sentences(corpus: Corpus, tmp_path: Path) -> None:
    """With T = 1 the rows take sentences as they need them, often of two documents."""
    text = write_lines(tmp_path / "text.txt", TEXT)
    data = LMDataset(text, Vocabulary(corpus.vocab), test=True)
    first, second = begins_of(data.batches(2, 1, keep_incomplete=True), 11)
    assert first == expected_row([(0, TEXT[0]), (2, TEXT[3]), (3, []), (4, TEXT[6])])
    short = expected_row([(0, TEXT[1]), (1, []), (2, TEXT[4])])
    assert second[: len(short)] == short


@pytest.mark.parametrize("block_tokens", [1, 25])
def test_a_restored_position_knows_its_documents(
    corpus: Corpus, tmp_path: Path, block_tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "BLOCK_TOKENS", block_tokens)
    text = write_lines(tmp_path / "text.txt", TEXT * 2)
    vocab = Vocabulary(corpus.vocab)
    batches = LMDataset(text, vocab, seed=1).batches(2, 3)
    for _ in range(9):
        state = next(batches).state()
        data = LMDataset(text, vocab, seed=2)
        data.restore(state)
        following = next(data.batches(2, 3))
        np.testing.assert_array_equal(
            following.begins_document, _after(text, vocab, state).begins_document
        )
    rest = begins_of(batches, 6)
    data.restore(state)
    assert begins_of(data.batches(2, 3), 6) == rest


def _after(text: Path, vocab: Vocabulary, state: Any) -> Any:
    """The batch after a position, by an iteration that was never interrupted."""
    batches = LMDataset(text, vocab, seed=1).batches(2, 3)
    while next(batches).state() != state:
        pass
    return next(batches)


def lstm_case() -> tuple[tf.Tensor, LstmState, LstmWeights, tf.Tensor]:
    """T = 5, B = 3, H = 4, D = 2; row 0 is reset twice, row 1 at first, row 2 never."""
    draw = np.random.default_rng(0)
    shapes = ([5, 3, 2], [3, 4], [3, 2], [4, 16], [16], [4, 2])
    x, c, m, kernel, bias, projection = (
        tf.constant(draw.normal(0, 0.8, shape), tf.float32) for shape in shapes
    )
    keep = np.ones((5, 3, 1), np.float32)
    keep[[0, 2, 4], [1, 0, 0]] = 0
    return x, LstmState(c, m), LstmWeights(kernel, bias, projection), tf.constant(keep)


def test_a_reset_row_starts_from_zero_and_others_go_on() -> None:
    x, state, weights, keep = lstm_case()
    clips = Clips(0.5, 0.4)
    found, final = unroll(x, state, weights, clips, keep)
    kept, _ = unroll(x, state, weights, clips)
    zero = tf.nest.map_structure(tf.zeros_like, state)
    np.testing.assert_array_equal(found[:, 2], kept[:, 2])
    np.testing.assert_array_equal(found[:2, 0], kept[:2, 0])
    for row, start, stop in ((0, 2, 4), (0, 4, 5), (1, 0, 5)):
        alone, _ = unroll(x[start:stop], zero, weights, clips)
        np.testing.assert_allclose(found[start:stop, row], alone[:, row], rtol=1e-6)
    scanned, final_of_scan = scan(x, None, state, weights, clips, keep)
    np.testing.assert_allclose(scanned, found, rtol=1e-6)
    for one, other in zip(final, final_of_scan, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_no_gradient_passes_a_reset() -> None:
    x, state, weights, keep = lstm_case()
    clips = Clips(0.5, 0.4)
    gradients = []
    for run in (unroll, lambda *a: scan(a[0], None, *a[1:])):  # by hand; TensorFlow's
        with tf.GradientTape() as tape:
            sources = [x, *state, *weights]
            tape.watch(sources)
            outputs, final = run(x, state, weights, clips, keep)
            loss = tf.reduce_sum(outputs * (1 + outputs)) + tf.reduce_sum(final.c)
        gradients.append(tape.gradient(loss, sources))
    for by_hand, expected in zip(*gradients, strict=True):
        np.testing.assert_allclose(by_hand, expected, rtol=1e-5, atol=1e-6)
    _, d_c, d_m, *_ = gradients[0]
    assert not np.any(d_c[1]) and not np.any(d_m[1])
    assert np.any(d_c[2]) and np.any(d_m[2])


def test_documents_are_evaluated_as_if_each_were_alone(
    corpus: Corpus, data: Any, tmp_path: Path
) -> None:
    prefix = save_initial_checkpoint(DOCUMENTS, tmp_path / "run", seed=5)
    blank: list[list[str]] = [[]]
    documents = [TEXT[:2], blank, TEXT[3:5], blank, TEXT[6:]]
    found = {}
    for name, options in (
        ("document", DOCUMENTS),
        ("never", replace_options(DOCUMENTS, reset_state="never")),
    ):
        text = write_lines(tmp_path / "all.txt", TEXT)
        found[name] = evaluate(options, prefix, data(options, text, test=True), 1)
    total = n_tokens = 0.0
    for lines in documents:
        text = write_lines(tmp_path / "one.txt", lines)
        alone = evaluate(DOCUMENTS, prefix, data(DOCUMENTS, text, test=True), 1)
        total += alone.n_tokens * np.log(alone.perplexity)
        n_tokens += alone.n_tokens
    assert n_tokens == found["document"].n_tokens == 17
    np.testing.assert_allclose(np.log(found["document"].perplexity), total / 17, 1e-6)
    assert found["document"].perplexity != found["never"].perplexity


def test_training_inputs_tell_where_states_are_zeroed(
    data: Any, tmp_path: Path
) -> None:
    text = write_lines(tmp_path / "text.txt", TEXT)
    options = replace_options(DOCUMENTS, batch_size=2)
    (inputs,) = next(training_inputs(options, data(options, text), 1, [0])).inputs
    # Row 0 begins with the first sentence; row 1 with "2", the blank line and "3".
    expected = [[0, 0], [1, 1], [1, 0]]
    np.testing.assert_array_equal(inputs.keep, [expected, expected])
    never = replace_options(options, reset_state="never")
    (inputs,) = next(training_inputs(never, data(never, text), 1, [0])).inputs
    assert inputs.keep.shape == (2, 0, 0)


def test_shuffled_sentences_have_no_documents(data: Any) -> None:
    with pytest.raises(InputError, match='reset_state is "document".*--no-shuffle'):
        check_dataset(DOCUMENTS, data(DOCUMENTS, shuffle_on_load=True))
    check_dataset(DOCUMENTS, data(DOCUMENTS))
    never = dataclasses.replace(DOCUMENTS, reset_state="never")
    check_dataset(never, data(never, shuffle_on_load=True))


def test_states_are_zeroed_every_so_many_steps(
    data: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from_zero, step = [], Trainer.step

    def watched(self: Trainer, inputs: Any, states: Any, *more: Any) -> Any:
        from_zero.append(not any(np.any(part) for part in tf.nest.flatten(states)))
        return step(self, inputs, states, *more)

    monkeypatch.setattr(Trainer, "step", watched)
    options = replace_options(DOCUMENTS, reset_state="never", reset_state_every=3)
    tokens = 8 * options.batch_size * options.unroll_steps
    options = replace_options(options, n_epochs=1, n_train_tokens=tokens)
    train(options, data(options), 1, tmp_path / "run", tmp_path / "run")
    assert [step for step, zero in enumerate(from_zero) if zero] == [0, 3, 6]
    assert len(from_zero) == 8
