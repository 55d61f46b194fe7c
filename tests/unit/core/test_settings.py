"""Settings: every problem at once, each with its key path."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gpuherd.errors import ConfigInvalid
from gpuherd.settings import Secret, parse, with_environment
from gpuherd.shell.config_file import load


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    period_s: float = 1.0
    password: Secret | None = None

    def problems(self) -> Iterator[tuple[str, str]]:
        if self.period_s <= 0:
            yield "period_s", "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    node: str
    count: int = 1
    inner: Inner = field(default_factory=Inner)
    items: tuple[Item, ...] = ()
    names: tuple[str, ...] = ()


def made(table: dict[str, object]) -> Outer:
    return parse(Outer, table, read_secret=lambda name: {"f": " hush \n", "empty": ""}[name])


def problems(table: dict[str, object]) -> dict[str, str]:
    with pytest.raises(ConfigInvalid) as caught:
        made(table)
    return caught.value.problems


def test_defaults_fill_what_is_not_given() -> None:
    assert made({"node": "a"}) == Outer(node="a")


def test_sections_lists_and_secrets_are_read() -> None:
    table = {
        "node": "a",
        "inner": {"period_s": 2, "password_file": "f"},
        "items": [{"name": "x"}],
        "names": ["y"],
    }
    read = made(table)
    assert read.inner == Inner(period_s=2.0, password=Secret("hush"))
    assert read.items == (Item(name="x"),)
    assert read.names == ("y",)


def test_every_problem_is_told_at_once() -> None:
    found = problems(
        {"count": "many", "inner": {"perod_s": 1, "password": "x"}, "items": [{"name": 3}, {}], "colour": 1}
    )
    assert set(found) == {
        "node", "count", "inner.perod_s", "inner.password", "items[0].name", "items[1].name", "colour",
    }  # fmt: skip
    assert "period_s" in found["inner.perod_s"]
    assert "password_file" in found["inner.password"]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        pytest.param({"node": "a", "inner": 3}, "inner", id="a section that is a value"),
        pytest.param({"node": "a", "inner": {"period_s": 0}}, "inner.period_s", id="cross-field rule"),
        pytest.param(
            {"node": "a", "inner": {"password_file": "empty"}}, "inner.password_file", id="empty secret"
        ),
        pytest.param({"node": "a", "count": True}, "count", id="a truth value is no number"),
        pytest.param({"node": "a", "items": {"name": "x"}}, "items", id="a list that is a section"),
    ],
)
def test_one_problem_names_its_key(table: dict[str, object], key: str) -> None:
    assert set(problems(table)) == {key}


def test_a_secret_never_shows() -> None:
    assert "hush" not in f"{Secret('hush')!r} {Secret('hush')}"


def test_the_environment_overlays_the_file() -> None:
    table = with_environment(
        {"inner": {"period_s": 1}}, {"GPUHERD__INNER__PERIOD_S": "2.5", "GPUHERD__NODE": "b-1", "OTHER": "x"}
    )
    assert table == {"inner": {"period_s": 2.5}, "node": "b-1"}


def test_a_missing_file_says_which(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"absent\.toml: no such file"):
        load(Outer, tmp_path / "absent.toml", environ={})


def test_bad_toml_says_where(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text("node = \n")
    with pytest.raises(ConfigInvalid, match=r"is not TOML.*line 1"):
        load(Outer, tmp_path / "bad.toml", environ={})


def test_a_systemd_credential_comes_before_a_path(tmp_path: Path) -> None:
    (tmp_path / "cred").mkdir()
    (tmp_path / "cred" / "pw").write_text("from-systemd")
    (tmp_path / "a.toml").write_text('node = "a"\n[inner]\npassword_file = "/nowhere/pw"\n')
    read = load(Outer, tmp_path / "a.toml", environ={"CREDENTIALS_DIRECTORY": str(tmp_path / "cred")})
    assert read.inner.password == Secret("from-systemd")
