"""What is wrong with an input of any command: exit code 2, and one line that names it.

Each command runs with good inputs, of which one is made wrong in every way that its
kind can be. Only the line of the error may stand on standard error.
"""

import functools
import gzip
import io
import json
import os
import re
import shutil
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tiny import (
    OPTIONS,
    WORDS,
    counting_sentences,
    random_values,
    write_lines,
    write_model,
    write_run,
)

from bilm import commands
from bilm.cli import main
from bilm.metrics_file import COLUMNS
from bilm.names import model_variables
from bilm.options import training_dict, write_options
from bilm.weights import write_weights

# What is in braces is one of the inputs, or an output; see `good`.
TEXT_OF_RUN = "--save_dir {run} --vocab_file {vocab}"
COMMANDS = {
    "prepare": "--input {text} --out {folder} --n_shards 2",
    "vocab": "--train_prefix {text} --out {file} --processes 1",
    "stats": "--input {text} --vocab_file {vocab} --processes 1",
    "batches": "--vocab_file {vocab} --train_prefix {text} --batch_size 2",
    "train": "--save_dir {folder} --vocab_file {vocab} --train_prefix {text} "
    "--options {options}",
    "restart": f"{TEXT_OF_RUN} --train_prefix {{text}}",
    "finetune": "--init_from {model} --save_dir {folder} --vocab_file {vocab} "
    "--train_prefix {text} --valid_prefix {text}",
    "plot": "{curves} --outfile {file}",
    "test": f"{TEXT_OF_RUN} --test_prefix {{text}}",
    "score": f"{TEXT_OF_RUN} --text {{text}} --outfile {{file}}",
    "predict": f"{TEXT_OF_RUN} 1 2",
    "dump-weights": "--save_dir {run} --outfile {file}",
    "import-weights": "--model {model} --vocab_file {vocab} --save_dir {folder}",
    "dump-embeddings": "--model {model} --vocab_file {vocab} --dataset_file {text} "
    "--outfile {file}",
    "dump-tokens": "--model {model} --vocab_file {vocab} --outfile {file}",
    "export": "--model {model} --out {folder}",
    "inspect": "{files}",
}
INDEX, DATA = "model.ckpt-7.index", "model.ckpt-7.data-00000-of-00001"
TYPO = ('"projection_dim"', '"projecton_dim"')


class Fault(NamedTuple):
    """A way in which an input can be wrong."""

    name: str
    change: Callable[[Path], object]  # of the good input
    words: str  # of the line, a regular expression; PATH is the input's
    but_not: tuple[str, ...] = ()  # commands that do not read it


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def to_file(path: Path) -> None:
    remove(path)
    path.write_text("1 2\n")


def to_folder(path: Path) -> None:
    remove(path)
    path.mkdir()


def written(content: bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content)


