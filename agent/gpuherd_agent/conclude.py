"""What an act came to, taken into station and memory. Pure; the counterpart of ``policy.step``."""

from dataclasses import replace
from typing import Final

import msgspec

from gpuherd.phases import Phase
from gpuherd.ray import DrainAnswer, DrainOutcome, DrainReason
from gpuherd_agent import latecomers, strikes
from gpuherd_agent.acts import Drained, Looked, Outcome, Released, Started, StartFailed, Stopped, Verified
from gpuherd_agent.membership import Event
from gpuherd_agent.memory import DrainRecord, NodeMemory
from gpuherd_agent.moves import move
from gpuherd_agent.refusals import HEAD_FAULTS, JoinRefusal
from gpuherd_agent.station import Facts, Station, Step

RETRY_DRAIN_S: Final = 2.0
RETRY_IDLE_S: Final = 5.0
RETRY_STOP_S: Final = 30.0
RETRY_FIRST_S: Final = 2.0
RETRY_CAP_S: Final = 300.0
_LOSSES: Final = (JoinRefusal.RAYLET_GONE, JoinRefusal.NOT_ALIVE)


def conclude(station: Station, memory: NodeMemory, outcome: Outcome, facts: Facts) -> Step:
    """Return station and memory after the act under way has come to ``outcome``."""
    station = replace(station, under_way=None)
    match outcome:
        case Verified():
            return _verified(outcome, station, memory, facts)
        case Started():
            return _started(outcome, station, memory)
        case StartFailed():
            return _start_failed(outcome, station, memory, facts)
        case Looked():
            return _looked(outcome, station, memory, facts)
        case Drained():
            return _drained(outcome, station, memory, facts)
        case Stopped():
            return _stopped(outcome, station, memory, facts)
        case Released():
            return _released(outcome, station, memory, facts)


def _verified(outcome: Verified, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    if station.phase is Phase.OUTSIDE:
        return _rehearsed(outcome, station, memory)
    if outcome.preflight.passed:
        moved = move(station, Event.PASSED, facts, "checks passed, starting Ray")
        warned = tuple(("join.warned", f"{c.what}: {c.mend}") for c in outcome.preflight.warnings)
        memory, news = _with_session(memory, outcome.preflight.session)
        return Step(station=moved, memory=memory, news=(*news, ("join.started", moved.reason), *warned))
    codes = _codes(outcome)
    refused = replace(move(station, Event.REFUSED, facts, ""), obstacles=codes)
    refused = replace(refused, head_turn=station.head_turn + bool(HEAD_FAULTS & set(codes)))
    return _failed(refused, memory, facts, outcome.preflight.reason, "join.refused")


def _rehearsed(outcome: Verified, station: Station, memory: NodeMemory) -> Step:
    """Tell what would keep the node out, when that changes. What took a held node out is not forgotten."""
    codes = _codes(outcome)
    lost = tuple(c for c in station.obstacles if c in _LOSSES and c not in codes and memory.holds)
    rehearsed = replace(
        station,
        obstacles=(*lost, *codes),
        head_turn=station.head_turn + bool(HEAD_FAULTS & set(codes)),
    )
    is_new = bool(codes) and rehearsed.obstacles != station.obstacles
    news = (("join.doubtful", f"would not join: {outcome.preflight.reason}"),) if is_new else ()
    return Step(station=rehearsed, memory=memory, news=news)


def _codes(outcome: Verified) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(check.code) for check in outcome.preflight.refusals))


def _with_session(memory: NodeMemory, session: str) -> tuple[NodeMemory, tuple[tuple[str, str], ...]]:
    """Note the session that is joined. Another one is a new cluster: what the old one cost is no strike."""
    if not session or session == memory.session:
        return memory, ()
    noted = msgspec.structs.replace(memory, session=session, strikes=())
    return noted, (("head.new_session", f"{session}, before {memory.session}"),) if memory.session else ()


def _started(outcome: Started, station: Station, memory: NodeMemory) -> Step:
    return Step(
        station=replace(station, reason="raylet runs, waiting for the head to list it"),
        memory=msgspec.structs.replace(memory, raylet=outcome.raylet, drain=None),
    )


