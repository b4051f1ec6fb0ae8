#!/usr/bin/env python3
"""Trains a biLM: the same as `bilm train`."""

import sys

from bilm.cli import script

if __name__ == "__main__":
    sys.exit(script("train"))
