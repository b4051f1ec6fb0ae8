"""Learning-rate schedules, as numbers."""

import numpy as np
import pytest
from tiny import OPTIONS

from bilm.learning_rate import learning_rate
from bilm.options import replace_options


def rates(n_steps: int, lr_schedule: str, warmup_steps: int) -> list[float]:
    options = replace_options(
        OPTIONS, lr_schedule=lr_schedule, warmup_steps=warmup_steps
    )
    return [learning_rate(options, step, n_steps) for step in range(n_steps)]


@pytest.mark.parametrize(
    ("name", "warmup_steps", "expected"),
    [
        ("constant", 0, [1, 1, 1, 1, 1, 1]),
        ("constant", 4, [0.25, 0.5, 0.75, 1, 1, 1]),
        ("linear", 0, [1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
        ("linear", 2, [0.5, 1, 1, 0.75, 0.5, 0.25]),
        ("cosine", 2, [0.5, 1, 1, 0.5 + 8**-0.5, 0.5, 0.5 - 8**-0.5]),
        ("inverse_sqrt", 0, [1, 2**-0.5, 3**-0.5, 0.5, 5**-0.5, 6**-0.5]),
        ("inverse_sqrt", 2, [0.5, 1, (2 / 3) ** 0.5, 0.5**0.5, 0.4**0.5, 3**-0.5]),
    ],
)
def test_rates_are_these_shares_of_the_largest(
    name: str, warmup_steps: int, expected: list[float]
) -> None:
    largest = OPTIONS.learning_rate
    found = np.array(rates(6, name, warmup_steps)) / largest
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_constant_rate_is_that_of_the_options_to_the_last_bit() -> None:
    assert set(rates(7, "constant", 0)) == {OPTIONS.learning_rate}


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "inverse_sqrt"])
def test_a_run_shorter_than_its_warm_up_only_rises(name: str) -> None:
    found = np.array(rates(3, name, 6)) / OPTIONS.learning_rate
    np.testing.assert_allclose(found, [1 / 6, 2 / 6, 3 / 6])
