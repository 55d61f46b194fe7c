"""The raylet as a child: ``ray start --block`` in a session of its own, watched by pid and start time.

``ray start`` itself is never trusted: it goes on for ever after a drained raylet has ended (Ray 2.60), so
the raylet's own process is what counts. Ray's ``ray stop`` is never used: it matches names host-wide.
"""

import asyncio
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from gpuherd.ray import HeadVersions
from gpuherd.shell.clock import Clock, SystemClock
from gpuherd_agent.actuators import processes, start_log
from gpuherd_agent.actuators.host_ground import read_ground
from gpuherd_agent.actuators.processes import Process
from gpuherd_agent.actuators.ray_command import MARK, Owner, arguments, environment
from gpuherd_agent.actuators.ray_install import find_binary, read_versions
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.actuators.ray_tree import describe, has_rays_title, is_raylet, tree, work
from gpuherd_agent.doors import JoinFailed, JoinOrder, Raylet, Worker
from gpuherd_agent.ground import Ground
from gpuherd_agent.refusals import JoinRefusal

_POLL_S: Final = 0.2
_LINGER_S: Final = 3.0
"""How long the rest of the tree may take to follow its raylet, which ends it by itself (observed: 1.1 s)."""

_KILL_S: Final = 5.0
"""How long a killed process may take to vanish; longer means that it hangs in the kernel (state D)."""

_LOG_TAIL: Final = 16_384


