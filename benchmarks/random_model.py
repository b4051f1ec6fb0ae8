"""A model with random weights, to measure with.

    python benchmarks/random_model.py --options TRAINING_OPTIONS --vocab FILE --out DIR

DIR gets `options.json` of prediction, `weights.hdf5`, and the vocabulary as
`vocab.txt`, which simple_elmo wants.
"""

import argparse
import json
import shutil
from pathlib import Path

from bilm.names import model_variables
from bilm.network import initial_value
from bilm.options import read_model_options
from bilm.weights import write_weights

N_CHARACTERS = 262  # of prediction


def main() -> None:
    """Write the three files."""
    parser = argparse.ArgumentParser(description=__doc__)
    for flag in ("--options", "--vocab", "--out"):
        parser.add_argument(flag, required=True, type=Path)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    options = json.loads(args.options.read_text(encoding="utf-8"))
    options["char_cnn"]["n_characters"] = N_CHARACTERS
    options_file = args.out / "options.json"
    options_file.write_text(json.dumps(options), encoding="utf-8")
    specs = model_variables(read_model_options(options_file))
    values = {s.name: initial_value(s, 0, place) for place, s in enumerate(specs)}
    write_weights(args.out / "weights.hdf5", specs, values)
    shutil.copyfile(args.vocab, args.out / "vocab.txt")


if __name__ == "__main__":
    main()
