"""The autoscaler's page: every family is in the catalogue, and promtool has no complaint."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.fleets import gpus
from tests.kit.rest_bodies import fleet

from gpuherd.names import NodeName, PoolName
from gpuherd_autoscaler.exporter import ScalerFacts, render, samples
from gpuherd_autoscaler.metrics_catalog import METRICS
from gpuherd_autoscaler.plan import Plan, PoolFigures
from gpuherd_autoscaler.snapshot import Freshness, GossipSight, Sourced

POOL = PoolFigures(
    pool=PoolName("a"), listed=4, serving=2, booting=1, leaving=0, barred=1, min=1, max=4, wanted=3
)
FACTS = ScalerFacts(
    fleet=fleet(version="0.1.0", decided_at=9.0),
    plan=Plan(demand_known=True, infeasible=(gpus(16.0, 3),), pools=(POOL,)),
    decision_s=0.002,
    decisions=7,
    ledger_writable=True,
    orders=3,
    refusals={"max": 4, "budget": 1},
    dropped={"syntax": 2},
    triggers={"office": Sourced(value=4, freshness=Freshness.FRESH), "queue": Sourced(value=2)},
    gossip=GossipSight(
        expected=3, sight=2, verdicts={NodeName("gpu-1"): "alive", NodeName("gpu-2"): "failed"}
    ),
)
GOLDEN = Path(__file__).parents[2] / "golden" / "scaler_metrics.prom"


def test_the_page_of_a_fleet_is_the_golden_one() -> None:
    assert render(FACTS).decode() == GOLDEN.read_text()


def test_every_series_is_in_the_catalogue_and_every_family_has_one() -> None:
    assert {sample.name for sample in samples(FACTS)} == {metric.name for metric in METRICS}


def test_what_is_not_known_is_left_out() -> None:
    text = render(replace(FACTS, decision_s=None)).decode()
    assert "decision_seconds" not in text
    assert "gpuherd_scaler_decisions_total 7" in text


@pytest.mark.prometheus
@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool")
def test_promtool_has_no_complaint() -> None:
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=render(FACTS), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"")
