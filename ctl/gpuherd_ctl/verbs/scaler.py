"""``agentctl scaler``: whether the autoscaler acts on its plans or only shows them."""

import argparse
from typing import Final

import msgspec

from gpuherd.rest import Fleet, ModeRequest, PromoteRequest
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb
from gpuherd_ctl.wishing import wish_lines

_ARM: Final = "arm"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("status", _ARM, "promote"),
        help="arm: act on plans; promote: take the lead of one that is gone; status: which of these",
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    if given.what == _ARM:
        set_mode(session, "enforce")
    if given.what == "promote":
        session.scaler.post("/scaler:promote", PromoteRequest(by=session.user), msgspec.Raw)
    return show(session)


def set_mode(session: Session, mode: str) -> None:
    """Let the autoscaler act on its plans (``enforce``) or only show them (``recommend``)."""
    session.scaler.post("/scaler:mode", ModeRequest(mode=mode, by=session.user), msgspec.Raw)


def show(session: Session) -> ExitCode:
    """Print the autoscaler's mode, its lead, and what holds it back."""
    fleet = session.scaler.get("/fleet", Fleet)
    session.paper.json(fleet)
    session.paper.line(f"mode      {fleet.mode}   term {fleet.term}")
    session.paper.line(f"lead      {fleet.lead or 'this autoscaler leads'}")
    if fleet.frozen:
        session.paper.line(f"FROZEN    {fleet.frozen}")
    for line in wish_lines(fleet.wishes):
        session.paper.line(line)
    session.paper.line(f"decision  {fleet.decision or 'none yet'}")
    return ExitCode.DONE


VERB = Verb(
    name="scaler",
    summary="Arm the autoscaler, give it the lead, or show what it does.",
    declare=_declare,
    run=_run,
)
