"""The site's hooks: programs by name in one folder, told of a step by their environment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gpuherd.shell import logs
from gpuherd_agent import programs
from gpuherd_agent.doors import HookEnded
from gpuherd_agent.site_settings import HookSettings

PRE_JOIN: Final = "pre-join"
PRE_DRAIN: Final = "pre-drain"
POST_LEAVE: Final = "post-leave"
ON_VERDICT: Final = "on-verdict"
_FACT_MAX: Final = 4_000

log = logs.get("gpuherd.agent")


class SiteHooks:
    """``gpuherd_agent.doors.HooksDoor`` over a folder."""

    def __init__(self, settings: HookSettings, environment: Mapping[str, str]) -> None:
        self._folder = Path(settings.folder)
        self._environment = environment
        self._deadline_s = {
            PRE_JOIN: settings.pre_join_s,
            PRE_DRAIN: settings.pre_drain_s,
            POST_LEAVE: settings.post_leave_s,
            ON_VERDICT: settings.on_verdict_s,
        }

    async def run(self, name: str, facts: Mapping[str, str]) -> HookEnded | None:
        """Run one hook and return how it ended, None when there is none; one that may not be run is a no.

        Each fact is a variable ``GPUHERD_NAME``, all of them together are JSON in ``GPUHERD_FACTS``.
        """
        path = self._folder / name
        if not path.exists():
            return None
        if why := programs.why_not(path):
            log.warning("hook.refused", hook=name, why=why)
            return HookEnded(code=None, output=why)
        told = {key: value[:_FACT_MAX] for key, value in facts.items()}
        environment = {
            **self._environment,
            **{f"GPUHERD_{key.upper()}": value for key, value in told.items()},
            "GPUHERD_HOOK": name,
            "GPUHERD_FACTS": json.dumps(told),
        }
        ended = await programs.run(path, deadline_s=self._deadline_s[name], environment=environment)
        tell = log.info if ended.code == 0 else log.warning
        tell(
            "hook.ended",
            hook=name,
            code=ended.code,
            took_s=round(ended.took_s, 3),
            late=ended.is_late,
            output=ended.output[:500],
        )
        return HookEnded(code=ended.code, output=ended.output, is_late=ended.is_late)
