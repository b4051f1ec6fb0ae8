"""The command line: parsers, dispatch, and errors in one line.

The functions behind the commands are replaced by recorders; the commands themselves
run in the tests of training, evaluation and prediction.
"""

import argparse
import inspect
import logging
import os
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bilm.cli import main, script
from bilm.commands import COMMANDS, terminal
from bilm.errors import InputError
from bilm.options import replace_options, training_dict
from bilm.presets import preset

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "fixtures" / "golden"
VOCAB = str(GOLDEN / "vocab.txt")
TEXT = str(GOLDEN / "text.txt")
N_WORDS = 93

SCRIPTS = {
    "train_elmo.py": "train",
    "restart.py": "restart",
    "run_test.py": "test",
    "dump_weights.py": "dump-weights",
    "dump_bilm_embeddings.py": "dump-embeddings",
    "dump_token_embeddings.py": "dump-tokens",
}
NAMES = [command.NAME for command in COMMANDS]
TRAIN = ["train", "--save_dir", "run", "--vocab_file", VOCAB, "--train_prefix", TEXT]


class Call(NamedTuple):
    """How a recorder was called."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Recorder:
    """Stands for a function: keeps its calls, returns always the same."""

    def __init__(self, returns: Any = None) -> None:
        self.returns = returns
        self.calls: list[Call] = []

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls.append(Call(args, kwargs))
        return self.returns

    @property
    def call(self) -> Call:
        (call,) = self.calls
        return call


class Stubs(NamedTuple):
    """The recorders behind the commands."""

    train: Recorder
    load_vocab: Recorder
    latest: Recorder
    dump_weights: Recorder
    two_ways: Recorder
    one_way: Recorder
    evaluate: Recorder
    dump_bilm: Recorder
    dump_tokens: Recorder


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> Stubs:
    """Puts recorders in the place of the modules that compute."""
    data = types.SimpleNamespace(count_tokens=lambda: 1234)
    vocab = types.SimpleNamespace(size=N_WORDS)
    result = types.SimpleNamespace(
        forward=1312.5, backward=298.25, perplexity=625.67, n_tokens=12000, seconds=4.0
    )
    stubs = Stubs(
        train=Recorder(),
        load_vocab=Recorder(vocab),
        latest=Recorder(),
        dump_weights=Recorder(),
        two_ways=Recorder(data),
        one_way=Recorder(data),
        evaluate=Recorder(result),
        dump_bilm=Recorder(),
        dump_tokens=Recorder(),
    )

    monkeypatch.setattr("bilm.workers.make_strategy", lambda *_: None)

    def replace(module: str, **names: Recorder) -> None:
        stub = types.ModuleType(module)
        vars(stub).update(names)
        monkeypatch.setitem(sys.modules, module, stub)

    replace(
        "bilm.training",
        train=stubs.train,
        load_vocab=stubs.load_vocab,
        load_options_latest_checkpoint=stubs.latest,
        dump_weights=stubs.dump_weights,
    )
    replace("bilm.data", BidirectionalLMDataset=stubs.two_ways, LMDataset=stubs.one_way)
    replace("bilm.evaluation", evaluate=stubs.evaluate)
    replace(
        "bilm.model",
        dump_bilm_embeddings=stubs.dump_bilm,
        dump_token_embeddings=stubs.dump_tokens,
    )
    return stubs


@pytest.fixture
def save_dir(tmp_path: Path, stubs: Stubs) -> str:
    """A folder that looks like that of a run over the golden vocabulary."""
    options = replace_options(preset("small"), n_tokens_vocab=N_WORDS)
    stubs.latest.returns = (training_dict(options), "run/model.ckpt-7")
    for name in ("options.json", "checkpoint"):
        (tmp_path / name).touch()
    return str(tmp_path)


def error_line(capsys: pytest.CaptureFixture[str]) -> str:
    """The one line of standard error, with nothing on standard output."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("\n") and err.count("\n") == 1
    return err


