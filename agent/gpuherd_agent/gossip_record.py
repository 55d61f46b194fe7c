"""What this node says of itself by gossip, and what its page says of gossip. Pure.

Only what changes rarely goes into the record: each change costs every node of the fleet 2 to 4 kB.
"""

import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.exposition import Sample
from gpuherd.gossip.bodies import Body, NodeState, Reach
from gpuherd.gossip.counters import Counters
from gpuherd.gossip.verdicts import Role
from gpuherd.gossip.verdicts import Verdict as Opinion
from gpuherd.gossip.views import FleetView, MemberView
from gpuherd.health import Severity, Verdict
from gpuherd.phases import Phase

_STATES: Final = {
    Severity.OK: NodeState.HEALTHY,
    Severity.UNKNOWN: NodeState.UNKNOWN,
    Severity.WARN: NodeState.HEALTHY,
    Severity.DEGRADED: NodeState.DEGRADED,
    Severity.CRITICAL: NodeState.CRITICAL,
}
_GONE: Final = (Opinion.UNREACHABLE, Opinion.AGENT_DEAD, Opinion.FAILED)
_BITS: Final = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnState:
    """What the record is made of. ``versions`` are words such as ``agent 0.1.0``, in a fixed order."""

    verdict: Verdict
    phase: Phase
    gpus_declared: int
    gpus_present: int
    head_reachable: bool | None
    broker_connected: bool | None
    versions: tuple[str, ...] = ()
    in_maintenance: bool = False


def body(own: OwnState) -> Body:
    """Return the record's body."""
    return Body(
        state=_STATES[own.verdict.severity],
        reason_bits=reason_bits(own.verdict),
        phase=own.phase,
        gpus_declared=own.gpus_declared,
        gpus_present=own.gpus_present,
        head=_reach(own.head_reachable),
        broker=_reach(own.broker_connected),
        versions_hash=hashlib.blake2b("\n".join(own.versions).encode(), digest_size=8).digest(),
        in_maintenance=own.in_maintenance,
    )


def reason_bits(verdict: Verdict) -> int:
    """Return one of 32 bits for each rule with a finding, by a hash of its name.

    A place in the catalogue would mean another rule in the next version. Two rules may share a bit: it
    tells that something changed and hints at what; the state document has the finding itself.
    """
    bits = 0
    for finding in verdict.findings:
        bits |= 1 << zlib.crc32(finding.rule.encode()) % _BITS
    return bits


def _is_gone_as_planned(member: MemberView) -> bool:
    return member.verdict in _GONE and member.body.in_maintenance


def _reach(reached: bool | None) -> Reach:
    return {None: Reach.UNKNOWN, True: Reach.REACHED, False: Reach.LOST}[reached]


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipFacts:
    """What the page says of gossip at one moment."""

    view: FleetView
    counters: Counters
    lag_s: float
    mismatches: int
    conflicts: int
    paths_failed: int
    streams_shed: int


def samples(facts: GossipFacts) -> Iterator[Sample]:
    """Yield the gossip's samples."""
    view, counters = facts.view, facts.counters
    of_state = [member.verdict for member in view.members]
    for opinion in Opinion:
        yield Sample("gpuherd_gossip_members", of_state.count(opinion), (opinion.value,))
    yield Sample("gpuherd_gossip_gone_as_planned", sum(map(_is_gone_as_planned, view.members)))
    for role in Role:
        yield Sample("gpuherd_gossip_role", role is view.role, (role.value,))
    yield Sample("gpuherd_gossip_expected", view.expected)
    yield Sample("gpuherd_gossip_missing", len(view.missing))
    yield Sample("gpuherd_gossip_sight", view.sight)
    yield Sample("gpuherd_gossip_packets_sent_total", counters.packets_out)
    yield Sample("gpuherd_gossip_packets_received_total", counters.packets_in)
    yield Sample("gpuherd_gossip_sent_bytes_total", counters.bytes_out)
    yield Sample("gpuherd_gossip_received_bytes_total", counters.bytes_in)
    yield Sample("gpuherd_gossip_signature_checks_total", counters.checks)
    yield Sample("gpuherd_gossip_shed_total", counters.shed + facts.streams_shed)
    for reason, count in sorted(counters.dropped.items()):
        yield Sample("gpuherd_gossip_dropped_total", count, (reason,))
    yield Sample("gpuherd_gossip_cluster_mismatch_total", facts.mismatches)
    yield Sample("gpuherd_gossip_name_conflicts_total", facts.conflicts)
    yield Sample("gpuherd_gossip_paths_failed_total", facts.paths_failed)
    yield Sample("gpuherd_gossip_loop_lag_seconds", facts.lag_s)
