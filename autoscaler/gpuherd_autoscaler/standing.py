"""What each node is worth to the decision: capacity, candidate, on its way, or none of these. Pure."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Severity
from gpuherd.phases import Lifecycle, Phase
from gpuherd.ray import RayStatus
from gpuherd_autoscaler.lifecycle import foreign_hold
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.packing import BASIC, GPU, UNBOUNDED
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.snapshot import NodeView


class Standing(enum.StrEnum):
    """Each expected node has exactly one."""

    SERVING = "serving"
    BOOTING = "booting"
    """Asked to serve and on its way: counted as if it were there already."""
    UNSURE = "unsure"
    """Asked to serve and silent, yet not known to be gone: still counted, never acted on."""
    RETURNING = "returning"
    """Asked to serve again while it still drains: counted toward max, no capacity now."""
    RELEASED = "released"
    """Asked no longer, and not draining yet: serves at once when asked again."""
    LEAVING = "leaving"
    BARRED = "barred"
    STANDBY = "standby"
    UNFIT = "unfit"
    """Not asked, and no candidate: its health or presence is not known to be good."""
    SILENT = "silent"
    """Asked to serve and not there in time, or lost: no longer counted on."""


COUNTED: Final = frozenset({Standing.SERVING, Standing.BOOTING, Standing.UNSURE})
"""Toward ``min``."""
BOUNDED: Final = COUNTED | {Standing.RETURNING}
"""Toward ``max``."""
REPLACEABLE: Final = frozenset({Standing.BARRED, Standing.SILENT})
CONFINING: Final = frozenset(action for action in Action if action >= Action.CORDON)
"""Verdicts that keep a node from new work. A set, since a plan asks this of every node."""
_ON_THE_WAY_OUT: Final = (Phase.DRAINING, Phase.LEAVING)
_UNFIT: Final = (Severity.UNKNOWN, Severity.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A node with its standing and why it has it."""

    node: NodeView
    standing: Standing
    why: str

    @property
    def is_leaving(self) -> bool:
        """Say whether it is on its way out of Ray by our act or its own, work or not."""
        if self.standing in (Standing.LEAVING, Standing.RELEASED, Standing.RETURNING):
            return True
        return self.standing is Standing.BARRED and on_way_out(self.node)


def on_way_out(node: NodeView) -> bool:
    """Say whether the node or Ray says that it drains or leaves."""
    return node.phase in _ON_THE_WAY_OUT or (node.ray is not None and node.ray.status is RayStatus.DRAINING)


def barred(node: NodeView, pool: Pool) -> str:
    """Return why the node is neither capacity nor candidate, or an empty string.

    A node that health holds outside has answered: it is no failed start.
    """
    where = "outside, " if node.phase is Phase.OUTSIDE else ""
    hold = foreign_hold(node.holds)
    if hold is not None:
        return f"{where}held by {hold.owner}: {hold.reason}"
    if node.action in CONFINING:
        return f"{where}unfit: {node.verdict or node.severity}"
    if node.wants_drain:
        return f"would drain, and its pool has its budget of nodes out: {node.wants_drain}"
    if pool.gpus_per_node > 0 and node.gpus_usable == 0:
        return f"{where}none of its GPUs is usable"
    return ""


def judge(node: NodeView, pool: Pool, memory: Memory, limits: Limits, *, head_is_fresh: bool) -> Member:
    """Return the node's standing."""
    if node.lifecycle is Lifecycle.RETIRED:
        return Member(node=node, standing=Standing.UNFIT, why="retired")
    if node.age_s is None or node.age_s > limits.state_fresh_s:
        return _unheard(node, memory, limits, head_is_fresh=head_is_fresh)
    why = barred(node, pool)
    if why:
        return Member(node=node, standing=Standing.BARRED, why=why)
    if on_way_out(node):
        standing = Standing.RETURNING if node.serve else Standing.LEAVING
        return Member(node=node, standing=standing, why=node.reason)
    there = node.is_in_ray if head_is_fresh else node.phase is Phase.MEMBER
    if not node.serve:
        return Member(node=node, standing=Standing.RELEASED, why=node.reason) if there else _resting(node)
    if there:
        return Member(node=node, standing=Standing.SERVING, why="serves")
    waited_s = _waited_s(node, memory)
    if waited_s >= limits.join_timeout_s:
        why = f"asked to serve for {waited_s:.0f} s and not in Ray: {node.reason}"
        return Member(node=node, standing=Standing.SILENT, why=why)
    return Member(node=node, standing=Standing.BOOTING, why=node.reason)


def _waited_s(node: NodeView, memory: Memory) -> float:
    since = memory.waiting_since.get(node.name)
    return 0.0 if since is None or memory.at is None else memory.at - since


def _unheard(node: NodeView, memory: Memory, limits: Limits, *, head_is_fresh: bool) -> Member:
    """A silent node that Ray lists, or of which nobody can tell, is not gone; one never heard gets time."""
    if not node.serve:
        return Member(node=node, standing=Standing.UNFIT, why=node.reason)
    starts = node.age_s is None and _waited_s(node, memory) < limits.join_timeout_s
    if node.is_in_ray or not head_is_fresh or starts:
        return Member(node=node, standing=Standing.UNSURE, why=node.reason)
    return Member(node=node, standing=Standing.SILENT, why=node.reason)


def _resting(node: NodeView) -> Member:
    if node.online is not True:
        why = "its agent is offline" if node.online is False else "its presence is not known"
        return Member(node=node, standing=Standing.UNFIT, why=why)
    if node.severity in _UNFIT:
        return Member(node=node, standing=Standing.UNFIT, why=f"its health is {node.severity}")
    return Member(node=node, standing=Standing.STANDBY, why=node.reason)


def offers(node: NodeView, pool: Pool) -> dict[str, float]:
    """Return what the node will offer once it has joined: the pool's word, less its unusable GPUs."""
    gpus = pool.gpus_per_node if node.gpus_usable is None else min(pool.gpus_per_node, node.gpus_usable)
    return {**promised(pool), GPU: float(gpus)}


def promised(pool: Pool) -> dict[str, float]:
    """Return what a sound node of the pool offers; what the pool leaves open does not bound."""
    cpus = UNBOUNDED if pool.cpus_per_node is None else pool.cpus_per_node
    given: Mapping[str, float] = pool.resources
    return {**dict.fromkeys(BASIC, UNBOUNDED), **given, "CPU": cpus, GPU: float(pool.gpus_per_node)}
