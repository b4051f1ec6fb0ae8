"""The next items are made while the present one is used."""

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Prefetcher(Generic[Item]):
    """Iterates over `items` in a thread that runs ahead.

    Leaving the `with` block ends the thread.

    Args:
        items: what to make; an exception in there is raised to the consumer.
        depth: how many items may wait.

    Attributes:
        waited: seconds that the consumer has waited in all.
    """

    def __init__(self, items: Iterable[Item], depth: int = 4):
        self.waited = 0.0
        self._items = items
        self._queue: queue.Queue[tuple[Item | None, BaseException | None]]
        self._queue = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> "Prefetcher[Item]":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def __iter__(self) -> Iterator[Item]:
        while True:
            start = time.perf_counter()
            item, error = self._queue.get()
            self.waited += time.perf_counter() - start
            if error is not None:
                raise error
            if item is None:
                return
            yield item

    def _run(self) -> None:
        try:
            for item in self._items:
                if not self._put(item, None):
                    return
            self._put(None, None)
        except Exception as error:  # raised again where the items are used
            self._put(None, error)

    def _put(self, item: Item | None, error: BaseException | None) -> bool:
        """Wait for room; False where the consumer has left."""
        while not self._stopped.is_set():
            try:
                self._queue.put((item, error), timeout=0.1)
                return True
            except queue.Full:
                continue
        return False
