"""Programs of the site: started in a session of their own, given a deadline, their output kept and cut.

One that does not end when it is told to is killed with all that it started; one that hangs in the kernel
is left behind and told of. Nothing here knows what a program is for.

Not asyncio's subprocess: its wait ends only when every process that has inherited the output has closed
it, and it kills what we must not kill when its transport is dropped.
"""

import asyncio
import contextlib
import os
import signal
import stat
import subprocess
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuherd_agent.actuators import processes
from gpuherd_agent.actuators.processes import Process

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
    """Nothing that was sent ended it: it sits in the kernel."""
    process: Process | None = None
    """The one that is stuck."""


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
    path: Path,
    *,
    deadline_s: float,
    environment: Mapping[str, str],
    arguments: tuple[str, ...] = (),
    may_kill: bool = True,
) -> Ended:
    """Run one program and return how it ended; it ends with us when we are cancelled.

    Without ``may_kill`` it is only asked to end: a process that is killed inside the driver can cost a GPU.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        process = _start(path, arguments, environment)
    except OSError as error:
        return Ended(name=path.name, code=None, output=f"cannot be started: {error.strerror or error}")
    said = bytearray()
    is_late = is_stuck = False
    async with _heard(process, said) as exited:
        try:
            async with asyncio.timeout(deadline_s):
                await exited.wait()
        except TimeoutError:
            is_late, is_stuck = True, not await _end(process, exited, may_kill=may_kill)
        except asyncio.CancelledError:
            _signal(process, signal.SIGKILL if may_kill else signal.SIGTERM)
            raise
    code = process.poll()
    return Ended(
        name=path.name,
        code=None if is_late else code,
        output=bytes(said).decode(errors="replace").strip(),
        took_s=loop.time() - began,
        is_late=is_late,
        is_stuck=is_stuck,
        process=processes.read(process.pid) if is_stuck else None,
    )


def _start(
    path: Path, arguments: tuple[str, ...], environment: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603  a program of the site's own folder
        [path, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(environment),
        cwd="/",
        start_new_session=True,
    )


@contextlib.asynccontextmanager
async def _heard(process: "subprocess.Popen[bytes]", said: bytearray) -> AsyncIterator[asyncio.Event]:
    """Keep what the program says while the block lasts and a moment longer; yields the event of its end."""
    loop = asyncio.get_running_loop()
    exited, handle = asyncio.Event(), os.pidfd_open(process.pid)
    loop.add_reader(handle, exited.set)
    stream = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream, loop=loop), process.stdout
    )
    listening = asyncio.ensure_future(_listen(stream, said))
    try:
        yield exited
    finally:
        await asyncio.wait({listening}, timeout=_LAST_WORDS_S)
        listening.cancel()
        transport.close()
        loop.remove_reader(handle)
        os.close(handle)


async def _listen(stream: asyncio.StreamReader, said: bytearray) -> None:
    """Keep the first bytes and read the rest away, so that a talkative program does not block."""
    while chunk := await stream.read(65_536):
        said += chunk[: OUTPUT_MAX - len(said)]


async def _end(process: "subprocess.Popen[bytes]", exited: asyncio.Event, *, may_kill: bool) -> bool:
    """End it and all that it started; False = it hangs in the kernel."""
    steps = ((signal.SIGTERM, _TERM_S), (signal.SIGKILL, _KILL_S))
    for number, within_s in steps if may_kill else steps[:1]:
        _signal(process, number)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await exited.wait()
    if exited.is_set() and may_kill:
        _signal(process, signal.SIGKILL)
    return exited.is_set()


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    """Signal its whole session's group: the number is ours until it is collected."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
