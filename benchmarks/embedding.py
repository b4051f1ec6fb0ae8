"""Embedding by this package and by its peers, in turn, as one table.

    python benchmarks/embedding.py --model DIR --text FILE --vocab FILE
        --peers SCRIPT --tf_python PYTHON --torch_python PYTHON

README.md beside it says what is compared, and what the peers' script prints.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import sides

OURS = str(Path(__file__).resolve().parent / "ours_embedding.py")
PEERS = {  # side: peers it is compared with
    "stateless": ("simple", "torch"),
    "stateful": ("dump",),
    "tokens": ("tokens",),
    "start": (),
}


class Row(NamedTuple):
    """A line of the table."""

    what: str
    ours: float
    peer: float
    unit: str

    @property
    def ratio(self) -> float:
        """By what factor ours is better."""
        by = self.ours / self.peer
        return 1 / by if self.unit == "s" else by


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparisons asked for."""
    args = parse(argv)
    rows = [row for side in args.sides for row in compare(side, args)]
    print("| comparison | ours | peer | unit | factor |\n|---|---|---|---|---|")
    for row in rows:
        print(
            f"| {row.what} | {row.ours:,.3g} | {row.peer:,.3g} | {row.unit} "
            f"| {row.ratio:.2f} |"
        )
    return 0


def compare(side: str, args: argparse.Namespace) -> list[Row]:
    """Run one of our sides and its peers in turn."""
    if side == "start":
        results = [sides.run(ours(side, args)) for _ in range(args.rounds)]
        found = sides.medians(results)
        return [
            Row(
                "load the model, against its file",
                found["load_s"],
                found["read_s"],
                "s",
            )
        ]
    rows = []
    for name in PEERS[side]:
        if name not in args.peers_left_out:
            found, other = sides.alternate(
                args.rounds,
                lambda: sides.run(ours(side, args)),
                lambda name=name: sides.run(peer(name, args)),
            )
            rows += rows_of(f"{side}, {name}", found, other)
    return rows


def rows_of(what: str, found: sides.Result, other: sides.Result) -> list[Row]:
    """Speed and memory; for peers that load apart, also with their loading."""
    rate, speed = "tokens_per_s", other["tokens_per_s"]
    rows = [Row(what, found[rate], speed, "tokens/s")]
    if "load_s" in other:
        n_tokens = speed * other["seconds"]
        with_loading = n_tokens / (other["seconds"] + other["load_s"])
        rows.append(
            Row(f"{what} with its loading", found[rate], with_loading, "tokens/s")
        )
    return rows


def ours(side: str, args: argparse.Namespace) -> sides.Command:
    """The command of our side."""
    flags = ["--model", args.model, "--text", args.text, "--vocab", args.vocab]
    return [sys.executable, OURS, side, *flags], sides.environment()


def peer(name: str, args: argparse.Namespace) -> sides.Command:
    """The command of a peer, which takes the flags that it needs."""
    python = args.torch_python if name == "torch" else args.tf_python
    flags = ["--model", args.model]
    if name != "tokens":
        flags += ["--text", args.text]
    if name == "dump":
        flags += ["--vocab", args.vocab]
    if name == "tokens":
        flags += ["--vocab", args.peers_words or args.vocab]
    arguments, environment = sides.peers(
        argparse.Namespace(peers=args.peers, peers_python=python), name, *flags
    )
    return arguments, environment


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Read the flags."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    files = {
        "--model": "folder with options.json and weights.hdf5 (and vocab.txt)",
        "--text": "file to embed",
        "--vocab": "vocabulary, of which `tokens` embeds each word",
        "--peers": "script that runs the peers",
        "--tf_python": "python of the environment with bilm-tf and simple_elmo",
        "--torch_python": "python of the environment with the PyTorch peer",
    }
    for flag, purpose in files.items():
        parser.add_argument(flag, required=True, help=purpose)
    parser.add_argument(
        "--peers_words", help="fewer words for `tokens` of the peer, which is slow"
    )
    parser.add_argument("--sides", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--peers_left_out", nargs="*", default=[])
    parser.add_argument("--rounds", type=int, default=1, help="runs of each side")
    args = parser.parse_args(argv)
    paths = "model", "text", "vocab", "peers_words", "peers", "tf_python"
    for name in (*paths, "torch_python"):
        # Sides run in folders of their own; links stay, for pythons are links.
        if getattr(args, name) is not None:
            setattr(args, name, str(Path(getattr(args, name)).absolute()))
    return args


if __name__ == "__main__":
    sys.exit(main())
