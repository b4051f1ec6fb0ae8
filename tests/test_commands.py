"""Whole commands, with a tiny model, from text to embeddings."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tiny import (
    OPTIONS,
    SMALL_LSTM,
    WORDS,
    Corpus,
    Model,
    counting_sentences,
    read_arrays,
    write_lines,
)

from bilm.checkpoint import Checkpoint, latest_checkpoint
from bilm.cli import main
from bilm.names import GLOBAL_STEP
from bilm.options import (
    read_model_options,
    read_training_options,
    replace_options,
    training_dict,
    write_options,
)
from bilm.version import __version__

ROOT = Path(__file__).parent.parent
TINY = replace_options(
    OPTIONS,
    lstm=SMALL_LSTM,
    batch_size=3,
    unroll_steps=2,
    n_train_tokens=0,  # to be counted
    n_tokens_vocab=0,  # to be taken from the vocabulary
    sample_softmax=True,
)
N_TOKENS = sum(len(tokens) + 1 for tokens in counting_sentences(40, seed=2))


class Outcome(NamedTuple):
    """What a command left."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="module")
def options_file(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("options") / "tiny.json"
    write_options(path, training_dict(TINY))
    return str(path)


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, options_file: str, corpus: Corpus
) -> Path:
    """The folder of a run that `bilm train` has made, on two shards."""
    folder = tmp_path_factory.mktemp("commands")
    for shard in range(2):
        lines = counting_sentences(20, seed=shard)
        write_lines(folder / f"shard-{shard}.txt", lines)
    flags = f"""--save_dir {folder / "run"} --vocab_file {corpus.vocab}
        --options {options_file} --n_epochs 2 --seed 3 --log_every 10
        --log_dir {folder / "logs"}"""
    train_prefix = str(folder / "shard-*.txt")
    assert main(["train", *flags.split(), "--train_prefix", train_prefix]) == 0
    return folder / "run"


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `bilm` with flags given as text."""

    def run_command(flags: str) -> Outcome:
        capsys.readouterr()
        code = main(flags.split())
        return Outcome(code, *capsys.readouterr())

    return run_command


def test_train_counts_and_saves(run: Path) -> None:
    options = read_training_options(run / "options.json")
    words = [len(s) for shard in range(2) for s in counting_sentences(20, shard)]
    assert options.n_tokens_vocab == len(WORDS)
    assert options.n_train_tokens in (sum(words), sum(words) + len(words))
    assert options.n_epochs == 2
    n_steps = 2 * (options.n_train_tokens // 6)
    assert latest_checkpoint(run) == str(run / f"model.ckpt-{n_steps}")
    assert list((run.parent / "logs").glob("events.*"))
    assert not list(run.glob("events.*"))


def test_test_prints_the_perplexities(run: Path, corpus: Corpus, command: Any) -> None:
    result = command(
        f"test --save_dir {run} --vocab_file {corpus.vocab} "
        f"--test_prefix {corpus.heldout} --batch_size 4 --unroll_steps 5"
    )
    assert result.code == 0
    lines = dict(line.rsplit(maxsplit=1) for line in result.out.splitlines())
    assert lines["tokens"] == str(N_TOKENS)
    forward, backward, joint = (
        float(lines[name])
        for name in ("forward perplexity", "backward perplexity", "perplexity")
    )
    assert 1 < min(forward, backward) < joint < max(forward, backward) < len(WORDS)
    np.testing.assert_allclose(joint, (forward * backward) ** 0.5, atol=0.02)


def test_restart_goes_on(run: Path, corpus: Corpus, command: Any) -> None:
    before = Checkpoint(latest_checkpoint(run))
    step = before.read({GLOBAL_STEP: ()})[GLOBAL_STEP]
    result = command(
        f"restart --save_dir {run} --vocab_file {corpus.vocab} --train_prefix "
        f"{corpus.train} --n_epochs 1 --n_train_tokens 18 --batch_size 4 --n_gpus 1"
    )
    assert result.code == 0 and "training is done" in result.err
    prefix = latest_checkpoint(run)
    assert prefix == str(run / f"model.ckpt-{int(step) + 2}")  # 18 // (4 * 2)
    assert read_training_options(run / "options.json").batch_size == 4


def test_dump_weights_and_embed(
    run: Path, corpus: Corpus, command: Any, tmp_path: Path
) -> None:
    weights = tmp_path / "weights.hdf5"
    assert command(f"dump-weights --save_dir {run} --outfile {weights}").code == 0
    options = read_model_options(tmp_path / "options.json")
    assert options.lstm == TINY.lstm and options.char_cnn == TINY.char_cnn

    text = write_lines(tmp_path / "text.txt", [["1", "2"], [], ["unheard"]])
    embed = f"dump-embeddings --dataset_file {text} --model {tmp_path}"
    flags = {"one": "", "other": "--stateless --batch_size 2"}
    for name, more in flags.items():
        result = command(f"{embed} --outfile {tmp_path / name} {more}")
        assert result.code == 0 and "1 blank lines" in result.err
        shapes = {k: a.shape for k, a in read_arrays(tmp_path / name).items()}
        assert shapes == {"0": (2, 2, 6), "1": (2, 0, 6), "2": (2, 1, 6)}

    words = tmp_path / "words.hdf5"
    result = command(
        f"dump-tokens --vocab_file {corpus.vocab} --outfile {words} --options_file "
        f"{tmp_path / 'options.json'} --weight_file {weights}"
    )
    assert result.code == 0
    assert read_arrays(words)["embedding"].shape == (len(WORDS), 3)


def assert_refused(result: Outcome, *parts: str) -> None:
    """Exit code 2, and the last line of standard error says why."""
    assert result.code == 2
    assert "Traceback" not in result.err and result.out == ""
    last = result.err.splitlines()[-1]
    assert last.startswith("bilm ") and ": error: " in last
    for part in parts:
        assert part in last


def test_a_missing_text_is_named(run: Path, corpus: Corpus, command: Any) -> None:
    flags = f"test --save_dir {run} --vocab_file {corpus.vocab} --test_prefix"
    assert_refused(command(f"{flags} {run}/nothing-*.txt"), "nothing-*.txt")
    flags = f"test --save_dir {run} --test_prefix {corpus.heldout} --vocab_file"
    assert_refused(command(f"{flags} {run}/nothing.txt"), "nothing.txt")


def test_another_vocabulary_is_refused(
    run: Path, corpus: Corpus, command: Any, tmp_path: Path
) -> None:
    other = write_lines(tmp_path / "vocab.txt", [[word] for word in WORDS[:-1]])
    flags = f"--save_dir {run} --vocab_file {other}"
    for result in (
        command(f"test {flags} --test_prefix {corpus.heldout}"),
        command(f"restart {flags} --train_prefix {corpus.train}"),
    ):
        assert_refused(
            result, str(other), "12 words", "13", "bilm finetune --init_from"
        )


@pytest.mark.parametrize("name", ["test", "score", "predict", "restart"])
def test_a_vocabulary_of_as_many_other_words_is_refused(
    name: str, run: Path, corpus: Corpus, command: Any, tmp_path: Path
) -> None:
    words = [*WORDS[:-2], *WORDS[:-3:-1]]  # in another order
    other = write_lines(tmp_path / "vocab.txt", [[word] for word in words])
    text = {
        "test": f"--test_prefix {corpus.heldout}",
        "score": f"--text {corpus.heldout} --outfile {tmp_path / 'scores.tsv'}",
        "predict": "1 2",
        "restart": f"--train_prefix {corpus.train}",
    }
    result = command(f"{name} --save_dir {run} --vocab_file {other} {text[name]}")
    assert_refused(result, str(other), "other ones or in another order", "bilm finet")


def test_options_of_prediction_cannot_train(
    run: Path, corpus: Corpus, command: Any, tmp_path: Path
) -> None:
    """Those of a released model: what is missing for training is said."""
    tree = json.loads((run / "options.json").read_text())
    network = {key: tree[key] for key in ("bidirectional", "char_cnn", "lstm")}
    network["char_cnn"]["n_characters"] = 262
    (tmp_path / "options.json").write_text(json.dumps(network))
    result = command(
        f"train --save_dir {tmp_path / 'new'} --vocab_file {corpus.vocab} "
        f"--train_prefix {corpus.train} --options {tmp_path / 'options.json'}"
    )
    assert_refused(result, "options.json", "prediction", "n_epochs", "unroll_steps")
    assert result.err.count("\n") == 1 and not (tmp_path / "new").exists()


def test_files_in_utf_16_are_named_with_a_guess(
    run: Path, corpus: Corpus, options_file: str, command: Any, tmp_path: Path
) -> None:
    """As Notepad saves them: vocabulary, corpus, options and text to embed."""
    sources = {
        "vocab": corpus.vocab,
        "text": corpus.train,
        "options": Path(options_file),
    }
    paths = {name: str(path) for name, path in sources.items()}
    train = "train --save_dir {folder}/new --vocab_file {vocab} --train_prefix {text} "
    commands = dict.fromkeys(sources, train + "--options {options}")
    for name, line in commands.items():
        wrong = tmp_path / f"{name}.txt"
        wrong.write_bytes(sources[name].read_text().encode("utf-16"))
        flags = line.format(**{**paths, name: str(wrong), "folder": tmp_path})
        result = command(flags)
        assert_refused(result, str(wrong), "UTF-16")
        assert result.err.count("\n") == 1 and not (tmp_path / "new").exists()
    weights = tmp_path / "weights.hdf5"
    assert command(f"dump-weights --save_dir {run} --outfile {weights}").code == 0
    embed = f"dump-embeddings --model {tmp_path} --outfile {tmp_path / 'o.hdf5'}"
    result = command(f"{embed} --dataset_file {tmp_path / 'text.txt'}")
    assert_refused(result, "text.txt", "UTF-16")
    assert not (tmp_path / "o.hdf5").exists()


@pytest.mark.slow
def test_the_encoding_of_the_platform_does_not_matter(
    options_file: str, tmp_path: Path
) -> None:
    """Train, dump and embed text of several scripts where the locale is ASCII."""
    words = ["é", "中", "ب"]
    text = write_lines(tmp_path / "text.txt", [words, words[::-1]] * 20)
    vocab = write_lines(tmp_path / "vocab.txt", [[w] for w in [*WORDS[:3], *words]])
    commands = [
        f"train --save_dir run --vocab_file {vocab.name} --train_prefix {text.name} "
        f"--options {options_file} --n_epochs 1 --n_gpus 1",
        "dump-weights --save_dir run --outfile weights.hdf5",
        f"dump-embeddings --model . --dataset_file {text.name} --outfile o.hdf5",
    ]
    code = "import sys\nfrom bilm.cli import main\n" + "\n".join(
        f"assert main({line.split()!a}) == 0" for line in commands
    )
    ascii_only = {
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
        "PYTHONIOENCODING": "ascii",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=os.environ | ascii_only,
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    assert b"Logging error" not in done.stderr and done.stderr.isascii()
    first = done.stderr.decode()
    assert f"bilm {__version__} of {ROOT / 'bilm'}, Python 3." in first
    assert len(read_arrays(tmp_path / "o.hdf5")) == 40


def test_an_empty_text_is_refused(
    run: Path, corpus: Corpus, options_file: str, command: Any, tmp_path: Path
) -> None:
    empty = write_lines(tmp_path / "empty.txt", [])
    flags = f"--vocab_file {corpus.vocab}"
    result = command(f"test --save_dir {run} {flags} --test_prefix {empty}")
    assert_refused(result)
    result = command(
        f"train --save_dir {tmp_path / 'run'} {flags} --train_prefix {empty} "
        f"--options {options_file}"
    )
    assert_refused(result)
    assert not (tmp_path / "run").exists()


def test_a_damaged_model_is_refused(
    char_model: Model, corpus: Corpus, command: Any, tmp_path: Path
) -> None:
    tree = json.loads(char_model.options_file.read_text())
    tree["lstm"]["dim"] = 20
    (tmp_path / "options.json").write_text(json.dumps(tree))
    content = char_model.weight_file.read_bytes()
    weights = tmp_path / "weights.hdf5"
    embed = (
        f"dump-embeddings --dataset_file {corpus.heldout} --model {tmp_path} "
        f"--outfile {tmp_path / 'out.hdf5'}"
    )
    weights.write_bytes(content)
    assert_refused(command(embed), str(weights), "[16, 80] but is [16, 64]")
    weights.write_bytes(content[:1000])
    assert_refused(command(embed), str(weights), "not a readable HDF5 file")
    assert not (tmp_path / "out.hdf5").exists()
