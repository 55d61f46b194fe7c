"""Carries out commands, one after another: accepted, running, and an end that is stored and told.

A shell: what becomes of a command is decided in ``commands``, what a verb does in ``verbs``.
"""

import asyncio
from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from gpuherd.bus import Bus, Message
from gpuherd.errors import HerdError, Refused
from gpuherd.shell import logs
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Ack, Command
from gpuherd_agent.commands import answer, receive, settled
from gpuherd_agent.verbs.verb import Desk, Verb

WAITING_MAX: Final = 8

log = logs.get("gpuherd.agent")


class Errands:
    """Listens for commands on the node's own topic from the start; ``run`` carries them out."""

    def __init__(self, *, bus: Bus, desk: Desk, verbs: Sequence[Verb]) -> None:
        """Subscribe; commands that arrive before ``run`` wait."""
        self.dropped: Counter[str] = Counter()
        self._bus = bus
        self._desk = desk
        self._verbs = {verb.name: verb for verb in verbs}
        self._waiting: deque[Command] = deque()
        self._arrived = asyncio.Event()
        self._under_way = ""
        bus.subscribe(self._topic("command"), self._receive)

    async def run(self) -> None:
        """Carry out what arrives until cancelled; what is under way then has no end that is told."""
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            while self._waiting:
                command = self._waiting.popleft()
                self._under_way = command.verb
                self._say(answer(command, "running"))
                self._say(await self._end(command))
                self._under_way = ""

    def _receive(self, message: Message) -> None:
        desk = self._desk
        got = receive(
            desk.steward.memory,
            message.payload,
            desk.identity,
            retained=message.retained,
            wall=desk.clock.wall(),
            verbs=self._verbs,
        )
        if got.dropped:
            self.dropped[got.dropped] += 1
        if not desk.steward.remember(got.memory):
            if got.accepted is not None:
                why = "the node's store took no record of it; free or mend the disk of state_dir"
                self._tell(answer(got.accepted, "refused", why))
            return
        if got.ack is None:
            return
        if got.accepted is None:
            self._tell(got.ack)
        elif len(self._waiting) >= WAITING_MAX:
            busy = (
                f"{WAITING_MAX} commands wait already behind {self._under_way or 'others'}; try again later"
            )
            self._say(answer(got.accepted, "refused", busy))
        else:
            self._tell(got.ack)
            self._waiting.append(got.accepted)
            self._arrived.set()

    async def _end(self, command: Command) -> Ack:
        verb = self._verbs[command.verb]
        log.info("command.begun", verb=verb.name, id=command.id, by=command.by, reason=command.reason)
        try:
            async with asyncio.timeout(verb.deadline_s):
                done = await verb.run(self._desk, command)
        except TimeoutError:
            ended = answer(command, "failed", f"{verb.name} had no end within {verb.deadline_s:g} s")
        except Refused as refusal:
            ended = answer(command, "refused", str(refusal))
        except (HerdError, OSError) as error:
            ended = answer(command, "failed", str(error))
        else:
            ended = answer(command, "done", done.reason, done.output)
        log.info("command.ended", verb=verb.name, id=command.id, outcome=ended.outcome, reason=ended.reason)
        return ended

    def _say(self, ack: Ack) -> None:
        """Store what is an end, then tell it; an end that the disk refuses is told all the same."""
        self._desk.steward.remember(settled(self._desk.steward.memory, ack))
        self._tell(ack)

    def _tell(self, ack: Ack) -> None:
        self._bus.tell(self._topic(f"ack/{ack.id}"), encode(ack))

    def _topic(self, leaf: str) -> str:
        return topics.node(self._desk.identity.cluster, self._desk.identity.node, leaf)
