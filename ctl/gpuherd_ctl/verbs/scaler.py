"""``agentctl scaler``: whether the autoscaler acts on its plans or only shows them."""

import argparse
from typing import Final

import msgspec

from gpuherd.rest import Fleet, ModeRequest, PromoteRequest
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session, Verb

_MODES: Final = {"arm": "enforce", "recommend": "recommend"}


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("status", *_MODES, "promote"),
        help="arm: act on plans; recommend: only show them; promote: take the lead of one that is gone; "
        "status: which of these",
    )


def _run(given: argparse.Namespace, session: Session) -> ExitCode:
    if given.what in _MODES:
        request = ModeRequest(mode=_MODES[given.what], by=session.user)
        session.scaler.post("/scaler:mode", request, msgspec.Raw)
    if given.what == "promote":
        session.scaler.post("/scaler:promote", PromoteRequest(by=session.user), msgspec.Raw)
    fleet = session.scaler.get("/fleet", Fleet)
    session.paper.json(fleet)
    session.paper.line(f"mode      {fleet.mode}   term {fleet.term}")
    session.paper.line(f"lead      {fleet.lead or 'this autoscaler leads'}")
    if fleet.frozen:
        session.paper.line(f"FROZEN    {fleet.frozen}")
    session.paper.line(f"decision  {fleet.decision or 'none yet'}")
    return ExitCode.DONE


VERB = Verb(
    name="scaler",
    summary="Arm the autoscaler, let it only recommend, or give it the lead.",
    declare=_declare,
    run=_run,
)
