"""`bilm batches`, on real text: what it prints is what is trained on."""

import io
import sys
from pathlib import Path
from pydoc_data.topics import topics

import numpy as np
import pytest

from bilm.characters import encode_words
from bilm.cli import main
from bilm.data import BidirectionalLMDataset, Vocabulary
from bilm.vocabulary_file import write_vocabulary


@pytest.fixture(scope="module")
def prose(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A vocabulary, and the prose that comes with Python."""
    folder = tmp_path_factory.mktemp("prose")
    text = "".join(f"{topics[name]}\n" for name in sorted(topics)[:9])
    (folder / "text").write_text(text, encoding="utf-8")
    write_vocabulary([str(folder / "text")], folder / "vocab.txt", min_count=2)
    return str(folder / "vocab.txt"), str(folder / "text")


def blocks(
    capsys: pytest.CaptureFixture[str], prose: tuple[str, str], *flags: str
) -> dict[str, list[list[str]]]:
    """Cells of each line, by the title above them."""
    vocab, text = prose
    argv = ["batches", "--vocab", vocab, "--train_prefix", text, "--batch_size", "8"]
    assert main([*argv, *flags]) == 0
    out = capsys.readouterr().out
    parts = [part.splitlines() for part in out.strip().split("\n\n")]
    return {part[0]: [line.split() for line in part[1:]] for part in parts}


def test_tables_are_the_batches(
    prose: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    tables = blocks(capsys, prose, "-n", "3", "--max_characters", "12", "--seed", "5")
    names = [f"row {i}, {which}" for i in range(3) for which in ("forward", "backward")]
    assert list(tables) == names
    vocab = Vocabulary(prose[0])
    data = BidirectionalLMDataset(prose[1], vocab, shuffle_on_load=True, seed=5)
    batch = next(data.iter_batches(8, 20))
    unknown = 0
    for row in range(3):
        for name, suffix in (("forward", ""), ("backward", "_reverse")):
            head, *lines = tables[f"row {row}, {name}"]
            assert head == ["X", "id", "Y", "id", "characters", "of", "X"]
            ids = batch[f"token_ids{suffix}"][row]
            targets = batch[f"next_token_id{suffix}"][row]
            assert [int(line[1]) for line in lines] == ids.tolist()
            assert [int(line[3]) for line in lines] == targets.tolist()
            assert [line[2] for line in lines] == [vocab.id_to_word(i) for i in targets]
            inputs = [line[0] for line in lines]
            np.testing.assert_array_equal(vocab.words_to_ids(inputs), ids)
            unknown += sum(word not in vocab.words for word in inputs)
            for line, row_of_ids in zip(lines, encode_words(inputs, 12), strict=True):
                shown = [int(i) for i in line[4:]]
                assert shown + [260] * (12 - len(shown)) == row_of_ids.tolist()
    assert unknown  # X is the text's word, though its id is that of <UNK>


def test_steps_show_how_rows_go_on(
    prose: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    order = ("--no-shuffle", "--unroll_steps", "7")
    steps = blocks(capsys, prose, "--step", "40", *order)
    lines = Path(prose[1]).read_text(encoding="utf-8").split("\n")
    sentences = {" ".join(line.split()) for line in lines}
    for row in range(2):
        for which, step in (("forward", 1), ("backward", -1)):
            parts = steps[f"row {row}, {which}"]
            assert [part[:2] for part in parts] == [
                ["batch", str(i)] for i in range(40)
            ]
            stream = " ".join(word for part in parts for word in part[2:])
            first = {1: "<S>", -1: "</S>"}[step]
            _, *whole, _ = stream.split(first)  # the last may not be at its end
            assert len(whole) > 10
            for sentence in whole:
                assert " ".join(sentence.split()[::step]) in sentences
    assert len(blocks(capsys, prose, "--step", *order)["row 0, forward"]) == 3


def test_word_models_have_no_characters(
    prose: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    tables = blocks(capsys, prose, "--max_characters", "0", "-n", "1")
    assert {len(line) for lines in tables.values() for line in lines} == {4}


def test_a_terminal_of_few_letters_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text").write_text("caf\u00e9 中\n", encoding="utf-8")
    write_vocabulary([str(tmp_path / "text")], tmp_path / "vocab.txt")
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="ascii"))
    argv = ["--vocab", str(tmp_path / "vocab.txt"), "--batch_size", "2", "--step", "1"]
    assert main(["batches", *argv, "--train_prefix", str(tmp_path / "text")]) == 0
    assert b"batch 0  <S> caf\\xe9 \\u4e2d <S> " in out.getvalue()


def test_more_rows_than_a_batch_has_are_refused(
    prose: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["batches", "--vocab", prose[0], "--train_prefix", prose[1], "-n", "129"]
    assert main(argv) == 2
    assert "a batch of 128 rows (--batch_size) has no 129" in capsys.readouterr().err
