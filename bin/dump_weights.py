#!/usr/bin/env python3
"""Writes the weights of a run to HDF5: the same as `bilm dump-weights`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("dump-weights"))
