#!/usr/bin/env python3
"""Embeds the sentences of a file: the same as `bilm dump-embeddings`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("dump-embeddings"))