def edited(change: Callable[[bytes], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def turned(content: bytes) -> bytes:
    """With one bit of the largest array turned over."""
    spec = max(model_variables(OPTIONS), key=lambda s: np.prod(s.shape))
    array = random_values(model_variables(OPTIONS))[spec.name].tobytes()
    assert array in content
    place = content.index(array) + 40
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


def within(name: str, change: Callable[[Path], object]) -> Callable[[Path], object]:
    """A change of a file in a folder."""
    return lambda path: change(path / name)


def of_options(name: str, but_not: tuple[str, ...] = ()) -> Iterator[Fault]:
    """Faults of a file of options in a folder, or of a file itself."""
    in_it = f"PATH/{name}" if name else "PATH"
    of = f"{name} " if name else ""
    for fault in (
        Fault("missing", remove, "PATH not found"),
        Fault("empty", written(b""), "PATH:1 is not JSON .line 1, column 1"),
        Fault("folder", to_folder, "PATH is a folder, where a file is needed"),
        Fault("bytes", written(b"\x81abc\n"), "PATH:1 is not UTF-8 .byte 0x81"),
        Fault(
            "UTF-16", written(b"\xff\xfe{\0}\0"), "PATH looks like UTF-16: save it as"
        ),
        Fault(
            "HDF5", written(b"\x89HDF\r\n"), "PATH looks like HDF5 .weights.., not li"
        ),
        Fault("list", written(b"[]"), "PATH must hold a JSON object, not a list"),
        Fault(
            "typo",
            lambda path: path.write_text(path.read_text().replace(*TYPO)),
            "PATH: .*unknown key 'lstm.projecton_dim' .did you mean .*_dim is missing",
        ),
    ):
        change = within(name, fault.change) if name else fault.change
        words = fault.words.replace("PATH", in_it)
        yield Fault(of + fault.name, change, words, but_not)


OUTSIDE = "is a file, where a folder is needed: name a folder"
FAULTS: dict[str, list[Fault]] = {
    "text": [
        Fault("missing", remove, "(no file matches PATH .looked from|PATH not found)"),
        Fault(
            "folder without files",
            to_folder,
            "(the folder PATH holds no file of text|PATH is a folder, where a file)",
        ),
        Fault("empty", written(b""), "there is no sentence in PATH: the text needs"),
        Fault("empty gzip", written(gzip.compress(b"")), "no sentence in PATH: the"),
        Fault(
            "blank",
            written(b"\n \n"),
            "there is no token in PATH: the text needs",
            ("batches", "test", "score", "dump-embeddings", "train"),
        ),
        Fault(
            "UTF-16",
            edited(lambda text: text.decode().encode("utf-16")),
            "PATH:1 looks like UTF-16",
        ),
        Fault("Latin-1", written(b"1 2\n\xe9\n"), "PATH:2 is not UTF-8 .byte 0xe9 at "),
        Fault(
            "half a gzip",
            edited(lambda text: cut(gzip.compress(text))),
            "PATH:LINE cannot be unzipped .*damaged or cut short; make it again",
        ),
    ],
    "vocab": [
        Fault("missing", remove, "PATH not found: the folder .* holds curves, "),
        Fault("folder", to_folder, "PATH is a folder, where a file is needed: name a"),
        Fault("empty", written(b""), "PATH lacks <S> and </S>.*add what is missing"),
        Fault("blank line", written(b"<S>\n \n</S>\n"), "PATH:2 is empty: a vocab"),
        Fault("Latin-1", written(b"<S>\n\xe9\n"), "PATH:2 is not UTF-8"),
        Fault("HDF5", written(b"\x89HDF\r\n"), "PATH:1 looks like an HDF5 file, where"),
    ],
    "options": list(of_options("")),
    "model": [
        Fault("missing", remove, "PATH(/options.json not found: there is no|.*no mod)"),
        Fault("file", to_file, f"PATH(.*not found: .* {OUTSIDE}| is no model)"),
        Fault("empty folder", to_folder, "PATH(/options.json not f|.*no model: expec)"),
        *of_options("options.json"),
        *(
            Fault(f"weights {name}", within("weights.hdf5", change), words)
            for name, change, words in (
                ("missing", remove, "PATH(/weights.hdf5 not found: the f| is no mod)"),
                ("folder", to_folder, "PATH(/weights.hdf5 is a folder| is no model)"),
                ("empty", written(b""), "PATH/weights.hdf5 is not a readable HDF5 "),
                (
                    "cut",
                    edited(cut),
                    "PATH/weights.hdf5 is not a readable HDF5 file .*truncated",
                ),
                (
                    "turned",
                    edited(turned),
                    "PATH/weights.hdf5 is damaged: the values of .* not those that",
                ),
            )
        ),
    ],
    "run": [
        Fault("missing", remove, "PATH/options.json not found: there is no folder"),
        Fault("file", to_file, f"PATH/options.json not found: PATH {OUTSIDE}"),
        Fault(
            "empty folder", to_folder, "options.json not found: the folder PATH hold"
        ),
        *of_options("options.json"),
        *(
            Fault(f"{file} {name}", within(file, change), words)
            for file, name, change, words in (
                ("checkpoint", "missing", remove, "PATH/checkpoint not found: the fol"),
                ("checkpoint", "folder", to_folder, "PATH/checkpoint is a folder"),
                (
                    "checkpoint",
                    "empty",
                    written(b""),
                    "no checkpoint in PATH: expected .*; name another folder, or copy",
                ),
                (
                    INDEX,
                    "missing",
                    remove,
                    "no checkpoint in PATH: expected a file 'checkpoint' and the mod",
                ),
                (INDEX, "empty", written(b""), "PATH/model.ckpt-7 cannot be read .it "),
                (
                    INDEX,
                    "cut",
                    edited(cut),
                    "PATH/model.ckpt-7 cannot be read .it is n",
                ),
                (
                    INDEX,
                    "turned",
                    edited(lambda c: bytes([*c[:40], c[40] ^ 1, *c[41:]])),
                    "PATH/model.ckpt-7 cannot be read .*take an earlier checkpoint",
                ),
                (DATA, "missing", remove, "PATH/model.ckpt-7 cannot be read .*No such"),
                (DATA, "cut", edited(cut), "PATH/model.ckpt-7 cannot be read .Read l"),
                (
                    DATA,
                    "turned",
                    edited(lambda c: bytes([*c[:40], c[40] ^ 1, *c[41:]])),
                    "PATH/model.ckpt-7 cannot be read .*Checksum does not match",
                ),
            )
        ),
        Fault(
            "metrics",
            within("metrics.csv", written(b"\x81\n")),
            "PATH/metrics.csv cannot be read .*remove it",
            ("test", "score", "predict", "dump-weights"),
        ),
    ],
    "curves": [
        Fault("missing", remove, "there is no folder PATH: make it, or name another"),
        Fault("file", to_file, f"PATH {OUTSIDE}"),
        Fault("empty folder", to_folder, "no PATH/metrics.csv: give the folder of a"),
        Fault(
            "empty",
            within("metrics.csv", written(b"")),
            "PATH/metrics.csv has no line yet: wait for the first one",
        ),
        Fault("bytes", within("metrics.csv", written(b"\x81\n")), "metrics.csv cannot"),
    ],
    "files": [
        Fault("missing", remove, "PATH not found: the folder .* holds curves, model"),
        Fault("file", to_file, "PATH is no checkpoint, HDF5 file or .json file of opt"),
        Fault("empty folder", to_folder, "the folder PATH holds no options.json, HDF5"),
        Fault(
            "options", within("options.json", written(b"")), "PATH/options.json:1 is"
        ),
        Fault("weights", within("weights.hdf5", edited(cut)), "PATH/.* not a readable"),
        Fault("checkpoint", within(DATA, edited(cut)), "PATH/model.ckpt-7 cannot be r"),
    ],
    "file": [
        Fault("folder", Path.mkdir, "the output PATH is a folder: name a file in it"),
        Fault("below a file", lambda path: path, f"PATH/.. {OUTSIDE}"),
        Fault(
            "below nothing", lambda path: path, "there is no folder PATH/..: make it"
        ),
    ],
    "folder": [
        Fault("file", Path.touch, f"PATH {OUTSIDE}"),
        Fault("below a file", lambda path: path, f"PATH/.. {OUTSIDE}"),
    ],
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Inputs with which each command does its work."""
    folder = tmp_path_factory.mktemp("good")
    write_lines(folder / "text", counting_sentences(40, seed=1))
    write_lines(folder / "vocab", [[word] for word in WORDS])
    write_options(folder / "options", training_dict(OPTIONS))
    for name in ("model", "run", "curves", "files"):
        (folder / name).mkdir()
    for name in ("model", "files"):
        weights = write_model(folder / name, OPTIONS).weight_file
        weights.unlink()  # anew with checksums
        specs = model_variables(OPTIONS)
        write_weights(weights, specs, random_values(specs))
    for name in ("run", "files"):
        write_run(folder / name, OPTIONS)
    row = "3,,0.5,1,full,,,,0.2,,,,\n"
    for name in ("run", "curves"):
        (folder / name / "metrics.csv").write_text(f"{','.join(COLUMNS)}\n{row}")
    return folder


def test_no_command_is_left_out() -> None:
    assert list(COMMANDS) == [command.NAME for command in commands.COMMANDS]


CASES = [
    pytest.param(name, kind, fault, id=f"{name}-{kind}-{fault.name}")
    for name, line in COMMANDS.items()
    for kind, faults in FAULTS.items()
    for fault in faults
    if f"{{{kind}}}" in line and name not in fault.but_not
]


@pytest.mark.parametrize(("name", "kind", "fault"), CASES)
def test_what_is_wrong_is_one_line_and_code_2(
    name: str,
    kind: str,
    fault: Fault,
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = tmp_path / "in"
    shutil.copytree(good, place)
    paths = {each: place / each for each in FAULTS} | {"file": place / "out.png"}
    if fault.name.startswith("below"):
        above = place / ("text" if fault.name == "below a file" else "nothing")
        paths[kind] = above / "out.png"
    fault.change(paths[kind])
    before = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    argv = [name, *COMMANDS[name].format(**paths).split()]
    assert main(argv) == 2
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1, told.err
    line = told.err.removeprefix(f"bilm {name}: error: ")
    path = re.escape(str(paths[kind]))
    words = fault.words.replace("PATH/..", re.escape(str(paths[kind].parent)))
    words = words.replace("PATH", path).replace(
        "LINE", str(_line_of_cut(good / "text"))
    )
    assert re.search(words, line), line
    after = {path: path.stat().st_mtime_ns for path in place.rglob("*")}
    assert after == before  # nothing was written


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"lstm.dim": -4}, "lstm.dim must be a whole number, at least 1, not -4"),
        ({"lstm.dim": "16"}, "lstm.dim must be a whole number, .* not '16'"),
        ({"lstm.dim": 2**40}, "lstm.dim must be at most 1,048,576, not 10995116277"),
        (
            {"lstm.dim": 2**20, "lstm.projection_dim": 2**20},
            "the network of the options has .* parameters, .* but this machine has .*: "
            "make lstm.dim, the filters or the vocabulary smaller",
        ),
        ({"lstm.n_layers": 0}, "lstm.n_layers must be a whole number, at least 1"),
        ({"lstm": [3]}, "lstm must be an object"),
        ({"char_cnn.filters": [[1]]}, "char_cnn.filters must be a list of at least on"),
        ({"batch_size": 0}, "batch_size must be a whole number, at least 1, not 0"),
        ({"batch_size": 2.0}, "batch_size must be a whole number, at least 1, not 2.0"),
        (
            {"batch_size": 2**20, "unroll_steps": 2**20},
            "batch_size . unroll_steps are 1,099,511,627,776 tokens, and must be at mo",
        ),
        ({"all_clip_norm_val": float("nan")}, "all_clip_norm_val must be a finite"),
        ({"lstm.cell_clip": float("inf")}, "lstm.cell_clip must be a finite .*not inf"),
        ({"learning_rate": 1e300}, "must be a finite number above 0, of float32, not"),
        ({"learning_rate": 1e-320}, "must be a finite number above 0, of float32, not"),
        ({"dropout": 1}, "dropout must be a number from 0 to below 1, not 1"),
        ({"sample_softmax": 1}, "sample_softmax must be true or false, not 1"),
        ({"lr_schedule": "cubic"}, "lr_schedule must be .*, not 'cubic'"),
        ({"n_epoch": 3}, "unknown key 'n_epoch' .did you mean 'n_epochs'"),
    ],
    ids=str,
)
def test_wrong_options_are_one_line_and_code_2(
    values: dict[str, object],
    words: str,
    good: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    tree = json.loads((good / "options").read_text())
    for key, value in values.items():
        *sections, name = key.split(".")
        functools.reduce(dict.__getitem__, sections, tree)[name] = value
    options = tmp_path / "options.json"
    options.write_text(json.dumps(tree))
    argv = f"""train --save_dir {tmp_path / "new"} --vocab_file {good / "vocab"}
        --train_prefix {good / "text"} --options {options}"""
    assert main(argv.split()) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and re.search(words, told), told
    assert not (tmp_path / "new").exists()


def test_a_stdin_without_text_is_refused(
    good: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for flags in ("", "--resume", "--stateless --errors replace"):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO()))
        argv = f"""dump-embeddings --model {good / "model"} --dataset_file -
            --outfile {tmp_path / "out"} {flags}"""
        assert main(argv.split()) == 2
        assert capsys.readouterr().err == (
            "bilm dump-embeddings: error: there is no sentence in standard input: the "
            "text needs a sentence on each line\n"
        )
    assert list(tmp_path.iterdir()) == []


# What a path leads to, and what it is called


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            "stats --input {pipe}",
            "{pipe} is a pipe or a device, .* give - for standard",
        ),
        ("stats --input {text} --vocab_file {pipe}", "{pipe} is a pipe or a device"),
        ("stats --input {link}", "no file matches {link} .looked from"),
        ("vocab --train_prefix {text} --out {pipe}", "the output {pipe} is a pipe or"),
        ("vocab --train_prefix {text} --out {long}", "the name of .* is too long: sho"),
        ("dump-weights --save_dir {run} --outfile {run}/options.json", "not be an inp"),
        (f"dump-weights --save_dir {{run}} --outfile {{run}}/{INDEX}", "not be an inp"),
        (
            "dump-weights --save_dir {run} --outfile {new}/options.json",
            "name of the opt",
        ),
        (
            "score --save_dir {run} --vocab_file {vocab} --text {text} --outfile "
            "{run}/options.json",
            "options.json must not be an input",
        ),
        ("dump-weights --save_dir {bytes} --outfile o", "is not UTF-8, as TensorFlow"),
        (
            "export --model {model} --out {bytes}",
            "is not UTF-8, as TensorFlow needs it",
        ),
        (
            "export --model {model} --out {nothing}",
            "a path is '', where a folder is nee",
        ),
        (
            "stats --input {text} --vocab_file {nothing}",
            "a path is '', where a file is",
        ),
        ("stats --input {nothing}", "no file matches '' .looked from"),
        ("vocab --train_prefix {text} --out {nothing}", "a path is '', where a file"),
    ],
)
def test_paths_that_lead_astray_are_one_line_and_code_2(
    argv: str,
    words: str,
    good: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {name: str(good / name) for name in ("text", "vocab", "run", "model")}
    paths |= {name: str(tmp_path / name) for name in ("pipe", "link", "new")}
    paths |= {"long": "x" * 250, "bytes": "\udcff", "nothing": ""}
    os.mkfifo(paths["pipe"])
    Path(paths["link"]).symlink_to("nowhere")
    Path(paths["new"]).mkdir()
    before = {path: path.read_bytes() for path in good.rglob("*") if path.is_file()}
    assert main([word.format(**paths) for word in argv.split()]) == 2
    told = capsys.readouterr().err
    words = words.format(**{name: re.escape(path) for name, path in paths.items()})
    assert told.count("\n") == 1 and re.search(words, told), told
    assert {path: path.read_bytes() for path in before} == before
    assert sorted(os.listdir(tmp_path)) == ["link", "new", "pipe"]


def test_the_file_that_a_link_leads_to_is_replaced(good: Path, tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    link, target = tmp_path / "vocab.txt", tmp_path / "disk" / "words"
    link.symlink_to(target)
    flags = f"--train_prefix {good / 'text'} --out {link} --processes 1"
    for _ in range(2):
        assert main(["vocab", *flags.split()]) == 0
        assert link.is_symlink() and target.read_text().startswith("<S>\n</S>\n")
    assert os.listdir(tmp_path / "disk") == ["words"]


def test_numbers_are_bounded(capsys: pytest.CaptureFixture[str]) -> None:
    for flags, words in {
        f"vocab --out v --max_size {10**30}": "must have at most 18 digits, not 31",
        f"batches --vocab v --batch_size {2**20 + 1}": "must be at most 1,048,576, n",
        f"test --save_dir r --unroll_steps {2**31}": "must be at most 1,048,576, n",
    }.items():
        with pytest.raises(SystemExit) as exit_:
            main(flags.split())
        told = capsys.readouterr().err
        assert exit_.value.code == 2 and told.count("\n") == 1 and words in told


def test_closed_streams_are_one_line_and_code_2(
    good: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = ["stats", "--processes", "1", "--input"]
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdin", None)
        assert main([*stats, "-"]) == 2
    assert "- stands for standard input, which is closed" in capsys.readouterr().err
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", None)
        assert main([*stats, str(good / "text")]) == 2
    assert "standard output is closed, which the res" in capsys.readouterr().err
    monkeypatch.setattr("sys.stderr", None)
    assert main([*stats, "nothing"]) == 2


class ResourceExhaustedError(Exception):
    """Named as that of TensorFlow."""


@pytest.mark.parametrize("kind", [MemoryError, ResourceExhaustedError])
def test_too_little_memory_is_one_line_and_code_2(
    kind: type[Exception],
    good: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(*args: object, **settings: object) -> None:
        raise kind("OOM when allocating\nmore")

    monkeypatch.setattr("bilm.model.dump_token_embeddings", fail)
    flags = COMMANDS["dump-tokens"].format(
        model=good / "model", vocab=good / "vocab", file=tmp_path / "out"
    )
    assert main(["dump-tokens", *flags.split()]) == 2
    assert capsys.readouterr().err == (
        "bilm dump-tokens: error: not enough memory (OOM when allocating): make "
        "--batch_size, --max_tokens or the model smaller\n"
    )


def _line_of_cut(text: Path) -> int:
    """The line in which half of a gzip file ends: the same for all commands."""
    half = cut(gzip.compress(text.read_bytes()))
    return zlib.decompressobj(31).decompress(half).count(b"\n") + 1
