"""The progress bar on a terminal, and the lines without one."""

import io
import logging
import sys
import time

import numpy as np
import pytest

from bilm.progress import Progress, Schedule

SCHEDULE = Schedule(n_steps=8, steps_per_epoch=4, tokens_per_step=50)


class Terminal(io.StringIO):
    """Standard error, as a person sees it."""

    def isatty(self) -> bool:
        return True


def three_steps(monkeypatch: pytest.MonkeyPatch) -> tuple[Progress, list[float]]:
    """Two seconds a step, of which half a second is waiting; one loss is no number."""
    clock = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    progress = Progress(SCHEDULE, 3, sampled=True)
    for loss in (1.0, np.nan, 2.0):
        clock[0] += 2
        progress.add(np.float32(loss))
    return progress, clock


def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    progress, _ = three_steps(monkeypatch)
    with progress:
        progress.report(3, 5.0, 1.5)
    shown = sys.stderr.getvalue().split("\r")[-1]  # type: ignore[attr-defined]
    assert "3/8 [" in shown  # and then the time so far and to go
    for part in ("epoch 0.75", "perplexity (sampled) 4.5", "25 tokens/s", "25.0%"):
        assert part in shown


def test_without_a_terminal_there_are_lines(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.INFO, "bilm")
    progress, _ = three_steps(monkeypatch)
    with progress:
        line = progress.report(3, 5.0, 1.5)
    assert capsys.readouterr().err == ""
    assert line == (0.75, 25.0, 0.25)
    assert caplog.messages == [
        "step 3 (epoch 0.75, 3 of 8): perplexity (sampled) 4.48, gradient norm 5, "
        "25 tokens/s, data wait 25.0 %, 0:00:10 to go"
    ]


def test_other_work_is_left_out_of_the_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    progress, clock = three_steps(monkeypatch)
    clock[0] += 60
    progress.leave_out(60)
    assert progress.report(3, 5.0, 1.5) == (0.75, 25.0, 0.25)
