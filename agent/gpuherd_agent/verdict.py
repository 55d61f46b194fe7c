"""Findings over time: what is raised, what stands, what has cleared. Pure; time is the snapshot's.

A look that says nothing about a finding that stands (no reading, GPU not there, an old failure told again)
neither confirms nor clears it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.rules import counts, driver, dropout, kernel
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule, Sensor

Key = tuple[str, GpuUuid | None]

_NEVER: Final = float("inf")
_ONE_MORE: Final = 2
FLAPS: Final = 3
FLAP_WINDOW_S: Final = 3_600.0
FLAP_HOLD_S: Final = 1_800.0
"""A finding that was raised FLAPS times within the window ends only after so long without it."""


@dataclass(slots=True)
class _Track:
    """One trouble of one rule, over the looks."""

    rule: Rule
    latest: Finding
    stands: bool = False
    looks: deque[bool] = field(init=False)
    clean: int = 0
    clean_since: float = _NEVER

    held_s: float = 0.0
    """At least so long it must be gone: longer than the rule's own hold for what comes and goes."""

    def __post_init__(self) -> None:
        self.looks = deque(maxlen=self.rule.raise_m)

    @property
    def is_pending(self) -> bool:
        return not self.stands and self.looks[-1]

    @property
    def is_over(self) -> bool:
        return not self.stands and not any(self.looks)

    def saw(self, finding: Finding) -> None:
        self.looks.append(True)
        self.latest, self.clean, self.clean_since = finding, 0, _NEVER
        self.stands = self.stands or sum(self.looks) >= self.rule.raise_n

    def saw_nothing(self, at: float) -> None:
        self.looks.append(False)
        if not self.stands or self.rule.latched:
            return
        self.clean += 1
        self.clean_since = min(self.clean_since, at)
        gone_s = at - self.clean_since
        if self.clean >= self.rule.clear_k and gone_s >= max(self.rule.clear_hold_s, self.held_s):
            self.stands = False
            self.looks.clear()
            self.looks.append(False)


class Judge:
    """Feed snapshots in; the verdict comes out. ``latched`` are findings that stood before a restart."""

    def __init__(self, rules: Sequence[Rule] = RULES, latched: tuple[Finding, ...] = ()) -> None:
        self._rules = tuple(rules)
        self._tracks: dict[Key, _Track] = {}
        self._raised: dict[Key, deque[float]] = {}
        self._seen: dict[Sensor, object] = {}
        by_name = {rule.name: rule for rule in self._rules}
        for finding in latched:
            rule = by_name.get(finding.rule)
            if rule is not None and rule.latched:
                self._tracks[finding.key] = _Track(rule=rule, latest=finding, stands=True)
                self._tracks[finding.key].looks.append(True)

    @property
    def pending(self) -> bool:
        """Say whether an enforced finding waits for one confirmation: the next look may come sooner.

        A rule that asks for more looks watches for a while, and sooner looks would shorten it.
        """
        return any(
            t.is_pending and t.rule.enforce and t.rule.raise_n == _ONE_MORE for t in self._tracks.values()
        )

    @property
    def latched(self) -> tuple[Finding, ...]:
        """Return the findings that only a person ends, to be kept over a restart."""
        return tuple(t.latest for t in self._tracks.values() if t.stands and t.rule.latched)

    def acknowledge(self, rule: str, gpu: GpuUuid | None) -> bool:
        """End a latched finding by a person's word; False = there is none. It comes back if it is so."""
        track = self._tracks.get((rule, gpu))
        if track is None or not (track.stands and track.rule.latched):
            return False
        del self._tracks[rule, gpu]
        return True

    def step(self, snapshot: Snapshot) -> Verdict:
        """Return the verdict after this look: unknown while nothing stands and the GPUs were not read."""
        looked = {sensor for sensor in Sensor if self._is_new(sensor, snapshot)}
        for rule in self._rules:
            if rule.sensor in looked:
                self._apply(rule, snapshot)
        standing = _root_causes([_told(t) for t in self._tracks.values() if t.stands])
        was_read = snapshot.probe is not None and snapshot.probe.outcome is ProbeOutcome.OK
        has_none = snapshot.declared == 0 and snapshot.probe is not None
        if not (was_read or has_none) and not any(f.severity > Severity.UNKNOWN for f in standing):
            return replace(fold(standing), severity=Severity.UNKNOWN)
        return fold(standing)

    def _is_new(self, sensor: Sensor, snapshot: Snapshot) -> bool:
        """Say whether this sensor has looked since the last step; an old failure told again is no look."""
        look = _look_of(sensor, snapshot)
        if isinstance(look, ProbeReading):
            return not look.is_repeat
        is_new = look is not None and look is not self._seen.get(sensor)
        self._seen[sensor] = look
        return is_new

    def _apply(self, rule: Rule, snapshot: Snapshot) -> None:
        found = {f.key: f for f in rule.judge(snapshot, rule.limits)}
        for key, finding in found.items():
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = _Track(rule=rule, latest=finding)
            stood = track.stands
            track.saw(finding)
            if track.stands and not stood:
                track.held_s = self._hold(key, snapshot.at)
        probe = snapshot.probe
        is_of_probe = rule.sensor is Sensor.PROBE
        if is_of_probe and (probe is None or probe.outcome not in rule.cleared_by):
            return
        read = {g.gpu for g in probe.gpus if rule.is_read(g)} if probe else set()
        for key, track in list(self._tracks.items()):
            if track.rule is not rule or key in found:
                continue
            # What is only pending lapses also when its GPU cannot be read: it would else wait for ever.
            if key[1] is None or key[1] in read or not is_of_probe or not track.stands:
                track.saw_nothing(snapshot.at)
            if track.is_over:
                del self._tracks[key]

    def _hold(self, key: Key, at: float) -> float:
        """Note that a finding was raised; return how long it must be gone if it has come and gone before."""
        raised = self._raised.setdefault(key, deque(maxlen=FLAPS))
        raised.append(at)
        is_flapping = len(raised) == FLAPS and at - raised[0] <= FLAP_WINDOW_S
        return FLAP_HOLD_S if is_flapping else 0.0


