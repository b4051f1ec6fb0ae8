#!/usr/bin/env python3
"""Embeds the words of a vocabulary: the same as `bilm dump-tokens`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("dump-tokens"))
