"""Training of tiny models on the counting language."""

import math
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from events import read_events, scalars
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    WORDS,
    Corpus,
    Run,
    with_chars,
    with_lstm,
)

from bilm.checkpoint import Checkpoint
from bilm.cli import main
from bilm.errors import InputError
from bilm.evaluation import evaluate
from bilm.names import GLOBAL_STEP, training_variables
from bilm.options import (
    TrainingOptions,
    as_training_options,
    read_training_options,
    replace_options,
    training_dict,
)
from bilm.training import (
    load_options_latest_checkpoint,
    load_vocab,
    save_initial_checkpoint,
    train,
)

# The smallest runs: 4 steps of 3 rows and 2 steps, sampled softmax and dropout.
SHORT = replace_options(
    OPTIONS,
    lstm=SMALL_LSTM,
    batch_size=3,
    unroll_steps=2,
    n_train_tokens=24,
    dropout=0.2,
    sample_softmax=True,
)
WORD_INPUT = replace_options(SHORT, char_cnn=None)
NO_PROJECTIONS = with_chars(
    with_lstm(SHORT, dim=3), filters=((1, 1), (2, 2)), n_highway=0, activation="tanh"
)
VARIANTS = {
    "characters": SHORT,
    "tanh, no projections": NO_PROJECTIONS,
    "two layers, clips, skips": replace_options(WORD_INPUT, lstm=OPTIONS.lstm),
    "forward only": replace_options(WORD_INPUT, bidirectional=False),
    "shared softmax": replace_options(WORD_INPUT, share_embedding_softmax=True),
}


def train_short(options: TrainingOptions, data: Any, folder: Path, seed: int) -> str:
    text = data(options, shuffle_on_load=True, seed=seed)
    return train(options, text, 1, folder, folder, seed=seed, log_every=1)


def read_all(prefix: str) -> dict[str, np.ndarray]:
    checkpoint = Checkpoint(prefix)
    return checkpoint.read_optional(checkpoint.shapes)


def test_learns_to_count(trained: Run, corpus: Corpus, data: Any) -> None:
    heldout = data(trained.options, corpus.heldout, test=True)
    result = evaluate(trained.options, trained.prefix, heldout, batch_size=1)
    best = math.exp(40 * math.log(10) / result.n_tokens)
    assert best < result.forward < 1.1 * best
    assert best < result.backward < 1.1 * best
    perplexities = scalars(read_events(trained.log_dir), "train_perplexity")
    assert perplexities[0] > 2 and perplexities[-1] < 1.1 * best
    assert len(WORDS) > perplexities.max()


def test_files_of_the_last_checkpoints_are_kept(trained: Run) -> None:
    assert trained.prefix == str(trained.save_dir / "model.ckpt-400")
    parts = ("index", "data-00000-of-00001", "state.npz")
    checkpoints = {f"model.ckpt-{n}.{part}" for n in (300, 400) for part in parts}
    found = {path.name for path in trained.save_dir.iterdir()}
    assert found == {"checkpoint", "options.json", "metrics.csv"} | checkpoints
    options = read_training_options(trained.save_dir / "options.json")
    assert options == trained.options


