"""``gpuherd-gcs``: one question to Ray's head, one JSON object on standard output, then the end.

A process of its own, so that an agent needs no gRPC and a stuck call can be killed. Exit codes: 0 done,
2 usage, 4 refused (by Ray, by the token, or no slot is free), 6 no answer to a drain that was sent, so it
may yet happen, 7 the head is unreachable and nothing was asked, 8 the head does not know that node.
"""

import argparse
import asyncio
import dataclasses
import json
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpuherd import slots
from gpuherd.errors import HeadUnreachable, TokenRefused
from gpuherd.names import ClusterName, NameInvalid, NodeName, PoolName, RayNodeId, parse_name
from gpuherd.ray import DrainOutcome, DrainReason
from gpuherd.settings import Secret
from gpuherd.shell.gcs import Gcs
from gpuherd.slot_claims import SlotOrder

DONE: Final = 0
USAGE: Final = 2
REFUSED: Final = 4
UNKNOWN: Final = 6
UNREACHABLE: Final = 7
NOT_FOUND: Final = 8

EXIT_CODES: Final[Mapping[DrainOutcome, int]] = {
    DrainOutcome.ACCEPTED: DONE,
    DrainOutcome.REJECTED: REFUSED,
    DrainOutcome.NO_SLOT: REFUSED,
    DrainOutcome.UNKNOWN: UNKNOWN,
    DrainOutcome.UNREACHABLE: UNREACHABLE,
    DrainOutcome.NOT_ALIVE: NOT_FOUND,
}

Answer = tuple[int, dict[str, object]]
_NODE_ID: Final = re.compile(r"[0-9a-f]{56}")
_MAX_TIMEOUT_S: Final = 60.0


def main(argv: Sequence[str] | None = None) -> int:
    """Carry one verb out and return the exit code."""
    arguments = parser().parse_args(argv)
    _require_whole_slot(arguments)
    try:
        token = _token(arguments.token_file)
    except (OSError, ValueError) as error:
        return _say(USAGE, {"error": "token_file", "detail": str(error)})
    try:
        code, answer = asyncio.run(_ask(arguments, token))
    except TokenRefused as error:
        return _say(REFUSED, {"error": "token_refused", "detail": str(error)})
    except HeadUnreachable as error:
        return _say(UNREACHABLE, {"error": "unreachable", "fault": error.fault, "detail": str(error)})
    return _say(code, answer)


def parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    made = argparse.ArgumentParser(
        prog="gpuherd-gcs",
        description="One question to Ray's head.",
        epilog="Exit codes: 0 done, 2 usage, 4 refused, 6 unknown, 7 unreachable, 8 not found.",
    )
    made.add_argument("--address", required=True, type=_address, help="host:port of the head")
    made.add_argument("--token-file", help="file with Ray's token; without it no token is sent")
    made.add_argument("--timeout", type=_timeout, default=3.0, help="seconds for each call to the head")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    verbs.add_parser("alive", help="the head's Ray version").set_defaults(run=_alive)
    verbs.add_parser("versions", help="the head's Ray, Python and session").set_defaults(run=_versions)
    node = verbs.add_parser("node", help="one node as the head lists it")
    node.add_argument("--id", required=True, type=_node_id)
    node.set_defaults(run=_node)
    _add_drain(verbs.add_parser("drain", help="drain one node, within the pool's budget if one is given"))
    slot = verbs.add_parser("slot", help="drain slots of a pool").add_subparsers(dest="act", required=True)
    for act, run in (("claim", _claim), ("release", _release), ("list", _list)):
        verb = slot.add_parser(act)
        verb.add_argument("--cluster", required=True, type=_name)
        verb.add_argument("--pool", required=True, type=_name)
        if act != "list":
            verb.add_argument("--node", required=True, type=_name)
        if act == "claim":
            verb.add_argument("--budget", required=True, type=_budget)
        verb.set_defaults(run=run)
    return made


