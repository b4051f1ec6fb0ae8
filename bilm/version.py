"""The version of the package, which `setup.py` reads too."""

__version__ = "1.0.0"
