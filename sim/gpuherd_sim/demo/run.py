"""Plays the demo: starts everything, looks at it, gives the cues. Its caller removes what was started."""

import asyncio
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gpuherd.errors import HeadUnreachable
from gpuherd.ray import ClusterSight
from gpuherd.rest import Node, Nodes
from gpuherd.shell.clock import Clock
from gpuherd.shell.gcs import Gcs
from gpuherd_ctl.client import Scaler, Trouble
from gpuherd_sim.demo.narrator import Narrator
from gpuherd_sim.demo.observation import Observation
from gpuherd_sim.demo.processes import Crew
from gpuherd_sim.demo.stage import NODES, Stage, head_command
from gpuherd_sim.demo.story import Cue, Story
from gpuherd_sim.demo.work import read_work

HARD_STOP_S: Final = 480.0
LOOK_S: Final = 0.25
BROKEN_GPU: Final = 5
DRIVER: Final = "driver"


class DemoFailed(Exception):
    """The story did not come to its end; the message says why and what hung."""


@dataclass(slots=True)
class Play:
    """One run of the story."""

    stage: Stage
    crew: Crew
    story: Story
    narrator: Narrator
    clock: Clock
    gcs: Gcs
    last: Observation = field(default_factory=lambda: Observation(at_s=0.0))

    async def run(self) -> None:
        """Return once every step was seen; raises DemoFailed when one is not, or a process falls."""
        deadline = self.clock.now() + HARD_STOP_S
        self._start_head()
        await self._until(lambda seen: seen.sight is not None, "Ray's head answers", deadline)
        self._start_autoscaler()
        await self._until(lambda _: self._rest() is not None, "the autoscaler answers", deadline)
        self._start_agents()
        while self.story.open_steps:
            await self._look(deadline)
            for seen in self.story.see(self.last):
                self.narrator.tell(seen)
                self._act(seen.cue)

    async def _until(self, is_so: Callable[[Observation], bool], what: str, deadline: float) -> None:
        await self._look(deadline)
        while not is_so(self.last):
            await self._look(deadline, what)
        self.narrator.say(self.clock.now(), what)

    async def _look(self, deadline: float, what: str = "") -> None:
        """Take the next look; raises DemoFailed past the deadline or when a process has fallen."""
        await self.clock.sleep_until(self.last.at_s + LOOK_S)
        fallen = self.crew.fallen(may_end=(DRIVER,))
        if fallen is not None:
            raise DemoFailed(
                f"{fallen.name} ended with status {fallen.code}; its last words:\n{fallen.log_tail}"
            )
        now = self.clock.now()
        if now > deadline:
            waited = what or ", ".join(self.story.waits_for)
            raise DemoFailed(f"hard stop after {HARD_STOP_S:.0f} s; still waiting for: {waited}")
        sight = await self._sight()
        nodes = await asyncio.to_thread(self._rest) or ()
        self.last = Observation(
            at_s=now, sight=sight, nodes={n.name: n for n in nodes}, work=read_work(self.stage.ledger)
        )

    async def _sight(self) -> ClusterSight | None:
        try:
            return await self.gcs.sight()
        except HeadUnreachable:
            return None

    def _rest(self) -> tuple[Node, ...] | None:
        try:
            return Scaler(str(self.stage.socket), timeout_s=2.0).get("/nodes", Nodes).nodes
        except Trouble:
            return None

    def _act(self, cue: Cue | None) -> None:
        match cue:
            case Cue.SUBMIT:
                self._start_driver()
            case Cue.BREAK_GPU:
                name = self.story.scene.sick_name
                if name is not None:
                    self.stage.break_gpu(name, BROKEN_GPU)
                    self.story.scene.broken_at_s = self.clock.now()
                    self._say(f"GPU {BROKEN_GPU} of {name} falls off the bus")
            case Cue.ENOUGH:
                self.stage.enough.touch()
                self._say("the driver submits no further wave")
            case None:
                pass

    def _start_head(self) -> None:
        self.crew.start("head", head_command(self.stage), self.stage.environment())
        self._say("Ray's head starts, without GPUs")

    def _start_autoscaler(self) -> None:
        command = ["gpuherd-autoscaler", "--config", str(self.stage.config("autoscaler"))]
        self.crew.start("autoscaler", command, self.stage.environment())
        self._say("the autoscaler starts, with the broker in its process")

    def _start_agents(self) -> None:
        for node in NODES:
            command = ["gpuherd-agent", "--config", str(self.stage.config(node))]
            self.crew.start(node, command, self.stage.agent_environment(node))
        gpus = "NVIDIA's library in C" if self.stage.library else "the backend `scenario` (no gcc here)"
        self._say(f"{len(NODES)} agents start; their GPUs are simulated by {gpus}")

    def _start_driver(self) -> None:
        stage = self.stage
        command = [sys.executable, "-P", "-m", "gpuherd_sim.demo.driver", "--head", stage.head]
        command += ["--ledger", str(stage.ledger), "--enough", str(stage.enough)]
        self.crew.start(DRIVER, command, stage.environment())
        self._say("a user's driver submits waves of tasks that ask for one GPU each")

    def _say(self, text: str) -> None:
        self.narrator.say(self.clock.now(), text)
