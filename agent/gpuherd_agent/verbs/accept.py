"""``accept``: a person takes the GPUs of this host as they are now: boards, serial numbers, error counts."""

from typing import Final

import msgspec

from gpuherd.errors import Refused
from gpuherd.wire.documents import Command
from gpuherd_agent.sightings import boards
from gpuherd_agent.verbs.verb import Desk, Done, Verb

_DEADLINE_S: Final = 10.0


async def run(desk: Desk, command: Command) -> Done:
    """Record the boards that answer; raises Refused while none does."""
    snapshot, memory = desk.sensing.health.snapshot, desk.steward.memory
    answering = {g.gpu for g in snapshot.probe.gpus} if snapshot.probe else set()
    accepted = tuple(b for b in boards(snapshot, memory.boards) if b.gpu in answering)
    if not accepted:
        raise Refused(
            "no GPU answers now, so there is nothing to accept; `agentctl gpus` shows what is known"
        )
    if not desk.steward.remember(msgspec.structs.replace(memory, accepted=accepted)):
        raise Refused("the node's store took no record of it; free or mend the disk of state_dir")
    desk.tell(
        "boards.accepted", f"{len(accepted)} GPUs: {command.reason or 'no reason given'} (by {command.by})"
    )
    return Done(reason=f"accepted {len(accepted)} GPUs", output="\n".join(b.gpu for b in accepted))


VERB: Final = Verb(name="accept", deadline_s=_DEADLINE_S, run=run)
