"""One probe process seen from the parent: written to, read from, told to end, never waited for.

Not asyncio's subprocess: when its transport is dropped it sends SIGKILL, and SIGKILL of a process inside
the driver can freeze a GPU. SIGTERM keeps its default action in the child, so it ends everything that a
signal can end; what survives it sits in the kernel, where SIGKILL would change nothing.
"""

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gpuherd_agent.readings import ProbeReading
from gpuherd_agent.sensors.backend import Answer, Ask
from gpuherd_agent.sensors.isolation import Place
from gpuherd_agent.sensors.progress import Progress

_MAX_ANSWER_BYTES: Final = 4 * 1024 * 1024
_MODULE: Final = "gpuherd_agent.sensors.probe_child"


def command(backend_reference: str) -> tuple[str, ...]:
    """Return the command line of a probe child for ``module:attribute``, to which its place is added."""
    return (sys.executable, "-m", _MODULE, backend_reference)


class ChildGone(Exception):
    """The child ended, or answered what is no answer."""


class ProbeChild:
    """A started child. Its stderr is ours, so that its last words reach the journal."""

    def __init__(self, process: "subprocess.Popen[bytes]", progress: Progress, *, now: float) -> None:
        self._process = process
        self._progress = progress
        self._answers = asyncio.StreamReader(limit=_MAX_ANSWER_BYTES)
        self._transport: asyncio.BaseTransport | None = None
        self.started_at = now
        self.has_answered = False
        self.place = Place(since=now)
        """Where it was when it was dismissed."""
        self.dismissed_at = float("inf")

    @classmethod
    async def start(cls, argv: Sequence[str], environ: Mapping[str, str], *, now: float) -> "ProbeChild":
        """Return a running child; raises ChildGone when the program cannot be started."""
        try:
            progress = Progress.create()
        except OSError as error:
            raise ChildGone(str(error)) from error
        try:
            process = subprocess.Popen(  # noqa: ASYNC220, S603  see the module's docstring
                [*argv, str(progress.descriptor)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=dict(environ),
                pass_fds=(progress.descriptor,),
            )
        except OSError as error:
            progress.close()
            raise ChildGone(str(error)) from error
        child = cls(process, progress, now=now)
        await child._connect()
        return child

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self._answers, loop=loop), self._process.stdout
        )

    def ask(self, ask: Ask) -> None:
        """Send one request; raises ChildGone."""
        pipe = self._process.stdin
        try:
            if pipe is not None:
                pipe.write(msgspec.json.encode(ask) + b"\n")
                pipe.flush()
        except (BrokenPipeError, ValueError) as error:
            raise ChildGone("it closed its stdin") from error

    async def answer(self, token: int, *, within_s: float) -> ProbeReading:
        """Return the reply to ``token``; replies to earlier ones came too late and are dropped.

        Raises TimeoutError and ChildGone. The time is checked once more for a reply that lies ready:
        after a stopped host goes on, both the reply and the end of the time are there at once.
        """
        for limit_s in (within_s, 0.05):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit_s):
                    return await self._answer(token)
        raise TimeoutError

    async def answer_at_hand(self, token: int) -> ProbeReading | None:
        """Return the reply if it is there already, without waiting; raises ChildGone."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0):
                return await self._answer(token)
        return None

    async def _answer(self, token: int) -> ProbeReading:
        while True:
            try:
                line = await self._answers.readline()
                reply = msgspec.json.decode(line, type=Answer) if line else None
            except (ValueError, OSError) as error:
                raise ChildGone("it wrote what is no answer") from error
            if reply is None:
                raise ChildGone("it ended")
            self.has_answered = True
            if reply.token == token:
                return reply.reading

    def look(self) -> Place:
        """Return the driver call that it is in."""
        return self._progress.read()

    def dismiss(self, now: float) -> None:
        """Tell it to end: its stdin closes, then TERM, and CONT in case somebody has stopped it."""
        self.place, self.dismissed_at = self._progress.read(), now
        self._progress.close()
        if self._transport is not None:
            self._transport.close()
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        for number in (signal.SIGTERM, signal.SIGCONT):
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def has_ended(self) -> bool:
        """Say whether it is gone, without waiting; reaps it if so."""
        return self._process.poll() is not None

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid
