"""Progress bars for those who wait."""

from tqdm import tqdm


def progress_bar(total: int | None, unit: str, desc: str | None = None) -> tqdm:
    """A bar on standard error, where that is a terminal.

    Args:
        total: what is to be done, None where nobody knows.
        unit: what is counted, as one of them is called.
        desc: what goes on.
    """
    # disable=None: no bar where standard error is not a terminal.
    return tqdm(total=total, unit=unit, desc=desc, disable=None, unit_scale=True)
