"""What a node must still know after a crash or a reboot, as one plain value.

Every change is a new value; the store writes it before the act that it announces. Instants are boot
time (CLOCK_BOOTTIME seconds) together with the boot id they belong to.
"""

from typing import Final

import msgspec

from gpuherd.fence import Mark
from gpuherd.health import Finding
from gpuherd.holds import Hold, OnDeadline, union
from gpuherd.names import GpuUuid, HoldId, NodeName, PoolName
from gpuherd.ray import DrainReason
from gpuherd.wire.documents import Ack
from gpuherd_agent.doors import Raylet
from gpuherd_agent.repair import Attempt

LIFTED_KEPT: Final = 1_024
"""How many lifted ids are remembered, so that a late document cannot bring an ended hold back."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """The last accepted desired document: its bytes, and what of it the node acts on."""

    payload: bytes
    mark: Mark
    serve: bool
    head: tuple[str, ...] = ()
    pool: PoolName
    pool_size: int
    gpus: tuple[GpuUuid, ...] | None = None


class DrainRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A drain that was, or may have been, asked for: written before Ray is.

    ``deadline_boot_s`` None = none, or disarmed. ``node_id`` is the raylet it was aimed at.
    """

    node_id: str
    boot_id: str
    reason: DrainReason
    message: str
    asked_boot_s: float
    deadline_boot_s: float | None = None
    on_deadline: OnDeadline = OnDeadline.WAIT
    rank: int = 0
    """Strength of the hold behind it (0 = the scaler's wish); a stronger one asks again."""
    hold: HoldId | None = None
    """The hold that armed the deadline; when it is lifted its deadline goes with it."""
    ended_by: str = ""
    """The person who wants what still runs ended, so that the node rejoins at once."""
    taken_boot_s: float | None = None
    """When Ray said yes."""
    there: tuple[str, ...] = ()
    """What was there then, by process or placement group."""
    there_known: bool = False
    late: tuple[str, ...] = ()
    """What came after, in words: Ray ought to send nothing to a node whose drain it has taken."""
    is_confirmed: bool = False
    """Ray said yes. Until then it may have been asked, and counts as accepted."""


class Board(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU that this host had when it was last seen whole."""

    gpu: GpuUuid
    pci_bus_id: str = ""
    serial: str = ""
    vbios: str = ""
    ecc_uncorrected_total: int | None = None
    """Life-time sum when it was accepted."""


class NodeMemory(msgspec.Struct, frozen=True, kw_only=True):
    """All that lasts on the node. ``is_new`` is False once anything was ever stored here."""

    epoch: int = 0
    orders: Orders | None = None
    holds: tuple[Hold, ...] = ()
    lifted: tuple[HoldId, ...] = ()
    drain: DrainRecord | None = None
    raylet: Raylet | None = None
    may_hold_slot: bool = False
    latched: tuple[Finding, ...] = ()
    latched_boot_id: str = ""
    """A reboot is the repair that latched findings ask for: of an earlier boot they no longer count."""
    kernel_position: int = -1
    kernel_boot_id: str = ""
    """Where the kernel log of that boot was read to: an old event is never told as new."""
    boards: tuple[Board, ...] = ()
    """The host's GPUs: a lost one goes by its name also after a restart of the agent or a reboot."""
    attempts: tuple[Attempt, ...] = ()
    """Repairs that were begun, newest last."""
    accepted: tuple[Board, ...] = ()
    """The boards of the first join, or those that a person accepted last."""
    executed: tuple[str, ...] = ()
    """Ids of the commands carried out or refused, newest last."""
    answers: tuple[Ack, ...] = ()
    """How the last commands ended, newest last: one that is repeated gets its answer again."""
    strikes: tuple[float, ...] = ()
    """When the raylet was lost without our doing, as instants of boot time."""
    session: str = ""
    """Ray's session that the node joined last; another one is a new cluster."""
    fleet_observes: bool = False
    """The fleet's big red button: health findings are told and lead to no act."""
    mode_term: int = 0
    roster: tuple[NodeName, ...] = ()
    """Who counts in the gossip's verdicts; empty = everybody who is known."""
    racks: dict[NodeName, str] = {}
    """Where they stand, as far as it was told."""
    roster_mark: tuple[int, int] = (0, 0)
    """(term, version) of that roster."""

    def with_holds(self, *added: Hold) -> "NodeMemory":
        """Return the memory with these holds too; one whose id was lifted before does not come back."""
        return msgspec.structs.replace(self, holds=union(self.holds, added, lifted=self.lifted))

    def without_holds(self, ids: tuple[HoldId, ...]) -> "NodeMemory":
        """Return the memory with these holds ended for good."""
        known = tuple(dict.fromkeys((*self.lifted, *ids)))[-LIFTED_KEPT:]
        return msgspec.structs.replace(
            self, holds=tuple(h for h in self.holds if h.id not in ids), lifted=known
        )
