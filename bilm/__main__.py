"""`python -m bilm` is the command `bilm`."""

import sys

from bilm.cli import main

if __name__ == "__main__":
    sys.exit(main())
