"""Programs of the site: started in a session of their own, given a deadline, their output kept and cut.

One that does not end when it is told to is killed with all that it started; one that hangs in the kernel
is left behind and told of. Nothing here knows what a program is for.
"""

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OUTPUT_MAX: Final = 4_096
_TERM_S: Final = 2.0
_KILL_S: Final = 2.0
_LAST_WORDS_S: Final = 0.2
"""How long output is still awaited from those whom a program that has ended left behind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a program ended: ``code`` None = it did not within its deadline, or could not be started."""

    name: str
    code: int | None
    output: str = ""
    took_s: float = 0.0
    is_late: bool = False
    """It was told to end at its deadline."""
    is_stuck: bool = False
    """Not even SIGKILL ended it: it sits in the kernel."""


def why_not(path: Path) -> str:
    """Return why this file is not run, or an empty string: only its owner may write a program of ours."""
    try:
        told = path.stat()
    except OSError as error:
        return f"{path}: {error.strerror}"
    if not stat.S_ISREG(told.st_mode) or not told.st_mode & 0o111:
        return f"{path} is no executable file"
    if told.st_uid not in (0, os.geteuid()) or told.st_mode & 0o022:
        return f"{path} can be changed by others than root and the agent: chown it to root and chmod go-w"
    return ""


async def run(
    path: Path, *, deadline_s: float, environment: Mapping[str, str], arguments: tuple[str, ...] = ()
) -> Ended:
    """Run one program and return how it ended; it ends with us when we are cancelled."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        process = await asyncio.create_subprocess_exec(
            path,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=dict(environment),
            cwd="/",
            start_new_session=True,
        )
    except OSError as error:
        return Ended(name=path.name, code=None, output=f"cannot be started: {error.strerror or error}")
    said = bytearray()
    listening = asyncio.ensure_future(_listen(process.stdout, said))
    is_late = is_stuck = False
    try:
        async with asyncio.timeout(deadline_s):
            await process.wait()
    except TimeoutError:
        is_late, is_stuck = True, not await _end(process)
    except asyncio.CancelledError:
        _signal(process, signal.SIGKILL)
        raise
    finally:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await asyncio.shield(listening)
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
    return Ended(
        name=path.name,
        code=None if is_late else process.returncode,
        output=bytes(said).decode(errors="replace").strip(),
        took_s=loop.time() - began,
        is_late=is_late,
        is_stuck=is_stuck,
    )


async def _listen(stream: asyncio.StreamReader | None, said: bytearray) -> None:
    """Keep the first bytes and read the rest away, so that a talkative program does not block."""
    while stream is not None and (chunk := await stream.read(65_536)):
        said += chunk[: OUTPUT_MAX - len(said)]


async def _end(process: asyncio.subprocess.Process) -> bool:
    """End it and all that it started; False = it hangs in the kernel."""
    for number, within_s in ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S)):
        _signal(process, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await process.wait()
                _signal(process, signal.SIGKILL)
                return True
    return False


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
