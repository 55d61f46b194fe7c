"""``agentctl fleet --via NODE``: the fleet as one agent sees it by gossip. Needs no centre at all."""

import argparse
import http.client
import os
from collections.abc import Iterator
from typing import Final

import msgspec

from gpuherd.gossip_rest import SeenFleet, SeenNode
from gpuherd_ctl.client import MAX_BODY_BYTES, Trouble
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

PORT: Final = 9440
TIMEOUT_S: Final = 5.0
AGENT_VARIABLE: Final = "GPUHERD_AGENT"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--via",
        metavar="NODE",
        default=os.environ.get(AGENT_VARIABLE, "127.0.0.1"),
        help=f"the agent to ask: host or host:port of its [http] (else ${AGENT_VARIABLE}, 127.0.0.1:{PORT})",
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    fleet = read(given.via)
    session.paper.json(fleet)
    if not session.paper.as_json:
        for line in lines(fleet):
            session.paper.line(line)
    return ExitCode.DONE


def read(via: str) -> SeenFleet:
    """Return what the agent at ``host[:port]`` sees; raises Trouble."""
    host, _, port = via.partition(":")
    if port and not port.isdecimal():
        raise Trouble(ExitCode.USAGE, f"--via {via}: {port!r} is no port", "give host or host:port")
    connection = http.client.HTTPConnection(host, int(port or PORT), timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/v1/fleet")
        answer = connection.getresponse()
        text = answer.read(MAX_BODY_BYTES)
    except (OSError, http.client.HTTPException) as error:
        raise Trouble(
            ExitCode.UNREACHABLE,
            f"the agent at {via} does not answer: {error}",
            "name another node by --via: any of them has the whole view",
        ) from error
    finally:
        connection.close()
    if answer.status == http.client.NOT_FOUND:
        why = f"the agent at {via} takes no part in the gossip"
        raise Trouble(ExitCode.PRECONDITION, why, "set enabled = true in its [gossip], or name another node")
    try:
        return msgspec.json.decode(text, type=SeenFleet)
    except msgspec.DecodeError as error:
        raise Trouble(
            ExitCode.FAILED,
            f"the answer of the agent at {via} is not understood: {error}",
            "compare `agentctl version` with the agent's",
        ) from error


def lines(fleet: SeenFleet) -> Iterator[str]:
    """Yield the lines for people: how far the view goes, what a quorum says, a line for each node."""
    hint = "   (too few nodes: hints only)" if fleet.is_hint else ""
    yield f"seen by   {fleet.seen_by}   {fleet.role}{hint}"
    yield f"sight     {fleet.sight} of {fleet.expected} expected, a verdict takes {fleet.quorum}"
    if fleet.broker_down:
        yield "broker    DOWN, says a quorum of the nodes"
    if fleet.head_down:
        yield "ray head  DOWN, says a quorum of the nodes"
    yield ""
    width = max((len(node.name) for node in fleet.nodes), default=0)
    for node in fleet.nodes:
        yield f"{node.name:<{width}}  {node.verdict:<11}  {node.state:<8}  {_rest(node)}".rstrip()
    for name in fleet.missing:
        yield f"{name:<{width}}  never heard of"


def _rest(node: SeenNode) -> str:
    words = [f"{node.phase}, {node.gpus_present} of {node.gpus_declared} GPUs"]
    if node.verdict != "alive":
        words.append(f"for {node.since_s:.0f} s")
    if node.accusers:
        words.append(f"accused by {', '.join(node.accusers)}")
    words += [
        word
        for word, is_so in (
            ("observer", node.is_observer),
            ("in maintenance", node.in_maintenance),
            ("other versions", node.drifts),
        )
        if is_so
    ]
    return "; ".join(words)


VERB = Verb(
    name="fleet", summary="Show the fleet as one agent sees it by gossip.", declare=_declare, run=_run
)
