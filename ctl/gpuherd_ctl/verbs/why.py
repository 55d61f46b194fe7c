"""``agentctl why NODE|DECISION``: why a node is as it is, or what a decision said of every node."""

import argparse
from collections.abc import Iterator

from gpuherd.rest import Node
from gpuherd.rest_plan import History, Plan
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.follow import clock_text
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.verbs.nodes import reason_rows
from gpuherd_ctl.verbs.plan import plan_lines

_EVENTS_SHOWN = 5


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="NODE|DECISION", help="a node's name, or a number of `decisions`")


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    if given.what.isdecimal():
        plan = session.scaler.get(f"/decisions/{given.what}", Plan)
        session.paper.json(plan)
        for line in plan_lines(plan, every=True):
            session.paper.line(line)
        return ExitCode.DONE
    node = session.scaler.get(f"/nodes/{given.what}", Node)
    plan = session.scaler.get("/plan", Plan)
    past = session.scaler.get(f"/nodes/{given.what}/history?limit={_EVENTS_SHOWN}", History)
    session.paper.json({"node": node, "plan": _of(plan, node), "history": past})
    for line in why_lines(node, plan, past):
        session.paper.line(line)
    return ExitCode.DONE


def why_lines(node: Node, plan: Plan, past: History) -> Iterator[str]:
    """Yield the reasons: its own state, what holds it, what the plan says, what came before."""
    yield f"{node.name} is {node.lifecycle.value}: {node.reason}"
    for _, who, kind, why in reason_rows(node):
        yield f"{kind:9} {who}: {why}"
    act, why = _of(plan, node)
    number = f"decision {plan.decision}" if plan.decision else "the plan"
    yield f"{act:9} {number}: {why}"
    if plan.frozen:
        yield f"FROZEN    {plan.frozen}"
    for refusal in plan.refusals:
        if refusal.pool in ("", node.pool):
            yield f"refused   {refusal.rule}: {refusal.text}"
    for event in past.events:
        yield f"before    {clock_text(event.at)} {event.kind}: {event.reason}"


def _of(plan: Plan, node: Node) -> tuple[str, str]:
    for act, names in (("serve", plan.serve), ("release", plan.release)):
        if node.name in names:
            return act, plan.reasons.get(node.name, "")
    return "kept", plan.kept.get(node.name, "the plan does not know this node yet")


VERB = Verb(name="why", summary="Say why a node is as it is.", declare=_declare, run=_run)
