"""The C stand-in for CUDA's driver library, built with gcc when somebody needs it."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

from gpuherd_sim.gpus.library import CompilerMissing

SONAME: Final = "libcuda.so.1"
FAULT_VARIABLE: Final = "GPUHERD_FAKE_CUDA"
UUID_VARIABLE: Final = "GPUHERD_FAKE_CUDA_UUID"
_SOURCE: Final = Path(__file__).with_name("fakecuda.c")


def build_cuda(folder: Path) -> Path:
    """Return a folder below ``folder`` that holds the library, for LD_LIBRARY_PATH; built once per source.

    Raises CompilerMissing.
    """
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise CompilerMissing("no gcc on the PATH")
    place = folder / f"cuda-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:16]}"
    if (place / SONAME).exists():
        return place
    place.mkdir(parents=True, exist_ok=True)
    fresh = place / f".{SONAME}.{os.getpid()}"
    command = [compiler, "-O2", "-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror"]
    command += ["-shared", "-fPIC", f"-Wl,-soname,{SONAME}", "-o", str(fresh), str(_SOURCE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)  # noqa: S603
    if done.returncode != 0:
        raise CompilerMissing(f"{compiler} refused {_SOURCE.name}: {done.stderr[-2000:]}")
    fresh.replace(place / SONAME)
    return place
