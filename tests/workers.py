"""Two workers of one training, each a process of its own on the loopback."""

import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PATIENCE = 240  # seconds, of a loaded machine


class Ended(NamedTuple):
    """A process that has ended."""

    code: int
    lines: list[str]  # of its standard error, without the time of day
    output: str  # its standard output


class Worker:
    """`bilm` in a process, whose standard error goes to a file.

    Args:
        arguments: after `bilm`.
        log: path of that file.
        environment: variables beside those of this process.
    """

    def __init__(self, arguments: list[str], log: Path, **environment: str):
        self.log = log
        with open(log, "w") as file, open(log.with_suffix(".out"), "w") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bilm", *arguments],
                cwd=ROOT,
                env=os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"} | environment,
                stdout=output,
                stderr=file,
            )

    def wait_for(self, text: str) -> None:
        """Wait until it has said something."""
        end = time.monotonic() + PATIENCE
        while text not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.05)

    def ended(self) -> Ended:
        """Wait for its end."""
        code = self.process.wait(PATIENCE)
        lines = self.log.read_text().splitlines()
        lines = [re.sub(r"^\d\d:\d\d:\d\d ", "", line) for line in lines]
        return Ended(code, lines, self.log.with_suffix(".out").read_text())


def two_workers(
    path: Path, arguments: list[str], more: tuple[str, str] = ("", "")
) -> list[Worker]:
    """Start two of them; `more` are flags of each alone."""
    addresses = ",".join(f"127.0.0.1:{port}" for port in free_ports(2))
    return [
        Worker(
            [
                *arguments,
                *("--cluster", addresses, "--worker_index", str(index)),
                *more[index].split(),
            ],
            path / f"worker-{index}.log",
        )
        for index in range(2)
    ]


def free_ports(count: int) -> list[int]:
    """Numbers of ports that nobody uses now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
