"""``agentctl status``: the fleet on one screen."""

import argparse
from collections.abc import Iterator

from gpuherd.phases import Lifecycle
from gpuherd.rest import Demand, Fleet, Node, Nodes
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.wishing import wish_lines

_QUIET = (Lifecycle.SERVING, Lifecycle.STANDBY)
_MAX_LISTED = 12


def _declare(_parser: argparse.ArgumentParser) -> None:
    pass


def _run(_given: argparse.Namespace, session: Session) -> ExitCode:
    fleet = session.scaler.get("/fleet", Fleet)
    session.paper.json(fleet)
    if not session.paper.as_json:
        for line in fleet_lines(fleet):
            session.paper.line(line)
        for line in attention_lines(session.scaler.get("/nodes", Nodes).nodes):
            session.paper.line(line)
    return ExitCode.DONE


def fleet_lines(fleet: Fleet) -> Iterator[str]:
    """Yield the lines that say how the fleet is."""
    counts = ", ".join(f"{n} {word}" for word, n in sorted(fleet.by_lifecycle.items()) if n) or "none"
    yield f"cluster   {fleet.cluster}   {fleet.mode}   term {fleet.term}   {fleet.version}"
    yield f"nodes     {fleet.nodes}: {counts}"
    yield (
        f"gpus      {fleet.gpus_serving} serving of {fleet.gpus_declared} declared "
        f"({fleet.gpus_counted} counted, {fleet.gpus_healthy} healthy)"
    )
    yield f"queue     {_queue(fleet.demand)}"
    yield f"ray head  {_reach(fleet.head_reachable)}   {fleet.head_session}".rstrip()
    yield f"broker    {'connected' if fleet.broker_connected else 'NOT CONNECTED'}"
    if fleet.frozen:
        yield f"FROZEN    {fleet.frozen}"
    yield from wish_lines(fleet.wishes)
    if fleet.decision:
        yield f"decision  {fleet.decision}"


def _queue(demand: tuple[Demand, ...]) -> str:
    shapes = (
        f"{d.count} x {{{', '.join(f'{name}: {amount:g}' for name, amount in sorted(d.resources.items()))}}}"
        for d in demand
    )
    return ", ".join(shapes) or "empty"


def _reach(reachable: bool | None) -> str:
    return {True: "reachable", False: "NOT REACHABLE", None: "not asked yet"}[reachable]


def attention_lines(nodes: tuple[Node, ...]) -> Iterator[str]:
    """Yield a line for each node that neither serves nor stands by, at most a screen of them."""
    odd = [n for n in nodes if n.lifecycle not in _QUIET or n.wants_drain]
    if odd:
        yield ""
    for node in odd[:_MAX_LISTED]:
        yield f"{node.name}  {node.lifecycle.value}  {node.wants_drain or node.reason}"
    if len(odd) > _MAX_LISTED:
        yield f"and {len(odd) - _MAX_LISTED} more: agentctl nodes -R"


VERB = Verb(name="status", summary="Show the fleet on one screen.", declare=_declare, run=_run)
