"""Mounts that must answer: gone, silent, or with an error. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Action, Finding, Repair, Severity
from gpuherd_agent.readings import Snapshot
from gpuherd_agent.surroundings import MountReading, MountState

NAME: Final = "mount_unusable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Keys under ``[rules.mounts]``: there are none, a mount answers or it does not."""


def judge(snapshot: Snapshot, limits: Limits) -> Iterator[Finding]:
    """Yield one finding while mounts do not answer: jobs that touch them hang or fail."""
    del limits
    bad = [m for m in snapshot.mounts.mounts if m.state is not MountState.OK] if snapshot.mounts else []
    if bad:
        yield Finding(
            rule=NAME,
            severity=Severity.DEGRADED,
            action=Action.CORDON,
            repair=Repair.INSPECT,
            reason="; ".join(_words(mount) for mount in bad),
            evidence={mount.path: mount.state.value for mount in bad},
        )


def _words(mount: MountReading) -> str:
    said = {
        MountState.ABSENT: "is not mounted",
        MountState.SILENT: f"does not answer ({mount.detail})",
        MountState.FAILED: f"answers with an error ({mount.detail})",
    }
    return f"{mount.path} {said.get(mount.state, '')}"
