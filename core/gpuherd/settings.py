"""A mapping to frozen dataclasses: every problem at once, each with its key path.

A settings class is a frozen dataclass of fields with defaults; a field that is a dataclass itself is a
``[section]``. A field of type Secret is never given inline: the key ``NAME_file`` names the file. A
class may define ``problems(self)``, yielding (key, why) for what no single field can know.
"""

import dataclasses
import difflib
import tomllib
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from gpuherd.errors import ConfigInvalid

ENV_PREFIX: Final = "GPUHERD__"

ReadSecret = Callable[[str], str]
"""Return the text of a secret's file; raises OSError."""


@dataclasses.dataclass(frozen=True, slots=True)
class Secret:
    """Text that never shows in a log, a message or a traceback."""

    text: str = dataclasses.field(repr=False)

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


class Settings(Protocol):
    """Any dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


S = TypeVar("S", bound=Settings)


def with_environment(table: Mapping[str, object], environ: Mapping[str, str]) -> dict[str, object]:
    """Return ``table`` overlaid by variables such as ``GPUHERD__BROKER__URL``.

    A value is read as TOML (``8``, ``true``, ``["a"]``) and as plain text when it is none.
    """
    merged = _copied(table)
    for name, text in sorted(environ.items()):
        if not name.startswith(ENV_PREFIX):
            continue
        *sections, key = name.removeprefix(ENV_PREFIX).lower().split("__")
        place = merged
        for section in sections:
            inner = place.setdefault(section, {})
            if not isinstance(inner, dict):
                inner = place[section] = {}
            place = inner
        place[key] = _toml_value(text)
    return merged


def _copied(table: Mapping[str, object]) -> dict[str, Any]:
    return {k: _copied(v) if isinstance(v, Mapping) else v for k, v in table.items()}


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def parse(kind: type[S], table: Mapping[str, object], *, read_secret: ReadSecret) -> S:
    """Return the settings in ``table``.

    Raises ConfigInvalid with every unknown key (and the nearest known one), wrong type, missing key,
    unreadable secret and cross-field problem.
    """
    problems: dict[str, str] = {}
    made = _section(kind, table, "", problems, read_secret)
    if made is not None and not problems:
        problems.update(_own_problems(made, ""))
    if problems or made is None:
        raise ConfigInvalid(problems)
    return typing.cast("S", made)  # _section returns an instance of the class it was given


def _section(
    kind: type[Any], table: Mapping[str, object], path: str, problems: dict[str, str], read_secret: ReadSecret
) -> object | None:
    hints = typing.get_type_hints(kind, include_extras=True)
    fields = {f.name: f for f in dataclasses.fields(kind)}
    keys = {f"{n}_file" if _is_secret(hints[n]) else n: n for n in fields}
    for key in sorted(set(table) - set(keys)):
        problems[path + key] = _unknown(key, fields, keys)
    values: dict[str, object] = {}
    for key, name in keys.items():
        if key in table:
            found = _value(hints[name], table[key], path + key, problems, read_secret)
            if path + key not in problems:
                values[name] = found
        elif dataclasses.is_dataclass(hints[name]) and not _is_secret(hints[name]):
            values[name] = _section(hints[name], {}, f"{path}{key}.", problems, read_secret)
        elif _has_no_default(fields[name]):
            problems[path + key] = "is missing"
    under_here = any(key.startswith(path) for key in problems) if path else bool(problems)
    return None if under_here else kind(**values)


def _unknown(key: str, fields: Mapping[str, object], keys: Mapping[str, str]) -> str:
    if key in fields:
        return f"a secret is never given inline: name its file by {key}_file"
    near = difflib.get_close_matches(key, keys, n=1)
    return f"unknown key; did you mean {near[0]!r}?" if near else "unknown key"


def _value(hint: Any, given: object, path: str, problems: dict[str, str], read_secret: ReadSecret) -> object:
    if _is_secret(hint):
        return _secret(given, path, problems, read_secret)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        if not isinstance(given, Mapping):
            problems[path] = "is a section, not a value"
            return None
        return _section(hint, given, f"{path}.", problems, read_secret)
    items = _item_class(hint)
    if items is not None and isinstance(given, list):
        return tuple(
            _value(items, item, f"{path}[{i}]", problems, read_secret) for i, item in enumerate(given)
        )
    try:
        return msgspec.convert(given, hint, strict=True)
    except msgspec.ValidationError as error:
        problems[path] = str(error)
        return None


def _secret(given: object, path: str, problems: dict[str, str], read_secret: ReadSecret) -> Secret | None:
    if not isinstance(given, str):
        problems[path] = "names a file"
        return None
    try:
        text = read_secret(given).strip()
    except (OSError, UnicodeDecodeError) as error:
        problems[path] = f"cannot be read: {error}"
        return None
    if not text:
        problems[path] = "names an empty file"
    return Secret(text)


def _is_secret(hint: Any) -> bool:
    return hint is Secret or Secret in typing.get_args(hint)


def _item_class(hint: Any) -> Any | None:
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple and arguments and dataclasses.is_dataclass(arguments[0]):
        return arguments[0]
    return None


def _has_no_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _own_problems(made: Any, path: str) -> Iterator[tuple[str, str]]:
    for key, why in getattr(made, "problems", tuple)():
        yield path + key, why
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, (type, Secret)):
            yield from _own_problems(value, f"{path}{field.name}.")
        if isinstance(value, tuple):
            for i, item in enumerate(value):
                if dataclasses.is_dataclass(item) and not isinstance(item, type):
                    yield from _own_problems(item, f"{path}{field.name}[{i}].")
