"""Which Ray and Python a start would run, found without importing Ray."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuherd.ray import HeadVersions
from gpuherd_agent.doors import JoinFailed
from gpuherd_agent.refusals import JoinRefusal

_ASK_VERSION: Final = "import sys; print('%d.%d.%d' % sys.version_info[:3])"
_DEADLINE_S: Final = 5.0
_DIST: Final = re.compile(r"ray-(\d[^-]*)\.dist-info")
_VERSION: Final = re.compile(r"\d+\.\d+\.\d+")


def find_binary(name: str) -> Path:
    """Return the path of Ray's command; raises JoinFailed (RAY_MISSING)."""
    found = shutil.which(name)
    if found is None:
        raise JoinFailed(
            JoinRefusal.RAY_MISSING,
            f"there is no command {name!r}; install Ray or set ray.binary to its path",
        )
    return Path(found).absolute()


def read_versions(binary: Path) -> HeadVersions:
    """Return the versions of the environment that ``binary`` belongs to; raises JoinFailed (RAY_MISSING).

    Runs the environment's interpreter for its version, since ``pyvenv.cfg`` keeps the one it was made with
    and a venv follows its system's updates. About 15 ms.
    """
    interpreter = _interpreter(binary)
    ray = next(_ray_versions((binary.resolve().parent.parent, interpreter.parent.parent)), None)
    if ray is None:
        raise JoinFailed(
            JoinRefusal.RAY_MISSING, f"{binary} belongs to no environment that has Ray installed"
        )
    return HeadVersions(ray=ray, python=_python_version(interpreter))


def _interpreter(binary: Path) -> Path:
    """Return the interpreter that the script starts with, else the one beside it.

    Installers write ``#!/bin/sh`` into scripts whose interpreter has too long a path.
    """
    try:
        with binary.open("rb") as file:
            first = file.readline(4096)
    except OSError as error:
        raise JoinFailed(JoinRefusal.RAY_MISSING, f"{binary} cannot be read: {error.strerror}") from error
    named = os.fsdecode(first.removeprefix(b"#!").strip()).split(" ")[0] if first.startswith(b"#!") else ""
    if Path(named).name.startswith("python"):
        return Path(named)
    return binary.parent / "python3"


def _ray_versions(prefixes: tuple[Path, ...]) -> Iterator[str]:
    for prefix in prefixes:
        for folder in sorted(prefix.glob("lib*/python3*/*-packages/ray-*.dist-info")):
            match = _DIST.fullmatch(folder.name)
            if match is not None:
                yield match.group(1)


def _python_version(interpreter: Path) -> str:
    try:
        asked = subprocess.run(  # noqa: S603  the interpreter of the command that is going to be run
            [interpreter, "-I", "-S", "-c", _ASK_VERSION],
            capture_output=True,
            timeout=_DEADLINE_S,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JoinFailed(JoinRefusal.RAY_MISSING, f"{interpreter} does not run: {error}") from error
    version = asked.stdout.strip()
    if _VERSION.fullmatch(version) is None:
        raise JoinFailed(JoinRefusal.RAY_MISSING, f"{interpreter} does not tell its version")
    return version
