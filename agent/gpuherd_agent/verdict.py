"""Findings over time: what is raised, what stands, what has cleared. Pure; time is the snapshot's.

A look that says nothing about a finding that stands (no reading, GPU not there, an old failure told again)
neither confirms nor clears it.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gpuherd.health import Action, Finding, Severity, Verdict, fold
from gpuherd.names import GpuUuid
from gpuherd_agent.readings import ProbeOutcome, ProbeReading, Snapshot
from gpuherd_agent.rules import driver, dropout
from gpuherd_agent.rules.catalog import RULES
from gpuherd_agent.rules.rule import Rule

_NEVER = float("inf")


@dataclass(slots=True)
class _Track:
    """One trouble of one rule, over the looks."""

    rule: Rule
    latest: Finding
    stands: bool = False
    looks: deque[bool] = field(init=False)
    clean: int = 0
    clean_since: float = _NEVER

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
        held_s = at - self.clean_since
        if self.clean >= self.rule.clear_k and held_s >= self.rule.clear_hold_s:
            self.stands = False
            self.looks.clear()
            self.looks.append(False)


class Judge:
    """Feed snapshots in; the verdict comes out. ``latched`` are findings that stood before a restart."""

    def __init__(self, rules: Sequence[Rule] = RULES, latched: tuple[Finding, ...] = ()) -> None:
        self._rules = tuple(rules)
        self._tracks: dict[tuple[str, GpuUuid | None], _Track] = {}
        by_name = {rule.name: rule for rule in self._rules}
        for finding in latched:
            rule = by_name.get(finding.rule)
            if rule is not None and rule.latched:
                self._tracks[finding.key] = _Track(rule=rule, latest=finding, stands=True)
                self._tracks[finding.key].looks.append(True)

    @property
    def pending(self) -> bool:
        """Say whether an enforced finding waits for its confirmation: the next look may come sooner."""
        return any(t.is_pending and t.rule.enforce and t.rule.raise_n > 1 for t in self._tracks.values())

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
        if snapshot.probe is not None and not snapshot.probe.is_repeat:
            for rule in self._rules:
                self._apply(rule, snapshot, snapshot.probe)
        standing = _root_causes([_told(t) for t in self._tracks.values() if t.stands])
        was_read = snapshot.probe is not None and snapshot.probe.outcome is ProbeOutcome.OK
        has_none = snapshot.declared == 0 and snapshot.probe is not None
        if not standing and not (was_read or has_none):
            return Verdict(severity=Severity.UNKNOWN)
        return fold(standing)

    def _apply(self, rule: Rule, snapshot: Snapshot, probe: ProbeReading) -> None:
        found = {f.key: f for f in rule.judge(snapshot, rule.limits)}
        for key, finding in found.items():
            track = self._tracks.get(key)
            if track is None:
                track = self._tracks[key] = _Track(rule=rule, latest=finding)
            track.saw(finding)
        if probe.outcome not in rule.cleared_by:
            return
        read = {g.gpu for g in probe.gpus if rule.is_read(g)}
        for key, track in list(self._tracks.items()):
            if track.rule is not rule or key in found:
                continue
            # What is only pending lapses also when its GPU cannot be read: it would else wait for ever.
            if key[1] is None or key[1] in read or not track.stands:
                track.saw_nothing(snapshot.at)
            if track.is_over:
                del self._tracks[key]


def _told(track: _Track) -> Finding:
    """Return the finding as it counts: what is only observed leads to no act."""
    if track.rule.enforce or track.latest.action <= Action.WATCH:
        return track.latest
    return replace(track.latest, action=Action.WATCH)


def _root_causes(standing: list[Finding]) -> list[Finding]:
    """Leave out what follows from another: with the driver or every GPU gone, the rest is that incident."""
    return [f for f in standing if _is_cause(f)] or standing


def _is_cause(finding: Finding) -> bool:
    if finding.rule in (driver.HUNG, driver.MISSING):
        return finding.action > Action.WATCH
    return dropout.is_of_all_gpus(finding)
