"""Entry point of agentctl: parses the command line, runs one verb, turns trouble into an exit code."""

import argparse
import contextlib
import getpass
import os
import sys
from collections.abc import Sequence
from typing import Final

from gpuherd.holds import user
from gpuherd.names import NameInvalid
from gpuherd_ctl.client import DEFAULT_SOCKET, SOCKET_VARIABLE, Scaler, Trouble, socket_path
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.output import Paper
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.verbs import (
    accept,
    ack,
    config_check,
    decisions,
    demo,
    drain,
    events,
    evidence,
    fleet,
    gpus,
    head,
    history,
    join,
    leave,
    nodes,
    pause,
    plan,
    prometheus,
    recommend,
    record,
    repair,
    resume,
    rules,
    scale,
    scaler,
    simulate,
    status,
    undrain,
    verify,
    version,
    why,
)

VERBS: Final[tuple[Verb, ...]] = (
    status.VERB,
    nodes.VERB,
    gpus.VERB,
    fleet.VERB,
    drain.VERB,
    undrain.VERB,
    leave.VERB,
    join.VERB,
    ack.VERB,
    accept.VERB,
    verify.VERB,
    evidence.VERB,
    record.VERB,
    repair.VERB,
    events.VERB,
    why.VERB,
    plan.VERB,
    decisions.VERB,
    history.VERB,
    scaler.VERB,
    recommend.VERB,
    pause.VERB,
    resume.VERB,
    scale.VERB,
    rules.VERB,
    head.VERB,
    config_check.VERB,
    prometheus.VERB,
    simulate.VERB,
    version.VERB,
    demo.VERB,
)

_EPILOG: Final = (
    "exit codes: 0 done, 1 failed, 2 usage, 3 some nodes only, 4 refused by a safety rule, 5 something has "
    "to be done first, 6 time-out (it goes on), 7 unreachable, 8 not found, 9 conflict, 130 detached"
)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line; global options may stand before or after the verb."""
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument(
        "--socket",
        metavar="PATH",
        help=f"the autoscaler's socket (else ${SOCKET_VARIABLE}, {DEFAULT_SOCKET})",
    )
    shared.add_argument("-o", "--output", choices=("table", "json"), help="form of the result")
    top = argparse.ArgumentParser(
        prog="agentctl", description="See and steer a herd of GPU hosts.", epilog=_EPILOG, parents=[shared]
    )
    verbs = top.add_subparsers(metavar="VERB", required=True)
    for verb in VERBS:
        one = verbs.add_parser(verb.name, help=verb.summary, description=verb.summary, parents=[shared])
        verb.declare(one)
        one.set_defaults(verb=verb)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code."""
    given = parser().parse_args(arguments)
    paper = Paper(as_json=getattr(given, "output", "table") == "json")
    session = Session(
        scaler=Scaler(socket_path(getattr(given, "socket", None))),
        paper=paper,
        user=_user(),
        ask=_ask if sys.stdin.isatty() else None,
    )
    verb: Verb = given.verb
    try:
        return int(verb.run(given, session))
    except Trouble as trouble:
        paper.remark(f"agentctl: {trouble}")
        if trouble.hint:
            paper.remark(f"  {trouble.hint}")
        return int(trouble.code)
    except NameInvalid as error:
        paper.remark(f"agentctl: {error}")
        return int(ExitCode.USAGE)
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain once more when it closes stdout.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return int(ExitCode.DONE)
    except KeyboardInterrupt:
        return int(ExitCode.DETACHED)


def _user() -> str:
    try:
        return user(os.environ.get("SUDO_USER") or getpass.getuser())
    except (KeyError, OSError):
        return user(str(os.getuid()))


def _ask(question: str) -> bool:
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")


if __name__ == "__main__":
    sys.exit(main())
