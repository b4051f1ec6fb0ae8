"""Errors that the user can mend: what rule was broken, by what, and the way out."""

import contextlib
import os
from collections.abc import Iterator

_SHOWN_CHARACTERS = 40  # of a token


class InputError(ValueError):
    """A file, an option or an argument breaks a rule.

    The message is one sentence for the user. Commands print it on one line and end
    with exit code 2; from Python it is a `ValueError`.
    """


class InvalidNumberOfCharacters(InputError):
    """`n_characters` is neither 261 (training files) nor 262 (prediction files)."""


@contextlib.contextmanager
def reading(
    path: str | os.PathLike[str], way_out: str = "copy it again or make it anew"
) -> Iterator[None]:
    """Make an `InputError` of what a library raises in the block over a damaged file.

    Libraries have many kinds of errors for that, and messages of many lines.
    """
    try:
        yield
    except (InputError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:
        # A KeyError quotes its message.
        what = error.args[0] if isinstance(error, KeyError) and error.args else error
        lines = str(what).splitlines() or [type(error).__name__]
        raise InputError(
            f"{os.fspath(path)} cannot be read ({lines[0]}): where it is damaged, "
            f"{way_out}"
        ) from error


def shortened(token: str) -> str:
    """A token as messages have it, which may have a million characters.

    >>> shortened("ab" * 500_000)
    'abababababababababababababababababababab... (1,000,000 characters)'
    """
    if len(token) <= _SHOWN_CHARACTERS:
        return token
    return f"{token[:_SHOWN_CHARACTERS]}... ({len(token):,} characters)"
