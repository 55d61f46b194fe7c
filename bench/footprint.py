"""Start-up time, memory and CPU of each process, without Ray: ``python -m bench.footprint``.

One shipped autoscaler with its embedded broker, one shipped agent with 8 simulated GPUs, scraped every
15 s. The last line is one JSON object. Memory is RSS; CPU is the share of one core over the window.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import psutil

from gpuherd_sim.demo.processes import Crew
from gpuherd_sim.demo.stage import NODES, Stage, clear, set_up

WINDOW_S: Final = 45.0
SCRAPE_S: Final = 15.0
STARTS: Final = 5
BUDGET: Final = {
    "agent_mib": 72.0,
    "probe_child_mib": 40.0,
    "agent_with_child_core_ratio": 0.02,
    "agent_ready_s": 2.0,
    "agentctl_status_s": 0.150,
}
_MIB: Final = 1024 * 1024
AGENT: Final = NODES[0]


def answers(url: str) -> bool:
    """Say whether the page answers 200 now."""
    try:
        with urllib.request.urlopen(url, timeout=2.0) as reply:  # noqa: S310  loopback
            return bool(reply.status == 200)
    except OSError:
        return False


def seconds_until(is_so: Callable[[], bool], *, most_s: float = 30.0) -> float:
    """Return how long it takes until it is so."""
    began = time.monotonic()
    while not is_so():
        if time.monotonic() - began > most_s:
            raise TimeoutError("it never became ready")
        time.sleep(0.01)
    return time.monotonic() - began


def start_agent(stage: Stage, crew: Crew) -> float:
    """Start the agent and return the time until it is ready."""
    url = f"http://127.0.0.1:{stage.agent_ports[AGENT]}/readyz"
    crew.start(AGENT, ["gpuherd-agent", "--config", str(stage.config(AGENT))], stage.agent_environment(AGENT))
    return seconds_until(lambda: answers(url))


def processes(stage: Stage) -> dict[str, psutil.Process]:
    """Return the processes by name, found by their command lines."""
    found: dict[str, psutil.Process] = {}
    for process in psutil.process_iter(["cmdline", "environ"]):
        words = " ".join(process.info["cmdline"] or ())
        if str(stage.folder) not in str(process.info["environ"] or ""):
            continue
        for name, part in (
            ("agent", "bin/gpuherd-agent"),
            ("probe_child", "sensors.probe_child"),
            ("autoscaler", "bin/gpuherd-autoscaler"),
        ):
            if part in words:
                found[name] = process
    return found


def watch(stage: Stage) -> dict[str, dict[str, float]]:
    """Return memory and CPU of each process over the window, scraping the agent meanwhile."""
    found = processes(stage)
    before = {name: sum(p.cpu_times()[:2]) for name, p in found.items()}
    began = time.monotonic()
    while time.monotonic() - began < WINDOW_S:
        time.sleep(SCRAPE_S)
        answers(f"http://127.0.0.1:{stage.agent_ports[AGENT]}/metrics")
    lasted_s = time.monotonic() - began
    return {
        name: {
            "mib": round(p.memory_info().rss / _MIB, 1),
            "core_ratio": round((sum(p.cpu_times()[:2]) - before[name]) / lasted_s, 4),
        }
        for name, p in found.items()
    }


def status_s(stage: Stage) -> float:
    """Return the median time of ``agentctl status``."""
    took = []
    for _ in range(15):
        began = time.monotonic()
        subprocess.run(
            ["agentctl", "--socket", str(stage.socket), "status"],
            env=stage.environment(),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        took.append(time.monotonic() - began)
    return statistics.median(took)


def helper(stage: Stage) -> dict[str, float]:
    """Return time and memory of one ``gpuherd-gcs`` call; no head answers, so it is a refused connection."""
    command = ["gpuherd-gcs", "--address", stage.head, "--timeout", "3", "alive"]
    took = []
    for _ in range(9):
        began = time.monotonic()
        subprocess.run(command, env=stage.environment(), check=False, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    probe = "import resource, runpy, sys; sys.argv = ['gpuherd-gcs', *sys.argv[1:]]\n"
    probe += "try: runpy.run_module('gpuherd.shell.gcs_command', run_name='__main__')\n"
    probe += "except SystemExit: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    said = subprocess.run(
        [sys.executable, "-c", probe, *command[1:]],
        env=stage.environment(),
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout
    return {
        "helper_s": round(statistics.median(took), 3),
        "helper_mib": round(int(said.split()[-1]) / 1024, 1),
    }


def measure(stage: Stage, crew: Crew) -> dict[str, Any]:
    """Return every figure."""
    command = ["gpuherd-autoscaler", "--config", str(stage.config("autoscaler"))]
    crew.start("autoscaler", command, stage.environment())
    scaler_s = seconds_until(stage.socket.exists)
    starts = [start_agent(stage, crew)]
    for _ in range(STARTS - 1):
        crew.stop(AGENT)
        starts.append(start_agent(stage, crew))
    figures = watch(stage)
    return {
        "agent_ready_s": round(statistics.median(starts), 2),
        "autoscaler_listens_s": round(scaler_s, 2),
        "agentctl_status_s": round(status_s(stage), 3),
        **helper(stage),
        **{f"{name}_{key}": value for name, each in figures.items() for key, value in each.items()},
    }


def main() -> None:
    """Run, print, clean up."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    stage = set_up()
    crew = Crew(stage.folder)
    try:
        figures = measure(stage, crew)
    finally:
        crew.dismiss()
        clear(stage.folder)
    figures["agent_with_child_core_ratio"] = round(
        figures["agent_core_ratio"] + figures["probe_child_core_ratio"], 4
    )
    within = all(figures[key] <= most for key, most in BUDGET.items())
    print(json.dumps({"bench": "footprint", **figures, "budget": BUDGET, "within": within}))
    sys.exit(0)


if __name__ == "__main__":
    main()
