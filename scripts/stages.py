"""Run the tests stage by stage and print how long each took, beside its share of the time.

Exit status: 0 all passed; 1 something failed; 3 all that ran passed, but some tests were skipped
(``ALLOW_SKIPS=1`` makes that 0).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_INCOMPLETE: Final = 3
_NO_TESTS: Final = 5
"""pytest's exit status when nothing was collected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Some folders under tests/, and what of them."""

    name: str
    folders: tuple[str, ...]
    share_min: float
    """What the stage may take on 2 cores."""
    markers: str = ""


STAGES: Final = (
    Stage(name="pure: units, properties", folders=("unit", "property"), share_min=1.5),
    Stage(name="documents, units, alerts", folders=("docs", "golden"), share_min=1.0),
    Stage(name="gossip in virtual time", folders=("gossip",), share_min=3.0),
    Stage(name="main thread in virtual time", folders=("sim",), share_min=4.0),
    Stage(name="brokers, HTTP, probe", folders=("integration",), share_min=4.0, markers="not ray"),
    Stage(name="main thread on real Ray", folders=("integration",), share_min=10.0, markers="ray"),
    Stage(name="system", folders=("system",), share_min=2.0),
)
"""In the order of cost: the cheap ones fail first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one stage."""

    stage: Stage
    took_s: float
    tests: int = 0
    failed: int = 0
    skipped: int = 0
    status: int = 0


def main() -> int:
    """Run all stages, whatever fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="only the tests marked `long`")
    given = parser.parse_args()
    unlisted = unlisted_folders()
    if unlisted:
        print(f"no stage runs {', '.join(unlisted)}", file=sys.stderr)
        return 1
    results = [run(stage, is_long=given.long) for stage in STAGES]
    print(table(results))
    if any(result.status for result in results) or not any(result.tests for result in results):
        return 1
    skipped = sum(result.skipped for result in results)
    if skipped:
        print(f"INCOMPLETE: {skipped} tests were skipped; -rs shows why, ALLOW_SKIPS=1 accepts it")
        return 0 if os.environ.get("ALLOW_SKIPS") == "1" else _INCOMPLETE
    return 0


def unlisted_folders() -> list[str]:
    """Return folders with tests that no stage names: they would never run."""
    listed = {folder for stage in STAGES for folder in stage.folders}
    having = {file.relative_to(ROOT / "tests").parts[0] for file in (ROOT / "tests").rglob("test_*.py")}
    return sorted(having - listed)


def run(stage: Stage, *, is_long: bool) -> Result:
    """Run one stage in a pytest of its own."""
    print(f"\n== {stage.name}", flush=True)
    folders = [f"tests/{folder}" for folder in stage.folders if (ROOT / "tests" / folder).is_dir()]
    markers = " and ".join(
        part for part in ("not gpu", "long" if is_long else "not long", stage.markers) if part
    )
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.xml"
        status = 0
        if folders:
            command = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", markers, f"--junit-xml={report}"]
            status = subprocess.run(
                [*command, *folders], cwd=ROOT, stdin=subprocess.DEVNULL, check=False
            ).returncode
        took_s = time.monotonic() - began
        if not report.exists():
            return Result(stage=stage, took_s=took_s, status=status)
        suite = ET.parse(report).getroot().find("testsuite")
    count = {} if suite is None else suite.attrib
    # pytest files expected failures under "skipped" too.
    skips = [] if suite is None else [s for s in suite.iter("skipped") if s.get("type") != "pytest.xfail"]
    return Result(
        stage=stage,
        took_s=took_s,
        tests=int(count.get("tests", 0)),
        failed=int(count.get("failures", 0)) + int(count.get("errors", 0)),
        skipped=len(skips),
        status=0 if status == _NO_TESTS else status,
    )


def table(results: list[Result]) -> str:
    """Return one line a stage: what it took, and its share."""
    lines = ["", f"{'stage':<30} {'tests':>6} {'failed':>7} {'skipped':>8} {'took':>8} {'share':>8}"]
    for result in results:
        stage = result.stage
        late = "  above its share" if result.took_s > 60 * stage.share_min else ""
        broken = "  FAILED" if result.status else ""
        lines.append(
            f"{stage.name:<30} {result.tests:>6} {result.failed:>7} {result.skipped:>8}"
            f" {result.took_s:>6.1f} s {60 * stage.share_min:>6.0f} s{late}{broken}"
        )
    took_s = sum(result.took_s for result in results)
    lines.append(f"{'in all':<30} {sum(r.tests for r in results):>6} {'':>16} {took_s:>6.1f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
