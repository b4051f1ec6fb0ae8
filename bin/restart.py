#!/usr/bin/env python3
"""Goes on with a run from its last checkpoint: the same as `bilm restart`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("restart"))
