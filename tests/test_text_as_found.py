"""Text as it is found: every reader takes the same tokens from it, whatever is in it.

They are those of `str.split()` for each line ended by "\\n" alone.
"""

import gzip
import json
import tracemalloc
from collections import Counter
from pathlib import Path

import h5py
import numpy as np
import pytest
from tiny import OPTIONS, WORDS, Model, write_lines, write_run

from bilm import dump_bilm_embeddings, read_embeddings, text
from bilm.batcher import Batcher
from bilm.blocks import BlockReader
from bilm.characters import BOS, EOS, encode_words
from bilm.cli import main
from bilm.counting import counted_text
from bilm.data import BidirectionalLMDataset
from bilm.dump_text import Lines, measure
from bilm.errors import InputError
from bilm.replaced_text import replaced_files
from bilm.text_statistics import measure_text
from bilm.texttable import TextTable
from bilm.token_counts import count_tokens
from bilm.training import load_vocab
from bilm.vocabulary_file import counts_file, write_vocabulary
from bilm.wordtable import WordTable

FOUND = {
    "byte order mark": "\ufeffa b\nc \ufeffd\n",
    "CRLF": "a b\r\nc\r\n\r\nd\r\n",
    "old Mac": "a\rb\rc",
    "line and paragraph separators": "a\u2028b c\u2029d\ne\n",
    "next line": "a\u0085b\nc\n",
    "ideographic blank": "\u3000a\u3000b\n\u3000\nc\n",
    "no-break blanks": "a\u00a0b\u202fc\u2007d\n",
    "zero-width blanks, which are none": "a\u200bb\u2060c\ufeffd e\n",
    "separators of ASCII": "a\x1cb\x1dc\x1ed\x1fe\x0bf\x0cg\n",
    "NUL": "a\0b \0 c\0\n\0\n",
    "right to left": "\u202bשלום\u202c \u200fعربي\u200f abc\n",
    "combining": "e\u0301 é \u0301 a\u0300\u0301\u0302\n",
    "emoji": "\U0001f469\u200d\U0001f4bb \U0001f1e9\U0001f1ea\n",
    "replacement": "\ufffd a\ufffd\n",
    "no end": "a b\nc",
    "blank lines": "\n\na\n\n \t \nb\n\n",
    "long": "a" * (1 << 20) + " b\n" + "\u4e2d" * (1 << 18) + "\n",
}


def expected_lines(content: str) -> list[list[str]]:
    """By the definition alone."""
    lines = content.removeprefix("\ufeff").split("\n")
    return [line.split() for line in lines[:-1] + lines[-1:] * bool(lines[-1])]