def _add_drain(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--id", required=True, type=_node_id)
    verb.add_argument("--reason", required=True, choices=[reason.value for reason in DrainReason])
    verb.add_argument("--message", default="")
    verb.add_argument(
        "--deadline-s", type=_deadline, help="Ray tells it to the work; without it there is none"
    )
    verb.add_argument("--cluster", type=_name)
    verb.add_argument("--pool", type=_name)
    verb.add_argument("--node", type=_name)
    verb.add_argument("--budget", type=_budget)
    verb.set_defaults(run=_drain)


def _require_whole_slot(arguments: argparse.Namespace) -> None:
    if arguments.verb != "drain":
        return
    given = [getattr(arguments, key) is not None for key in ("cluster", "pool", "node", "budget")]
    if any(given) and not all(given):
        parser().error("a drain within a budget needs --cluster, --pool, --node and --budget")


async def _ask(arguments: argparse.Namespace, token: Secret | None) -> Answer:
    run: Callable[[Gcs, argparse.Namespace], Awaitable[Answer]] = arguments.run
    async with Gcs(arguments.address, token=token, timeout_s=arguments.timeout) as gcs:
        return await run(gcs, arguments)


async def _alive(gcs: Gcs, _: argparse.Namespace) -> Answer:
    return DONE, {"ray": await gcs.alive()}


async def _versions(gcs: Gcs, _: argparse.Namespace) -> Answer:
    return DONE, dataclasses.asdict(await gcs.versions())


async def _node(gcs: Gcs, arguments: argparse.Namespace) -> Answer:
    node = await gcs.node(arguments.id)
    if node is None:
        return NOT_FOUND, {"error": "not_found", "detail": "the head does not list that node"}
    return DONE, dataclasses.asdict(node)


async def _drain(gcs: Gcs, arguments: argparse.Namespace) -> Answer:
    answer = await gcs.drain(
        arguments.id,
        DrainReason(arguments.reason),
        arguments.message,
        deadline_s=arguments.deadline_s,
        within=None if arguments.pool is None else _order(arguments),
    )
    return EXIT_CODES[answer.outcome], dataclasses.asdict(answer)


async def _claim(gcs: Gcs, arguments: argparse.Namespace) -> Answer:
    order = _order(arguments)
    claimed = await gcs.claim_slot(order.cluster, order.pool, order.node, order.budget)
    if isinstance(claimed, slots.Full):
        return REFUSED, {"holders": claimed.holders}
    return DONE, dataclasses.asdict(claimed)


async def _release(gcs: Gcs, arguments: argparse.Namespace) -> Answer:
    freed = await gcs.release_slots(
        ClusterName(arguments.cluster), PoolName(arguments.pool), NodeName(arguments.node)
    )
    return DONE, {"released": freed}


async def _list(gcs: Gcs, arguments: argparse.Namespace) -> Answer:
    held = await gcs.held_slots(ClusterName(arguments.cluster), PoolName(arguments.pool))
    return DONE, {"held": [{"k": slot.k, "n": slot.n, "node": node} for slot, node in held.items()]}


def _order(arguments: argparse.Namespace) -> SlotOrder:
    return SlotOrder(
        cluster=ClusterName(arguments.cluster),
        pool=PoolName(arguments.pool),
        node=NodeName(arguments.node),
        budget=arguments.budget,
    )


def _say(code: int, answer: Mapping[str, object]) -> int:
    print(json.dumps(answer))
    return code


def _token(path: str | None) -> Secret | None:
    if path is None:
        return None
    text = Path(path).read_text(encoding="utf-8").strip()
    if not text:
        raise ValueError(f"{path} is empty")
    return Secret(text)


def _name(text: str) -> str:
    try:
        return parse_name(text, "name")
    except NameInvalid as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _node_id(text: str) -> RayNodeId:
    if _NODE_ID.fullmatch(text) is None:
        raise argparse.ArgumentTypeError("a node id is 56 hexadecimal digits")
    return RayNodeId(text)


def _address(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and 0 < int(port) < 65_536):  # noqa: PLR2004
        raise argparse.ArgumentTypeError("an address is host:port")
    return text


def _timeout(text: str) -> float:
    return _within(text, _MAX_TIMEOUT_S, "a time-out")


def _deadline(text: str) -> float:
    return _within(text, 10 * 365 * 86_400.0, "a deadline")


def _within(text: str, most: float, what: str) -> float:
    value = float(text)
    if not 0 < value <= most:
        raise argparse.ArgumentTypeError(f"{what} is above 0 and at most {most:g} seconds")
    return value


def _budget(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("a budget is at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
