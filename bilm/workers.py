"""The processes of a training under way: their devices, and what they tell each other.

A training in one process has one worker, which tells things to itself.
"""

import contextlib
import json
import logging
import re
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bilm.cluster import Cluster
from bilm.devices import check_devices_of_each, make_strategy, replica_number
from bilm.errors import InputError
from bilm.jsonfiles import differences_of
from bilm.rendezvous import meet

logger = logging.getLogger(__name__)

_MOST_SHOWN = 5  # differences of two workers
DEAF_AFTER = 5  # seconds without an answer to a connection
_OWN = tf.errors.ResourceExhaustedError  # of this machine's memory
_NO_SERVER = "Could not start gRPC server"
_REASON = re.compile("aborted by|unhealthy|heartbeat|reset by peer|/job:")
_TASK = re.compile(r"/job:worker/(?:replica:\d+/)?task:(\d+)")


class Workers:
    """Who takes part in a training, and which of them this process is.

    Attributes:
        strategy: of all devices.
        cluster: the addresses; None for one process.
        count: number of workers, W.
        index: of this one; that of the chief, who alone writes files, is 0.
        devices: of each worker.
        n_replicas: devices of all workers.
        replicas: those of this worker.
    """

    def __init__(self, devices: int = 1, cluster: Cluster | None = None):
        """Meet the other workers; waits until all are there, for half an hour at most.

        Where there are others, this comes before anything that TensorFlow computes.

        Args:
            devices: of this machine, and of each other one.
            cluster: None for a training in this process.

        Raises:
            InputError: there are not as many devices, or another worker does not come
                or is lost.
        """
        self.cluster = cluster
        self.count = cluster.n_workers if cluster else 1
        self.index = cluster.index if cluster else 0
        self.devices = devices
        self.n_replicas = self.count * devices
        self.replicas = range(self.index * devices, (self.index + 1) * devices)
        self._say("waits for the others")
        if cluster is not None:
            check_devices_of_each(devices)
            meet(cluster)
        with self.watched(), _ctrl_c_ends_at_once(cluster is not None):
            self.strategy = make_strategy(devices, cluster)
        self._say("has found the others" + self.is_chief * "; it writes log and files")
        self._exchange = tf.function(
            self._exchange_in_graph,
            autograph=False,
            input_signature=[tf.TensorSpec([None], tf.int32)],
        )

    @property
    def is_chief(self) -> bool:
        """Whether this is the worker that writes files."""
        return self.index == 0

    def pieces(self, n_rounds: int) -> list[int]:
        """The numbers of this worker's pieces of a step; see `bilm.pieces`."""
        return [
            n_round * self.n_replicas + replica
            for n_round in range(n_rounds)
            for replica in self.replicas
        ]

    def gather(self, value: Any) -> list[Any]:
        """What each worker gives, in their order: values that JSON can hold.

        Of this and the functions below, all workers call the same in the same order.
        """
        text = json.dumps(value).encode()
        words = np.frombuffer(text + b" " * (-len(text) % 4), np.int32)
        return [json.loads(each.tobytes()) for each in self._gather(words)]

    def gather_array(self, array: np.ndarray) -> np.ndarray:
        """The float32 arrays [...] of all workers, of one shape: [W, ...]."""
        words = np.ascontiguousarray(array, np.float32).ravel().view(np.int32)
        every = np.stack(self._gather(words)).view(np.float32)
        return every.reshape(self.count, *array.shape)

    def chief_s(self, value: Any) -> Any:
        """What the chief gives, in all workers."""
        return self.gather(value if self.is_chief else None)[0]

    def check_same(self, what: dict[str, Any]) -> None:
        """Compare what this worker goes by, by names, with the chief.

        TensorFlow's version and the devices are compared in any case.

        Raises:
            InputError: a worker differs; in all workers, with both values.
        """
        versions = {
            "the version of TensorFlow": tf.__version__,
            "devices of each worker": self.devices,
        }
        chief, *others = self.gather(versions | what)
        for index, other in enumerate(others, 1):
            differences = [
                f"{name} is {_said(ours)} at {self._name(0)} and {_said(theirs)} at "
                f"{self._name(index)}"
                for name, ours, theirs in differences_of(chief, other)
            ]
            if differences:
                raise InputError(
                    "all workers of a training must go by the same, but "
                    + "; ".join(differences[:_MOST_SHOWN])
                    + ": start them with the same flags, files and versions"
                )

    @contextlib.contextmanager
    def one_voice(self) -> Iterator[None]:
        """Let the chief alone log, in the block, what all would say."""
        package = logging.getLogger("bilm")
        level = package.level
        if not self.is_chief:
            package.setLevel(logging.ERROR)
        try:
            yield
        finally:
            package.setLevel(level)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Say which worker was lost where the block ends by that.

        Raises:
            InputError: one was.
        """
        try:
            yield
        except tf.errors.OpError as error:
            if self.cluster is None or isinstance(error, _OWN):
                raise
            if _NO_SERVER in str(error):
                raise InputError(
                    f"{self._name(self.index)} cannot listen at its address: another "
                    "process has the port, perhaps with the same --worker_index, or "
                    "the address is that of another machine"
                ) from error
            raise InputError(self._lost(error)) from error

    def _say(self, what: str) -> None:
        if self.cluster is not None:
            logger.info("%s of %d %s", self._name(self.index), self.count, what)

    def _lost(self, error: tf.errors.OpError) -> str:
        told = [int(task) for task in _TASK.findall(str(error))]
        lost = [i for i in dict.fromkeys(told) if i != self.index and i < self.count]
        names = [self._name(i) for i in lost or self._deaf() or self._mute(error)]
        lines = str(error).strip().splitlines()
        reason = next((line for line in lines if _REASON.search(line)), lines[0])
        return (
            f"{' and '.join(names) or 'another worker'} ended or cannot be reached "
            f"({reason.strip()}), and so this one ends: look at its log, then start "
            "all workers again by bilm train --resume with the same other flags"
        )

    def _deaf(self) -> list[int]:
        """The workers that take no connection."""
        assert self.cluster is not None
        deaf = []
        for index in range(self.count):
            try:
                place = self.cluster.place(index)
                socket.create_connection(place, DEAF_AFTER).close()
            except OSError:
                deaf.append(index)
        return deaf

    def _mute(self, error: tf.errors.OpError) -> list[int]:
        """The chief, where its machine takes connections, but no heartbeat comes."""
        return [0] if "Deadline Exceeded" in str(error) and not self.is_chief else []

    def _name(self, index: int) -> str:
        return self.cluster.name(index) if self.cluster else f"worker {index}"

    def _gather(self, words: np.ndarray) -> Sequence[np.ndarray]:
        """The int32 arrays [any] of all workers."""
        if self.cluster is None:
            return [words]
        sizes, every = self._exchange(words)
        return np.split(every.numpy(), np.cumsum(sizes.numpy())[:-1])

    def _exchange_in_graph(self, words: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sizes [W] and one after the other the words of all workers."""

        def replica() -> list[tf.Tensor]:
            context = tf.distribute.get_replica_context()
            speaks = replica_number() == self.replicas[0]  # for its worker
            mine = tf.identity(words if speaks else words[:0])
            size = tf.identity(tf.shape(words)[: int(speaks)])
            return context.all_gather([size, mine], axis=0)

        sizes, every = self.strategy.run(replica)
        local = self.strategy.experimental_local_results
        return local(sizes)[0], local(every)[0]


@contextlib.contextmanager
def _ctrl_c_ends_at_once(active: bool) -> Iterator[None]:
    """TensorFlow waits with Python's lock held, where no handler of ours could run."""
    if not active or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _said(value: Any) -> str:
    return "not given" if value is None else str(value)
