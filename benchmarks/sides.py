"""The two sides of a comparison: processes that each print one JSON line, in turn."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
OURS = str(HERE / "ours_training.py")

Command = tuple[list[str], dict[str, str]]  # arguments and environment
Result = dict[str, Any]  # the JSON line


def alternate(
    rounds: int, ours: Callable[[], Result], peer: Callable[[], Result]
) -> tuple[Result, Result]:
    """Run both in turn; the median of each number over the rounds."""
    found, others = zip(*[(ours(), peer()) for _ in range(rounds)], strict=True)
    return medians(found), medians(others)


def medians(results: Sequence[Result]) -> Result:
    """Of each number."""
    numbers = [
        key for key, value in results[0].items() if isinstance(value, int | float)
    ]
    return {key: statistics.median(each[key] for each in results) for key in numbers}


def ours(side: str, *flags: str) -> Command:
    """A command of our side, with this checkout's package."""
    return [sys.executable, OURS, side, *flags], environment()


def peers(args: argparse.Namespace, peer: str, *flags: str) -> Command:
    """A command of a peer, without this checkout's package."""
    if not (args.peers and args.peers_python):
        raise SystemExit("--peers and --peers_python are needed for this comparison")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return [args.peers_python, args.peers, peer, *flags], own


def environment() -> dict[str, str]:
    """That of our processes."""
    return {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, "PYTHONPATH": str(HERE.parent)}


def run(command: Command) -> Result:
    """Run a command in an empty folder, and read the JSON line it ends with."""
    arguments, env = command
    with tempfile.TemporaryDirectory() as cwd:
        done = subprocess.run(
            arguments, env=env, cwd=cwd, text=True, capture_output=True
        )
    if done.returncode:
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr[-3000:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    result.pop("losses", None)
    print(json.dumps(result), file=sys.stderr)  # each run, for who wants to see them
    return result


def timed(action: Callable[[], Any]) -> Result:
    """Seconds of the whole process."""
    start = time.perf_counter()
    action()
    return {"seconds": time.perf_counter() - start}
