"""The README: its commands run, and what it says of the code is so.

The fenced blocks of `bash` and `python` run in their order, in a folder that holds the
text which the README asks for; python blocks share their names, as in a notebook.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest

from bilm.commands import COMMANDS
from bilm.data import LMDataset, Vocabulary
from bilm.names import model_variables
from bilm.option_rules import RULES
from bilm.options import (
    CharCnnOptions,
    LstmOptions,
    TrainingOptions,
    read_model_options,
    training_dict,
)
from bilm.presets import PRESETS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

# What is run in place of what the README shows, to take seconds.
SUBSTITUTIONS = {"--preset small": "--options tiny.json --log_every 5"}

# Blocks that are not run, by their first line, and why.
EXEMPT = {
    "make demo": "runs the tests, and with them this one; the demo has its own test",
    "# on gpu1": "needs two hosts",
    "#!/bin/bash": "needs SLURM",
    "pip install .": "would change the environment that the tests run in",
}

TINY = TrainingOptions(
    lstm=LstmOptions(dim=12, projection_dim=6, n_layers=2, cell_clip=3, proj_clip=3),
    char_cnn=CharCnnOptions(
        filters=((1, 4), (3, 8)), embedding_dim=4, max_characters_per_token=50
    ),
    dropout=0.1,
    all_clip_norm_val=10.0,
    n_epochs=2,
    batch_size=2,
    n_tokens_vocab=0,
    unroll_steps=5,
    n_negative_samples_batch=6,
)

# All words of the README's own sentences, so that token ids lose none of them.
TEXT = ["The bank raised its rates .", "Rain !", "The rates , its rates !"] * 4


class Block(NamedTuple):
    """A fenced block."""

    language: str
    code: str
    line: int  # of the README, where the code begins


class Run(NamedTuple):
    """What the blocks have left."""

    folder: Path
    names: dict[str, Any]  # of the python blocks
    printed: str  # standard output of the bash blocks


def blocks_of(markdown: str) -> list[Block]:
    """Find the fenced blocks."""
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", markdown, re.MULTILINE | re.DOTALL)
    return [
        Block(match[1], match[2], markdown[: match.start(2)].count("\n") + 1)
        for match in found
    ]


def is_exempt(block: Block) -> bool:
    return any(block.code.startswith(start) for start in EXEMPT)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Run all blocks."""
    folder = tmp_path_factory.mktemp("readme")
    write_inputs(folder)
    names: dict[str, Any] = {}
    printed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PATH", path_with_bilm(tmp_path_factory.mktemp("bin")))
        patch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        for block in blocks_of(README):
            if block.language == "bash" and not is_exempt(block):
                printed.append(run_bash(block))
            elif block.language == "python":
                # Blank lines in front, so that a traceback has the README's lines.
                source = "\n" * (block.line - 1) + block.code
                exec(compile(source, str(ROOT / "README.md"), "exec"), names)
        yield Run(folder, names, "".join(printed))


def write_inputs(folder: Path) -> None:
    """Write the text that the README asks for, and the options that replace its own."""
    (folder / "text").mkdir()
    for name, lines in {"train-0": TEXT[:6], "train-1": TEXT[6:]}.items():
        (folder / f"text/{name}.txt").write_text("\n".join(lines) + "\n")
    (folder / "text/heldout.txt").write_text("Rain raised its rates .\nThe bank !\n")
    (folder / "tiny.json").write_text(json.dumps(training_dict(TINY)))


def path_with_bilm(folder: Path) -> str:
    """Give a PATH with this Python, and with `bilm` also where it is not installed."""
    script = folder / "bilm"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m bilm "$@"\n')
    script.chmod(0o755)
    own = Path(sys.executable).parent
    return os.pathsep.join([str(own), str(folder), os.environ["PATH"]])


def run_bash(block: Block) -> str:
    code = block.code
    for shown, replacement in SUBSTITUTIONS.items():
        code = code.replace(shown, replacement)
    result = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True
    )
    assert result.returncode == 0, (
        f"README.md:{block.line} ended with {result.returncode}:\n{result.stderr}"
    )
    return result.stdout


def test_blocks_say_what_they_are() -> None:
    assert {block.language for block in blocks_of(README)} == {"bash", "python", "text"}


