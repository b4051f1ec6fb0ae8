"""Compare training, reading and evaluation with bilm-tf, in turn, and print a table.

README.md beside this file says what is needed and how to run each comparison.
"""

import argparse
import glob
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sides import Result, alternate, environment, ours, peers, run, timed

TENTH = 10  # the step up to which a start is timed
MIB = 2**20


class Row(NamedTuple):
    """A line of a table; the ratio is that by which ours is better."""

    name: str
    ours: float | None
    peer: float | None = None
    ratio: float | None = None
    digits: int = 1


def compare_step(args: argparse.Namespace) -> list[Row]:
    """Training steps of the same size on the same text."""
    flags = ["--steps", str(args.steps), *text_flags(args)]
    found, peer = alternate(
        args.rounds,
        lambda: run(ours("step", *flags, *args.ours)),
        lambda: run(peers(args, "train", *flags)),
    )
    share = found["flops_per_s"] / found["product_flops_per_s"]
    return [
        faster("tokens/s", "tokens_per_s", found, peer),
        Row("seconds a step", found["step_s"], peer["step_s"], digits=3),
        Row("GFLOP/s of the step", found["flops_per_s"] / 1e9),
        Row("GFLOP/s of a large product", found["product_flops_per_s"] / 1e9),
        Row("FLOP share, %", 100 * share),
        Row("wait for data, %", 100 * found["data_wait"]),
        Row("peak memory, MiB", found["peak_mb"], peer["peak_mb"], digits=0),
    ]


def compare_vocabulary(args: argparse.Namespace) -> list[Row]:
    """Our steps with a large softmax and, in the peer's place, with a small one."""
    flags = ["--steps", str(args.steps), *text_flags(args), *args.ours]
    large, small = alternate(
        args.rounds,
        lambda: run(ours("step", *flags, "--n_words", str(args.n_words[1]))),
        lambda: run(ours("step", *flags, "--n_words", str(args.n_words[0]))),
    )
    over = [side["peak_mb"] - side["values_mb"] for side in (large, small)]
    return [
        Row("words", args.n_words[1], args.n_words[0], digits=0),
        Row(
            "seconds a step",
            large["step_s"],
            small["step_s"],
            large["step_s"] / small["step_s"],
            digits=3,
        ),
        Row("variables + slots, MiB", large["values_mb"], small["values_mb"], digits=0),
        Row("peak memory beyond them, MiB", over[0], over[1], digits=0),
    ]


def compare_read(args: argparse.Namespace) -> list[Row]:
    """Batches of both directions on one core, without the time for the vocabulary."""
    flags = text_flags(args)
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])  # and so for what we start
    found, peer = alternate(
        args.rounds,
        lambda: run(ours("read", *flags)),
        lambda: run(peers(args, "read", *flags)),
    )
    rows = [faster("ids/s", "tokens_per_s", found, peer)]
    if args.large_gib:
        rows += large_file(args, found)
    return rows


