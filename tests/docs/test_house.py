"""The shape of the house: names of files, length of modules and functions, no branch on what is fake."""

import tomllib
from typing import Final

from tests.kit.repository import ROOT, functions, modules

BANNED: Final = {"util", "utils", "helper", "helpers", "common", "misc", "manager", "handler", "handlers"}
MAX_MODULE_LINES: Final = 400
MAX_FUNCTION_LINES: Final = 50

LONG_FUNCTIONS: Final[dict[str, str]] = {}
"""``file::function`` -> why it may be longer."""


def test_there_are_modules_to_look_at() -> None:
    assert len(modules()) > 50


def test_a_module_is_named_by_a_concept() -> None:
    bad = [str(path.relative_to(ROOT)) for path in modules() if BANNED & set(path.stem.split("_"))]
    assert bad == []


def test_no_module_is_too_long_to_be_one_concept() -> None:
    long = {}
    for path in modules():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > MAX_MODULE_LINES:
            long[str(path.relative_to(ROOT))] = lines
    assert long == {}


def test_no_function_is_longer_than_a_screen() -> None:
    long = {}
    for path in modules():
        for function in functions(path):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            name = f"{path.relative_to(ROOT)}::{function.name}"
            if lines > MAX_FUNCTION_LINES and name not in LONG_FUNCTIONS:
                long[name] = lines
    assert long == {}


def test_each_excuse_for_length_is_still_needed() -> None:
    named = {f"{path.relative_to(ROOT)}::{f.name}" for path in modules() for f in functions(path)}
    assert set(LONG_FUNCTIONS) <= named


def test_only_sim_knows_that_something_is_fake() -> None:
    """The agent that is tested is the agent that is shipped: no branch of it may ask."""
    knowing = [
        str(path.relative_to(ROOT))
        for path in modules()
        if not path.is_relative_to(ROOT / "sim") and "fake" in path.read_text(encoding="utf-8").lower()
    ]
    assert knowing == []


def test_all_of_core_but_its_shell_is_held_to_be_pure() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {one["name"]: one for one in project["tool"]["importlinter"]["contracts"]}
    core = ROOT / "core"
    held = set(contracts["core decides without touching the world"]["source_modules"])
    found = {
        ".".join(path.relative_to(core).with_suffix("").parts[:2])
        for path in modules()
        if path.is_relative_to(core) and path.name != "__init__.py"
    }
    assert found - {"gpuherd.shell"} == held