def _look_of(sensor: Sensor, snapshot: Snapshot) -> object | None:
    """Return the object that this sensor's last look left; a new look leaves a new object."""
    if sensor is Sensor.RAY:
        return snapshot.probe if snapshot.ray_gpus is not None else None
    looks: dict[Sensor, object | None] = {
        Sensor.PROBE: snapshot.probe,
        Sensor.HOST: snapshot.host,
        Sensor.KERNEL: snapshot.kernel,
        Sensor.DEVICES: snapshot.devices,
        Sensor.PORTS: snapshot.ports,
        Sensor.MOUNTS: snapshot.mounts,
    }
    return looks[sensor]


def _told(track: _Track) -> Finding:
    """Return the finding as it counts: what is only observed leads to no act."""
    if track.rule.enforce or track.latest.action <= Action.WATCH:
        return track.latest
    return replace(track.latest, action=Action.WATCH)


def _root_causes(standing: list[Finding]) -> list[Finding]:
    """Leave out what follows from another: one incident is told once.

    With the driver or every GPU gone, the rest is that incident; of a lost GPU only its loss is told.
    """
    causes = [f for f in standing if _is_cause(f)]
    if causes:
        return causes
    lost = {f.gpu for f in standing if _is_loss(f)}
    explains_count = any(_is_loss(f) and f.rule != driver.GPU_HUNG for f in standing)
    told: set[GpuUuid | None] = set()
    kept = []
    for finding in sorted(
        standing, key=lambda f: _LOSSES.index(f.rule) if f.rule in _LOSSES else len(_LOSSES)
    ):
        if finding.gpu not in lost:
            if not (explains_count and finding.rule in _COUNTS):
                kept.append(finding)
        elif _is_loss(finding) and finding.gpu not in told:
            told.add(finding.gpu)
            kept.append(finding)
    return kept


_LOSSES: Final = (dropout.LOST, kernel.LOST, kernel.INIT, driver.GPU_HUNG)
"""Of one GPU the first of these is told."""
_COUNTS: Final = (dropout.COUNT, counts.PCI, counts.DRIVER)
"""Fewer than declared, which a loss that is told explains."""


def _is_loss(finding: Finding) -> bool:
    """Say whether the rest that is found on its GPU follows from it; a first hang explains nothing yet."""
    is_sure = finding.rule != driver.GPU_HUNG or finding.action > Action.WATCH
    return finding.rule in _LOSSES and finding.gpu is not None and is_sure


def _is_cause(finding: Finding) -> bool:
    if finding.rule in (driver.HUNG, driver.MISSING):
        return finding.action > Action.WATCH
    return dropout.is_of_all_gpus(finding)
