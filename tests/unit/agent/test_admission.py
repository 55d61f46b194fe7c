"""May this node join? Every refusal names what to mend."""

from dataclasses import replace

import pytest
from tests.kit.node import HEALTHY, sick

from gpuherd.health import Verdict
from gpuherd.ray import HeadVersions
from gpuherd_agent.admission import JoinFacts, preflight

RAY = HeadVersions(ray="2.60.0", python="3.11.7")
GOOD = JoinFacts(head="h:1", local=RAY, remote=RAY, declared=8, counted=8, healthy=8, verdict=HEALTHY)


def test_a_fit_node_may_join() -> None:
    assert preflight(GOOD).passed


@pytest.mark.parametrize(
    ("change", "code", "words"),
    [
        pytest.param({"local": None, "missing": "no ray at /x"}, "ray_missing", "no ray at /x", id="no ray"),
        pytest.param(
            {"remote": None, "unreachable": "refused"}, "head_unreachable", "h:1: refused", id="no head"
        ),
        pytest.param({"remote": replace(RAY, ray="2.54.0")}, "ray_version", "2.54.0", id="other Ray"),
        pytest.param(
            {"remote": replace(RAY, python="3.11.8")}, "python_version", "3.11.8", id="other Python"
        ),
        pytest.param({"counted": 7}, "gpu_count", "8 GPUs declared, 7 counted", id="fewer GPUs"),
        pytest.param({"counted": 9}, "gpu_count", "8 GPUs declared, 9 counted", id="more GPUs"),
        pytest.param({"counted": None}, "gpu_count", "none could be counted", id="not counted yet"),
        pytest.param({"verdict": sick()}, "health", "GPU is lost", id="sick"),
        pytest.param({"verdict": Verdict()}, "health", "not known", id="unknown is not ok"),
    ],
)
def test_what_stands_in_the_way_is_named(change: dict[str, object], code: str, words: str) -> None:
    report = preflight(replace(GOOD, **change))  # type: ignore[arg-type]  # names are checked by replace
    assert [c.code for c in report.refusals] == [code]
    assert words in report.reason


def test_every_refusal_is_told_at_once() -> None:
    report = preflight(replace(GOOD, local=None, remote=None, counted=3, verdict=sick()))
    assert [c.code for c in report.refusals] == ["ray_missing", "head_unreachable", "gpu_count", "health"]


def test_a_host_without_gpus_needs_no_count() -> None:
    assert preflight(replace(GOOD, declared=0, counted=None)).passed
