"""Vocabulary, shards and statistics of a text, against a few plain lines of Python."""

import gzip
import io
import itertools
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilm import counting, plots, shuffling, text, wordruns
from bilm.cli import main
from bilm.counting import counted_text
from bilm.data import Vocabulary
from bilm.errors import InputError
from bilm.preparation import prepare_text
from bilm.text_statistics import measure_text, quantile
from bilm.vocabulary_file import write_vocabulary

SPECIAL = ["<S>", "</S>", "<UNK>"]
ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def prose(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Real text: the prose that comes with Python, in a folder of three files."""
    folder = tmp_path_factory.mktemp("prose")
    texts = [topics[name] for name in sorted(topics)]
    for number in range(3):
        text = "".join(f"{part}\n" for part in texts[number::3]).encode()
        if number == 1:
            text = gzip.compress(text)
        (folder / f"{number}.txt").write_bytes(text)
    return [str(folder / f"{number}.txt") for number in range(3)]


def content(path: str | Path) -> str:
    raw = Path(path).read_bytes()
    return (gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw).decode()


def counted(files: list[str]) -> list[tuple[str, int]]:
    """Words by descending count, ties by code point."""
    counts = Counter(token for path in files for token in content(path).split())
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def write(path: Path, text: str | bytes) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def refusal(capsys: pytest.CaptureFixture[str], argv: list[str]) -> str:
    """The one line of a command that ends with code 2."""
    capsys.readouterr()
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    return err


def printed(capsys: pytest.CaptureFixture[str], argv: list[str]) -> dict[str, str]:
    """Rows of what a command prints, by the name in their first twenty columns."""
    capsys.readouterr()
    assert main(argv) == 0
    lines = capsys.readouterr().out.splitlines()
    return {line[:20].strip(): line[20:].strip() for line in lines}


# Counting


def test_vocab_counts_real_text_in_two_processes(
    prose: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counting, "PIECE_BYTES", 50_000)
    out = tmp_path / "vocab.txt"
    argv = ["vocab", "--train_prefix", str(Path(prose[0]).parent), "--out", str(out)]
    rows = printed(capsys, [*argv, "--min_count", "2", "--processes", "2"])
    words = counted(prose)
    kept = [(word, count) for word, count in words if count > 1]
    assert out.read_text(encoding="utf-8").splitlines() == SPECIAL + [
        w for w, _ in kept
    ]
    n_once = len(words) - len(kept)
    lines = (tmp_path / "vocab.counts.tsv").read_text(encoding="utf-8").splitlines()
    expected = [("<S>", 0), ("</S>", 0), ("<UNK>", n_once), *kept]
    assert lines == [f"{word}\t{count}" for word, count in expected]
    assert rows["distinct words"] == f"{len(words):,}"
    assert rows["words left out"] == rows["their tokens"] == f"{n_once:,}"
    assert rows["tokens"] == f"{sum(count for _, count in words):,}"
    n_lines = sum(content(path).count("\n") for path in prose)
    assert rows["sentences"] == f"{n_lines:,}"
    assert rows["vocabulary"] == f"{len(kept) + 3:,}"
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "vocab.counts.tsv",
        "vocab.txt",
    ]
    assert Vocabulary(out).word_to_id(kept[0][0]) == 3


def test_little_memory_gives_the_same(
    prose: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wordruns, "MAX_OPEN", 3)
    monkeypatch.setattr(text, "TEXT_BYTES", 5000)
    made = []
    write_run = wordruns.write_run
    monkeypatch.setattr(
        counting, "write_run", lambda *args: made.append(1) or write_run(*args)
    )
    for name, memory_words in (("one", 1 << 20), ("other", 500)):
        made.clear()
        write_vocabulary(prose, tmp_path / name, memory_words=memory_words)
    assert len(made) > 30  # runs, of more levels than one
    for suffix in ("", ".counts.tsv"):
        one, other = (
            (tmp_path / f"{n}{suffix}").read_bytes() for n in ("one", "other")
        )
        assert one == other


@given(
    text=st.text(st.sampled_from("ab é中\n\r\u2028"), max_size=40),
    size=st.integers(1, 9),
)
@settings(deadline=None, max_examples=60)
def test_pieces_are_the_file(
    text: str, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = write(tmp_path_factory.mktemp("t") / "t", f"a{text}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "PIECE_BYTES", size)
        pieces = list(counting.cut(path))
    assert sum(piece.size for piece in pieces) == os.path.getsize(path)
    assert [piece.start for piece in pieces[1:]] == [piece.end for piece in pieces[:-1]]
    parts = [b"".join(counting._texts(piece)) for piece in pieces]
    assert b"".join(parts) == Path(path).read_bytes()
    assert all(part.endswith(b"\n") for part in parts[:-1])


def test_special_words_of_the_text_are_said_and_stand_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(tmp_path / "text", "<S> b a </S>\n\n<UNK> b <S>\nc")
    out = tmp_path / "vocab.txt"
    argv = ["vocab", "--train_prefix", text, "--out", str(out), "--max_size", "5"]
    rows = printed(capsys, argv)
    assert out.read_text() == "<S>\n</S>\n<UNK>\nb\na\n"
    counts = (tmp_path / "vocab.counts.tsv").read_text()
    assert counts == "<S>\t2\n</S>\t1\n<UNK>\t2\nb\t2\na\t1\n"  # c is unknown
    names = ("<S>", "</S>", "<UNK>")
    assert [rows[f"{name} in the text"] for name in names] == ["2", "1", "1"]
    assert (rows["sentences"], rows["blank lines"], rows["tokens"]) == ("4", "1", "8")
    assert (rows["words left out"], rows["their tokens"]) == ("1", "1")


def test_vocab_reads_standard_input_without_tensorflow(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom bilm.cli import main\n"
        "main('vocab --train_prefix - more.gz --out v'.split())\n"
        "assert not {'tensorflow', 'h5py'} & set(sys.modules)"
    )
    (tmp_path / "more.gz").write_bytes(gzip.compress("中 é\n".encode()))
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)},
        input=gzip.compress("é é\n".encode()),  # zipped, as files may be
        capture_output=True,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    vocab = (tmp_path / "v").read_text(encoding="utf-8")
    assert vocab.split() == [*SPECIAL, "é", "中"]
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == ["more.gz", "v", "v.counts.tsv"]


@pytest.mark.parametrize(
    "words",
    ["no token", "vocab.txt must not be an input", "max_size must be 4 or more, not 3"],
)
def test_vocab_refuses(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(tmp_path / "vocab.txt", " \n" if words == "no token" else "a\n")
    out = tmp_path / ("vocab.txt" if "input" in words else "out")
    argv = ["vocab", "--train_prefix", text, "--out", str(out)]
    assert words in refusal(capsys, [*argv, "--max_size", "3" if "3" in words else "4"])
    assert [path.name for path in tmp_path.iterdir()] == ["vocab.txt"]


def test_the_line_of_a_fault_is_that_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "PIECE_BYTES", 10)
    path = write(tmp_path / "bad", b"one line\n" * 9 + b"a \xff\n" + b"b\n" * 9)
    with pytest.raises(InputError, match="bad:10 is not UTF-8"):
        with counted_text([path]):
            pass


def test_a_killed_process_is_no_riddle() -> None:
    with pytest.raises(InputError, match="was killed.*fewer processes"):
        with counting._mapping(2) as do:
            list(do(os._exit, [9]))


# Shards


def test_prepare_keeps_every_sentence_of_real_text(
    prose: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "text"
    argv = ["prepare", "--input", *prose, "--out", str(out), "--n_shards", "11"]
    rows = printed(capsys, [*argv, "--heldout", "0.1"])
    lines = [line for path in prose for line in content(path).split("\n")[:-1]]
    sentences = [line for line in lines if line.split()]
    names = ["heldout.txt", *(f"train-{i:02}.txt" for i in range(11))]
    assert sorted(path.name for path in out.iterdir()) == names
    held_out, *shards = (content(out / name).split("\n")[:-1] for name in names)
    assert sorted(itertools.chain(held_out, *shards)) == sorted(sentences)
    assert len(held_out) == round(0.1 * len(sentences))
    sizes = {len(shard) for shard in shards}
    assert max(sizes) - min(sizes) <= 1
    assert shards[0] != sorted(shards[0], key=sentences.index)

    def amount(sentences: list[str]) -> list[str]:
        n_tokens = sum(len(sentence.split()) for sentence in sentences)
        return [f"{len(sentences):,}", f"{n_tokens:,}"]

    assert rows["read"].split() == amount(sentences)
    assert rows["held out"].split() == amount(held_out)
    assert rows["in 11 shards"].split() == amount(sum(shards, []))
    assert rows["blank lines left out"] == f"{len(lines) - len(sentences):,}"
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_lines_are_written_as_they_were_read(tmp_path: Path) -> None:
    texts = ["\ufeffa  b\r\n\n \u3000\n", "é\u2028c\tlast"]
    files = [write(tmp_path / name, t) for name, t in zip("12", texts, strict=True)]
    done = prepare_text(files, tmp_path / "out", n_shards=2, heldout=0.1)
    written = [(tmp_path / f"out/train-{shard}.txt").read_bytes() for shard in range(2)]
    assert set(written) == {b"a  b\r\n", "é\u2028c\tlast\n".encode()}
    assert (done.text, done.n_blank) == ((2, 5), 2)
    assert len(list((tmp_path / "out").iterdir())) == 2  # nothing is held out


def test_the_seed_decides(tmp_path: Path) -> None:
    text = write(tmp_path / "text", "".join(f"{i}\n" for i in range(50)))

    def order(seed: int | None) -> str:
        prepare_text([text], tmp_path / "out", n_shards=1, seed=seed, overwrite=True)
        return content(tmp_path / "out/train-0.txt")

    assert order(1) == order(1) != order(2)
    assert order(None) != order(None)


def test_every_order_is_as_likely(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffling, "N_BUCKETS", 2)
    monkeypatch.setattr(shuffling, "BUCKET_LINES", 2)  # three lines are dealt again
    random, folder = np.random.default_rng(0), str(tmp_path)
    orders = Counter(
        b"".join(
            shuffling.collect(
                shuffling.deal([b"a", b"b", b"c"], random, folder), random, folder
            )
        )
        for _ in range(600)
    )
    assert len(orders) == 6
    chi_squared = sum((n - 100) ** 2 / 100 for n in orders.values())
    assert chi_squared < 20.5  # 1 in 1,000 for 5 degrees of freedom
    assert not list(tmp_path.iterdir())


def test_large_buckets_are_dealt_again(
    prose: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shuffling, "BUCKET_BYTES", 2000)
    monkeypatch.setattr(shuffling, "N_BUCKETS", 5)
    prepare_text(prose[:1], tmp_path / "out", n_shards=1, heldout=0, seed=3)
    lines = [line for line in content(prose[0]).split("\n") if line.split()]
    written = content(tmp_path / "out/train-0.txt").split("\n")[:-1]
    assert written != lines and sorted(written) == sorted(lines)


def test_prepare_replaces_only_what_it_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, out = write(tmp_path / "text", "a\nb\nc\n"), tmp_path / "out"
    argv = ["prepare", "--input", text, "--out", str(out), "--n_shards", "2"]
    out.mkdir()
    assert main([*argv, "--heldout", "1"]) == 0  # an empty folder is as good as none
    assert "is not empty (it holds heldout.txt, train-0.txt" in refusal(capsys, argv)
    bad = write(tmp_path / "bad", b"a\n\xff\n")
    error = refusal(capsys, ["prepare", "--input", bad, *argv[3:], "--overwrite"])
    assert "bad:2 is not UTF-8" in error
    assert (out / "heldout.txt").exists()  # as it was
    assert main([*argv, "--heldout", "0", "--overwrite"]) == 0
    names = sorted(path.name for path in out.iterdir())
    assert names == ["train-0.txt", "train-1.txt"]
    within = ["prepare", "--input", str(out), *argv[3:], "--overwrite"]
    assert "must not be an input" in refusal(capsys, within)
    write(out / "notes", "mine")
    assert "did not make (notes)" in refusal(capsys, [*argv, "--overwrite"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad", "out", "text"]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--n_shards 4", "each of 4 shards needs a sentence, but the text has 3"),
        ("--heldout 3", "of which 3 are held out"),
        ("--out text", "text is a file"),
        ("--out no/out", "no folder no"),
    ],
)
def test_prepare_refuses(
    flags: str,
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "text", "a\nb\nc\n")
    argv = "prepare --input text --out out --n_shards 1 --heldout 1".split()
    assert words in refusal(capsys, [*argv, *flags.split()])
    assert os.listdir(tmp_path) == ["text"]


@pytest.mark.parametrize("value", ["1.0", "-1", "some", "nan"])
def test_heldout_is_a_share_or_a_number(
    value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["prepare", "--input", "t", "--out", "o", "--heldout", value])
    assert "a share from 0 to below 1 or a whole number" in capsys.readouterr().err


# Statistics


def test_stats_of_real_text(
    prose: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vocab = tmp_path / "vocab.txt"
    write_vocabulary(prose[:1], vocab, max_size=500)
    plot = tmp_path / "lengths.png"
    argv = ["stats", "--input", *prose, "--vocab_file", str(vocab), "--processes", "1"]
    rows = printed(capsys, [*argv, "--max_characters", "12", "--plot", str(plot)])
    words, known = counted(prose), set(vocab.read_text(encoding="utf-8").split())
    n_tokens = sum(count for _, count in words)
    cut = [(word, count) for word, count in words if len(word.encode()) > 10]
    in_both = [(word, count) for word, count in words if word in known]
    assert rows["tokens"] == f"{n_tokens:,}"
    assert rows["that occur once"] == f"{sum(count == 1 for _, count in words):,}"
    assert rows["above 10 bytes"] == f"{len(cut):,}"
    assert rows["tokens cut there"] == f"{sum(count for _, count in cut):,}"
    assert rows["in the vocabulary"] == f"{len(in_both):,}"
    share = sum(count for _, count in in_both) / n_tokens
    assert rows["share of tokens"] == f"{share:.2%}"
    assert rows["not in the text"] == f"{len(known - {word for word, _ in words})}"
    lines = [line for path in prose for line in content(path).split("\n")[:-1]]
    lengths = [len(line.split()) for line in lines]
    assert rows["blank lines"] == f"{lengths.count(0):,}"
    sizes = [len(token.encode()) for line in lines for token in line.split()]
    for name, values in {"tokens a sentence": lengths, "bytes a token": sizes}.items():
        expected = [
            np.quantile(values, share, method="inverted_cdf")
            for share in (0.5, 0.9, 0.99, 1)
        ]
        shown = [f"{np.mean(values):.1f}", *(f"{value}" for value in expected)]
        assert rows[name].replace(",", "").split() == shown
    assert plot.read_bytes().startswith(b"\x89PNG")


def test_many_tokens_cut_are_warned_of(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = write(tmp_path / "text", "中" * 17 + "\n" + "a " * 49)
    statistics = measure_text([text])
    assert (statistics.cut, statistics.known) == ((1, 1), None)
    assert "2.0 % of the tokens are longer than 48 bytes" in caplog.text
    caplog.clear()
    measure_text([text], max_characters=53)
    assert not caplog.records


@given(st.lists(st.integers(0, 9), min_size=1), st.floats(0.01, 1))
def test_quantiles(values: list[int], share: float) -> None:
    ordered = sorted(values)
    expected = next(v for i, v in enumerate(ordered, 1) if i >= share * len(values))
    assert quantile(Counter(values), share) == expected


def test_plots_are_refused_before_anything_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = ["stats", "--input", write(tmp_path / "bad", b"\xff"), "--plot"]
    error = refusal(capsys, [*argv, str(tmp_path / "plot.jpeg")])
    assert "must be a file .png, .pdf, .svg, not" in error
    monkeypatch.setattr(plots.importlib.util, "find_spec", lambda name: None)
    error = refusal(capsys, [*argv, str(tmp_path / "plot.png")])
    assert "matplotlib is needed" in error and "pip install 'bilm[plot]'" in error


def test_a_folder_and_standard_input_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    (tmp_path / "folder").mkdir()
    write(tmp_path / "folder/a", "a b\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"c\n")))
    argv = ["stats", "--input", f"{tmp_path}/folder", "-", "--processes", "1"]
    for _ in range(2):  # standard input is read once, and can be asked for again
        assert printed(capsys, argv)["tokens"] == "3"


def test_a_token_of_a_million_characters_is_shown_in_short(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = write(tmp_path / "text", "a b\n" + "c" * 1_000_000)
    rows = printed(capsys, ["stats", "--input", text, "--processes", "1"])
    most = "1,000,000"
    assert rows["bytes a token"].split() == ["333,334.0", "1", most, most, most]
    vocab = write(tmp_path / "vocab", "<S>\n</S>\n<UNK>\na\n")
    argv = ["batches", "--vocab", vocab, "--train_prefix", text, "--max_characters"]
    assert main([*argv, "0"]) == 0
    out = capsys.readouterr().out
    assert len(out) < 10_000 and f"{'c' * 40}... (1,000,000 characters)" in out
