"""Builders for the agent's pure core: facts, memory, documents and a hand-cranked node."""

from dataclasses import dataclass, field, replace

import msgspec

from gpuherd.fence import Mark
from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.holds import Hold, HoldKind, OnDeadline
from gpuherd.names import ClusterName, GpuUuid, HoldId, NodeName, PoolName, RayNodeId
from gpuherd.ray import RayNode, RayStatus
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Desired
from gpuherd_agent import policy
from gpuherd_agent.acts import Act, Outcome
from gpuherd_agent.conclude import conclude
from gpuherd_agent.doors import Identity, Raylet
from gpuherd_agent.memory import NodeMemory, Orders
from gpuherd_agent.orders import receive_desired
from gpuherd_agent.station import Facts, Rules, Station

CLUSTER = ClusterName("herd")
NODE = NodeName("gpu-1")
POOL = PoolName("h200")
GPUS = tuple(GpuUuid(f"GPU-{i}") for i in range(8))
IDENTITY = Identity(cluster=CLUSTER, node=NODE, epoch=1_000, host="host-a", boot_id="boot-1")
RULES = Rules(cluster=CLUSTER, node=NODE, pool=POOL, heads=("127.0.0.1:6379",))
NODE_ID = RayNodeId("ab" * 28)
RAYLET = Raylet(pid=4_242, started_ticks=99, boot_id="boot-1", node_id=NODE_ID, gpus=8, head="127.0.0.1:6379")
HEALTHY = Verdict(severity=Severity.OK)


def sick(
    action: Action = Action.EVICT, *, gpu: GpuUuid | None = GPUS[3], reason: str = "GPU is lost"
) -> Verdict:
    """Return the verdict of one finding."""
    return fold([Finding(rule="dropout", severity=Severity.CRITICAL, action=action, reason=reason, gpu=gpu)])


def hold(
    name: str,
    kind: HoldKind = HoldKind.DRAIN,
    owner: str = "user:ann",
    *,
    for_s: float | None = 3_600.0,
    on_deadline: OnDeadline = OnDeadline.WAIT,
) -> Hold:
    """Return a hold whose reason is its name."""
    return Hold(
        id=HoldId(name), owner=owner, kind=kind, reason=name, since=0.0, for_s=for_s, on_deadline=on_deadline
    )


def desired(
    generation: int,
    *holds: Hold,
    term: int = 1,
    serve: bool = True,
    lifted: tuple[str, ...] = (),
    pool_size: int = 3,
    node: NodeName = NODE,
) -> bytes:
    """Return a desired document's bytes."""
    return encode(
        Desired(
            cluster=CLUSTER,
            node=node,
            term=term,
            generation=generation,
            serve=serve,
            holds=holds,
            lifted=tuple(HoldId(i) for i in lifted),
            pool=POOL,
            pool_size=pool_size,
        )
    )


def ordered(memory: NodeMemory, payload: bytes) -> NodeMemory:
    """Return the memory after an accepted document; fails the test when it was refused."""
    obeyed = receive_desired(memory, payload, IDENTITY)
    assert obeyed.refused is None, obeyed.refused
    return obeyed.memory


def serving(memory: NodeMemory | None = None) -> NodeMemory:
    """Return the memory of a node that is a member."""
    return msgspec.structs.replace(ordered(memory or NodeMemory(), desired(1)), raylet=RAYLET)


def ray_node(status: RayStatus = RayStatus.RUNNING) -> RayNode:
    """Return our node as the head lists it."""
    return RayNode(id=NODE_ID, name=NODE, status=status)


@dataclass(slots=True)
class Crank:
    """A node turned by hand: facts in, acts out, time by ``after``."""

    memory: NodeMemory = field(default_factory=NodeMemory)
    station: Station = field(default_factory=Station)
    facts: Facts = field(
        default_factory=lambda: Facts(
            now=100.0,
            boot_s=5_000.0,
            wall=1e9,
            boot_id="boot-1",
            fresh_id=NODE_ID,
            verdict=HEALTHY,
            present=GPUS,
            healthy=GPUS,
            raylet_alive=False,
        )
    )
    news: list[tuple[str, str]] = field(default_factory=list)
    rules: Rules = RULES
    _ids: int = 0

    def turn(self, **facts: object) -> Act | None:
        """Make one step with these facts changed, and return the act it asks for."""
        self._ids += 1
        self.facts = replace(self.facts, fresh_id=RayNodeId(f"{self._ids:056x}"), **facts)  # type: ignore[arg-type]  # names are checked by replace
        made = policy.step(self.station, self.memory, self.facts, self.rules)
        self.station, self.memory = made.station, made.memory
        self.news.extend(made.news)
        return made.act

    def settle(self, **facts: object) -> Act | None:
        """Step until an act is asked for or nothing changes any more."""
        act = self.turn(**facts)
        for _ in range(8):
            if act is not None:
                break
            before = (self.station, self.memory)
            act = self.turn()
            if before == (self.station, self.memory):
                break
        return act

    def came_to(self, outcome: Outcome) -> None:
        """Take in what the act under way came to."""
        made = conclude(self.station, self.memory, outcome, self.facts)
        self.station, self.memory = made.station, made.memory
        self.news.extend(made.news)

    def after(self, seconds: float, **facts: object) -> Act | None:
        """Let time pass, then settle."""
        return self.settle(now=self.facts.now + seconds, boot_s=self.facts.boot_s + seconds, **facts)

    def restarted(self) -> "Crank":
        """Return the node as after kill -9 of its agent: what is durable, and nothing else."""
        return Crank(memory=self.memory, facts=self.facts)


def mark_of(orders: Orders | None) -> Mark | None:
    """Return where the stored document stands."""
    return orders.mark if orders else None
