"""Workers find each other: threads here, which need no TensorFlow."""

import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from workers import free_ports

from bilm import rendezvous
from bilm.cluster import Cluster
from bilm.errors import InputError
from bilm.rendezvous import meet


class Meeting:
    """Some workers that want to meet."""

    def __init__(self, n_workers: int):
        ports = free_ports(n_workers)
        self.addresses = tuple(f"127.0.0.1:{port}" for port in ports)
        self.ended: dict[str, str] = {}  # worker to "met" or its error
        self._threads: list[threading.Thread] = []

    def start(self, index: int, patience: float = 30, name: str = "") -> None:
        def run() -> None:
            try:
                meet(Cluster(self.addresses, index), patience)
            except InputError as error:
                self.ended[name or str(index)] = str(error)
            else:
                self.ended[name or str(index)] = "met"

        self._threads.append(threading.Thread(target=run))
        self._threads[-1].start()

    def join(self) -> dict[str, str]:
        for thread in self._threads:
            thread.join(60)
        return self.ended


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_all_meet_in_any_order(order: tuple[int, ...]) -> None:
    meeting = Meeting(3)
    for index in order:
        meeting.start(index)
        time.sleep(0.1)
    assert meeting.join() == {"0": "met", "1": "met", "2": "met"}
    # TensorFlow's server takes the port at once.
    host, port = Cluster(meeting.addresses, 0).place(0)
    socket.create_server((host, port)).close()


def test_who_does_not_come_is_named() -> None:
    meeting = Meeting(3)
    for index, patience in ((0, 3), (1, 5)):
        meeting.start(index, patience)
    ended = meeting.join()
    worker = f"worker 2 ({meeting.addresses[2]})"
    assert f"minutes for {worker} in vain: look at its log and at its" in ended["0"]
    assert "minutes for " in ended["1"]  # the others, or the chief that has ended
    alone = Meeting(2)
    alone.start(1, patience=1)
    assert f"for worker 0 ({alone.addresses[0]}) in vain" in alone.join()["1"]


def test_who_has_died_in_the_wait_is_waited_for_again() -> None:
    meeting = Meeting(3)
    chief = Cluster(meeting.addresses, 0)
    meeting.start(0)
    dead = connection_to(chief)
    dead.sendall(b"bilm worker 1\n")
    time.sleep(0.2)
    dead.close()
    meeting.start(2)
    time.sleep(1.5)
    assert not meeting.ended  # worker 1 is missing again
    meeting.start(1)
    assert meeting.join() == {"0": "met", "1": "met", "2": "met"}


def connection_to(cluster: Cluster) -> socket.socket:
    for _ in range(50):
        try:
            return socket.create_connection(cluster.place(0), 1)
        except OSError:
            time.sleep(0.1)
    raise AssertionError("nobody listens")


def test_strangers_are_no_workers() -> None:
    meeting = Meeting(2)
    meeting.start(0)
    strangers = []
    for text in (b"GET / HTTP/1.1\r\n", b"bilm worker 2\n", b"bilm worker x\n", b""):
        strangers.append(connection_to(Cluster(meeting.addresses, 0)))
        strangers[-1].sendall(text)
    meeting.start(1)
    assert meeting.join() == {"0": "met", "1": "met"}
    for each in strangers:
        each.close()


@pytest.fixture
def other_server() -> Iterator[int]:
    """The port of a program that says something else."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"PRI * HTTP/2.0")
                connection.recv(100)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def test_a_chief_that_does_not_wait_is_told_from_one_that_does(
    other_server: int,
) -> None:
    addresses = (f"127.0.0.1:{other_server}", "127.0.0.1:1")
    with pytest.raises(InputError, match="answers, but it waits for no worker: it tr"):
        meet(Cluster(addresses, 1), 20)
    with pytest.raises(InputError, match=r"worker 0 \(.*\) cannot listen at its addre"):
        meet(Cluster(addresses, 0), 20)


def test_the_wait_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(rendezvous, "_TOLD_EVERY", 0.2)
    caplog.set_level(logging.INFO, "bilm")
    (port,) = free_ports(1)
    with pytest.raises(InputError, match="waited 0.0166667 minutes"):
        meet(Cluster((f"127.0.0.1:{port}", "gpu2:1"), 0), 1.0)
    assert "still waits for worker 1 (gpu2:1)" in caplog.text
