"""How soon all nodes know that one is gone, beside serf and kinship: ``python -m bench.gossip``.

Needs root: every host is a network namespace on a bridge. All programs run one after another in one call on
one machine. By default 30 hosts and 10 faults a program: 5 x kill -9 of the process, 5 x a host that falls
silent. ``--full`` adds 10 and 60 hosts, SIGSTOP for 15 s, blips of 2 to 7 s and CPU starvation. Up to 10
hosts our row is measured with whole ``gpuherd-agent`` processes, above with gossip alone. The last line is
one JSON object.
"""

import argparse
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from bench.gossip_peers import Peer, PeerMissing, WholeAgents, find
from bench.gossip_rig import Rig
from bench.network import Network

HOSTS: Final = 30
WHOLE_UP_TO: Final = 10
"""So many whole agents fit on a small machine beside each other."""
FAULTS: Final = 10
IDLE_S: Final = 15.0
GATE: Final = 0.5
"""Our all-know p50 is at most this share of serf's in the same run."""
BUDGET: Final = {"kill_all_p50_s": 2.0, "silent_all_p50_s": 3.0, "packets_s": 2.4, "bytes_s": 400.0}
STOP_S: Final = 15.0
BLIPS_S: Final = (2.0, 3.0, 5.0, 7.0)
STARVE_S: Final = 20.0
_GONE: Final = ("gone",)
_SETTLE_S: Final = 2.0


@dataclass(slots=True)
class Times:
    """Seconds from the fault to the first host that knew, and to the last."""

    first: list[float] = field(default_factory=list)
    last: list[float] = field(default_factory=list)
    unknown: int = 0
    """Faults that not all knew within a minute."""

    def figures(self) -> dict[str, float | int | None]:
        """Return p50 and p99; with so few faults p99 is the worst."""
        return {
            "faults": len(self.first) + self.unknown,
            "first_p50_s": _p(self.first, 0.5),
            "first_p99_s": _p(self.first, 0.99),
            "all_p50_s": _p(self.last, 0.5),
            "all_p99_s": _p(self.last, 0.99),
            "not_known_by_all": self.unknown,
        }


def _p(values: Sequence[float], share: float) -> float | None:
    if not values:
        return None
    if share == 0.5:
        return round(statistics.median(values), 3)
    return round(sorted(values)[min(len(values) - 1, int(share * len(values)))], 3)


def wait_known(rig: Rig, victim: int, began: float, times: Times) -> None:
    """Wait until all others know that the victim is gone, and note when."""
    wanted = rig.size - 1
    if not rig.until(lambda: len(rig.known(began, victim, _GONE)) >= wanted):
        times.unknown += 1
        return
    known = rig.known(began, victim, _GONE).values()
    times.first.append(min(known) - began)
    times.last.append(max(known) - began)


def kill_one(rig: Rig, victim: int, times: Times) -> None:
    """Kill -9 the process, wait, start it anew and wait until it is known again."""
    began = time.monotonic()
    rig.kill(victim)
    wait_known(rig, victim, began, times)
    back = time.monotonic()
    rig.start(victim)
    rig.until_known((victim,), back)
    time.sleep(_SETTLE_S)


def silence_one(rig: Rig, network: Network, victim: int, times: Times) -> None:
    """Unplug the host, wait, plug it in and wait until all have it back."""
    began = time.monotonic()
    network.cut(victim)
    wait_known(rig, victim, began, times)
    back = time.monotonic()
    network.mend(victim)
    rig.until_known((victim,), back)
    time.sleep(_SETTLE_S)


def false_deaths(rig: Rig, since: float, victims: set[int]) -> int:
    """Return how many living hosts anybody held for gone by a living host."""
    return len({s.about for s in rig.said(since, _GONE) if s.about not in victims and s.host not in victims})


def detection(rig: Rig, network: Network, faults: int) -> dict[str, object]:
    """Return idle cost and the times of both kinds of fault."""
    began, kill, silent = time.monotonic(), Times(), Times()
    time.sleep(2 * _SETTLE_S)
    idle = rig.idle(IDLE_S)
    victims = list(_victims(rig.size, faults))
    false = 0
    for number, victim in enumerate(victims):
        at = time.monotonic()
        if number % 2 == 0:
            kill_one(rig, victim, kill)
        else:
            silence_one(rig, network, victim, silent)
        false += false_deaths(rig, at, {victim})
        print(f"  fault {number + 1} of n{victim}: known by all", flush=True)
    del began
    return {
        "idle": asdict(idle),
        "kill_9": kill.figures(),
        "silent_host": silent.figures(),
        "false_deaths": false,
    }


def _victims(size: int, faults: int) -> Iterator[int]:
    """Yield hosts other than the two seeds, spread over the fleet."""
    for number in range(faults):
        yield 2 + (number * 7) % (size - 2)


