"""Vectors of a whole data set in a file, to read in any program.

    python usage_examples/usage_cached.py --model DIR

`bilm dump-embeddings` does the same from the command line.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from tiny_model import folders

from bilm import dump_bilm_embeddings, read_embeddings

SENTENCES = [
    "Rain is expected in the north .",
    "Where are the keys ?",
    "Rain is expected in the north .",
]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the example; return the exit code."""
    with folders(__doc__, argv) as (model_folder, work):
        dump_and_read(model_folder, work)
    return 0


def dump_and_read(folder: Path, work: Path) -> None:
    """Write the vectors of the sentences, and read them back."""
    options_file, weight_file = folder / "options.json", folder / "weights.hdf5"
    dataset_file, outfile = work / "sentences.txt", work / "embeddings.hdf5"
    dataset_file.write_text("\n".join(SENTENCES) + "\n", encoding="utf-8")
    dump_bilm_embeddings(
        None,  # characters need no vocabulary
        dataset_file,
        options_file,
        weight_file,
        outfile,
        stateful=False,  # else each line starts from the state after the line before
    )
    print("data set   layers, tokens, values   mean of the top layer's first values")
    arrays = read_embeddings(outfile)  # in the order of the lines
    for line, (layers, sentence) in enumerate(zip(arrays, SENTENCES, strict=True)):
        values = " ".join(f"{value:6.3f}" for value in layers[-1].mean(0)[:4])
        print(f"{line:<10} {str(layers.shape):<24} {values}   {sentence}")
    print("\nLines 0 and 2 are the same sentence, and have the same vectors.")


if __name__ == "__main__":
    sys.exit(main())