# Help


@pytest.mark.parametrize("name", NAMES)
def test_help_names_the_command(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main([name, "--help"])
    assert exit_.value.code == 0
    assert f"usage: bilm {name} " in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_each_flag_has_help_and_is_required_or_has_a_default(command: Any) -> None:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    alternatives = {"model", "options_file", "weight_file", "options"}
    for action in parser._actions:
        assert action.help
        has_default = action.default is not None or "(default: " in action.help
        assert action.required or has_default or action.dest in alternatives


def test_help_shows_defaults(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert "steps between checkpoints" in text and "(default: 1250)" in text
    assert "size of the model (default: original)" in text
    assert "None" not in text
    assert text.count("(default: True)") == 1  # --shuffle, on every Python


def test_help_needs_no_tensorflow() -> None:
    code = (
        "import sys\nfrom bilm.cli import main\n"
        "try:\n    main(['--help'])\n"
        "finally:\n    assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_python_m_bilm_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bilm", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("bilm ")


@pytest.mark.parametrize("file", SCRIPTS)
def test_scripts_are_the_commands_under_their_own_names(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def options_of(usage: str) -> set[str]:
        return {word.strip("[]|") for word in usage.split() if "--" in word}

    monkeypatch.setattr(sys, "argv", [f"bin/{file}", "--help"])
    with pytest.raises(SystemExit) as exit_:
        runpy.run_path(str(ROOT / "bin" / file), run_name="__main__")
    text = capsys.readouterr().out
    assert exit_.value.code == 0
    assert text.startswith(f"usage: {file} ")
    with pytest.raises(SystemExit):
        main([SCRIPTS[file], "--help"])
    assert options_of(text) == options_of(capsys.readouterr().out)


def test_every_script_is_tested() -> None:
    assert {path.name for path in (ROOT / "bin").glob("*.py")} == set(SCRIPTS)


# Wrong use


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "bilm: error: the following arguments are required: COMMAND"),
        (["trian"], "invalid choice: 'trian'"),
        (["train"], "bilm train: error: the following arguments are required: --save"),
        ([*TRAIN, "--batch_sise", "3"], "unrecognized arguments: --batch_sise 3"),
        ([*TRAIN, "--batch", "3"], "unrecognized arguments: --batch 3"),
        ([*TRAIN, "--batch_size", "0"], "a whole number, 1 or more, not '0'"),
        ([*TRAIN, "--seed", "-1"], "--seed: must be a whole number, 0 or more"),
        ([*TRAIN, "--learning_rate", "fast"], "invalid float value: 'fast'"),
        ([*TRAIN, "--preset", "tiny"], "invalid choice: 'tiny'"),
        (
            [*TRAIN, "--preset", "small", "--options", "options.json"],
            "--options: not allowed with argument --preset",
        ),
    ],
)
def test_wrong_use_is_one_line_and_code_2(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    assert exit_.value.code == 2
    line = error_line(capsys)
    assert words in line
    assert "--help" in line


@pytest.mark.parametrize("given", ["", "--model m --weight_file w", "--options_file o"])
def test_a_model_is_named_one_way(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["dump-tokens", "--vocab_file", VOCAB, "--outfile", "o", *given.split()]
    assert main(argv) == 2
    line = error_line(capsys)
    assert line.startswith("bilm dump-tokens: error: name the model either by --model")


MISSING = {
    "vocabulary": (
        "train --save_dir s --vocab_file no/vocab.txt --train_prefix {text}",
        "no/vocab.txt not found: there is no folder no (looked from ",
    ),
    "file for a folder": (
        "train --save_dir {vocab}/run --vocab_file {vocab} --train_prefix {text}",
        "vocab.txt is a file, where a folder is needed: name a folder",
    ),
    "folder for a file": (
        "train --save_dir s --vocab_file {golden} --train_prefix {text}",
        "golden is a folder, where a file is needed: name a file, such as README.md",
    ),
    "shards": (
        "train --save_dir s --vocab_file {vocab} --train_prefix {text} no-*.txt",
        "no file matches no-*.txt",
    ),
    "options": (
        "train --save_dir s --vocab_file {vocab} --train_prefix {text} "
        "--options no/options.json",
        "no/options.json",
    ),
    "run to restart": (
        "restart --save_dir no --vocab_file {vocab} --train_prefix {text}",
        "no/options.json not found",
    ),
    "run to test": (
        "test --save_dir no --vocab_file {vocab} --test_prefix {text}",
        "no/options.json not found",
    ),
    "run to plot": ("plot {vocab}", "vocab.txt is a file, where a folder"),
    "run to score": (
        "score --save_dir no --vocab_file {vocab} --text {text}",
        "no/options.json not found",
    ),
    "run to predict by": (
        "predict --save_dir no --vocab_file {vocab} the bank",
        "no/options.json not found",
    ),
    "model to import": (
        "import-weights --model no --save_dir s",
        "no/options.json not found",
    ),
    "run to dump": ("dump-weights --save_dir no --outfile w", "no/options.json not"),
    "model": (
        "dump-embeddings --dataset_file {text} --model no --outfile o",
        "no/options.json not found",
    ),
    "weights": (
        "dump-tokens --vocab_file {vocab} --options_file {text} --weight_file no/w "
        "--outfile o",
        "no/w not found",
    ),
    "text": (
        "dump-embeddings --dataset_file no/text --model {model} --outfile o",
        "no/text not found",
    ),
    "folder of the output": (
        "dump-tokens --vocab_file {vocab} --model {model} --outfile no/o",
        "there is no folder no (looked from ",
    ),
    "name of the output": (
        "dump-tokens --vocab_file {vocab} --model {model} --outfile {golden}",
        "the output {golden} is a folder: name a file in it",
    ),
}


@pytest.mark.parametrize(("command", "words"), MISSING.values(), ids=list(MISSING))
def test_a_missing_file_is_one_line_and_code_2(
    command: str,
    words: str,
    stubs: Stubs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    paths = {
        "vocab": VOCAB,
        "text": TEXT,
        "golden": str(GOLDEN),
        "model": str(GOLDEN / "predict_relu_skip"),
    }
    argv = [word.format(**paths) for word in command.split()]
    assert main(argv) == 2
    line = error_line(capsys)
    assert line.startswith(f"bilm {argv[0]}: error: ")
    assert words.format(**paths) in line
    assert not any(recorder.calls for recorder in stubs)
    assert list(tmp_path.iterdir()) == []


def test_a_missing_file_is_said_before_tensorflow_is_loaded() -> None:
    code = (
        "import sys\nfrom bilm.cli import main\n"
        "code = main('train --save_dir s --vocab_file no --train_prefix no'.split())\n"
        "assert code == 2 and 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def raising(error: BaseException) -> Any:
    """A function that raises."""

    def function(*args: Any, **kwargs: Any) -> None:
        raise error

    return function


DUMP_TOKENS = [
    *("--vocab_file", VOCAB, "--outfile", "o"),
    *("--model", str(GOLDEN / "predict_relu_skip")),
]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (InputError("vocab.txt:5 is blank"), "vocab.txt:5 is blank"),
        (InputError("one line\nand two"), "one line and two"),
        (FileNotFoundError("no folder x"), "no folder x"),
        (
            PermissionError(13, "Permission denied", "a/b"),
            "a/b: Permission denied; ask for the right to, or name another path",
        ),
        (
            OSError(28, "No space left on device"),
            "No space left on device; make room, or name a path on another disk",
        ),
        (OSError(5, "Input/output error", "a/b"), "a/b: Input/output error"),
    ],
)
def test_errors_that_the_user_can_mend_are_one_line(
    error: Exception,
    line: str,
    stubs: Stubs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = sys.modules["bilm.model"]
    monkeypatch.setattr(model, "dump_token_embeddings", raising(error))
    assert main(["dump-tokens", *DUMP_TOKENS]) == 2
    assert error_line(capsys) == f"bilm dump-tokens: error: {line}\n"
    monkeypatch.setattr(sys, "argv", ["bin/dump_token_embeddings.py", *DUMP_TOKENS])
    assert script("dump-tokens") == 2
    assert error_line(capsys) == f"dump_token_embeddings.py: error: {line}\n"
    with pytest.raises(type(error)):
        main(["dump-tokens", *DUMP_TOKENS, "--debug"])


@pytest.mark.parametrize(
    ("flags", "before", "level"),
    [([], None, "3"), (["--debug"], None, "0"), ([], "1", "1")],
)
def test_remarks_of_tensorflow_on_the_machine_are_for_debug(
    flags: list[str],
    before: str | None,
    level: str,
    stubs: Stubs,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "TF_CPP_MIN_LOG_LEVEL"
    monkeypatch.setenv(name, before or "")  # to be restored after the test
    if before is None:
        monkeypatch.delenv(name)
    assert main(["dump-tokens", *DUMP_TOKENS, *flags]) == 0
    assert os.environ[name] == level


def test_errors_of_ours_keep_their_traceback(
    stubs: Stubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = sys.modules["bilm.model"]
    monkeypatch.setattr(model, "dump_token_embeddings", raising(KeyError("x")))
    with pytest.raises(KeyError):
        main(["dump-tokens", *DUMP_TOKENS])


def test_ctrl_c_is_code_130(
    stubs: Stubs,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    model = sys.modules["bilm.model"]
    monkeypatch.setattr(model, "dump_token_embeddings", raising(KeyboardInterrupt()))
    assert main(["dump-tokens", *DUMP_TOKENS]) == 130
    assert "bilm dump-tokens: stopped by Ctrl-C" in capsys.readouterr().err


# What the commands call


def test_train_takes_the_original_options_and_counts_the_text(stubs: Stubs) -> None:
    assert main(TRAIN) == 0
    options, data, n_gpus, save_dir, log_dir, restart = stubs.train.call.args
    assert options == replace_options(
        preset("original"), n_tokens_vocab=N_WORDS, n_train_tokens=1234
    )
    assert stubs.load_vocab.call.args == (VOCAB, 50)
    assert data is stubs.two_ways.returns
    assert (n_gpus, save_dir, log_dir, restart) == (1, "run", "run", None)
    assert not stubs.train.call.kwargs.pop("stop_requested")()
    assert stubs.train.call.kwargs.pop("workers").n_replicas == 1
    assert stubs.train.call.kwargs == {
        "embedding_init": None,
        "seed": None,
        "checkpoint_every": 1250,
        "keep": 5,
        "log_every": 100,
        "mixed_precision": None,
        "jit_compile": False,
        "stop_after": None,
        "max_bad_steps": 20,
        "valid_data": None,
        "valid_every": 1250,
        "patience": None,
        "resume": False,
        "overwrite": False,
    }
    patterns = stubs.two_ways.call.args[0]
    assert patterns == [TEXT]
    assert stubs.two_ways.call.kwargs == {"shuffle_on_load": True, "seed": None}


def test_train_flags_reach_their_places(stubs: Stubs) -> None:
    flags = (
        "--preset small --batch_size 3 --n_epochs 4 --n_train_tokens 999 --n_gpus 2 "
        "--learning_rate 0.1 --dropout 0 --n_negative_samples_batch 17 --seed 5 "
        "--log_dir logs --checkpoint_every 6m --keep 7 --log_every 8 --no-shuffle "
        "--stop_after 9 --overwrite --valid_every 11 --patience 2 --max_bad_steps 4 "
        "--lr_schedule linear --warmup_steps 12 --accumulate 13"
    )
    assert main([*TRAIN, *flags.split(), "--valid_prefix", TEXT]) == 0
    options, _, n_gpus, _, log_dir, _ = stubs.train.call.args
    assert options == replace_options(
        preset("small"),
        n_tokens_vocab=N_WORDS,
        batch_size=3,
        n_epochs=4,
        n_train_tokens=999,
        learning_rate=0.1,
        lr_schedule="linear",
        warmup_steps=12,
        accumulate=13,
        dropout=0.0,
        n_negative_samples_batch=17,
    )
    assert (n_gpus, log_dir) == (2, "logs")
    assert stubs.train.call.kwargs.pop("stop_requested")
    assert stubs.train.call.kwargs.pop("workers").n_replicas == 2
    assert stubs.train.call.kwargs == {
        "embedding_init": None,
        "seed": 5,
        "checkpoint_every": "6m",
        "keep": 7,
        "log_every": 8,
        "mixed_precision": None,
        "jit_compile": False,
        "stop_after": 9,
        "max_bad_steps": 4,
        "valid_data": stubs.two_ways.returns,
        "valid_every": 11,
        "patience": 2,
        "resume": False,
        "overwrite": True,
    }
    training, heldout = stubs.two_ways.calls
    assert training.kwargs == {"shuffle_on_load": False, "seed": 5}
    assert (heldout.args[0], heldout.kwargs) == ([TEXT], {"test": True})


def test_patience_needs_a_held_out_text(
    stubs: Stubs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--patience", "3"]) == 2
    assert "give it by --valid_prefix" in error_line(capsys)


def test_train_refuses_an_option_out_of_range(
    stubs: Stubs, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TRAIN, "--dropout", "1.5"]) == 2
    assert "dropout" in error_line(capsys)


@pytest.mark.parametrize(
    ("folder", "characters", "directions"),
    [("train_full_softmax_chars", 50, 2), ("train_words_forward_only", None, 1)],
)
def test_train_opens_what_the_options_file_asks_for(
    folder: str, characters: int | None, directions: int, stubs: Stubs
) -> None:
    options_file = str(GOLDEN / folder / "init" / "options.json")
    assert main([*TRAIN, "--options", options_file]) == 0
    assert stubs.load_vocab.call.args == (VOCAB, characters)
    assert (len(stubs.one_way.calls), len(stubs.two_ways.calls)) == (
        (0, 1) if directions == 2 else (1, 0)
    )


def test_train_says_where_the_vocabulary_has_another_size(
    stubs: Stubs, capsys: pytest.CaptureFixture[str]
) -> None:
    options_file = str(GOLDEN / "train_full_softmax_chars" / "init" / "options.json")
    stubs.load_vocab.returns = types.SimpleNamespace(size=7)
    assert main([*TRAIN, "--options", options_file]) == 0
    assert "n_tokens_vocab 93, the vocabulary has 7 words" in capsys.readouterr().err
    assert stubs.train.call.args[0].n_tokens_vocab == 7


def test_restart_goes_on_by_the_options_of_the_run(stubs: Stubs, save_dir: str) -> None:
    argv = ["restart", "--save_dir", save_dir, "--vocab_file", VOCAB]
    assert main([*argv, "--train_prefix", TEXT, "--n_epochs", "3"]) == 0
    options, _, n_gpus, folder, log_dir, restart = stubs.train.call.args
    assert options == replace_options(
        preset("small"), n_tokens_vocab=N_WORDS, n_epochs=3, n_train_tokens=1234
    )
    assert (n_gpus, folder, log_dir) == (1, save_dir, save_dir)
    assert restart == "run/model.ckpt-7"


@pytest.mark.parametrize("name", ["restart", "test"])
def test_the_vocabulary_must_be_that_of_the_run(
    name: str, stubs: Stubs, save_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stubs.load_vocab.returns = types.SimpleNamespace(size=94)
    text = "--train_prefix" if name == "restart" else "--test_prefix"
    assert main([name, "--save_dir", save_dir, "--vocab_file", VOCAB, text, TEXT]) == 2
    line = error_line(capsys)
    assert "vocab.txt has 94 words" in line and "has 93" in line
    assert not stubs.train.calls and not stubs.evaluate.calls


def test_test_prints_its_numbers(
    stubs: Stubs, save_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["test", "--save_dir", save_dir, "--vocab_file", VOCAB, "--test_prefix"]
    assert main([*argv, TEXT]) == 0
    rows = [line.rsplit(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["forward perplexity", "1,312.50"],
        ["backward perplexity", "298.25"],
        ["perplexity", "625.67"],
        ["tokens", "12,000"],
        ["tokens/s", "3,000"],
    ]
    assert stubs.two_ways.call.kwargs == {"test": True}
    assert stubs.evaluate.call.kwargs == {"unroll_steps": 20}
    assert stubs.evaluate.call.args == (
        replace_options(preset("small"), n_tokens_vocab=N_WORDS),
        "run/model.ckpt-7",
        stubs.two_ways.returns,
        256,
    )


def test_test_of_one_direction_prints_no_other(
    stubs: Stubs, save_dir: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stubs.evaluate.returns.backward = None
    argv = ["test", "--save_dir", save_dir, "--vocab_file", VOCAB, "--test_prefix"]
    assert main([*argv, TEXT]) == 0
    assert "backward" not in capsys.readouterr().out


def test_dump_weights_writes_what_it_is_told(stubs: Stubs, save_dir: str) -> None:
    assert main(["dump-weights", "--save_dir", save_dir, "--outfile", "w.hdf5"]) == 0
    assert stubs.dump_weights.call == Call(
        (save_dir, "w.hdf5"), {"include_softmax": False}
    )


def test_dump_embeddings_finds_the_files_of_a_model(stubs: Stubs) -> None:
    from bilm.dump import dump_bilm_embeddings  # loads TensorFlow

    model = GOLDEN / "predict_relu_skip"
    files = (str(model / "options.json"), str(model / "weights.hdf5"))
    argv = ["dump-embeddings", "--dataset_file", TEXT, "--outfile", "o"]
    signature = inspect.signature(dump_bilm_embeddings).parameters.values()
    defaults = {p.name: p.default for p in signature if p.kind is p.KEYWORD_ONLY}
    defaults["stateful"] = False
    assert main([*argv, "--model", str(model)]) == 0
    assert stubs.dump_bilm.calls.pop() == Call(
        (None, TEXT, *files, "o"), {**defaults, "stateful": True}
    )
    named = ["--options_file", files[0], "--weight_file", files[1]]
    rest = ["--vocab_file", VOCAB, "--stateless", "--batch_size", "9", "--layers", "1"]
    assert main([*argv, *named, *rest]) == 0
    assert stubs.dump_bilm.call == Call(
        (VOCAB, TEXT, *files, "o"), {**defaults, "batch_size": 9, "layers": 1}
    )


def test_dump_tokens_embeds_the_vocabulary(stubs: Stubs) -> None:
    model = GOLDEN / "predict_relu_skip"
    assert main(["dump-tokens", *DUMP_TOKENS]) == 0
    files = (str(model / "options.json"), str(model / "weights.hdf5"))
    assert stubs.dump_tokens.call == Call((VOCAB, *files, "o"), {})


# Logging


def test_log_lines_are_shown_inside_the_block_only(
    capsys: pytest.CaptureFixture[str],
) -> None:
    logger = logging.getLogger("bilm.training")
    with terminal.logging_to_stderr():
        logger.info("step %d", 7)
        logger.debug("hidden")
    logger.error("after")
    with terminal.logging_to_stderr(debug=True):
        logger.debug("shown")
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert out == ""
    assert first.endswith(" step 7") and second.endswith(" shown")
    assert logging.getLogger("bilm").handlers == []