def large_file(args: argparse.Namespace, found: Result) -> list[Row]:
    """Memory that a single large file adds; its words are those of the text."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "large.txt")
        write_large(args.text, path, args.large_gib * 1024 * MIB)
        flags = ["--options", args.options, "--vocab", args.vocab, "--text", path]
        large = run(ours("read", *flags, "--batches", str(args.batches)))
    return [
        Row(f"ids/s, {args.large_gib:g} GiB file", large["tokens_per_s"]),
        Row("memory added by that file, MiB", large["added_mb"]),
        Row("memory added by the text, MiB", found["added_mb"]),
    ]


def compare_test(args: argparse.Namespace) -> list[Row]:
    """Perplexity of a held-out text under the same checkpoint, at equal batch size."""
    with tempfile.TemporaryDirectory() as folder:
        save_dir = args.save_dir or folder
        if not args.save_dir:
            flags = ["--steps", str(args.steps), *text_flags(args)]
            run(ours("checkpoint", *flags, "--save_dir", save_dir))
        flags = ["--save_dir", save_dir, "--vocab", args.vocab, "--text", args.heldout]
        flags += ["--batch", str(args.batch)]
        found, peer = alternate(
            args.rounds,
            lambda: run(ours("test", *flags)),
            lambda: run(peers(args, "test", *flags)),
        )
    words = len(Path(args.heldout).read_text(encoding="utf-8").split())
    return [
        Row("perplexity", found["perplexity"], peer["perplexity"], digits=4),
        Row(
            "tokens/s",
            words / found["seconds"],
            words / peer["seconds"],
            peer["seconds"] / found["seconds"],
        ),
        Row("peak memory, MiB", found["peak_mb"], peer["peak_mb"], digits=0),
    ]


def compare_start(args: argparse.Namespace) -> list[Row]:
    """Seconds from the command to the tenth step."""
    flags = ["--steps", str(TENTH), *text_flags(args)]
    found, peer = alternate(
        args.rounds,
        lambda: {"seconds": seconds_to_tenth(args)},
        lambda: timed(lambda: run(peers(args, "train", *flags))),
    )
    ours_s, peer_s = found["seconds"], peer["seconds"]
    return [Row("seconds to the tenth step", ours_s, peer_s, peer_s / ours_s)]


def seconds_to_tenth(args: argparse.Namespace) -> float:
    """Start `bilm train`, and stop it when it tells of the tenth step."""
    with tempfile.TemporaryDirectory() as save_dir:
        flags = ["--options", args.options, "--vocab_file", args.vocab]
        flags += ["--train_prefix", args.text, "--save_dir", save_dir]
        command = [sys.executable, "-m", "bilm", "train", *flags, *args.ours]
        start = time.perf_counter()
        with subprocess.Popen(
            [*command, "--log_every", str(TENTH)],
            env=environment(),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            told = list(until(f"step {TENTH} ", process.stderr))
            seconds = time.perf_counter() - start
            process.kill()
    if f"step {TENTH} " not in told[-1]:
        raise SystemExit(f"bilm train failed:\n{''.join(told)}")
    return seconds


def until(text: str, lines: Iterator[str]) -> Iterator[str]:
    """Lines up to and with the first that has the text in it."""
    for line in lines:
        yield line
        if text in line:
            return


def faster(name: str, key: str, found: Result, peer: Result) -> Row:
    """A row of two speeds."""
    return Row(name, found[key], peer[key], found[key] / peer[key])


def text_flags(args: argparse.Namespace) -> list[str]:
    """Flags that all sides have for options, vocabulary and text."""
    return ["--options", args.options, "--vocab", args.vocab, "--text", args.text]


def write_large(pattern: str, path: str, n_bytes: float) -> None:
    """Write the text again and again into one file of at least this size."""
    text = b"".join(Path(name).read_bytes() for name in sorted(glob.glob(pattern)))
    with open(path, "wb") as file:
        while file.tell() < n_bytes:
            file.write(text)


def print_table(title: str, sides: tuple[str, str], rows: Sequence[Row]) -> None:
    """Print rows below a line that says where and when, and the names of both sides."""
    load = os.getloadavg()[0]
    print(f"{title}: {os.cpu_count()} CPUs, load {load:.1f}, {time.strftime('%F %T')}")
    print(f"{'':<36}{sides[0]:>12}{sides[1]:>12}{'ratio':>8}")
    for row in rows:
        cells = [
            f"{'' if value is None else format(value, f',.{row.digits}f'):>12}"
            for value in (row.ours, row.peer)
        ]
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        print(f"{row.name:<36}{''.join(cells)}{ratio:>8}")


COMPARISONS = {
    "step": compare_step,
    "vocabulary": compare_vocabulary,
    "read": compare_read,
    "test": compare_test,
    "start": compare_start,
}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line; paths become absolute, since no side runs in this folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument("comparison", choices=COMPARISONS)
    parser.add_argument("--options", required=True, help="options.json of a training")
    parser.add_argument("--vocab", required=True, help="vocabulary file")
    parser.add_argument("--text", required=True, help="shards, a pattern in quotes")
    parser.add_argument("--heldout", help="test: one file of held-out text")
    parser.add_argument("--save_dir", help="test: a checkpoint; else one is trained")
    parser.add_argument("--peers", help="script that runs the peers")
    parser.add_argument("--peers_python", help="python of the peers' environment")
    parser.add_argument("--steps", type=int, default=23, help="3 of them to warm up")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each side")
    parser.add_argument("--batch", type=int, default=32, help="test: rows")
    parser.add_argument("--n_words", type=int, nargs=2, default=[50_000, 793_471])
    parser.add_argument("--large_gib", type=float, default=0, help="read: file size")
    parser.add_argument("--batches", type=int, default=3000, help="read of that file")
    parser.add_argument("--mixed_precision", choices=("bfloat16", "float16"))
    parser.add_argument("--jit_compile", action="store_true")
    args = parser.parse_args(argv)
    if args.comparison == "test" and not args.heldout:
        parser.error("test needs --heldout")
    paths = ("options", "vocab", "text", "heldout", "save_dir", "peers", "peers_python")
    for name in paths:
        if value := getattr(args, name):
            setattr(args, name, os.path.abspath(value))
    args.ours = ["--jit_compile"] if args.jit_compile else []
    if args.mixed_precision:
        args.ours += ["--mixed_precision", args.mixed_precision]
    return args


def main() -> None:
    """Run one comparison and print its table."""
    args = parse()
    rows = COMPARISONS[args.comparison](args)
    sides = ("large", "small") if args.comparison == "vocabulary" else ("ours", "peer")
    print_table(f"{args.comparison} of {Path(args.options).name}", sides, rows)


if __name__ == "__main__":
    main()
