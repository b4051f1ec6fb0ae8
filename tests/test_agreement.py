"""What workers do between two steps: once, and all of them after the same step."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from bilm.agreement import Agreement, Wishes
from bilm.run_settings import RunSettings
from bilm.saver import Saver


def granted(agreements: Sequence[Agreement], now: SimpleNamespace) -> list[Wishes]:
    """Steps of ten seconds each; returns what all do after each of them."""
    wishes = []
    for _ in range(12):
        now.seconds += 10
        shared = np.max([a.wishes() for a in agreements], axis=0)
        first, *others = (a.after(shared) for a in agreements)
        assert all(other == first for other in others)
        if first.save:
            for agreement in agreements:
                agreement.saved()
        wishes.append(first)
    return wishes


def agreements_of(n_workers: int, now: SimpleNamespace, **settings: Any) -> Any:
    workers: Any = SimpleNamespace(count=n_workers)
    return [
        Agreement(
            workers,
            RunSettings(**settings),
            Saver(str),
            clock=lambda i=i: now.seconds + i,
        )
        for i in range(n_workers)
    ]


def test_a_minute_has_one_checkpoint() -> None:
    for n_workers, first in ((1, 5), (2, 6)):
        now = SimpleNamespace(seconds=0)
        agreements = agreements_of(n_workers, now, checkpoint_every="1m")
        saved = [wish.save for wish in granted(agreements, now)]
        assert sum(saved) == 3 - n_workers and saved.index(True) == first


def test_a_wish_of_one_worker_is_granted_to_all() -> None:
    now = SimpleNamespace(seconds=0)
    one = agreements_of(2, now)[0]
    other = agreements_of(2, now, stop_requested=lambda: now.seconds >= 50)[1]
    stops = [wish.stop for wish in granted([one, other], now)]
    assert stops == [False] * 5 + [True] * 7
