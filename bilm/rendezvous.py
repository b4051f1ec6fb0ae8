"""The workers of a training find each other, before TensorFlow waits for them.

TensorFlow waits without an end, a word or an ear for signals. So each worker first
reports to the chief's address, and goes on when the chief has heard of all of them.
After that the address is that of TensorFlow's server.
"""

import contextlib
import errno
import logging
import socket
import time
from collections.abc import Iterator

from bilm.cluster import Cluster
from bilm.errors import InputError

logger = logging.getLogger(__name__)

PATIENCE = 30 * 60.0
"""Seconds to wait for the others: a queue may start them at different times."""

_TOLD_EVERY = 60.0  # seconds between two lines of the log
_LOOK = 0.5  # seconds between two looks at the clock, and the longest for one answer
_HELLO, _GO = b"bilm worker ", b"bilm go\n"


def meet(cluster: Cluster, patience: float = PATIENCE) -> None:
    """Wait until all workers are there.

    Args:
        cluster: of this process.
        patience: seconds.

    Raises:
        InputError: one did not come, or the chief's address is in other hands.
    """
    wait = _Wait(patience)
    if cluster.index == 0:
        _hear_of_all(cluster, wait)
    else:
        _report(cluster, wait)


class _Wait:
    """A wait with an end, told from time to time."""

    def __init__(self, patience: float):
        self._patience = patience
        self._begin = self._last_told = time.monotonic()

    def go_on(self, for_whom: str) -> None:
        """Note that the wait is not over.

        Raises:
            InputError: the patience is.
        """
        now = time.monotonic()
        if now - self._begin > self._patience:
            raise InputError(
                f"waited {self._patience / 60:g} minutes for {for_whom} in vain: look "
                "at its log and at its address, then start all workers again"
            )
        if now - self._last_told > _TOLD_EVERY:
            logger.info("still waits for %s", for_whom)
            self._last_told = now


def _hear_of_all(cluster: Cluster, wait: _Wait) -> None:
    """As the chief: listen until each of the others has reported, then let them go."""
    there: dict[int, socket.socket] = {}
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(_listening(cluster))
        while missing := [i for i in range(1, cluster.n_workers) if i not in there]:
            wait.go_on(" and ".join(cluster.name(i) for i in missing))
            with contextlib.suppress(TimeoutError):
                connection = stack.enter_context(server.accept()[0])
                index = _reported(connection)
                if index is not None and 0 < index < cluster.n_workers:
                    there[index] = connection
            there = {i: each for i, each in there.items() if not _is_closed(each)}
        for connection in there.values():
            with contextlib.suppress(OSError):
                connection.sendall(_GO)
                # Who closes first keeps the port for a while; that is not to be us.
                connection.settimeout(_LOOK)
                connection.recv(1)


@contextlib.contextmanager
def _listening(cluster: Cluster) -> Iterator[socket.socket]:
    _, port = cluster.place(0)
    try:
        server = _server_at(port)
    except OSError as error:
        raise InputError(
            f"{cluster.name(0)} cannot listen at its address ({error.strerror}): "
            "another process has the port, perhaps with the same --worker_index"
        ) from error
    with server:
        server.settimeout(_LOOK)
        yield server


def _server_at(port: int) -> socket.socket:
    """For IPv6 and IPv4, or for IPv4 alone where the other is switched off."""
    if socket.has_dualstack_ipv6():
        try:
            family = socket.AF_INET6
            return socket.create_server(("", port), family=family, dualstack_ipv6=True)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise
    return socket.create_server(("", port))


def _reported(connection: socket.socket) -> int | None:
    """The index of the worker that a connection comes from; None for a stranger."""
    connection.settimeout(_LOOK)
    with contextlib.suppress(OSError):
        text = connection.recv(64)
        number = text.removeprefix(_HELLO).strip()
        if text.startswith(_HELLO) and number.isdigit():
            return int(number)
    return None


def _is_closed(connection: socket.socket) -> bool:
    """Whether the other side is gone; it says nothing more after its report."""
    connection.settimeout(0)
    try:
        return not connection.recv(1)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _report(cluster: Cluster, wait: _Wait) -> None:
    """As one of the others: report to the chief, and wait for its word."""
    while True:
        wait.go_on(cluster.name(0))
        try:
            connection = socket.create_connection(cluster.place(0), _LOOK)
        except OSError:  # it does not listen yet, or cannot be found
            time.sleep(_LOOK)
            continue
        with connection:
            connection.settimeout(_LOOK)
            if _is_let_go(connection, cluster, wait):
                return
        time.sleep(_LOOK)


def _is_let_go(connection: socket.socket, cluster: Cluster, wait: _Wait) -> bool:
    """Whether the chief lets this worker go; or else its connection broke."""
    heard = b""
    try:
        connection.sendall(_HELLO + str(cluster.index).encode() + b"\n")
        while _GO.startswith(heard) and heard != _GO:
            wait.go_on("the other workers")
            with contextlib.suppress(TimeoutError):
                more = connection.recv(len(_GO) - len(heard))
                if not more:
                    return False
                heard += more
    except OSError:
        return False
    if heard != _GO:
        raise InputError(
            f"the address of {cluster.name(0)} answers, but it waits for no worker: it "
            "trains already, or another program has the port; start all workers anew"
        )
    return True
