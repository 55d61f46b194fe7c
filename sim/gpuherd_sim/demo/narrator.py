"""Tells the story: a line a step as it happens, and the same as JSON at the end."""

import json
from dataclasses import dataclass
from pathlib import Path

from gpuherd_sim.demo.observation import Work
from gpuherd_sim.demo.story import Seen, Story


@dataclass(frozen=True, slots=True, kw_only=True)
class Narrator:
    """Prints with the time since ``started_at_s`` (monotonic seconds)."""

    started_at_s: float

    def say(self, at_s: float, text: str, reason: str = "") -> None:
        """Print one line."""
        print(f"{at_s - self.started_at_s:7.1f} s  {text}{f': {reason}' if reason else ''}", flush=True)

    def tell(self, seen: Seen) -> None:
        """Print a step that was seen in Ray."""
        self.say(seen.at_s, f"[{seen.step}]", seen.reason)

    def report(self, story: Story, work: Work) -> dict[str, object]:
        """Return what ``--json`` writes."""
        fault_s = story.fault_to_no_new_work_s
        return {
            "steps": [
                {"name": s.step, "at_s": round(s.at_s - self.started_at_s, 3), "reason": s.reason}
                for s in story.told
            ],
            "tasks": {"submitted": work.submitted, "finished": work.finished, "failed": work.failed},
            "joined": list(story.scene.joined.values()),
            "left": list(story.scene.left.values()),
            "fault_to_no_new_work_s": None if fault_s is None else round(fault_s, 3),
        }

    def write(self, path: Path, story: Story, work: Work) -> None:
        """Write the report; a step that is missing there was not seen."""
        path.write_text(json.dumps(self.report(story, work), indent=2) + "\n", encoding="utf-8")
