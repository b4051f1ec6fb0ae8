"""Training samples as a person reads them: rows of batches as words."""

from collections.abc import Iterable, Sequence

from bilm.characters import PAD_CHARACTER
from bilm.errors import shortened
from bilm.stream import Batch
from bilm.tree import columns
from bilm.vocabulary import Vocabulary


def inputs(batch: Batch, row: int) -> list[str]:
    """The input tokens of a row, as they stand in the text; see `shortened`."""
    return [shortened(batch.table.words[word]) for word in batch.words[row].tolist()]


def table(batch: Batch, row: int, vocab: Vocabulary) -> str:
    """Set a row in a table, a line for each of its steps.

    The columns are the input token X and its id, the target Y and its id (a word out of
    the vocabulary is `<UNK>` there), and the characters of X, where the vocabulary has
    any, without those that pad it.

    Args:
        batch: of one direction.
        row: its number.
        vocab: the vocabulary of the batch.
    """
    ids = batch.token_ids[row].tolist()
    targets = batch.next_token_id[row].tolist()
    cells: list[Iterable[str]] = [
        ["X", *inputs(batch, row)],
        ["id", *map(str, ids)],
        ["Y", *(shortened(vocab.id_to_word(target)) for target in targets)],
        ["id", *map(str, targets)],
    ]
    if (characters := batch.only(slice(row, row + 1)).characters) is not None:
        rows = characters[0].tolist()  # [T, C]
        cells.append(["characters of X", *map(_without_padding, rows)])
    return "\n".join(columns(list(zip(*cells, strict=True))))


def _without_padding(ids: list[int]) -> str:
    return " ".join(str(i) for i in ids if i != PAD_CHARACTER)


def continued(batches: Sequence[Batch], row: int) -> str:
    """Set what a row holds in one batch after the other in lines, inputs alone."""
    return "\n".join(
        f"batch {number}  {' '.join(inputs(batch, row))}"
        for number, batch in enumerate(batches)
    )
