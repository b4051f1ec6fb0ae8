"""A vocabulary of a large text: `bilm vocab` against a plain loop over a Counter.

    python benchmarks/counting.py --text FILE ... [--gigabytes 1] [--processes N]

README.md beside it says what is compared.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import sides

from bilm.counting import available_cores
from bilm.vocabulary_file import SPECIAL, write_vocabulary

RARE_WORDS = 5_000_000  # to draw from
MIB = 1 << 10  # in units of ru_maxrss


def main(argv: Sequence[str] | None = None) -> int:
    """Make the text, run both sides, and print the table."""
    args = parse(argv)
    if args.side:
        print(json.dumps(run_side(args)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text")
        # In a process of its own: its memory would count as that of its children.
        run_process(args, "make", args.text, path)
        results = [run_process(args, side, [path], path) for side in ("ours", "plain")]
    assert results[0]["digest"] == results[1]["digest"], "the vocabularies differ"
    print(f"{results[0]['words']:,} words")
    print("| | ours | plain loop | ratio |\n|---|---|---|---|")
    for name in ("seconds", "CPU seconds", "MB/s", "MiB of the largest process"):
        ours, plain = (result[name] for result in results)
        print(f"| {name} | {ours:,.1f} | {plain:,.1f} | {ours / plain:.2f} |")
    return 0


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", nargs="+", required=True, help="text to repeat")
    parser.add_argument("--gigabytes", type=float, default=1.0, help="of the text made")
    parser.add_argument("--processes", type=int, default=available_cores())
    parser.add_argument("--side", nargs=2, help=argparse.SUPPRESS)
    return parser.parse_args(argv)


def make_text(path: Path, sources: Sequence[str], n_bytes: int) -> None:
    """Repeat sentences in ever new orders, a rare word in place of some tokens."""
    lines = [line.split() for source in sources for line in open(source, "rb")]
    draw = random.Random(1)
    with open(path, "wb") as file:
        for tokens in shuffled_again_and_again(lines, draw):
            if draw.random() < 0.5 and tokens:
                tokens = list(tokens)
                rare = draw.randrange(RARE_WORDS) * 2654435761 % 2**32
                tokens[draw.randrange(len(tokens))] = b"%x" % rare
            file.write(b" ".join(tokens) + b"\n")
            if file.tell() >= n_bytes:
                return


def shuffled_again_and_again(
    lines: list[list[bytes]], draw: random.Random
) -> Iterator[list[bytes]]:
    """All lines in random order, endlessly."""
    while True:
        draw.shuffle(lines)
        yield from lines


def run_process(
    args: argparse.Namespace, side: str, text: Sequence[str | Path], path: Path
) -> sides.Result:
    """Run this script for one side."""
    command = [sys.executable, __file__, "--side", side, str(path)]
    command += ["--processes", str(args.processes), "--gigabytes", str(args.gigabytes)]
    files = [str(Path(file).resolve()) for file in text]
    return sides.run(([*command, "--text", *files], sides.environment()))


def run_side(args: argparse.Namespace) -> sides.Result:
    """Make the text, or its vocabulary, and measure."""
    side, path = args.side
    start = time.perf_counter()
    if side == "make":
        make_text(Path(path), args.text, int(args.gigabytes * 1e9))
        return {"seconds": time.perf_counter() - start}
    out = Path(f"{path}.{side}")
    if side == "ours":
        write_vocabulary([path], out, processes=args.processes)
    else:
        plain_vocabulary(path, out)
    seconds = time.perf_counter() - start
    usages = [
        resource.getrusage(who)
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    ]
    return {
        "seconds": seconds,
        "CPU seconds": sum(usage.ru_utime + usage.ru_stime for usage in usages),
        "MB/s": os.path.getsize(path) / 1e6 / seconds,
        "MiB of the largest process": max(usage.ru_maxrss for usage in usages) / MIB,
        "words": out.read_bytes().count(b"\n"),
        "digest": hashlib.sha256(out.read_bytes()).hexdigest(),
    }


def plain_vocabulary(text: str, out: Path) -> None:
    """The same by what one would write in a minute."""
    counts: Counter[str] = Counter()
    with open(text, encoding="utf-8", newline="\n") as file:
        for line in file:
            counts.update(line.split())
    words = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    with open(out, "w", encoding="utf-8") as file:
        file.writelines(f"{word}\n" for word in SPECIAL)
        file.writelines(f"{word}\n" for word, _ in words)


if __name__ == "__main__":
    sys.exit(main())
