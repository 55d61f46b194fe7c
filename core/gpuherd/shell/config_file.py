"""A TOML file, the environment and secret files, turned into settings."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from gpuherd.errors import ConfigInvalid
from gpuherd.settings import Settings, parse, with_environment

S = TypeVar("S", bound=Settings)


def load(kind: type[S], path: Path, *, environ: Mapping[str, str] = os.environ) -> S:
    """Return the settings in the file at ``path`` overlaid by ``GPUHERD__SECTION__KEY`` variables.

    Raises ConfigInvalid when the file is missing, is no TOML, or has any problem in it.
    """
    return parse(
        kind, with_environment(read_toml(path), environ), read_secret=lambda name: _read(name, environ)
    )


def read_toml(path: Path) -> dict[str, object]:
    """Return the file's table; raises ConfigInvalid with the path and, for bad TOML, the line."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigInvalid({str(path): "no such file; give one by --config"}) from error
    except OSError as error:
        raise ConfigInvalid({str(path): f"cannot be read: {error.strerror}"}) from error
    except UnicodeDecodeError as error:
        raise ConfigInvalid({str(path): "is not UTF-8 text"}) from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigInvalid({str(path): f"is not TOML: {error}"}) from error


def _read(name: str, environ: Mapping[str, str]) -> str:
    """Look in systemd's credentials first, so that a unit can hand a secret over without a path."""
    credential = Path(environ.get("CREDENTIALS_DIRECTORY", "/nonexistent")) / Path(name).name
    return (credential if credential.is_file() else Path(name)).read_text(encoding="utf-8")
