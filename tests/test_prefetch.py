"""Items made ahead in a thread."""

import threading
import time
from collections.abc import Iterator

import pytest

from bilm.prefetch import Prefetcher


def test_gives_the_items_in_order() -> None:
    with Prefetcher(range(50), depth=3) as items:
        assert list(items) == list(range(50))


def test_nothing_gives_nothing() -> None:
    with Prefetcher([]) as items:
        assert list(items) == []


def test_runs_ahead_no_further_than_it_may() -> None:
    made = []

    def make() -> Iterator[int]:
        for item in range(100):
            made.append(item)
            yield item

    with Prefetcher(make(), depth=4) as items:
        assert next(iter(items)) == 0
        end = time.monotonic() + 5
        while len(made) < 6 and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(0.05)
        # 1 in use, 4 that wait, 1 that waits for room
        assert made == list(range(6))


def test_an_error_comes_after_the_items_before_it() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise KeyError("broken")

    found = []
    with Prefetcher(make()) as items, pytest.raises(KeyError, match="broken"):
        for item in items:
            found.append(item)
    assert found == [1]


def test_leaving_ends_the_thread_of_endless_items() -> None:
    before = threading.active_count()

    def endless() -> Iterator[int]:
        while True:
            yield 0

    with pytest.raises(RuntimeError), Prefetcher(endless()) as items:
        next(iter(items))
        assert threading.active_count() == before + 1
        raise RuntimeError
    assert threading.active_count() == before


def test_counts_the_time_that_the_consumer_waits() -> None:
    def slow() -> Iterator[int]:
        for item in range(2):
            time.sleep(0.05)
            yield item

    with Prefetcher(slow()) as items:
        assert items.waited == 0
        assert list(items) == [0, 1]
        assert 0.05 < items.waited < 5
