"""Entry point of ``agentctl demo``: plays, keeps or stops a demo, and always cleans up behind itself."""

import argparse
import asyncio
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from gpuherd.settings import Secret
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gcs import Gcs
from gpuherd_sim.demo import stage as staging
from gpuherd_sim.demo.narrator import Narrator
from gpuherd_sim.demo.processes import Crew, end_marked
from gpuherd_sim.demo.run import DemoFailed, Play
from gpuherd_sim.demo.stage import GPUS_EACH, NODES, STAY, Stage
from gpuherd_sim.demo.story import Cast, Scene, Story

_INTERRUPTED = 130
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 only when every step was seen and nothing stayed behind that should not."""
    parser = argparse.ArgumentParser(prog="agentctl demo", description=__doc__)
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the steps, tasks and timings to FILE"
    )
    parser.add_argument(
        "--record", type=Path, metavar="FILE", help="write each decision and its inputs to FILE, for replay"
    )
    parser.add_argument("--keep", action="store_true", help="leave everything running, say how to look at it")
    parser.add_argument("--stop", type=Path, metavar="DIR", help="stop a demo that was kept")
    given = parser.parse_args(arguments)
    if given.stop is not None:
        return stop(given.stop)
    return play(report=given.json, record=given.record, keep=given.keep)


def play(*, report: Path | None, record: Path | None, keep: bool) -> int:
    """Play once; what was started is gone afterwards, unless it is to be kept."""
    clock = SystemClock()
    narrator = Narrator(started_at_s=clock.now())
    code = _INTERRUPTED
    with _ends_cleanly():
        stage = staging.set_up()
        crew = Crew(folder=stage.folder)
        story = Story(scene=Scene(cast=Cast(nodes=NODES, gpus_each=GPUS_EACH, stay=STAY)))
        try:
            code = asyncio.run(_play(stage, crew, story, narrator, report))
        except KeyboardInterrupt:
            narrator.say(clock.now(), "interrupted")
            keep = False
        finally:
            if record is not None and stage.decisions.is_file():
                shutil.copyfile(stage.decisions, record)
            # A second Ctrl-C must not leave half of it behind; ending takes some seconds at most.
            for number in _ENDING:
                signal.signal(number, signal.SIG_IGN)
            if keep and code != _INTERRUPTED:
                print(how_to_look(stage))
            elif not _remove(stage.folder, crew):
                print(f"some processes would not end; see {stage.folder}", file=sys.stderr)
                code = code or 1
        narrator.say(clock.now(), "every step was seen" if code == 0 else "NOT every step was seen")
    return code


async def _play(stage: Stage, crew: Crew, story: Story, narrator: Narrator, report: Path | None) -> int:
    clock = SystemClock()
    async with Gcs(stage.head, token=Secret(stage.token.read_text().strip())) as gcs:
        run = Play(stage=stage, crew=crew, story=story, narrator=narrator, clock=clock, gcs=gcs)
        try:
            await run.run()
        except DemoFailed as error:
            narrator.say(clock.now(), "FAILED", str(error))
            for name in ("autoscaler", *NODES):
                print(f"--- {name}\n{crew.log_tail(name)}", file=sys.stderr)
        finally:
            if report is not None:
                narrator.write(report, story, run.last.work)
    return 1 if story.open_steps else 0


def stop(folder: Path) -> int:
    """End a demo that was kept, and remove its folder."""
    if not staging.is_stage(folder):
        print(f"{folder} is no folder of a demo", file=sys.stderr)
        return 2
    if not _remove(folder, None):
        print(f"some processes would not end; see {folder}", file=sys.stderr)
        return 1
    print(f"stopped; {folder} is removed")
    return 0


def _remove(folder: Path, crew: Crew | None) -> bool:
    """End everything and remove the folder, which stays while some of its processes do."""
    is_clean = crew.dismiss() if crew else end_marked(folder)
    if is_clean:
        staging.clear(folder)
    return is_clean


@contextmanager
def _ends_cleanly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: by an exception, so that all is cleaned up.

    SIGINT gets Python's own handler back, as a shell starts background jobs with it ignored.
    """

    def interrupt(_number: int, _frame: object) -> None:
        signal.raise_signal(signal.SIGINT)

    before = {number: signal.getsignal(number) for number in _ENDING}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def how_to_look(stage: Stage) -> str:
    """Return what can be opened while a kept demo runs, and how to stop it."""
    lines = ["", "Everything is left running. To look at it:"]
    lines.append(f"  agentctl --socket {stage.socket} status")
    lines.append(f"  agentctl --socket {stage.socket} events -f")
    lines += [f"  http://127.0.0.1:{port}/metrics   ({node})" for node, port in stage.agent_ports.items()]
    lines.append(f"  http://127.0.0.1:{stage.api_port}/metrics   (autoscaler)")
    lines.append(f"  {stage.folder}/logs")
    lines += ["To stop it:", f"  agentctl demo --stop {stage.folder}"]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
