"""Lengths of a training, in steps or in minutes."""

import re
from typing import NamedTuple

from bilm.errors import InputError


class Interval(NamedTuple):
    """A number of steps, or of minutes.

    Attributes:
        number: how many, above 0.
        in_minutes: minutes, or else steps.
    """

    number: float
    in_minutes: bool

    def steps_are_over(self, steps: int) -> bool:
        """Whether so many steps are at least this long; minutes are not counted so."""
        return not self.in_minutes and steps >= self.number

    def time_is_over(self, seconds: float) -> bool:
        """Whether so much time is at least this long; steps are not counted so."""
        return self.in_minutes and seconds / 60 >= self.number


def as_interval(name: str, value: int | str) -> Interval:
    """Take a number of steps, or text: `"5000"` for steps, `"90m"` for minutes.

    Raises:
        InputError: the value of this name is neither.

    >>> as_interval("stop_after", "90m")
    Interval(number=90, in_minutes=True)
    """
    match = re.fullmatch(r"([0-9]+)(m?)", str(value))
    if not match or int(match[1]) < 1:
        raise InputError(
            f"{name} must be a whole number of steps such as 5000, or of minutes such "
            f"as 90m, at least 1, not {value!r}"
        )
    return Interval(int(match[1]), in_minutes=bool(match[2]))