def _start_failed(outcome: StartFailed, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    reason = f"join failed, {outcome.code.value}: {outcome.detail}"
    failed = replace(move(station, Event.START_FAILED, facts, ""), obstacles=(outcome.code.value,))
    return _failed(failed, memory, facts, reason, "join.failed")


def _failed(station: Station, memory: NodeMemory, facts: Facts, reason: str, kind: str) -> Step:
    """Wait longer after each failure in a row, and tell it when the reason changes."""
    pause_s = min(RETRY_CAP_S, RETRY_FIRST_S * 2.0 ** min(station.failures, 16))
    waiting = replace(station, reason=reason, not_before=facts.now + pause_s, failures=station.failures + 1)
    return Step(station=waiting, memory=memory, news=((kind, reason),))


def _looked(outcome: Looked, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    station = replace(
        station, looked_at=facts.now, head_reachable=outcome.reachable, sight=outcome.node or station.sight
    )
    if not outcome.reachable:
        return Step(station=station, memory=memory)
    if outcome.node is not None and outcome.node.is_alive:
        station = replace(station, suspicions=0)
        if station.phase is Phase.DRAINING:
            return _looked_draining(outcome, station, memory, facts)
        if station.phase is not Phase.JOINING:
            return Step(station=station, memory=memory)
        joined = replace(
            move(station, Event.ALIVE, facts, "serving"),
            failures=0,
            obstacles=(),
            not_before=facts.now,
            looked_at=facts.now,
            sight=outcome.node,
        )
        if not memory.accepted:
            memory = msgspec.structs.replace(memory, accepted=facts.boards)
        return Step(station=joined, memory=memory, news=(("ray.joined", f"as {outcome.node.id[:12]}"),))
    if station.phase is Phase.JOINING:
        return Step(station=station, memory=memory)
    # A second look must agree, and soon: one answer may be older than our join.
    doubting = replace(station, suspicions=station.suspicions + 1, looked_at=float("-inf"))
    return Step(station=doubting, memory=memory)


def _looked_draining(outcome: Looked, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    """Tell what came to the node although Ray has taken its drain."""
    if memory.drain is None or outcome.work is None:
        return Step(station=station, memory=memory)
    drain, late = latecomers.check(memory.drain, outcome.work, outcome.node, facts.boot_s)
    news = (("drain.breached", f"came after Ray took the drain: {', '.join(late)}"),) if late else ()
    return Step(station=station, memory=msgspec.structs.replace(memory, drain=drain), news=news)


def _drained(outcome: Drained, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    answer, drain = outcome.answer, memory.drain
    if drain is None:
        return Step(station=station, memory=memory)
    if answer.outcome in (DrainOutcome.ACCEPTED, DrainOutcome.UNKNOWN):
        return _drain_taken(station, memory, facts, drain, answer)
    if station.phase is Phase.DRAINING:
        return _drain_not_repeated(station, memory, facts, answer)
    return _drain_not_taken(station, memory, facts, drain, answer)


def _drain_taken(
    station: Station, memory: NodeMemory, facts: Facts, drain: DrainRecord, answer: DrainAnswer
) -> Step:
    sure = answer.outcome is DrainOutcome.ACCEPTED
    known = latecomers.taken(drain, facts.boot_s) if sure else drain
    memory = msgspec.structs.replace(memory, drain=msgspec.structs.replace(known, is_confirmed=sure))
    if station.phase is Phase.DRAINING:
        return Step(station=station, memory=memory)
    reason = drain.message if sure else f"{drain.message} (no answer in time; counts as accepted)"
    moved = move(station, Event.DRAIN_TAKEN, facts, reason)
    return Step(
        station=replace(moved, not_before=facts.now), memory=memory, news=(("drain.accepted", reason),)
    )


def _drain_not_repeated(station: Station, memory: NodeMemory, facts: Facts, answer: DrainAnswer) -> Step:
    """A repeated request failed; only Ray's own no to a scale-down ends the drain: the node is busy."""
    drain = memory.drain
    if answer.outcome is DrainOutcome.REJECTED and drain and drain.reason is DrainReason.IDLE_TERMINATION:
        moved = replace(
            move(station, Event.DRAIN_REFUSED, facts, answer.message), not_before=facts.now + RETRY_IDLE_S
        )
        return Step(station=moved, memory=msgspec.structs.replace(memory, drain=None))
    return Step(station=replace(station, not_before=facts.now + RETRY_DRAIN_S), memory=memory)


def _drain_not_taken(
    station: Station, memory: NodeMemory, facts: Facts, drain: DrainRecord, answer: DrainAnswer
) -> Step:
    memory = msgspec.structs.replace(memory, drain=None)
    if answer.outcome is DrainOutcome.REJECTED:
        reason = f"still busy, Ray refused to let it go: {answer.message}"
        kept = replace(station, reason=reason, not_before=facts.now + RETRY_IDLE_S, wants_drain="")
        return Step(station=kept, memory=memory, news=_once(station, reason, "drain.refused"))
    if answer.outcome is DrainOutcome.NOT_ALIVE:
        doubting = replace(station, suspicions=station.suspicions + 1, not_before=facts.now + RETRY_DRAIN_S)
        return Step(station=doubting, memory=memory)
    if answer.outcome is DrainOutcome.NO_SLOT:
        memory = msgspec.structs.replace(memory, may_hold_slot=False)
    reason = f"wants to drain ({drain.message}): {answer.message}"
    waiting = replace(
        station,
        reason=reason,
        wants_drain=reason if memory.holds else "",
        not_before=facts.now + RETRY_DRAIN_S,
        head_reachable=False if answer.outcome is DrainOutcome.UNREACHABLE else station.head_reachable,
    )
    return Step(station=waiting, memory=memory, news=_once(station, reason, "drain.waits"))


def _once(station: Station, reason: str, kind: str) -> tuple[tuple[str, str], ...]:
    return () if station.reason == reason else ((kind, reason),)


def _stopped(outcome: Stopped, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    if not outcome.clean:
        stuck = replace(
            station,
            reason="some process of Ray would not die; trying again",
            not_before=facts.now + RETRY_STOP_S,
        )
        return Step(station=stuck, memory=memory, news=_once(station, stuck.reason, "leave.stuck"))
    why = station.reason
    pause_s = strikes.pause_s(memory.strikes, facts.fresh_id) if station.is_lost else 0.0
    moved = replace(move(station, Event.STOPPED, facts, why), not_before=facts.now + pause_s, is_lost=False)
    return Step(
        station=moved,
        memory=msgspec.structs.replace(memory, raylet=None, drain=None),
        news=(("ray.left", why),),
    )


def _released(outcome: Released, station: Station, memory: NodeMemory, facts: Facts) -> Step:
    if not outcome.done:
        return Step(station=replace(station, not_before=facts.now + RETRY_DRAIN_S), memory=memory)
    return Step(
        station=station,
        memory=msgspec.structs.replace(memory, may_hold_slot=False),
        news=(("slot.released", "the node serves again"),),
    )
