"""Our side of `embedding.py`: run a command of bilm, and print one JSON line.

    python ours_embedding.py stateless|stateful|tokens|start --model M [--text FILE]
        [--vocab FILE]

As for the peers, the time is that of loading, embedding and writing, without imports.
"""

import argparse
import json
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def main() -> None:
    """Time one side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("side", choices=["stateless", "stateful", "tokens", "start"])
    parser.add_argument("--model", required=True)
    parser.add_argument("--text")
    parser.add_argument("--vocab")
    args = parser.parse_args()
    from bilm.commands.terminal import use_onednn

    use_onednn()  # as the commands do, before they import TensorFlow
    import bilm.model  # noqa: F401  (its time is not counted)

    result = start(args.model) if args.side == "start" else dump(args)
    result["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(result))


def dump(args: argparse.Namespace) -> dict[str, Any]:
    """Run `bilm dump-embeddings` or `bilm dump-tokens`."""
    from bilm.cli import main as bilm

    argv = ["dump-embeddings", "--dataset_file", args.text]
    if args.side == "tokens":
        argv = ["dump-tokens", "--vocab_file", args.vocab]
    elif args.side == "stateless":
        argv.append("--stateless")
    text = Path(args.vocab if args.side == "tokens" else args.text)
    n_tokens = len(text.read_text(encoding="utf-8").split())
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--model", args.model, "--outfile", os.path.join(folder, "out.hdf5")]
        seconds = time_of(lambda: bilm([*argv, *flags]))
    return {"seconds": seconds, "tokens_per_s": n_tokens / seconds}


def start(model: str) -> dict[str, Any]:
    """Load a model, between two readings of its file into arrays as a measure."""
    import h5py

    from bilm import BidirectionalLanguageModel

    def read() -> None:
        kept = {}
        with h5py.File(f"{model}/weights.hdf5") as file:
            file.visititems(
                lambda name, item: kept.update(
                    {name: item[()]} if isinstance(item, h5py.Dataset) else {}
                )
            )

    files = (f"{model}/options.json", f"{model}/weights.hdf5")
    first_s = time_of(read)  # perhaps from the disk; then from the system's memory
    load_s = time_of(lambda: BidirectionalLanguageModel(*files))
    return {"load_s": load_s, "read_s": time_of(read), "first_read_s": first_s}


def time_of(action: Callable[[], Any]) -> float:
    """Seconds that an action takes."""
    before = time.perf_counter()
    action()
    return time.perf_counter() - before


if __name__ == "__main__":
    main()