class RayChild:
    """``gpuherd_agent.doors.RayletDoor`` for ``mode = "child"``.

    A process is ours when it carries our mark in its environment: that holds across restarts of the agent,
    for workers that left the session, and for no raylet of another agent or cluster. Ray's own agents write
    their titles over their environment (2.60); they are known by the session of the launcher.
    """

    def __init__(
        self,
        settings: RaySettings,
        owner: Owner,
        *,
        log: Path,
        environ: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
    ) -> None:
        self._settings = settings
        self._owner = owner
        self._log = log
        self._environ = environ
        self._clock = clock or SystemClock()
        self._boot_id = processes.boot_id()
        self._launcher: subprocess.Popen[bytes] | None = None

    def versions(self) -> HeadVersions:
        """Return the versions that a start would run; raises JoinFailed (RAY_MISSING)."""
        return read_versions(find_binary(self._settings.binary))

    def ground(self) -> Ground:
        """Return what a raylet would find on this host now."""
        return read_ground(self._settings)

    async def find(self, remembered: Raylet | None) -> Raylet | None:
        """Return the running raylet that is ours: the remembered one, else one that carries our mark.

        A start that an earlier run of the agent left under way is waited for.
        """
        if remembered is not None and self.is_alive(remembered):
            return remembered
        while True:
            ours = self._ours()
            described = (describe(p, self._boot_id) for p in ours if is_raylet(p.pid))
            found = next((raylet for raylet in described if raylet is not None), None)
            if found is not None or not any(self._is_starting(process) for process in ours):
                return found
            await self._clock.sleep_until(self._clock.now() + _POLL_S)

    async def start(self, order: JoinOrder) -> Raylet:
        """Start a raylet and return it once its process runs; one of ours that runs is returned as it is.

        Raises JoinFailed with Ray's last words; then, and when cancelled, nothing of it runs any more.
        What an earlier failed start left is ended first.
        """
        binary = find_binary(self._settings.binary)
        there = await self.find(None)
        if there is not None:
            return there
        await self._kill_all(None)
        launcher = self._launcher = self._launch(binary, order)
        try:
            return replace(await self._wait_for_raylet(launcher), head=order.head, offered=order.gpus)
        except (JoinFailed, asyncio.CancelledError):
            await self._kill_all(launcher.pid)
            raise

    def is_alive(self, raylet: Raylet) -> bool:
        """Say whether exactly this process still runs; one of an earlier boot does not."""
        return self._process(raylet) is not None

    async def stop(self, raylet: Raylet, *, grace_s: float) -> bool:
        """End the raylet and all that it started: TERM, up to ``grace_s`` in all, then KILL.

        User code is told first and waited for: a raylet that ends takes its workers along within a second,
        which is too short for a checkpoint. False = some process hangs in the kernel and would not die; it
        is not waited for. A raylet that stands still does not hear TERM and gets no time for it.
        """
        process = self._process(raylet)
        if process is not None:
            give_up = self._clock.now() + grace_s
            working = tuple(work(tree(process.pid)))
            for one in working:
                processes.send(one, signal.SIGTERM)
            await self._until_gone(working, grace_s)
            processes.send(process, signal.SIGTERM)
            left_s = 0.0 if process.is_stopped else give_up - self._clock.now()
            await self._until_gone((process,), max(_LINGER_S, left_s))
        # The launcher does not notice the end of its raylet: it is left for the KILL.
        session = raylet.session_pid if raylet.boot_id == self._boot_id else None
        rest = tuple(p for p in self._ours(session) if p.pid != raylet.session_pid)
        if not any(p.pid == raylet.pid for p in rest):
            await self._until_gone(rest, _LINGER_S)
        return await self._kill_all(session)

    def work(self, raylet: Raylet) -> tuple[Worker, ...] | None:
        """Return its tree's processes that run user code, None when the raylet has ended."""
        process = self._process(raylet)
        if process is None:
            return None
        return tuple(
            Worker(pid=p.pid, started_boot_s=processes.boot_s(p), title=title)
            for p, title in work(tree(process.pid)).items()
        )

    def owns(self, raylet: Raylet, pid: int) -> bool:
        """Say whether a process belongs to this raylet's tree."""
        process = processes.read(pid)
        if process is None or self._process(raylet) is None:
            return False
        return self._is_ours(process) or pid in {member.pid for member in tree(raylet.pid)}

    def _launch(self, binary: Path, order: JoinOrder) -> subprocess.Popen[bytes]:
        env = environment(self._settings, order, self._owner, self._environ)
        try:
            with self._log.open("wb") as log:
                return subprocess.Popen(  # noqa: S603  the command of the settings
                    [binary, *arguments(self._settings, order)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=env,
                    cwd="/",
                    start_new_session=True,
                )
        except OSError as error:
            raise JoinFailed(JoinRefusal.START_FAILED, f"{binary} cannot be started: {error}") from error

    async def _wait_for_raylet(self, launcher: subprocess.Popen[bytes]) -> Raylet:
        """Return the launcher's raylet; the node id is its own, should Ray ever ignore the one we chose."""
        give_up = self._clock.now() + self._settings.start_timeout_s
        while True:
            for process in processes.running():
                if process.parent == launcher.pid and is_raylet(process.pid):
                    found = describe(process, self._boot_id)
                    if found is not None:
                        return found
            code = launcher.poll()
            if code is not None:
                raise self._failed(JoinRefusal.START_FAILED, f"ray start ended with {code}")
            if self._clock.now() >= give_up:
                raise self._failed(
                    JoinRefusal.START_TIMED_OUT, f"no raylet within {self._settings.start_timeout_s:g} s"
                )
            await self._clock.sleep_until(self._clock.now() + _POLL_S)

    def _failed(self, otherwise: JoinRefusal, what: str) -> JoinFailed:
        code, words = start_log.judge(self._said(), otherwise=otherwise)
        return JoinFailed(code, f"{what}: {words}")

    def _said(self) -> str:
        """Return the end of what the launcher printed."""
        try:
            return self._log.read_bytes()[-_LOG_TAIL:].decode(errors="replace")
        except OSError:
            return ""

    def _is_starting(self, process: Process) -> bool:
        """Say whether this is a launcher that may still bring its raylet up."""
        age_s = self._clock.boot_s() - processes.boot_s(process)
        is_launcher = process.pid == process.session
        return is_launcher and age_s < self._settings.start_timeout_s and not start_log.is_done(self._said())

    def _process(self, raylet: Raylet) -> Process | None:
        """Return the running process that the record names."""
        self._reap()
        process = processes.read(raylet.pid)
        if process is None or raylet.boot_id != self._boot_id:
            return None
        is_same = process.started_ticks == raylet.started_ticks
        return process if is_same and process.is_running else None

    def _is_ours(self, process: Process) -> bool:
        return processes.has_variable(process.pid, MARK, self._owner.mark)

    def _ours(self, session: int | None = None) -> tuple[Process, ...]:
        """Return what carries our mark, and Ray's own of the session, whose number may be in use anew."""
        return tuple(
            process
            for process in processes.running()
            if self._is_ours(process) or (process.session == session and has_rays_title(process.pid))
        )

    def _reap(self) -> None:
        """Collect the launcher if it is our child and has ended; after a restart init does it."""
        if self._launcher is not None and self._launcher.poll() is not None:
            self._launcher = None

    async def _kill_all(self, session: int | None) -> bool:
        """Kill until none of ours is left, as they may fork meanwhile; False = some stay."""
        give_up = self._clock.now() + _KILL_S
        while found := self._ours(session):
            if self._clock.now() >= give_up:
                return False
            for process in found:
                processes.send(process, signal.SIGKILL)
            await self._until_gone(found, min(1.0, _KILL_S))
        self._reap()
        return True

    async def _until_gone(self, waited_for: tuple[Process, ...], most_s: float) -> bool:
        give_up = self._clock.now() + most_s
        while any(_runs(process) for process in waited_for):
            if self._clock.now() >= give_up:
                return False
            self._reap()
            await self._clock.sleep_until(self._clock.now() + _POLL_S)
        return True


def _runs(process: Process) -> bool:
    now = processes.read(process.pid)
    return now is not None and now.started_ticks == process.started_ticks and now.is_running
