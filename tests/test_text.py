import gzip
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bilm import text, token_counts
from bilm.errors import InputError


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    folder = tmp_path / "user cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def write(path: Path, content: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def sentences(path: str) -> list[list[str]]:
    return list(text.read_sentences(path))


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    for name in ("b.txt", "a.txt", ".hidden", "inner/c.txt"):
        write(folder / name, "x\n")
    return folder


def test_all_spellings_find_the_same_files(shards):
    expected = [str(shards / "a.txt"), str(shards / "b.txt")]
    for spelling in (
        shards,
        str(shards),
        f"{shards}/*",
        f"'{shards}/*.txt'",
        f'"{shards}/*.txt"',
        expected[::-1],
        [shards, expected[0]],
    ):
        assert text.find_files(spelling) == expected
    assert text.find_files(shards / "a.txt") == expected[:1]


def test_a_name_with_glob_characters_is_found_as_it_is(tmp_path):
    path = write(tmp_path / "part[1].txt", "x\n")
    assert text.find_files(path) == [path]


@pytest.mark.parametrize("pattern", ["'nothing/*'", "nothing.txt", "''no'*'"])
def test_a_pattern_without_files_is_named(pattern):
    with pytest.raises(FileNotFoundError) as error:
        text.find_files(pattern)
    assert pattern in str(error.value)
    assert os.getcwd() in str(error.value)
    assert "quotes" in str(error.value)


def test_one_bad_pattern_among_good_ones_is_an_error(shards):
    with pytest.raises(FileNotFoundError, match="nothing"):
        text.find_files([shards, "nothing*"])
    with pytest.raises(FileNotFoundError, match="no file was given"):
        text.find_files([])


def test_lines_end_at_newline_alone(tmp_path):
    path = write(tmp_path / "t", "a\u2028b\u0085c\x0bd\re\r\n\n\u3000 \nf g")
    assert sentences(path) == [["a", "b", "c", "d", "e"], [], [], ["f", "g"]]


@pytest.mark.parametrize(
    "content, expected",
    [("", []), ("\n", [[]]), ("a", [["a"]]), ("a\n", [["a"]]), ("a\n\n", [["a"], []])],
)
def test_the_end_of_the_file(tmp_path, content, expected):
    assert sentences(write(tmp_path / "t", content)) == expected


def test_a_byte_order_mark_is_dropped_and_gzip_is_read(tmp_path):
    content = "\ufeffé 中\nب\n".encode()
    expected = [["é", "中"], ["ب"]]
    assert sentences(write(tmp_path / "plain", content)) == expected
    zipped = write(tmp_path / "t.gz", gzip.compress(content))
    assert sentences(zipped) == expected
    assert sentences(write(tmp_path / "mark", b"\xef\xbb\xbf")) == []


def zipped(content: bytes) -> bytes:
    """Without the time of day, which would make the names of the tests differ."""
    return gzip.compress(content, mtime=0)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"ab\nc \xff d\n", r"bad:2 is not UTF-8 \(byte 0xff at offset 5"),
        (b"\xef\xbb\xbfab\n\xc3", r"bad:2 is not UTF-8 \(byte 0xc3 at offset 6"),
        (b"a\xed\xa0\x80", "bad:1 is not UTF-8"),  # an encoded surrogate
        ("ab\n".encode("utf-16"), "bad:1 looks like UTF-16"),
        (b"\xfe\xff\0a", "bad:1 looks like UTF-16"),
        (b"\x89HDF\r\n\x1a\n", "bad:1 looks like an HDF5 file"),
        (zipped(b"a b\n" * 999)[:-20], "cannot be unzipped"),
        (zipped(b"a b\n")[:5], "bad:1 cannot be unzipped"),
        (zipped(b"a\n" * 99)[:-8] + b"\0" * 8, "cannot be unzipped"),
        (zipped(b"\xff\n"), "bad:1 is not UTF-8"),
    ],
)
def test_what_is_no_text_is_refused_with_its_place(tmp_path, content, message):
    path = write(tmp_path / "bad", content)
    with pytest.raises(InputError, match=message):
        sentences(path)


