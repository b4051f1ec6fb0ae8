"""What must hold for the step to be fast, and what must not change by it.

No test takes the time: that is what benchmarks/ is for.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import small
import tensorflow as tf
from tiny import (
    GOLDEN,
    OPTIONS,
    SMALL_LSTM,
    Corpus,
    Run,
    replace_options,
    training_dict,
    write_options,
)

import bilm.loss_scale
from bilm.checkpoint import checkpoint_values
from bilm.cli import main
from bilm.data import BidirectionalLMDataset
from bilm.encoder import Affine
from bilm.inputs import StepInputs, step_inputs, training_inputs
from bilm.options import TrainingOptions, read_training_options
from bilm.sampler import LogUniformSampler
from bilm.softmax import full_softmax_loss_in_pieces
from bilm.speed import measure_training
from bilm.trainer import Trainer
from bilm.training import load_vocab, training_schedule

UNUSUAL = 1009  # words of a vocabulary, a size that no other tensor has
GOLDEN_RUN = GOLDEN / "train_full_softmax_chars"
SAMPLED = {"sample_softmax": True, "n_negative_samples_batch": 20}


class Steps(NamedTuple):
    """What some training steps left."""

    trainer: Trainer
    losses: np.ndarray
    states: Any


def samplers(model: TrainingOptions) -> list[LogUniformSampler]:
    return [
        LogUniformSampler(model.n_tokens_vocab, model.n_negative_samples_batch, k)
        for k in range(model.n_directions)
    ]


def golden_steps(n_steps: int, **how: Any) -> Steps:
    """The golden training, begun again."""
    options = read_training_options(GOLDEN_RUN / "init" / "options.json")
    values = checkpoint_values(options, str(GOLDEN_RUN / "init" / "model.ckpt-1"))
    trainer = Trainer(options, values=values, **how)
    size = options.char_cnn.max_characters_per_token
    vocab = load_vocab(GOLDEN / "vocab.txt", size)
    data = BidirectionalLMDataset(GOLDEN / "text.txt", vocab)
    inputs = training_inputs(options, data, 1, [0])
    states, losses = trainer.zero_states(), []
    for _ in range(n_steps):
        states, result = trainer.step(next(inputs).inputs, states)
        losses.append(float(result.loss))
    return Steps(trainer, np.array(losses), states)


@pytest.fixture(scope="module")
def float32_losses() -> np.ndarray:
    """Losses of 30 steps, which test_golden_train.py compares with bilm-tf's."""
    return golden_steps(30).losses


def varied_inputs(model: TrainingOptions, n_steps: int) -> Iterator[StepInputs]:
    """Inputs whose tokens differ in number and in length from step to step."""
    random, draws = np.random.default_rng(0), samplers(model)
    shape = (model.batch_size, model.unroll_steps)
    for step in range(n_steps):
        n_words, longest = 1 + step % 5, 1 + step % (small.CHARACTERS - 2)
        words = [bytes([97 + i]) * longest for i in range(n_words)]
        characters = small.character_rows(words)
        batch = {}
        for suffix in ("", "_reverse"):
            ids = random.integers(0, n_words, shape, np.int32)
            batch |= {
                f"token_ids{suffix}": ids,
                f"next_token_id{suffix}": ids[::-1],
                f"tokens_characters{suffix}": characters[ids],
            }
        yield step_inputs(batch, model.char_cnn is not None, draws)


@pytest.mark.slow
def test_a_step_is_traced_once_for_any_number_and_length_of_tokens() -> None:
    model = small.options(filters=((1, 2), (2, 3)), n_tokens_vocab=31, **SAMPLED)
    trainer = Trainer(model)
    states, shapes = trainer.zero_states(), set()
    for inputs in varied_inputs(model, 30):
        shapes.add(inputs.tokens.shape)
        states, result = trainer.step([inputs], states)
        assert np.isfinite(float(result.loss))
    assert len(shapes) > 1
    assert trainer._step.experimental_get_tracing_count() == 1


def operations(graph: Any) -> Iterator[tf.Operation]:
    """All operations of a graph and of the functions that it calls."""
    yield from graph.get_operations()
    for function in graph._functions.values():
        yield from operations(function.graph)


