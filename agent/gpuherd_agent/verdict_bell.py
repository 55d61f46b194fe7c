"""Tells the site's ``on-verdict`` hook of each change of the verdict; the newest one waits while it runs."""

import asyncio

from gpuherd.health import Severity, Verdict
from gpuherd_agent.doors import HooksDoor

ON_VERDICT = "on-verdict"


class VerdictBell:
    """``ring`` it after each look; ``run`` calls the hook."""

    def __init__(self, hooks: HooksDoor | None) -> None:
        self._hooks = hooks
        self._last: object = _face(Verdict())
        self._next: Verdict | None = None
        self._rung = asyncio.Event()

    def ring(self, verdict: Verdict) -> None:
        """Take the verdict of a look; only another severity, action or set of findings is news."""
        face = _face(verdict)
        if self._hooks is None or face == self._last or verdict.severity is Severity.UNKNOWN:
            return
        self._last, self._next = face, verdict
        self._rung.set()

    async def run(self) -> None:
        """Call the hook for each piece of news until cancelled."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            verdict, self._next = self._next, None
            if verdict is not None and self._hooks is not None:
                await self._hooks.run(ON_VERDICT, facts(verdict))


def facts(verdict: Verdict) -> dict[str, str]:
    """Return what the hook is told."""
    return {
        "severity": verdict.severity.value,
        "action": verdict.action.value,
        "reason": verdict.reason,
        "findings": ",".join(f"{f.rule}@{f.gpu}" if f.gpu else f.rule for f in verdict.findings[:32]),
    }


def _face(verdict: Verdict) -> object:
    return verdict.severity, verdict.action, tuple(f.key for f in verdict.findings)
