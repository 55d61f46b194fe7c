"""A report as lines for people. Formats only."""

from collections.abc import Iterator, Mapping
from typing import Any


def report_table(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the report of a trace, line by line."""
    hours = told["gpu_hours"]
    cut = ", cut short by the time limit" if told["was_cut"] else ""
    yield f"policy {told['policy']}: {told['jobs']} jobs over {told['days']:g} days{cut}"
    yield ""
    yield f"{'waited':<18}{'p50':>10}{'p90':>10}{'p99':>10}{'mean':>10}"
    for name, found in (("all", told["wait_s"]), *told["wait_s_by_size"].items()):
        if found is not None:
            yield f"{name:<18}" + "".join(f"{found[key]:>8.0f} s" for key in ("p50", "p90", "p99", "mean"))
    yield ""
    yield f"GPU-hours: {hours['paid']:g} paid, {hours['used']:g} used, {hours['lost']:g} of work lost"
    yield f"starts: {told['launches']}, of which {told['launches_never_used']} ran nothing"
    yield f"faults: {told['faults_met']}, and {told['attempts_failed']} attempts of jobs died of them"
    if told["unserved"]:
        yield f"never ended: {told['unserved']} jobs"
    yield f"decisions: {told['decisions']}, {told['decisions_per_s']} a second; took {told['took_s']:g} s"


def history_table(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the comparison of a record with other settings, line by line."""
    yield f"{told['decisions']} recorded decisions, decided again in the fleet as it was then"
    yield ""
    yield f"{'':<22}{'recorded':>12}{'these settings':>16}"
    for key, title in (("node_hours_wanted", "node-hours wanted"), ("starts", "starts"), ("stops", "stops")):
        yield f"{title:<22}{told['recorded'][key]:>12g}{told['replayed'][key]:>16g}"
    for difference in told["differences"]:
        yield ""
        yield f"decision {difference['decision']}:"
        for name, (then, now) in difference["nodes"].items():
            yield f"  {name}: {then}  ->  {now}"
