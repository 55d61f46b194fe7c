"""What becomes of a command: refused, expired or a duplicate, or carried out once. Pure.

No verb is carried out yet; verify, reset and reboot come with the repair ladder. A command is never
obeyed from a retained message: it would happen again at every connect.
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from gpuherd.errors import WireInvalid
from gpuherd.wire.codec import decode
from gpuherd.wire.documents import Ack, Command
from gpuherd_agent.doors import Identity
from gpuherd_agent.memory import NodeMemory

MAX_BYTES: Final = 16_384
KEPT: Final = 256
CLOCK_SLACK_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The new memory and the answer; no answer for what cannot be told from garbage."""

    memory: NodeMemory
    ack: Ack | None = None
    dropped: str = ""
    """A short word for counting, when there is no answer."""


def receive(
    memory: NodeMemory, payload: bytes, identity: Identity, *, retained: bool, wall: float
) -> Received:
    """Return what becomes of a command that arrived now."""
    try:
        command = decode(payload, Command, max_bytes=MAX_BYTES)
    except WireInvalid as error:
        return Received(memory=memory, dropped=error.reason)
    if (command.cluster, command.node) != (identity.cluster, identity.node):
        return Received(memory=memory, dropped="wrong_node")
    if retained:
        return Received(memory=memory, dropped="retained_command")
    if command.id in memory.executed:
        return _answer(memory, command, "duplicate", "this id was answered before")
    if command.epoch != identity.epoch:
        return _answer(memory, command, "refused", f"meant for run {command.epoch}, this is {identity.epoch}")
    if wall > command.issued_at + command.expires_s + CLOCK_SLACK_S:
        return _answer(memory, command, "expired", f"issued {wall - command.issued_at:.0f} s ago")
    known = msgspec.structs.replace(memory, executed=(*memory.executed, command.id)[-KEPT:])
    return _answer(known, command, "refused", f"verb {command.verb[:40]!r} is not known to this agent")


def _answer(memory: NodeMemory, command: Command, outcome: str, reason: str) -> Received:
    ack = Ack(cluster=command.cluster, node=command.node, id=command.id, outcome=outcome, reason=reason)
    return Received(memory=memory, ack=ack)
