"""When a run saves, stops, tries again and gives up."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from events import read_events

from bilm.commands.arguments import interval
from bilm.commands.signals import StopSignals
from bilm.errors import InputError
from bilm.event_files import cut_back
from bilm.intervals import as_interval
from bilm.loss_scale import LossScale
from bilm.run_settings import RunSettings
from bilm.saver import PAUSES, Saver

FULL = OSError(28, "No space left on device", "run")


class Clock:
    """Time that passes only when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def saver(outcomes: list[Any], clock: Clock) -> Saver:
    """Its attempts end as told: an error is raised, a prefix returned."""

    def write() -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return Saver(write, "run/model.ckpt-1", clock, clock.sleep)


def test_a_failed_save_is_due_again_after_growing_pauses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO", "bilm")
    clock = Clock()
    lost = tf.errors.NotFoundError(None, None, "the folder is lost\nmore")
    saves = saver([FULL, lost, "run/model.ckpt-2"], clock)
    assert not saves.retry_due
    assert not saves.save()
    clock.now += PAUSES[0] - 1
    assert saves.failures == 1 and not saves.retry_due
    clock.now += 1
    assert saves.retry_due and not saves.save()
    clock.now += PAUSES[1] - 1
    assert not saves.retry_due
    clock.now += 1
    assert saves.retry_due and saves.save()
    assert (saves.prefix, saves.failures) == ("run/model.ckpt-2", 0)
    assert not saves.retry_due
    for part in ("No space left", "the folder is lost)", "attempt 2 of 8", "in 60 s"):
        assert part in caplog.text
    assert "saved run/model.ckpt-2 after 2 failures" in caplog.text


def test_the_last_attempt_names_the_last_good_checkpoint() -> None:
    clock = Clock()
    with pytest.raises(InputError, match="No space left.*8 times.*run/model.ckpt-1"):
        saver([FULL] * 8, clock).insist()
    assert clock.now == sum(PAUSES) and list(PAUSES) == sorted(PAUSES)
    clock = Clock()
    saver([FULL, "run/model.ckpt-2"], clock).insist()
    assert clock.now == PAUSES[0]


def test_a_signal_ends_the_wait_for_a_full_disk() -> None:
    clock = Clock()
    saves = saver([FULL] * 6, clock)
    match = "was to stop, but no checkpoint.*last one is run/model.ckpt-1"
    with pytest.raises(InputError, match=match):
        saves.insist(lambda: clock.now >= 100)  # in the third pause
    assert clock.now == 100 + 2 * PAUSES[0]
    saver([FULL, FULL, "run/model.ckpt-2"], clock).insist(lambda: True)


def test_errors_of_ours_are_not_tried_again() -> None:
    with pytest.raises(KeyError):
        saver([KeyError("bug")], Clock()).save()


def test_intervals_are_steps_or_minutes() -> None:
    steps, minutes = as_interval("x", "90"), as_interval("x", "90m")
    assert steps == as_interval("x", 90) == (90, False)
    assert [steps.steps_are_over(n) for n in (89, 90)] == [False, True]
    assert [minutes.time_is_over(60 * n) for n in (89.9, 90)] == [False, True]
    assert not steps.time_is_over(1e9) and not minutes.steps_are_over(10**9)
    assert (interval("90"), interval("90m")) == (90, "90m")
    for wrong in ("0", "0m", "m", "1h", "-3", "1.5m", "", 0):
        with pytest.raises(InputError, match="stop_after must be .* 90m, .* not"):
            RunSettings(stop_after=wrong)
        with pytest.raises(InputError, match="checkpoint_every must be"):
            RunSettings(checkpoint_every=wrong)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)]
)
def test_the_first_signal_is_noted_and_the_second_does_what_it_does(
    number: signal.Signals, code: int, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    before = signal.signal(number, lambda number, frame: seen.append(number))
    try:
        with StopSignals() as signals:
            assert not signals.requested() and signals.exit_code == 0
            os.kill(os.getpid(), number)
            assert signals.requested() and signals.exit_code == code
            assert not seen
            os.kill(os.getpid(), number)
            assert seen == [number]
        assert f"{number.name}: the training stops with" in capfd.readouterr().err
        with StopSignals():
            pass
        os.kill(os.getpid(), number)
        assert seen == [number] * 2
    finally:
        signal.signal(number, before)


def test_another_thread_needs_no_signals() -> None:
    codes: list[int] = []

    def work() -> None:
        with StopSignals() as signals:
            codes.append(signals.exit_code)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [0]


def test_events_are_cut_back_to_a_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "bilm")
    writer = tf.summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        for step in (2, 4, 6, 8):
            tf.summary.scalar("a", step, step)
            tf.summary.histogram("b", tf.range(step), step)
    writer.close()
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])  # half of the last event
    cut_back(tmp_path, 8)
    assert [p.step for p in read_events(tmp_path)["a"]] == [2, 4, 6, 8]
    assert [p.step for p in read_events(tmp_path)["b"]] == [2, 4, 6]
    cut_back(tmp_path, 5)
    events = read_events(tmp_path)
    assert [point.step for point in events["a"] + events["b"]] == [2, 4, 2, 4]
    assert "removed 3 events after step 5" in caplog.text
    assert whole.startswith(content := path.read_bytes())
    cut_back(tmp_path, 5)
    assert path.read_bytes() == content
    cut_back(tmp_path, 0)
    assert not read_events(tmp_path)


def test_the_factor_of_float16_goes_on() -> None:
    first, second = LossScale(active=True), LossScale(active=True)
    first.scale.assign(2.0**7)
    first.adapt(tf.constant(True))
    second.restore(first.state())
    assert second.state() == {"scale": 2.0**7, "good_steps": 1}
    one = tf.constant(1.0)
    np.testing.assert_array_equal(second.multiply(one), first.multiply(one))
    assert LossScale(active=False).state() == {}