def disturbances(rig: Rig, network: Network) -> dict[str, object]:
    """Return what a stop, blips and starvation make of living hosts."""
    victim, other = 3, 4
    result: dict[str, object] = {}
    began = time.monotonic()
    rig.signal(victim, signal.SIGSTOP)
    time.sleep(STOP_S)
    rig.signal(victim, signal.SIGCONT)
    result["sigstop_15_s"] = {
        "stalled_first_s": _first(rig, began, victim, "stalled"),
        "failed_views": len(rig.known(began, victim, ("failed",))),
        "gone_views": len(rig.known(began, victim, _GONE)),
    }
    time.sleep(10)
    blips = {}
    for seconds in BLIPS_S:
        began = time.monotonic()
        network.cut(other)
        time.sleep(seconds)
        network.mend(other)
        time.sleep(12)
        blips[f"{seconds:g}_s"] = {
            "failed_views": len(rig.known(began, other, ("failed",))),
            "gone_views": len(rig.known(began, other, _GONE)),
            "back_views": len(rig.known(began + seconds, other, ("back",))),
        }
    result["blips"] = blips
    result["cpu_starved"] = starve(rig)
    return result


def _first(rig: Rig, since: float, about: int, word: str) -> float | None:
    known = rig.known(since, about, (word,))
    return round(min(known.values()) - since, 3) if known else None


def _burn(until: float) -> None:
    while time.monotonic() < until:
        pass


def starve(rig: Rig) -> dict[str, int]:
    """Take the CPUs with four busy processes a core for a while; nobody has died."""
    began = time.monotonic()
    busy = [
        multiprocessing.get_context("fork").Process(target=_burn, args=(began + STARVE_S,))
        for _ in range(4 * (os.cpu_count() or 1))
    ]
    for one in busy:
        one.start()
    for one in busy:
        one.join()
    time.sleep(5)
    return {
        "gone": len({s.about for s in rig.said(began, _GONE)}),
        "failed": len({s.about for s in rig.said(began, ("failed",))}),
        "stalled": len({s.about for s in rig.said(began, ("stalled",))}),
    }


def measure(peer: Peer, folder: Path, hosts: int, faults: int, *, disturbed: bool) -> dict[str, object]:
    """Return all figures of one program with so many hosts."""
    if peer.name == "gpuherd" and hosts <= WHOLE_UP_TO:
        peer = WholeAgents()
    own = folder / f"{peer.name}-{hosts}"
    own.mkdir()
    print(f"{peer.name}, {hosts} hosts", flush=True)
    with Network(hosts, peer.subnet) as network, Rig(peer, network, own, hosts) as rig:
        result = {"program": peer.name, "hosts": hosts, **detection(rig, network, faults)}
        if disturbed:
            result["disturbed"] = disturbances(rig, network)
    print(f"  {json.dumps(result)}", flush=True)
    return result


def judge(rows: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """Return whether gate and budgets hold, by the rows of HOSTS hosts."""
    at = {name: row for name, found in rows.items() for row in found if row["hosts"] == HOSTS}
    ours = at["gpuherd"]
    verdicts: dict[str, object] = {}
    kill, silent, idle = ours["kill_9"], ours["silent_host"], ours["idle"]
    assert isinstance(kill, dict)
    assert isinstance(silent, dict)
    assert isinstance(idle, dict)
    for key, got in (
        ("kill_all_p50_s", kill["all_p50_s"]), ("silent_all_p50_s", silent["all_p50_s"]),
        ("packets_s", idle["packets_s"]), ("bytes_s", idle["bytes_s"]),
    ):  # fmt: skip
        verdicts[key] = {"got": got, "budget": BUDGET[key], "holds": got is not None and got <= BUDGET[key]}
    if "serf" in at:
        for kind in ("kill_9", "silent_host"):
            theirs, mine = at["serf"][kind], ours[kind]
            assert isinstance(theirs, dict)
            assert isinstance(mine, dict)
            share = round(mine["all_p50_s"] / theirs["all_p50_s"], 3)
            verdicts[f"{kind}_share_of_serf"] = {"got": share, "budget": GATE, "holds": share <= GATE}
    verdicts["false_deaths"] = {"got": ours["false_deaths"], "budget": 0, "holds": ours["false_deaths"] == 0}
    return verdicts


def main() -> None:
    """Run, print, clean up; exit 1 when a budget or the gate does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", default="serf,kinship", help="of serf and kinship, with a comma")
    parser.add_argument("--faults", type=int, default=FAULTS)
    parser.add_argument("--hosts", type=int, default=HOSTS)
    parser.add_argument("--full", action="store_true", help="also 10 and 60 hosts, and disturbances")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench.gossip makes network namespaces: run it as root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that everything is cleaned up
    rows: dict[str, list[dict[str, object]]] = {}
    missing: dict[str, str] = {}
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="gossip-bench-") as name:
        folder = Path(name)
        for peer_name in ("gpuherd", *filter(None, given.peers.split(","))):
            try:
                peer = find(peer_name, folder)
            except PeerMissing as why:
                missing[peer_name] = str(why)
                continue
            sizes = (given.hosts, 10, 60) if given.full else (given.hosts,)
            rows[peer_name] = [
                measure(peer, folder, hosts, given.faults, disturbed=given.full and hosts == given.hosts)
                for hosts in sizes
            ]
    verdicts = judge(rows) if given.hosts == HOSTS else {}
    print(json.dumps({"rows": rows, "missing": missing, "load_before": round(load, 1), "verdicts": verdicts}))
    if not all(isinstance(v, dict) and v["holds"] for v in verdicts.values()):
        sys.exit(1)


if __name__ == "__main__":
    main()