@pytest.fixture(params=FOUND.values(), ids=[name.replace(" ", "_") for name in FOUND])
def content(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def path(content: str, tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_bytes(content.encode())
    return str(file)


def test_all_readers_take_the_same_tokens(
    path: str, content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expected = expected_lines(content)
    words = Counter(word for tokens in expected for word in tokens)
    # Scoring and embedding, which take the lines as they come.
    assert list(text.read_sentences(path)) == expected
    assert list(Lines(path, measure(path), keep_index=False)) == expected
    assert measure(path).n_tokens == words.total()
    # Counting: vocabulary and statistics.
    with counted_text([path]) as counted:
        assert dict(counted.words()) == words
        assert counted.lengths == Counter(map(len, expected))
    assert measure_text([path]).all.n_tokens == words.total()
    assert count_tokens([path]) == words.total()
    vocab_file = tmp_path / "vocab.txt"
    write_vocabulary([path], vocab_file)
    vocab = load_vocab(vocab_file, 50)
    assert Counter(vocab.words) == Counter([*words, *("<S>", "</S>", "<UNK>")])
    counts = counts_file(vocab_file).read_bytes().decode().split("\n")
    assert [line.split("\t")[0] for line in counts[:-1]] == vocab.words
    # Training and evaluation.
    table = TextTable(WordTable(padded=True))
    block = BlockReader(path, text.TextPosition()).read(table, 1 << 30)
    found = [table.table.words[row] for row in block.words]
    assert found == [w for tokens in expected for w in (BOS, *tokens, EOS)]
    data = BidirectionalLMDataset(path, vocab, test=True)
    batches = list(data.iter_batches(1, 1, keep_incomplete=True))
    ids = np.concatenate([each["next_token_id"].ravel() for each in batches])
    read = [vocab.id_to_word(i) for i in ids if i not in (vocab.bos, vocab.eos)]
    assert read == [word for tokens in expected for word in tokens]


def test_prepared_text_has_the_tokens(path: str, content: str, tmp_path: Path) -> None:
    out = tmp_path / "shards"
    flags = f"--input {path} --out {out} --n_shards 1 --heldout 0"
    assert main(["prepare", *flags.split()]) == 0
    kept = sorted(tokens for tokens in expected_lines(content) if tokens)
    assert sorted(text.read_sentences(str(out / "train-0.txt"))) == kept


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """A file of all that is found."""
    (tmp_path / "all.txt").write_bytes(
        "".join(f"{c}\n" for c in FOUND.values()).encode()
    )
    return tmp_path / "all.txt"


def test_a_dump_has_the_tokens(
    everything: Path, char_model: Model, tmp_path: Path
) -> None:
    out = tmp_path / "out.hdf5"
    dump_bilm_embeddings(
        None, everything, *char_model, out, stateful=False, sentence_to_index=True
    )
    expected = expected_lines(everything.read_bytes().decode())
    assert [a.shape for a in read_embeddings(out)] == [
        (3, len(w), 16) for w in expected
    ]
    with h5py.File(out) as file:
        index = json.loads(file["sentence_to_index"][0])
    assert {line: " ".join(expected[line]) for line in sum(index.values(), [])} == {
        line: sentence for sentence, lines in index.items() for line in lines
    }
    assert len(sum(index.values(), [])) == len(expected)


def test_scores_name_the_tokens_as_they_are(everything: Path, tmp_path: Path) -> None:
    write_run(tmp_path, OPTIONS)
    vocab = write_lines(tmp_path / "vocab.txt", [[word] for word in WORDS])
    flags = f"--save_dir {tmp_path} --vocab_file {vocab} --text {everything}"
    assert main(["score", *flags.split(), "--outfile", f"{tmp_path}/scores.tsv"]) == 0
    rows = (tmp_path / "scores.tsv").read_bytes().decode().split("\n")[1:-1]
    found = [row.split("\t")[2] for row in rows]
    lines = expected_lines(everything.read_bytes().decode())
    assert found == [word for line in lines for word in (BOS, *line, EOS)]


def test_lone_surrogates_are_no_text_and_no_crash(tmp_path: Path) -> None:
    """A file cannot hold them in UTF-8; lists of tokens can."""
    words = ["\ud83d", "a\udc00b", "a"]
    ids = Batcher(None, 8).batch_sentences([words])
    np.testing.assert_array_equal(ids[0, 1:4], encode_words(["", "ab", "a"], 8) + 1)
    (tmp_path / "text").write_bytes(b"a\n\xed\xa0\xbd b\n")
    with pytest.raises(
        InputError, match=r"text:2 is not UTF-8 \(byte 0xed at offset 2"
    ):
        list(text.read_sentences(tmp_path / "text"))


BAD = b"a \xff\xfeb\n\xc3\n\xef\xbf\xbd c\xed\xa0\x80\n"


def test_replaced_text_is_that_of_decode(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "b.txt").write_bytes(b"good\n")
    (folder / "a.txt").write_bytes(BAD)
    (folder / "c.gz").write_bytes(gzip.compress(b"x\n\x80\n"))
    files = replaced_files(folder)
    assert [Path(file).name for file in files] == ["a.txt", "b.txt", "c.gz"]
    assert files == sorted(files)
    assert Path(files[0]).read_bytes() == BAD.decode("utf-8", "replace").encode()
    lines = [line for file in files for line in text.read_sentences(file)]
    assert lines[1:] == [["\ufffd"], ["\ufffd", "c\ufffd\ufffd\ufffd"]] + [
        ["good"],
        ["x"],
        ["\ufffd"],
    ]
    assert "a.txt: 6 sequences of bytes are not UTF-8" in caplog.text
    assert "c.gz: 1 sequences of bytes are not UTF-8" in caplog.text
    assert "b.txt" not in caplog.text
    assert replaced_files(folder / "b.txt") == [str(folder / "b.txt")]


@pytest.mark.parametrize(
    "content", [BAD, gzip.compress(BAD, mtime=0)], ids=["plain", "gzip"]
)
def test_errors_replace_and_strict(
    content: bytes,
    char_model: Model,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    model, out = char_model.weight_file.parent, tmp_path / "out"
    for flags in (
        f"vocab --train_prefix {path} --out {out}",
        f"stats --input {path}",
        f"prepare --input {path} --out {tmp_path}/shards --n_shards 1 --heldout 0",
        f"dump-embeddings --model {model} --dataset_file {path} --outfile {out}",
    ):
        assert main(flags.split()) == 2
        error = capsys.readouterr().err
        assert "bad.txt:1 is not UTF-8 (byte 0xff at offset 2 of the text)" in error
        assert "--errors replace" in error
        assert main([*flags.split(), "--errors", "replace"]) == 0, flags
        assert "bad.txt: 6 sequences of bytes" in capsys.readouterr().err
    with h5py.File(out) as file:
        assert [file[name].shape[1] for name in file] == [2, 1, 2]
    assert path.read_bytes() == content


def test_a_copy_does_not_hide_that_an_output_is_an_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.txt").write_bytes(BAD)
    for out in ("bad.txt", "."):
        flags = ["--train_prefix", f"{tmp_path}/bad.txt", "--out", f"{tmp_path}/{out}"]
        assert main(["vocab", *flags, "--errors", "replace"]) == 2
        assert "must not be an input" in capsys.readouterr().err
    assert (tmp_path / "bad.txt").read_bytes() == BAD


def test_a_bomb_is_refused_in_little_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1 GB of zeros in 1 MB: without a line end, it is no text."""
    zeros = gzip.compress(b"\0" * (1 << 26))  # one member of several
    assert len(zeros) < 1 << 17
    path = tmp_path / "bomb.gz"
    path.write_bytes(zeros * 16)
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 1 << 22)
    tracemalloc.start()
    try:
        for read in (
            lambda: list(text.read_sentences(path)),
            lambda: list(text.LineReader(path).texts()),
            lambda: load_vocab(path),
        ):
            with pytest.raises(InputError, match="bomb.gz:1 is longer than 4194304"):
                read()
        assert tracemalloc.get_traced_memory()[1] < 5 << 22
    finally:
        tracemalloc.stop()