@pytest.mark.parametrize("size", [0, 1, 9])
def test_a_gzipped_file_cut_to_nothing_is_no_empty_text(tmp_path, size):
    path = write(tmp_path / "text.gz", gzip.compress(b"a\n")[:size])
    with pytest.raises(InputError, match="text.gz:1 cannot be unzipped"):
        sentences(path)


def test_a_line_without_end_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "MAX_LINE_BYTES", 10)
    path = write(tmp_path / "long", "a b c d e\n" + "a" * 11)
    with pytest.raises(InputError, match="long:2 is longer than 10 bytes"):
        sentences(path)


def test_reading_goes_on_from_every_position(tmp_path):
    content = "\ufeffa\n\né é\nlast"
    for path in (
        write(tmp_path / "t", content),
        write(tmp_path / "z", gzip.compress(content.encode())),
    ):
        whole = list(text.LineReader(path))
        assert whole == ["a\n", "\n", "é é\n", "last"]
        reader = text.LineReader(path)
        for i, _ in enumerate(reader, 1):
            assert reader.position.line == i
            assert list(text.LineReader(path, reader.position)) == whole[i:]


@given(
    st.text(st.sampled_from("ab é中\n\r\x1c\x85\xa0\u1680\u2000\u2028\u3000\ufeff\0"))
)
@settings(deadline=None)
def test_tokens_are_those_of_split(tmp_path_factory, content):
    path = tmp_path_factory.mktemp("t") / "t"
    path.write_bytes(b"a\n" + content.encode())  # a mark inside the text stays
    lines = ("a\n" + content).split("\n")
    expected = [line.split() for line in lines[:-1] + ([lines[-1]] * bool(lines[-1]))]
    assert sentences(str(path)) == expected
    assert token_counts.count_tokens([path]) == sum(map(len, expected))


def test_counts_are_cached_by_path_size_and_time(tmp_path, cache_folder, monkeypatch):
    one, two = write(tmp_path / "1", "a b\n"), write(tmp_path / "2", "a b c\n\n")
    assert token_counts.count_tokens([one, two, one]) == 7
    files = sorted(p.name for p in tmp_path.iterdir())
    assert files == ["1", "2", "user cache"]
    assert [p.name for p in cache_folder.rglob("*.*")] == ["token_counts.json"]

    write(tmp_path / "2", "a b c d\n")
    counted = []
    count = token_counts._count
    monkeypatch.setattr(token_counts, "_count", lambda p: counted.append(p) or count(p))
    assert token_counts.count_tokens([one, two]) == 6
    assert counted == [two]


@pytest.mark.parametrize("content", ["", "[1]", '{"x": ', "\0", '{"a": "b"}'])
def test_a_broken_cache_is_made_anew(tmp_path, cache_folder, content):
    path = write(tmp_path / "t", "a b\n")
    cache = write(cache_folder / "bilm" / "token_counts.json", content)
    assert token_counts.count_tokens([path]) == 2
    assert ": 2" in Path(cache).read_text()


def test_no_cache_can_be_written(tmp_path, cache_folder):
    write(cache_folder, "a file where the folder should be")
    assert token_counts.count_tokens([write(tmp_path / "t", "a b\n")]) == 2


def test_the_cache_is_bounded(tmp_path, monkeypatch, cache_folder):
    monkeypatch.setattr(token_counts, "_CACHED_COUNTS", 2)
    for name in "abc":
        token_counts.count_tokens([write(tmp_path / name, "a\n")])
    assert (cache_folder / "bilm/token_counts.json").read_text().count(": 1") == 2


def test_counting_names_what_is_wrong(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        token_counts.count_tokens([tmp_path / "missing"])
    with pytest.raises(InputError, match="bad:2 is not UTF-8"):
        token_counts.count_tokens([write(tmp_path / "bad", b"a\n\xff")])