def dense_operations(trainer: Trainer, rows: int) -> list[str]:
    """Kinds of the operations of a step that give a tensor [rows, D]."""
    size = [rows, trainer.options.lstm.projection_dim]
    graph = trainer._step.get_concrete_function().graph
    return [
        operation.type
        for operation in operations(graph)
        for output in operation.outputs
        if output.shape.rank == 2 and output.shape.as_list() == size
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{}, {"characters": False}, {"characters": False, "share_embedding_softmax": True}],
    ids=["characters", "words", "shared"],
)
def test_no_tensor_of_a_step_is_as_large_as_the_softmax(options: Any) -> None:
    model = small.options(n_layers=1, n_tokens_vocab=UNUSUAL, **SAMPLED, **options)
    trainer = Trainer(model)
    # Reading a variable whole counts too: its update would then copy it.
    assert dense_operations(trainer, UNUSUAL) == []
    used = {op.type for op in operations(trainer._step.get_concrete_function().graph)}
    assert "ResourceSparseApplyAdagrad" in used


@pytest.mark.slow
def test_the_full_softmax_is_found_to_make_such_tensors() -> None:
    trainer = Trainer(small.options(n_layers=1, n_tokens_vocab=UNUSUAL))
    assert "MatMul" in dense_operations(trainer, UNUSUAL)


