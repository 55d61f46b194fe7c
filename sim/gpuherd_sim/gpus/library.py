"""The C stand-in for NVIDIA's library, built with gcc when somebody needs it."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuherd.errors import HerdError

SONAME: Final = "libnvidia-ml.so.1"
_SOURCE: Final = Path(__file__).with_name("fakenvml.c")


class CompilerMissing(HerdError):
    """There is no gcc here, or it refused; the ``scenario`` backend needs none."""


def build_library(folder: Path, *, hidden: Sequence[str] = ()) -> Path:
    """Return a folder below ``folder`` that holds the library, for LD_LIBRARY_PATH; built once per source.

    ``hidden`` symbols are left out, as an older driver lacks them. Raises CompilerMissing.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CompilerMissing("no gcc on the PATH")
    mark = hashlib.sha256(_SOURCE.read_bytes() + repr(sorted(hidden)).encode()).hexdigest()[:16]
    place = folder / f"nvml-{mark}"
    if (place / SONAME).exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    fresh = place / f".{SONAME}.{os.getpid()}"
    script = place / f".hidden.{os.getpid()}"
    script.write_text(f"{{ global: nvml*; local: {' '.join(f'{name};' for name in hidden)} *; }};\n")
    command = [compiler, "-O2", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]
    command += [f"-Wl,-soname,{SONAME}", f"-Wl,--version-script={script}", "-o", str(fresh), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    script.unlink()
    if done.returncode != 0:
        raise CompilerMissing(f"{compiler} refused {_SOURCE.name}: {done.stderr[-2000:]}")
    fresh.replace(place / SONAME)
    return place
