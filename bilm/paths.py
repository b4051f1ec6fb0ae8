"""Checks of the paths that a user gives, of inputs and of outputs."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from bilm.errors import InputError
from bilm.files import beside, tidy

PathLike = str | os.PathLike[str]

_LISTED_NAMES = 20
_NAME_BYTES = 255  # of most systems


def check_file(path: PathLike) -> None:
    """Check that an input is a file.

    Raises:
        FileNotFoundError: there is none; says what is there instead.
        InputError: it is a folder, or a pipe, which can be read but once.
    """
    _check_name(path)
    if os.path.isdir(path):
        raise InputError(
            f"{os.fspath(path)} is a folder, where a file is needed: name a file"
            f"{_such_as(Path(path))}"
        )
    if not os.path.exists(path):
        raise missing_file(path)
    if not os.path.isfile(path):
        raise no_file(path)


def no_file(path: PathLike) -> InputError:
    """Build the error for a path that is there, but no file."""
    return InputError(
        f"{os.fspath(path)} is a pipe or a device, where a file is needed, as it is "
        "read more than once: make a file of it, or where a text is needed give - for "
        "standard input"
    )


def missing_file(path: PathLike) -> Exception:
    """Build the error for a file that is missing: what is there instead."""
    folder = Path(path).parent
    if not folder.is_dir():
        return missing_folder(folder, f"{os.fspath(path)} not found: ")
    names = sorted(entry.name for entry in folder.iterdir())
    listed = ", ".join(names[:_LISTED_NAMES]) or "nothing"
    if len(names) > _LISTED_NAMES:
        listed += f" and {len(names) - _LISTED_NAMES} more"
    message = f"{os.fspath(path)} not found: the folder {folder} holds {listed}"
    family = _other_family(names)
    if family:
        message += (
            f"; this looks like a model of {family}, which bilm does not read: it "
            "needs bilm-tf's options.json and weights.hdf5, or a checkpoint"
        )
    return FileNotFoundError(message)


def missing_folder(path: PathLike, before: str = "") -> Exception:
    """Build the error for a folder that is missing, or a file.

    Args:
        path: of the folder.
        before: what the message begins with.
    """
    for place in [Path(path), *Path(path).parents]:
        if place.is_file():
            return InputError(
                f"{before}{place} is a file, where a folder is needed: name a folder"
            )
    looked = "" if os.path.isabs(path) else f" (looked from {os.getcwd()})"
    return FileNotFoundError(
        f"{before}there is no folder {os.fspath(path)}{looked}: make it, or name "
        "another one"
    )


def check_folder(path: PathLike) -> None:
    """Check that a folder is there.

    Raises:
        FileNotFoundError: it is missing.
        InputError: it, or one above it, is a file.
    """
    if not os.path.isdir(path):
        raise missing_folder(path)


def check_new_folder(path: PathLike) -> None:
    """Check that a folder is there or can be made, with those above it.

    Raises:
        InputError: the path, or one above it, is a file; or there is no path.
    """
    _check_name(path, "folder")
    error = missing_folder(path)
    if not os.path.isdir(path) and isinstance(error, InputError):
        raise error


def check_output(path: PathLike) -> None:
    """Check that a file can be made at a path.

    Raises:
        FileNotFoundError: the folder of the file is missing.
        InputError: it is a file; or the path is a folder or a device.
    """
    _check_name(path)
    check_folder(Path(path).parent)
    if os.path.isdir(path):
        raise InputError(f"the output {os.fspath(path)} is a folder: name a file in it")
    if len(os.fsencode(beside(path).name)) > _NAME_BYTES:
        raise InputError(f"the name of {os.fspath(path)} is too long: shorten it")
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError(
            f"the output {os.fspath(path)} is a pipe or a device, which a file would "
            "take the place of: name a file"
        )


def check_output_folder(
    path: PathLike, made: re.Pattern[str], maker: str, overwrite: bool
) -> None:
    """Check that a folder to make would not take the place of anything else.

    Args:
        path: of the folder, which may be there and empty.
        made: the names of what `maker` puts into such a folder.
        maker: the command.
        overwrite: whether it may replace what it has made before.

    Raises:
        InputError: the path, or one above it, is taken.
    """
    folder = Path(path)
    check_new_folder(folder)
    tidy(folder)
    there = sorted(os.listdir(folder)) if folder.exists() else []
    if there and not overwrite:
        raise InputError(
            f"the folder {folder} is not empty (it holds {', '.join(there[:3])}): name "
            "another one, or add --overwrite"
        )
    others = [name for name in there if not made.fullmatch(name)]
    if others:
        raise InputError(
            f"{folder} holds what {maker} did not make ({', '.join(others[:3])}), "
            "and would lose it: name another folder"
        )


def check_no_input(outfile: PathLike, inputs: Iterable[PathLike | None]) -> None:
    """Check that an output would not take the place of what it is made from.

    Raises:
        InputError: the output is one of the files that are there among `inputs`.
    """
    for path in inputs:
        if path is None or not (os.path.exists(path) and os.path.exists(outfile)):
            continue
        if os.path.samefile(path, outfile):
            raise InputError(
                f"the output {os.fspath(outfile)} must not be an input, or that would "
                "be lost; give it another name"
            )


def check_encoding(path: PathLike) -> None:
    """Check a path that TensorFlow is to read or write, which takes UTF-8 alone.

    Raises:
        InputError: its name has other bytes.
    """
    try:
        os.fspath(path).encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the path {os.fspath(path)!r} is not UTF-8, as TensorFlow needs it: "
            "rename it, or give another one"
        ) from None


def _check_name(path: PathLike, kind: str = "file") -> None:
    if not os.fspath(path):
        raise InputError(f"a path is '', where a {kind} is needed: name a {kind}")


def _such_as(folder: Path) -> str:
    """Some of the files in a folder, for the end of a sentence."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file())
    return f", such as {', '.join(names[:3])} in it" if names else ""


def _other_family(names: list[str]) -> str | None:
    """Recognise the layout of another program's model folder by its file names."""
    if "config.json" in names and any(name.endswith(".pkl") for name in names):
        return "ELMoForManyLangs (config.json and *.pkl)"
    for name in ("model.tar.gz", "weights.th"):
        if name in names:
            return f"AllenNLP ({name})"
    return None
