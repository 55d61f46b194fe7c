"""Ray's head as the agent sees it: one process of ``gpuherd-gcs`` for each question.

The agent so needs no gRPC, and a question that hangs is killed. The token goes by file, never by argument.
"""

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from gpuherd.errors import HeadFault, HeadUnreachable, TokenRefused
from gpuherd.names import ClusterName, NodeName, PoolName, RayNodeId
from gpuherd.ray import DrainAnswer, DrainOutcome, HeadVersions, RayNode
from gpuherd_agent.doors import DrainOrder

HELPER: Final = (sys.executable, "-P", "-m", "gpuherd.shell.gcs_command")
"""The helper in the agent's own environment; ``-P`` keeps the working folder out of its imports."""

KNOCK_S: Final = 1.0
_NOT_FOUND: Final = 8
_REFUSED: Final = 4
_MAX_ANSWER: Final = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ended:
    """How a helper ended; ``code`` None = it was killed at its deadline, below 0 = by a signal."""

    code: int | None
    answer: dict[str, Any]
    words: str


class HeadHelper:
    """``gpuherd_agent.doors.HeadDoor`` by one-shot helpers.

    ``timeout_s`` bounds each call that a helper makes to the head; the helper itself is killed after
    ``kill_after_s``, which a healthy one never needs: start and import take 0.2 s, on a loaded host a few.
    """

    def __init__(
        self,
        *,
        cluster: ClusterName,
        node: NodeName,
        token_path: str = "",
        timeout_s: float = 3.0,
        kill_after_s: float = 15.0,
        helper: Sequence[str] = HELPER,
    ) -> None:
        self._cluster = cluster
        self._node = node
        self._kill_after_s = kill_after_s
        token = ("--token-file", token_path) if token_path else ()
        self._helper = (*helper, "--timeout", f"{timeout_s:g}", *token)

    async def versions(self, head: str) -> HeadVersions:
        """Return what the head runs; raises HeadUnreachable, or TokenRefused which is one too."""
        return _value(_answered(await self._run(head, "versions")), HeadVersions)

    async def knock(self, head: str) -> bool:
        """Say whether something takes connections at this address, within KNOCK_S."""
        host, _, port = head.rpartition(":")
        try:
            async with asyncio.timeout(KNOCK_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError):
            return False
        writer.close()
        return True

    async def node(self, head: str, node_id: RayNodeId) -> RayNode | None:
        """Return the node as the head lists it, None if it does not; raises HeadUnreachable."""
        ended = await self._run(head, "node", "--id", node_id)
        return None if ended.code == _NOT_FOUND else _value(_answered(ended), RayNode)

    async def drain(self, order: DrainOrder) -> DrainAnswer:
        """Win a slot if the order asks for one, then drain.

        A helper that was killed may have sent the drain before: UNKNOWN.
        """
        arguments = ["--id", order.node_id, "--reason", order.reason.value, f"--message={order.message}"]
        if order.deadline_s is not None:
            arguments += ["--deadline-s", f"{max(order.deadline_s, 0.001):.3f}"]
        if order.pool is not None:
            arguments += ["--cluster", self._cluster, "--pool", order.pool, "--node", self._node]
            arguments += ["--budget", str(order.budget)]
        ended = await self._run(order.head, "drain", *arguments)
        if ended.code is None or ended.code < 0:
            return DrainAnswer(
                outcome=DrainOutcome.UNKNOWN, message=f"the helper was killed while it asked {order.head}"
            )
        try:
            return _value(ended, DrainAnswer)
        except HeadUnreachable as error:
            return DrainAnswer(outcome=DrainOutcome.UNREACHABLE, message=str(error))

    async def release(self, head: str, pool: PoolName) -> bool:
        """Free the slots that this node holds; False = not known to be done, so try again."""
        words = ("slot", "release", "--cluster", self._cluster, "--pool", pool, "--node", self._node)
        return (await self._run(head, *words)).code == 0

    async def _run(self, head: str, *verb: str) -> _Ended:
        """Run one helper to its end or to its deadline; a cancelled caller takes it along."""
        process = await asyncio.create_subprocess_exec(
            *self._helper,
            "--address",
            head,
            *verb,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(self._kill_after_s):
                out, err = await process.communicate()
        except TimeoutError:
            return _Ended(code=None, answer={}, words=f"no answer within {self._kill_after_s:g} s")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return _Ended(code=process.returncode, answer=_parse_answer(out), words=_last_line(err))


def _answered(ended: _Ended) -> _Ended:
    """Return it if the helper did what it was asked; raises HeadUnreachable or TokenRefused otherwise."""
    if ended.code == 0:
        return ended
    detail = str(ended.answer.get("detail", "")) or ended.words or f"the helper ended with {ended.code}"
    if ended.code == _REFUSED:
        raise TokenRefused(detail)
    fault = HeadFault.SILENT if ended.code is None else _fault(ended.answer.get("fault"))
    raise HeadUnreachable(detail, fault=fault)


def _fault(word: object) -> HeadFault:
    return next((fault for fault in HeadFault if fault.value == word), HeadFault.OTHER)


def _value(ended: _Ended, kind: type[T]) -> T:
    try:
        return msgspec.convert(ended.answer, kind)
    except msgspec.ValidationError as error:
        detail = ended.answer.get("detail") or ended.words or str(error)
        raise HeadUnreachable(f"the helper gave no answer (code {ended.code}): {detail}") from error


def _parse_answer(out: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(out[:_MAX_ANSWER], type=dict[str, Any])
    except msgspec.DecodeError:
        return {}


def _last_line(err: bytes) -> str:
    return (err.decode(errors="replace").strip().splitlines() or [""])[-1][:300]
