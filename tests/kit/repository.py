"""The files of this repository, as a checkout or an unpacked release holds them."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]

PACKAGES: Final = (
    "core/gpuherd",
    "agent/gpuherd_agent",
    "autoscaler/gpuherd_autoscaler",
    "ctl/gpuherd_ctl",
    "sim/gpuherd_sim",
)

_BUILT: Final = {"__pycache__", "build", "dist"}


def files() -> list[Path]:
    """Return every file that is or would be committed."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        found = [path for path in ROOT.rglob("*") if not _is_made(path.relative_to(ROOT))]
    return sorted(path for path in found if path.is_file())


def _is_made(path: Path) -> bool:
    return any(part in _BUILT or (part.startswith(".") and part != ".ci") for part in path.parts)


def texts() -> list[tuple[Path, str]]:
    """Return each file that is text, and its text."""
    found = []
    for path in files():
        try:
            found.append((path, path.read_text(encoding="utf-8")))
        except UnicodeDecodeError:
            continue
    return found


def modules() -> list[Path]:
    """Return the modules that are shipped, generated ones left out."""
    return [
        path
        for path in files()
        if path.suffix == ".py"
        and any(path.is_relative_to(ROOT / package) for package in PACKAGES)
        and not path.name.endswith("_pb2.py")
    ]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function of a module, methods and inner ones too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
