"""Errors that the user can mend: what rule was broken, by what, and the way out."""


class InputError(ValueError):
    """A file, an option or an argument breaks a rule.

    The message is one sentence for the user. Commands print it on one line and end
    with exit code 2; from Python it is a `ValueError`.
    """


class InvalidNumberOfCharacters(InputError):
    """`n_characters` is neither 261 (training files) nor 262 (prediction files)."""
