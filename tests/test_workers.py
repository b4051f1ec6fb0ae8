"""Two workers of one training: as one process of two devices, and when one is lost."""

import re
import signal
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import small
import tensorflow as tf
from random_text import LIMIT, open_text, options, write_text
from runs import RUN, Folder, another_run, make_folder, values_of
from workers import Ended, two_workers

from bilm.cli import main
from bilm.cluster import Cluster
from bilm.errors import InputError
from bilm.fingerprint import code_digest
from bilm.metrics_file import read_rows
from bilm.options import replace_options, training_dict, write_options
from bilm.run_state import read_run_state
from bilm.training import train
from bilm.workers import Workers

N_STEPS = 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(tf.config.list_physical_devices("GPU")),
        reason="the workers would share the GPUs",
    ),
]


def assert_close_end(found: str | Path, expected: str | Path) -> None:
    """Checkpoints and the states beside them are the same to 1e-5."""
    ours, theirs = values_of(found), values_of(expected)
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        small.assert_close(ours[name], value)
    ours_state, state = map(read_run_state, (found, expected))
    for mine, array in zip(ours_state.arrays, state.arrays, strict=True):
        small.assert_close(mine, array)
    assert ours_state.values["position"] == state.values["position"]


def test_two_workers_are_one_process_of_two_devices(tmp_path: Path) -> None:
    """Full softmax, no dropout, a clip that bites; sparse and dense gradients."""
    text = write_text(tmp_path)
    model = options(characters=False)
    tokens = 2 * model.batch_size * model.unroll_steps
    model = replace_options(model, n_train_tokens=N_STEPS * tokens)
    write_options(tmp_path / "options.json", training_dict(model))
    workers = two_workers(
        tmp_path,
        f"train --save_dir {tmp_path}/two --vocab_file {text.vocab} --log_every 1 "
        f"--train_prefix {text.train} --options {tmp_path}/options.json "
        "--seed 1".split(),
    )
    data = open_text(text, model)
    one = train(model, data, 2, tmp_path / "one", tmp_path / "one", seed=1, log_every=1)
    for ended in (worker.ended() for worker in workers):
        assert ended.code == 0, ended.lines
    assert_close_end(tmp_path / "two" / f"model.ckpt-{N_STEPS}", one)
    rows = [read_rows(tmp_path / each / "metrics.csv") for each in ("two", "one")]
    for name in ("train_perplexity", "gradient_norm"):
        found, expected = ([float(row[name]) for row in each] for each in rows)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert min(float(row["gradient_norm"]) for row in rows[1]) > LIMIT


class Parts(NamedTuple):
    """What two workers have said in the parts of a run, and where."""

    folder: Folder
    terminated: list[Ended]
    killed: list[Ended]
    done: list[Ended]


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """A run with samples, dropout and held-out text: worker 1 gets SIGTERM; it is
    killed after a checkpoint; the end."""
    folder = make_folder(tmp_path_factory.mktemp("parts"))

    def part(said: str, number: int | None) -> list[Ended]:
        workers = two_workers(folder.path, flags(folder, "--resume"))
        if number is not None:
            workers[0].wait_for(said)
            workers[1].process.send_signal(number)
        return [worker.ended() for worker in workers]

    return Parts(
        folder,
        part("step 30 ", signal.SIGTERM),
        part("step 210 ", signal.SIGKILL),
        part("", None),
    )


def flags(folder: Folder, more: str = "") -> list[str]:
    """Of 300 steps."""
    return folder.flags(
        f"--n_epochs 60 --checkpoint_every 100 --log_every 10 --valid_every 50 "
        f"--valid_prefix {folder.path}/shard-0.txt {more}"
    )


def test_a_signal_to_one_worker_stops_all_with_a_checkpoint(parts: Parts) -> None:
    chief, other = parts.terminated
    assert (chief.code, other.code) == (0, 143)
    assert "this is a new run" in "\n".join(chief.lines)
    saved, stopped = chief.lines[-2:]
    step = int(stopped.removeprefix("stopped after step ").partition(";")[0])
    assert saved == f"saved {parts.folder.save_dir}/model.ckpt-{step}"
    assert "the training stops with a checkpoint" in other.lines[-1]
    assert f"going on from {saved[6:]}" in "\n".join(parts.killed[0].lines)


def test_a_lost_worker_ends_the_others_by_name(parts: Parts) -> None:
    chief, other = parts.killed
    assert (chief.code, other.code) == (2, -signal.SIGKILL)
    message = chief.lines[-1]
    assert re.match(
        r"bilm train: error: worker 1 \(127.0.0.1:\d+\) ended or cannot be reached "
        r"\(.*\), and so this one ends: look at its log, then start all workers again "
        r"by bilm train --resume with the same other flags$",
        message,
    )
    assert not any("Traceback" in line for line in chief.lines)


