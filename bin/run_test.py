#!/usr/bin/env python3
"""Prints the perplexity of held-out text: the same as `bilm test`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("test"))
