"""``ack``: a person ends latched findings. One whose cause still stands is found again at the next look."""

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from gpuherd.errors import Refused
from gpuherd.health import Finding
from gpuherd.names import GpuUuid
from gpuherd.wire.documents import Command
from gpuherd_agent.memory import Board, NodeMemory
from gpuherd_agent.verbs.verb import Desk, Done, Verb

_DEADLINE_S: Final = 10.0


def chosen(latched: Sequence[Finding], rule: str, gpu: str) -> tuple[Finding, ...]:
    """Return those of rule and GPU; an empty word means any."""
    return tuple(f for f in latched if rule in ("", f.rule) and gpu in ("", f.gpu or ""))


def _with_boards(memory: NodeMemory, gpus: Collection[GpuUuid]) -> tuple[Board, ...]:
    """Return the accepted boards with the error counts of these GPUs as they are now: settled too."""
    now = {board.gpu: board for board in memory.boards}
    return tuple(now.get(b.gpu, b) if b.gpu in gpus else b for b in memory.accepted)


async def run(desk: Desk, command: Command) -> Done:
    """End the chosen findings, on disk first; raises Refused when none of them is latched."""
    rule, gpu = command.arguments.get("finding", ""), command.arguments.get("gpu", "")
    latched = desk.sensing.health.latched
    ended = chosen(latched, rule, gpu)
    if not ended:
        stand = ", ".join(sorted({f"{f.rule} of {f.gpu or 'the node'}" for f in latched})) or "none"
        raise Refused(
            f"no latched finding is meant by {rule or 'any rule'} {gpu}".rstrip() + f"; latched: {stand}"
        )
    memory = desk.steward.memory
    kept = tuple(f for f in latched if f not in ended)
    accepted = _with_boards(memory, {f.gpu for f in ended if f.gpu is not None})
    if not desk.steward.remember(msgspec.structs.replace(memory, latched=kept, accepted=accepted)):
        raise Refused("the node's store took no record of it; free or mend the disk of state_dir")
    for finding in ended:
        desk.sensing.acknowledge(finding)
    words = ", ".join(f"{f.rule} of {f.gpu or 'the node'}" for f in ended)
    desk.tell("finding.acknowledged", f"{words}: {command.reason or 'no reason given'} (by {command.by})")
    return Done(reason=f"ended {words}; what still stands is found again at the next look")


VERB: Final = Verb(name="ack", deadline_s=_DEADLINE_S, run=run)
