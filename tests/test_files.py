"""Files and folders that appear whole or not at all, whenever a process is killed."""

import logging
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bilm import files
from bilm.files import beside, replacing, replacing_folder, tidy
from bilm.paths import check_output_folder

HOST = platform.node()
# Writes a file and a folder; the call of the system that the arguments name kills it.
PROGRAM = """
import os, signal, sys
from pathlib import Path
from bilm import files

function, call, exchanges = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "yes"
if not exchanges:
    files._exchange = lambda one, other: False
calls = 0

def killing(before):
    def kill(*args, **kwargs):
        global calls
        calls += 1
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return before(*args, **kwargs)
    return kill

where, name = (files, function) if hasattr(files, function) else (os, function)
setattr(where, name, killing(getattr(where, name)))
if where is os and name == "unlink":
    Path.unlink = killing(Path.unlink)
with files.replacing("file") as path:
    path.write_text("new")
with files.replacing_folder("folder") as path:
    (path / "name").write_text("new")
"""
# Each moment at which something on the disk changes, by the call that changes it.
MOMENTS = [
    ("replace", 1, "yes"),
    ("mkdir", 1, "yes"),
    ("_exchange", 1, "yes"),
    ("unlink", 1, "yes"),
    ("rmdir", 1, "yes"),
    *(("rename", call, "no") for call in (1, 2, 3)),
    ("rmdir", 1, "no"),
]


@pytest.mark.parametrize(("function", "call", "exchanges"), MOMENTS)
def test_a_kill_at_any_moment_leaves_old_or_new_and_no_leftovers_in_the_end(
    function: str,
    call: int,
    exchanges: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("old")
    folder.mkdir()
    (folder / "name").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, function, str(call), exchanges],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert file.read_text() in ("old", "new")
    between = (function, call) == ("rename", 2)
    assert folder.exists() != between
    left = {path for path in tmp_path.iterdir() if path.name.startswith(".")}
    with caplog.at_level(logging.INFO, "bilm.files"):
        for path in (file, folder):
            tidy(path)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert (folder / "name").read_text() in ("old", "new")
    put_back = f"put {folder} back, which a killed process had moved away to replace it"
    assert (put_back in caplog.text) == between
    removed = re.findall("removed (.*), which a killed process has left", caplog.text)
    assert len(removed) == len(left) - between
    assert {Path(path) for path in removed} <= left


def test_the_next_writing_removes_what_a_killed_process_has_left(
    tmp_path: Path,
) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [tmp_path / f".out.{HOST}.{dead.pid}.{kind}" for kind in ("partial", "old")]
    stays = [
        tmp_path / f".out.{HOST}.{os.getppid()}.partial",  # of a process that lives
        tmp_path / f".out.elsewhere.{dead.pid}.partial",
        tmp_path / f".out.hdf5.{HOST}.{dead.pid}.partial",  # of another name
        tmp_path / ".out.partial",
    ]
    for writing in (replacing, replacing_folder):
        for path in left:
            path.mkdir()
            (path / "more").touch()
        left[0].with_name(left[0].name + ".index").touch()  # of a checkpoint
        for path in stays:
            path.touch()
        (tmp_path / "out").touch() if writing is replacing else None
        with writing(tmp_path / "out") as path:
            path.touch() if writing is replacing else None
        assert {*tmp_path.iterdir()} == {*stays, tmp_path / "out"}
        (tmp_path / "out").unlink() if writing is replacing else None


def test_leftovers_of_a_process_with_our_number_are_removed(tmp_path: Path) -> None:
    """In a container, each has the same."""
    beside(tmp_path / "out").mkdir()
    (beside(tmp_path / "out") / "old").touch()
    with replacing_folder(tmp_path / "out") as path:
        assert list(path.iterdir()) == []


@pytest.mark.parametrize("exchanges", [True, False])
def test_a_folder_stays_where_its_successor_fails(
    exchanges: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not exchanges:
        monkeypatch.setattr(files, "_exchange", lambda one, other: False)
    out = tmp_path / "out"
    with replacing_folder(out) as path:
        (path / "name").write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing_folder(out):
        raise KeyboardInterrupt
    rename = os.rename

    def refuse(one: Path, other: Path) -> None:
        if other == out and "partial" in str(one):
            raise OSError("no")
        rename(one, other)

    if not exchanges:
        monkeypatch.setattr(os, "rename", refuse)
        with pytest.raises(OSError, match="no"), replacing_folder(out):
            pass
        monkeypatch.setattr(os, "rename", rename)
    assert os.listdir(tmp_path) == ["out"] and (out / "name").read_text() == "old"
    with replacing_folder(out) as path:
        (path / "name").write_text("new")
    assert os.listdir(tmp_path) == ["out"] and (out / "name").read_text() == "new"


def test_the_folder_is_put_back_before_it_is_checked(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    old = tmp_path / f".out.{HOST}.{dead.pid}.old"
    old.mkdir()
    (old / "mine").touch()
    with pytest.raises(ValueError, match="is not empty .it holds mine.*--overwrite"):
        check_output_folder(tmp_path / "out", re.compile("x"), "bilm x", False)