def test_a_moved_folder_has_the_same_last_checkpoint(
    trained: Run, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(trained.save_dir, moved)
    options, prefix = load_options_latest_checkpoint(moved)
    assert prefix == str(moved / "model.ckpt-400")
    assert as_training_options(options) == trained.options
    assert tf.train.latest_checkpoint(moved) == prefix
    assert "/" not in (moved / "checkpoint").read_text()


def test_scalars_for_tensorboard(trained: Run) -> None:
    events = read_events(trained.log_dir)
    names = [spec.name for spec in training_variables(trained.options)]
    norms = {}
    for when in ("before", "after"):
        tags = [f"norm_grad_{when}_clipping/{name}" for name in names]
        norms[when] = np.stack([scalars(events, tag) for tag in tags])
    for tag in ("train_perplexity", "norm_grad", tags[0]):
        assert [point.step for point in events[tag]] == list(range(50, 401, 50))
    norm = scalars(events, "norm_grad")
    np.testing.assert_allclose(np.linalg.norm(norms["before"], axis=0), norm, 1e-5)
    limit = trained.options.all_clip_norm_val
    assert norm.min() < limit < norm.max()
    scale = limit / np.maximum(norm, limit)
    np.testing.assert_allclose(norms["after"], norms["before"] * scale, 1e-5)


def test_histograms_for_tensorboard(trained: Run) -> None:
    events = read_events(trained.log_dir)
    names = [spec.name for spec in training_variables(trained.options)]
    tags = {f"variable/{name}" for name in names} | {
        "embedding/tokens",
        "embedding/lstm_output_0",
        "embedding/lstm_output_1",
    }
    found = {tag for tag in events if events[tag][0].plugin == "histograms"}
    assert found == tags
    for tag in tags:
        assert [point.step for point in events[tag]] == [150, 300, 400]
    last = read_all(trained.prefix)["lm/softmax/W"]
    buckets = events["variable/lm/softmax/W"][-1].value  # left, right, count
    assert buckets[:, 2].sum() == last.size
    np.testing.assert_allclose(buckets[[0, -1], [0, 1]], [last.min(), last.max()], 1e-5)


def test_log_lines_tell_how_it_goes(trained: Run) -> None:
    lines = trained.log.splitlines()
    told = [line for line in lines if line.startswith("step ")]
    assert len(told) == 8
    pattern = (
        r"step 150 \(epoch 7\.50, 150 of 400\): perplexity [\d.]+, gradient norm "
        r"[\d.]+, \d+ tokens/s, .*\d:\d\d:\d\d to go"
    )
    assert re.fullmatch(pattern, told[2])
    assert "0:00:00 to go" in told[-1]
    assert "400 steps of 48 tokens" in trained.log
    assert "bilm test" in lines[-1] and str(trained.save_dir) in lines[-1]


def test_restart_goes_on_with_step_and_slots(
    trained: Run, data: Any, tmp_path: Path
) -> None:
    options = replace_options(trained.options, learning_rate=1e-9, n_epochs=1)
    options = replace_options(options, n_train_tokens=3 * 48)
    text = data(options)
    prefix = train(options, text, 1, tmp_path, tmp_path, trained.prefix, seed=2)
    assert prefix == str(tmp_path / "model.ckpt-403")
    before, after = read_all(trained.prefix), read_all(prefix)
    assert (before.pop(GLOBAL_STEP), after.pop(GLOBAL_STEP)) == (400, 403)
    for spec in training_variables(options):
        np.testing.assert_allclose(after[spec.name], before[spec.name], atol=1e-7)
        grown = after[f"{spec.name}/Adagrad"] - before[f"{spec.name}/Adagrad"]
        # 3 steps of gradients whose norm is at most all_clip_norm_val
        assert grown.min() >= 0
        assert 0 < grown.sum() <= 3 * options.all_clip_norm_val**2 + 0.01


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variable_learns(name: str, data: Any, tmp_path: Path) -> None:
    options = VARIANTS[name]
    values = read_all(train_short(options, data, tmp_path, seed=3))
    assert values.pop(GLOBAL_STEP) == 4
    specs = training_variables(options)
    assert len(values) == 2 * len(specs) + 1  # slots, train_perplexity
    for spec in specs:
        assert values[spec.name].shape == spec.shape
        assert np.isfinite(values[spec.name]).all()
        assert values[f"{spec.name}/Adagrad"].max() > 1, spec.name
    perplexities = scalars(read_events(tmp_path), "train_perplexity")
    assert len(perplexities) == 4 and (perplexities > 1).all()


def test_the_same_seed_gives_the_same_parameters(data: Any, tmp_path: Path) -> None:
    options = VARIANTS["forward only"]
    runs = [
        read_all(train_short(options, data, tmp_path / str(run), seed))
        for run, seed in enumerate((4, 4, 5))
    ]
    for name, values in runs[0].items():
        np.testing.assert_array_equal(values, runs[1][name], name)
    assert any((values != runs[2][name]).any() for name, values in runs[0].items())


def test_initial_values_follow_from_the_seed(tmp_path: Path) -> None:
    first, same, other = (
        read_all(save_initial_checkpoint(OPTIONS, tmp_path / str(run), seed))
        for run, seed in enumerate((1, 1, 2))
    )
    assert first[GLOBAL_STEP] == 0
    for name, values in first.items():
        np.testing.assert_array_equal(values, same[name], name)
    assert (first["lm/char_embed"] != other["lm/char_embed"]).mean() > 0.99


def test_as_many_samples_as_words_are_the_full_softmax_and_the_loss_begins_at_ln_v(
    data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bilm")
    options = replace_options(
        SHORT, n_negative_samples_batch=len(WORDS), n_train_tokens=6, dropout=0.0
    )
    train_short(options, data, tmp_path, seed=1)
    assert f"full softmax: the {len(WORDS)} samples" in caplog.text
    assert "(sampled)" not in caplog.text
    (perplexity,) = scalars(read_events(tmp_path), "train_perplexity")
    assert math.isclose(math.log(perplexity), math.log(len(WORDS)), rel_tol=0.1)


def test_a_text_too_short_for_a_step_is_refused(data: Any, tmp_path: Path) -> None:
    for n_tokens in (0, 5):
        options = replace_options(SHORT, n_train_tokens=n_tokens)
        message = f"at least the 6 tokens of a step .* but is {n_tokens}"
        with pytest.raises(InputError, match=message):
            train_short(options, data, tmp_path / "run", seed=1)
    assert not (tmp_path / "run").exists()


def test_data_must_fit_the_options(corpus: Corpus, data: Any, tmp_path: Path) -> None:
    forward = replace_options(SHORT, bidirectional=False)
    shorter = with_chars(SHORT, max_characters_per_token=7)
    for options, other, message in (
        (replace_options(SHORT, n_tokens_vocab=12), SHORT, "is 12, .* has 13 words"),
        (SHORT, forward, "bidirectional = True need a BidirectionalLMDataset"),
        (forward, SHORT, "bidirectional = False need a LMDataset"),
        (SHORT, shorter, "is 8, .* max_word_length 7"),
        (SHORT, WORD_INPUT, "is 8, .* max_word_length None"),
    ):
        with pytest.raises(InputError, match=message):
            train(options, data(other), 1, tmp_path, tmp_path)


def test_a_checkpoint_must_fit_the_options(
    trained: Run, data: Any, tmp_path: Path
) -> None:
    options = with_lstm(trained.options, dim=20)
    with pytest.raises(
        InputError, match=r"kernel must be \[16, 80\] but is \[16, 64\]"
    ):
        train(options, data(options), 1, tmp_path, tmp_path, trained.prefix)
    with pytest.raises(FileNotFoundError, match="model.ckpt-9"):
        prefix = tmp_path / "model.ckpt-9"
        train(options, data(options), 1, tmp_path, tmp_path, prefix)


def test_options_may_be_a_dict_and_a_mistake_in_it_is_named(
    data: Any, tmp_path: Path
) -> None:
    tree = training_dict(SHORT)
    tree["droput"] = 0.5
    with pytest.raises(InputError, match="droput.*dropout"):
        train(tree, data(SHORT), 1, tmp_path, tmp_path)


def test_load_vocab_takes_characters_where_a_length_is_given(corpus: Corpus) -> None:
    assert not hasattr(load_vocab(corpus.vocab), "max_word_length")
    assert load_vocab(corpus.vocab, 8).max_word_length == 8


@pytest.mark.parametrize("flag", ["--train_prefix", "--valid_prefix"])
def test_a_text_without_tokens_is_refused(
    flag: str, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.txt").touch()
    argv = f"train --save_dir {tmp_path}/run --vocab_file {corpus.vocab} --preset small"
    texts = {"--train_prefix": corpus.train, flag: tmp_path / "empty.txt"}
    assert (
        main([*argv.split(), *(str(part) for pair in texts.items() for part in pair)])
        == 2
    )
    told = capsys.readouterr().err
    assert "there is no sentence in" in told and "empty.txt: the text needs" in told


def test_a_vocabulary_of_millions_is_warned_of_with_its_memory(
    data: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: Any
) -> None:
    monkeypatch.setattr("bilm.announcements.MANY_WORDS", len(WORDS) - 1)
    train(OPTIONS, data(OPTIONS), 1, tmp_path, tmp_path, stop_after=1)
    (line,) = [m for m in caplog.messages if "the softmax alone takes" in m]
    assert line.startswith(f"the vocabulary has {len(WORDS)} words") and "GiB" in line
    assert "bilm vocab --max_size makes a smaller one" in line
