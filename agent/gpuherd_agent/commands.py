"""What becomes of a command: refused, expired, known already, or accepted to be carried out once. Pure.

A command is never obeyed from a retained message: it would happen again at every connect. Its id is
stored before it is begun, so that a crash in between costs the act and never repeats it.
"""

from collections.abc import Collection
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
ANSWERS_KEPT: Final = 16
CLOCK_SLACK_S: Final = 30.0
FINAL: Final = frozenset({"done", "failed", "refused", "expired"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """The new memory and the answer; no answer for what cannot be told from garbage."""

    memory: NodeMemory
    ack: Ack | None = None
    dropped: str = ""
    """A short word for counting, when there is no answer."""
    accepted: Command | None = None
    """What is to be carried out, once the memory is stored."""


def receive(
    memory: NodeMemory,
    payload: bytes,
    identity: Identity,
    *,
    retained: bool,
    wall: float,
    verbs: Collection[str] = (),
) -> Received:
    """Return what becomes of a command that arrived now; ``verbs`` are those that this agent knows."""
    try:
        command = decode(payload, Command, max_bytes=MAX_BYTES)
    except WireInvalid as error:
        return Received(memory=memory, dropped=error.reason)
    if (command.cluster, command.node) != (identity.cluster, identity.node):
        return Received(memory=memory, dropped="wrong_node")
    if retained:
        return Received(memory=memory, dropped="retained_command")
    if command.id in memory.executed:
        return Received(memory=memory, ack=_known(memory, command))
    if command.epoch != identity.epoch:
        return _refuse(memory, command, "refused", f"meant for run {command.epoch}, this is {identity.epoch}")
    if wall > command.issued_at + command.expires_s + CLOCK_SLACK_S:
        return _refuse(memory, command, "expired", f"issued {wall - command.issued_at:.0f} s ago")
    known = msgspec.structs.replace(memory, executed=(*memory.executed, command.id)[-KEPT:])
    if command.verb not in verbs:
        return _refuse(known, command, "refused", f"verb {command.verb[:40]!r} is not known to this agent")
    return Received(memory=known, ack=answer(command, "accepted"), accepted=command)


def answer(command: Command, outcome: str, reason: str = "", output: str = "") -> Ack:
    """Return the answer to a command, cut to what its document holds."""
    return Ack(
        cluster=command.cluster,
        node=command.node,
        id=command.id,
        outcome=outcome,
        reason=reason[:1_000],
        output=output[:8_000],
    )


def settled(memory: NodeMemory, ack: Ack) -> NodeMemory:
    """Return the memory with the end of a command in it; an answer that is no end changes nothing."""
    if ack.outcome not in FINAL:
        return memory
    return msgspec.structs.replace(memory, answers=(*memory.answers, ack)[-ANSWERS_KEPT:])


def _known(memory: NodeMemory, command: Command) -> Ack:
    given = next((ack for ack in reversed(memory.answers) if ack.id == command.id), None)
    return given or answer(command, "duplicate", "this id was taken before and has no end that is known here")


def _refuse(memory: NodeMemory, command: Command, outcome: str, reason: str) -> Received:
    ack = answer(command, outcome, reason)
    # Only an id that counts as taken has an answer to be kept.
    memory = settled(memory, ack) if command.id in memory.executed else memory
    return Received(memory=memory, ack=ack)
