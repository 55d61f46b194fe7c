"""``agentctl nodes``: a line a node, everything about one, or only the reasons (``-R``)."""

import argparse
from collections.abc import Iterator

from gpuherd.names import expand_nodes
from gpuherd.rest import Node, Nodes
from gpuherd_ctl.durations import show_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

HEADS = ("NODE", "POOL", "STATE", "HEALTH", "GPUS", "RAY", "IDLE", "REASON")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "nodes", nargs="*", metavar="NODE", help="name or range such as gpu-[01-08]; none = all"
    )
    parser.add_argument("-R", "--reasons", action="store_true", help="who or what holds each node, and why")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    paper = session.paper
    names = expand_nodes(given.nodes)
    if names:
        nodes = tuple(session.scaler.get(f"/nodes/{name}", Node) for name in names)
    else:
        nodes = session.scaler.get("/nodes", Nodes).nodes
    paper.json(nodes[0] if len(names) == 1 else Nodes(nodes=nodes))
    if given.reasons:
        paper.table(("NODE", "SINCE WHOM", "KIND", "REASON"), [row for n in nodes for row in reason_rows(n)])
    elif len(names) == 1:
        for line in detail_lines(nodes[0]):
            paper.line(line)
    else:
        paper.table(HEADS, [node_row(node) for node in nodes])
    return ExitCode.DONE


def node_row(node: Node) -> tuple[str, ...]:
    """Return the cells of one node under HEADS."""
    counted = "?" if node.gpus_counted is None else str(node.gpus_counted)
    return (
        node.name,
        node.pool,
        node.lifecycle.value,
        node.severity.value,
        f"{node.gpus_healthy}/{counted}/{node.gpus_declared}",
        node.ray_status or "-",
        show_duration(node.idle_s),
        node.wants_drain or node.reason,
    )


def reason_rows(node: Node) -> Iterator[tuple[str, ...]]:
    """Yield a row for each hold and finding, each thing in the way, and a drain that found no slot."""
    for hold in node.holds:
        term = f" (for {show_duration(hold.for_s)}, then {hold.on_deadline.value})" if hold.for_s else ""
        yield node.name, hold.owner, hold.kind.value, f"{hold.reason}{term} [{hold.id}]"
    for finding in node.findings:
        where = f"{finding.gpu}: " if finding.gpu else ""
        yield node.name, finding.rule, finding.action.value, f"{where}{finding.reason}"
    if node.wants_drain:
        yield node.name, "health", "waits", node.wants_drain
    for obstacle in node.obstacles:
        yield node.name, "ray", "obstacle", obstacle
    for blocker in node.blockers:
        yield node.name, "work", "blocks", blocker
    for latecomer in node.latecomers:
        yield node.name, "work", "LATE", f"{latecomer}: came after Ray had taken the drain"


def detail_lines(node: Node) -> Iterator[str]:
    """Yield everything known of one node."""
    online = {True: "online", False: "OFFLINE", None: "never heard of"}[node.agent_online]
    yield f"{node.name}   pool {node.pool}   {node.lifecycle.value}   {node.reason}"
    yield f"agent     {online}, said so {show_duration(node.state_age_s)} ago, phase {node.phase or '-'}"
    counted = "?" if node.gpus_counted is None else node.gpus_counted
    yield f"gpus      {node.gpus_healthy} healthy, {counted} counted, {node.gpus_declared} declared"
    yield f"health    {node.severity.value}"
    yield f"ray       {node.ray_status or 'not a member'}   {node.ray_node_id or ''}".rstrip()
    yield f"wanted    {'yes' if node.serve else 'no'}   idle {show_duration(node.idle_s)}"
    for key, value in sorted(node.versions.items()):
        yield f"version   {key} {value}"
    for _, who, kind, why in reason_rows(node):
        yield f"{kind:9} {who}: {why}"


VERB = Verb(name="nodes", summary="List nodes, or show one.", declare=_declare, run=_run)