def test_a_run_in_parts_is_that_of_one_process(parts: Parts, tmp_path: Path) -> None:
    assert [each.code for each in parts.done] == [0, 0]
    assert "model.ckpt-200, after 200 steps" in "\n".join(parts.done[0].lines)
    one = make_folder(tmp_path)
    assert main(flags(one, "--n_gpus 2")) == 0
    ours, theirs = (each.save_dir for each in (parts.folder, one))
    assert_close_end(ours / "model.ckpt-300", theirs / "model.ckpt-300")
    found, expected = (
        [
            (row["step"], row["valid_perplexity"])
            for row in read_rows(each / "metrics.csv")
        ]
        for each in (ours, theirs)
    )
    assert found == expected and len(found) == 36


def test_the_chief_alone_writes(parts: Parts) -> None:
    for workers in (parts.terminated, parts.killed, parts.done):
        told = [line for line in workers[1].lines if "worker" not in line]
        assert not any("saved" in line or line.startswith("step") for line in told)
    logs = list((parts.folder.path / "logs").iterdir())
    assert len(logs) == 3  # a file of events for each time that worker 0 began


def test_the_rows_of_two_workers_go_on_in_one_process(
    parts: Parts, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = another_run(parts.folder, tmp_path)
    rows = read_run_state(folder.save_dir / "model.ckpt-300").arrays[0].shape[0]
    assert main(folder.flags("--resume --n_epochs 61 --log_every 10")) == 0
    assert "the run goes on, though n_epochs is 61 and was 60" in caplog.text
    assert "the run goes on without held-out text, which it had" in caplog.text
    assert (
        "the run goes on with 1 device instead of 2 devices of 2 workers: the same "
        "rows, but other samples and dropout" in caplog.text
    )
    after = read_run_state(folder.save_dir / "model.ckpt-305")
    assert after.arrays[0].shape[0] == rows
    assert after.values["n_workers"] == 1 and rows == 2 * RUN.batch_size


def test_workers_that_differ_are_refused_before_the_first_step(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    workers = two_workers(
        tmp_path, folder.flags(), ("", "--dropout 0.3 --stop_after 5")
    )
    for ended in (worker.ended() for worker in workers):
        assert ended.code == 2
        assert re.search(
            r"error: all workers of a training must go by the same, but "
            r"options.dropout is 0.2 at worker 0 \(127.*\) and 0.3 at worker 1 \(127.*"
            r"stop_after is not given at worker 0 \(127.*\) and 5 at worker 1 \(127.*"
            r"start them with the same flags, files and versions",
            ended.lines[-1],
        )
    assert not folder.save_dir.exists()


def test_the_benchmark_measures_one_and_two_and_reckons_more(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    model = options(characters=False, n_train_tokens=1000)
    write_options(tmp_path / "options.json", training_dict(model))
    workers = two_workers(
        tmp_path,
        f"train --save_dir {tmp_path}/run --vocab_file {text.vocab} --benchmark 3 "
        f"--train_prefix {text.train} --options {tmp_path}/options.json "
        "--bandwidth 25".split(),
    )
    chief, other = (worker.ended() for worker in workers)
    assert (chief.code, other.code, other.output) == (0, 0, ""), chief.lines
    _, more, sparse = chief.output.split("\n\n")
    lines = [line.split(maxsplit=5) for line in more.splitlines()[1:]]
    assert [(line[0], line[-1]) for line in lines] == [
        ("1", "measured"),
        ("2", "measured"),
        ("8", "reckoned by 25 Gbit/s"),
        ("64", "reckoned by 25 Gbit/s"),
    ]
    assert lines[0][2:5] == ["100%", "0.0", "0.0"]
    forms = [(line.split()[0:2], line.split()[-1]) for line in sparse.splitlines()[1:]]
    assert forms == [
        (["lm/embedding", "2"], "sparse"),
        (["lm/embedding", "8"], "sparse"),
        (["lm/embedding", "64"], "dense"),
    ]
    assert not (tmp_path / "run").exists()


def test_code_of_the_same_version_may_differ(tmp_path: Path) -> None:
    code = tmp_path / "package" / "inner" / "module.py"
    code.parent.mkdir(parents=True)
    digests = []
    for text in (b"a = 1\n", b"a = 1\r\n", b"a = 2\n"):
        code.write_bytes(text)
        digests.append(code_digest(tmp_path / "package"))
    assert digests[0] == digests[1] != digests[2]
    code.rename(code.with_name("other.py"))
    assert digests[2] != code_digest(tmp_path / "package")
    assert len(code_digest()) == 12


def test_a_training_in_one_process_has_one_worker() -> None:
    alone = Workers(2)
    assert alone.is_chief and list(alone.replicas) == [0, 1]
    assert alone.gather({"a": [1]}) == [{"a": [1]}] and alone.chief_s(3) == 3
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(alone.gather_array(array), array[np.newaxis])
    alone.check_same({"seed": 1})


def test_a_cpu_has_one_device_for_several_workers() -> None:
    with pytest.raises(InputError, match="n_gpus is 2, but 0 GPU devices are visible"):
        Workers(2, Cluster(("127.0.0.1:1", "127.0.0.1:2"), 0))
