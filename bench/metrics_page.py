"""One scrape of ``/metrics``, whole and over HTTP: ``python -m bench.metrics_page``.

At least as many series as eight GPUs with 60 each have, made anew for every scrape, as after each tick of the
agent. The last line is one JSON object; exit code 1 when p99 is above its budget.
"""

import asyncio
import json
import sys
import time
from dataclasses import replace
from typing import Final

import aiohttp
from tests.kit.node_facts import gpu_reading, sick_node

from gpuherd.shell.http_listen import Tcp, serving
from gpuherd_agent.exporter import NodeFacts
from gpuherd_agent.http_api import new_agent_app
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_sim.demo.stage import free_ports

SCRAPES: Final = 1_000
GPUS: Final = 10
BUDGET_P99_MS: Final = 10.0
SERIES_MIN: Final = 480


def facts(tick: int) -> NodeFacts:
    """Return the facts of one tick: every GPU offers everything."""
    plain = sick_node()
    assert plain.snapshot is not None
    readings = tuple(
        replace(
            gpu_reading(index),
            core_celsius=40.0 + tick % 30,
            reserved_bytes=2**29,
            ecc_uncorrected_aggregate_total=0,
        )
        for index in range(GPUS)
    )
    probe = ProbeReading(outcome=ProbeOutcome.OK, gpus=readings, counted=GPUS, driver="570.86.15")
    known = tuple(reading.gpu for reading in readings)
    snapshot = replace(plain.snapshot, probe=probe, declared=GPUS, known=known)
    return replace(plain, snapshot=snapshot, ticks_total=tick, dcgm_compat=True)


async def scrape() -> tuple[list[float], bytes]:
    """Return how long each scrape took, in ms, and the last page."""
    tick = 0

    def read() -> NodeFacts:
        nonlocal tick
        tick += 1
        return facts(tick)

    (port,) = free_ports(1)
    took_ms, page = [], b""
    place = Tcp(host="127.0.0.1", port=port, key="port")
    async with serving(new_agent_app(read, why_not_live=str), place), aiohttp.ClientSession() as session:
        for _ in range(SCRAPES):
            began = time.perf_counter()
            async with session.get(f"http://127.0.0.1:{port}/metrics") as reply:
                page = await reply.read()
            took_ms.append((time.perf_counter() - began) * 1_000)
    return took_ms, page


def main() -> int:
    """Scrape, print, and compare with the budget."""
    took_ms, page = asyncio.run(scrape())
    took_ms.sort()
    assert page.count(b"GPU-0000-") >= SERIES_MIN
    lines = [line for line in page.decode().splitlines() if line and not line.startswith("#")]
    of_gpus = [line for line in lines if "GPU-0000-" in line]
    figures = {
        "scrapes": SCRAPES,
        "bytes": len(page),
        "series": len(lines),
        "series_of_gpus": len(of_gpus),
        "p50_ms": round(took_ms[SCRAPES // 2], 2),
        "p99_ms": round(took_ms[SCRAPES * 99 // 100], 2),
        "budget_p99_ms": BUDGET_P99_MS,
    }
    print(json.dumps(figures))
    return 0 if figures["p99_ms"] <= BUDGET_P99_MS else 1


if __name__ == "__main__":
    sys.exit(main())