@pytest.mark.parametrize("table", [SUBSTITUTIONS, EXEMPT], ids=["replaced", "exempt"])
def test_exceptions_are_needed(table: dict[str, str]) -> None:
    code = "".join(block.code for block in blocks_of(README))
    for shown in table:
        assert shown in code


@pytest.mark.skipif(shutil.which("bash") is None, reason="the blocks need bash")
@pytest.mark.slow
class TestBlocks:
    """What the blocks leave is what the text around them says."""

    def test_vocabulary_is_in_order_of_frequency(self, run: Run) -> None:
        words = (run.folder / "vocab.txt").read_text().split()
        assert words[:3] == ["<S>", "</S>", "<UNK>"]
        tokens = " ".join(TEXT).split()
        counts = [tokens.count(word) for word in words[3:]]
        assert counts == sorted(counts, reverse=True)
        assert set(words[3:]) == set(tokens)

    def test_perplexities_are_printed(self, run: Run) -> None:
        printed = re.findall(r"perplexity +([\d,.]+)", run.printed)
        assert len(printed) == 6  # of `bilm test`, and of `bilm score`
        assert all(1 < float(value.replace(",", "")) < 100 for value in printed)

    def test_training_wrote_what_the_table_of_files_lists(self, run: Run) -> None:
        names = [path.name for path in (run.folder / "run").iterdir()]
        assert {"options.json", "checkpoint"} <= set(names)
        assert any(name.startswith("events.out.tfevents") for name in names)
        # Two epochs of training, then the restart's one.
        n_tokens = len(" ".join(TEXT).split())
        n_steps = 3 * (n_tokens // (TINY.batch_size * TINY.unroll_steps))
        assert f"model.ckpt-{n_steps}.index" in names

    def test_model_is_ready_for_prediction(self, run: Run) -> None:
        content = json.loads((run.folder / "model/options.json").read_text())
        assert content["char_cnn"]["n_characters"] == 262
        assert read_model_options(run.folder / "model/options.json").lstm == TINY.lstm

    def test_import_makes_a_run(self, run: Run) -> None:
        assert (run.folder / "imported" / "model.ckpt-0.index").exists()

    def test_data_set_file_has_a_data_set_for_each_line(self, run: Run) -> None:
        with h5py.File(run.folder / "heldout.hdf5") as file:
            shapes = {name: dataset.shape for name, dataset in file.items()}
        assert shapes == {"0": (3, 5, 12), "1": (3, 3, 12)}
        assert run.names["line"].shape == (3, 5, 12)

    def test_scores_are_those_of_the_file(self, run: Run) -> None:
        rows = (run.folder / "scores.tsv").read_text().splitlines()
        assert len(rows) == 1 + (5 + 2) + (3 + 2)  # a head, and two sentences
        assert run.names["scores"].forward.shape == (3,)

    def test_shapes_in_the_comments(self, run: Run) -> None:
        names = run.names
        assert names["vectors"].shape == (2, 3, 6, 12)
        expected = np.arange(6) < [[6], [2]]
        np.testing.assert_array_equal(names["mask"], expected)
        np.testing.assert_allclose(
            names["average"], np.mean(names["vectors"], axis=1), atol=1e-6
        )

    def test_model_in_a_pipeline(self, run: Run) -> None:
        (mapped,) = run.names["mapped"]
        np.testing.assert_allclose(
            mapped["lm_embeddings"], run.names["vectors"], rtol=1e-5, atol=1e-6
        )

    def test_variables_of_the_mix_are_learnt(self, run: Run) -> None:
        for gradient in run.names["gradients"]:
            assert np.abs(gradient).max() > 0

    def test_stateful_model_remembers_until_it_is_reset(self, run: Run) -> None:
        first, second, again = (run.names[n] for n in ("first", "second", "again"))
        np.testing.assert_array_equal(again, first)
        assert np.abs(second - first)[:, 1:].max() > 1e-4

    def test_graph_code_gives_the_same_mix(self, run: Run) -> None:
        names = run.names
        # A model starts from zero: its first call is the same as a stateless one.
        np.testing.assert_allclose(
            names["mixed_in_graph"], names["average"], rtol=1e-5, atol=1e-6
        )
        assert names["names"] == ["input_ELMo_gamma:0", "input_ELMo_W:0"]

    def test_token_ids_give_the_vectors_of_characters(self, run: Run) -> None:
        names = run.names
        np.testing.assert_allclose(names["in_context"], names["vectors"], atol=1e-6)

    def test_the_savedmodel_gives_the_mean_of_the_average(self, run: Run) -> None:
        found = run.names["sentence_vectors"]
        assert found.shape == (2, 12)
        expected = run.names["average"][1, :2].numpy().mean(0)  # of "Rain !"
        np.testing.assert_allclose(found[1], expected, atol=1e-6)
        classifier = run.names["classifier"]
        assert len(classifier.trainable_weights) == 2  # of the dense layer alone
        texts = run.names["tf"].constant(["Rain !", ""])
        assert classifier(texts).shape == (2, 3)

    def test_ids_of_a_pipeline_are_those_of_the_batcher(self, run: Run) -> None:
        (ids,) = run.names["batches"]
        np.testing.assert_array_equal(ids, run.names["ids"])


def table_after(heading: str, markdown: str = README) -> list[list[str]]:
    """Rows of the first table after a heading, without its head, as lists of cells."""
    text = markdown.partition(f"\n{heading}\n")[2]
    lines = re.findall(r"^\|(.*)\|$", text.partition("\n## ")[0], re.MULTILINE)
    return [[cell.strip() for cell in line.split("|")] for line in lines[2:]]


def test_table_of_sizes_is_that_of_the_presets() -> None:
    rows = []
    for name, options in PRESETS.items():
        assert options.char_cnn is not None
        specs = model_variables(options)
        numbers = (
            options.lstm.dim,
            options.lstm.projection_dim,
            options.char_cnn.n_highway,
            options.output_dim,
            sum(int(np.prod(spec.shape)) for spec in specs),
        )
        rows.append([f"`{name}`", *(f"{number:,}" for number in numbers)])
    shown = table_after("## Sizes")
    shown = [[row[0].partition(" (")[0], *row[1:]] for row in shown]
    assert shown == rows


def test_table_of_options_has_every_key() -> None:
    keys = [row[0].strip("`") for row in table_after("## Options")]
    objects = {"lstm", "char_cnn.embedding"}  # which stand there by their keys
    assert keys == [key for key in RULES if key not in objects]


def test_picture_of_rows_is_what_the_data_set_gives(tmp_path: Path) -> None:
    picture = next(b.code for b in blocks_of(README) if "row 0" in b.code)
    shown = [
        [cell.split() for cell in line.split("|")[1:4]]
        for line in picture.splitlines()
        if line.startswith("row")
    ]
    sentence = re.search(r"`(a b .*?)` / `(.*?)` / `(.*?)`", README)
    assert sentence is not None
    text, words = tmp_path / "text.txt", tmp_path / "words.txt"
    text.write_text("\n".join(sentence.groups()) + "\n")
    tokens = sorted(set(" ".join(sentence.groups()).split()))
    words.write_text("\n".join(["<S>", "</S>", "<UNK>", *tokens]) + "\n")
    vocab = Vocabulary(words)
    batches = LMDataset(text, vocab).iter_batches(2, 3)
    for number in range(3):
        ids = next(batches)["token_ids"]
        assert [vocab.decode(row).split() for row in ids] == [
            row[number] for row in shown
        ]


def test_every_command_is_named() -> None:
    for command in COMMANDS:
        assert f"bilm {command.NAME}" in README


@pytest.mark.parametrize("markdown", [README, CONTRIBUTING], ids=["readme", "contrib"])
def test_local_links_lead_somewhere(markdown: str) -> None:
    headings = re.findall(r"^#+ (.*)$", markdown, re.MULTILINE)
    anchors = {heading.lower().replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\((?!https?:)(.*?)\)", markdown):
        if target.startswith("#"):
            assert target[1:] in anchors
        else:
            assert (ROOT / target).exists(), target


def test_map_of_the_code_has_every_module() -> None:
    package = ROOT / "bilm"
    modules = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    rows = table_after("## The map of the code", CONTRIBUTING)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert set(named) == modules | {"commands"}
    assert len(set(named)) == len(named)
    for place, name in enumerate(named):
        for imported in imports_of(package / f"{name}.py"):
            assert imported in named[:place], f"{name} imports {imported}"


def imports_of(path: Path) -> set[str]:
    """Modules of the package that a module imports."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    found = set(re.findall(r"^from bilm\.(\w+)", text, re.MULTILINE))
    return found | set(re.findall(r"^from bilm import (\w+)", text, re.MULTILINE))