# Memory is that of a process of its own, whose peak no other test has raised.
PIECES = """
import numpy as np
import tensorflow as tf
from bilm.encoder import Affine
from bilm.softmax import full_softmax_loss_in_pieces

V, D, N = 2_000_000, 16, 64

def peak():
    (line,) = [l for l in open("/proc/self/status") if l.startswith("VmHWM")]
    return int(line.split()[1]) / 1024

def draw(*shape):
    return tf.constant(random.standard_normal(shape, np.float32))

random = np.random.default_rng(0)
losses = tf.function(full_softmax_loss_in_pieces)
softmax, hidden = Affine(draw(V, D), draw(V)), draw(N, D)
labels = tf.constant(random.integers(0, V, N, np.int32))
few = Affine(softmax.weight[:1000], softmax.bias[:1000])
losses(few, hidden, labels % 1000, 2**22)
before = peak()
found = losses(softmax, hidden, labels, 2**22).numpy()
added = peak() - before
weight, bias = (part.numpy().astype(np.float64) for part in softmax)
for n in range(0, N, 16):
    logits = weight @ hidden[n].numpy() + bias
    expected = np.logaddexp.reduce(logits) - logits[labels[n]]
    np.testing.assert_allclose(found[n], expected, rtol=1e-5)
print(added)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_the_softmax_in_pieces_is_exact_and_small_for_two_million_words() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PIECES],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    # All logits at once are 488 MiB, and a logarithm of sums needs them twice or more.
    assert float(done.stdout) < 200


@pytest.mark.parametrize("piece", [1, 7 * 5, 10**6])
def test_pieces_are_equal_to_the_whole(piece: int) -> None:
    random = np.random.default_rng(1)
    weight, bias, hidden = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((101, 4), (101,), (7, 4))
    )
    labels = random.integers(0, 101, 7, np.int32)
    softmax = Affine(tf.constant(weight), tf.constant(bias))
    found = full_softmax_loss_in_pieces(softmax, tf.constant(hidden), labels, piece)
    logits = hidden.astype(np.float64) @ weight.T + bias
    expected = np.logaddexp.reduce(logits, 1) - logits[np.arange(7), labels]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_mixed_precision_follows_the_curve_of_float32(
    precision: str, float32_losses: np.ndarray
) -> None:
    steps = golden_steps(30, mixed_precision=precision)
    np.testing.assert_allclose(steps.losses, float32_losses, rtol=0.02)
    assert (steps.losses != float32_losses).any()  # it is another precision
    trainer = steps.trainer
    kept = [*trainer.network.learnt, *trainer.update.slots.values()]
    for each in (*kept, *tf.nest.flatten(steps.states)):
        assert each.dtype == tf.float32


@pytest.mark.slow
def test_compiled_layers_give_the_same_losses(float32_losses: np.ndarray) -> None:
    losses = golden_steps(10, jit_compile=True).losses
    np.testing.assert_allclose(losses, float32_losses[:10], rtol=1e-5)


@pytest.mark.slow
def test_a_step_that_overflows_changes_nothing_but_the_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bilm.loss_scale, "INITIAL_SCALE", 2.0**40)
    model = small.options()
    trainer = Trainer(model, mixed_precision="float16")
    inputs = [step_inputs(small.batch(model), model.char_cnn is not None)]
    kept = [*trainer.network.learnt, *trainer.update.slots.values()]
    scale, states = trainer.update.loss_scale.scale, trainer.zero_states()
    updated = []
    for step in range(40):
        before = [variable.numpy() for variable in kept]
        scale_before = float(scale)
        _, result = trainer.step(inputs, states)
        equal = [
            np.array_equal(old, new.numpy())
            for old, new in zip(before, kept, strict=True)
        ]
        assert np.isfinite(float(result.loss))
        overflowed = not np.isfinite(float(result.norm))
        assert float(scale) == (scale_before / 2 if overflowed else scale_before)
        n_variables = len(trainer.network.learnt)
        assert all(equal) if overflowed else not any(equal[:n_variables])
        updated.append(not overflowed)
        assert trainer.global_step == step + 1
    assert updated == sorted(updated)  # once small enough, the scale stays
    assert set(updated) == {False, True}


@pytest.mark.slow
def test_the_scale_is_doubled_after_many_good_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bilm.loss_scale, "DOUBLE_AFTER", 3)
    model = small.options(n_layers=1, bidirectional=False)
    trainer = Trainer(model, mixed_precision="float16")
    inputs = [step_inputs(small.batch(model), model.char_cnn is not None)]
    scales = []
    for _ in range(7):
        trainer.step(inputs, trainer.zero_states())
        scales.append(
            float(trainer.update.loss_scale.scale) / bilm.loss_scale.INITIAL_SCALE
        )
    assert scales == [1, 1, 2, 2, 2, 4, 4]


@pytest.fixture(scope="module")
def benchmarked() -> TrainingOptions:
    """Options of a run of 20 steps an epoch and two epochs."""
    return replace_options(
        OPTIONS, lstm=SMALL_LSTM, batch_size=3, unroll_steps=2, n_train_tokens=120
    )


@pytest.mark.slow
def test_speed_is_measured_on_the_user_s_data(
    benchmarked: TrainingOptions, data: Any
) -> None:
    options = replace_options(benchmarked, n_epochs=2)
    schedule = training_schedule(options, 1)
    speed = measure_training(options, data(options), 1, 5, schedule)
    assert speed.step_seconds > 0
    np.testing.assert_allclose(speed.tokens_per_second * speed.step_seconds, 3 * 2)
    np.testing.assert_allclose(speed.epoch_seconds, 20 * speed.step_seconds)
    np.testing.assert_allclose(speed.total_seconds, 2 * speed.epoch_seconds)
    assert 0 <= speed.data_wait <= 1
    assert speed.memory_bytes > 2**20


@pytest.mark.slow
def test_benchmark_prints_its_rows_and_writes_nothing(
    benchmarked: TrainingOptions,
    corpus: Corpus,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_options(tmp_path / "options.json", training_dict(benchmarked))
    cwd = tmp_path / "cwd"
    cwd.mkdir()
    monkeypatch.chdir(cwd)
    flags = f"""--save_dir {tmp_path / "run"} --vocab_file {corpus.vocab}
        --log_dir {tmp_path / "logs"} --options {tmp_path / "options.json"}
        --train_prefix {corpus.train} --benchmark 3"""
    assert main(["train", *flags.split()]) == 0
    this, more, sparse = capsys.readouterr().out.split("\n\n")
    rows = dict(
        re.fullmatch(r"(.+?)  +([\d.,]+%?)", line).groups()
        for line in this.splitlines()
    )
    assert set(rows) == {
        "tokens/s",
        "seconds a step",
        "steps",
        "hours an epoch",
        "hours in all",
        "waiting for data",
        "memory, MiB",
    }
    assert [line.split()[0] for line in more.splitlines()[1:]] == ["1", "2", "8", "64"]
    assert sparse == "all gradients of a step are dense\n"  # of so few words
    assert rows["steps"] == "20"
    assert rows["waiting for data"].endswith("%")
    assert {path.name for path in tmp_path.iterdir()} == {"options.json", "cwd"}
    assert not list(cwd.iterdir())


def test_the_wait_for_data_is_logged(trained: Run) -> None:
    shares = re.findall(r"data wait ([\d.]+) %", trained.log)
    assert len(shares) == 8
    assert all(0 <= float(share) <= 100 for share in shares)
