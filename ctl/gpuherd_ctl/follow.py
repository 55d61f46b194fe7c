"""Following operations to their end: prints each step once, when the autoscaler has observed it."""

import time
from collections.abc import Sequence

from gpuherd.names import OperationId
from gpuherd.rest import Operation, Operations, OperationState
from gpuherd_ctl.client import Trouble
from gpuherd_ctl.durations import show_duration
from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_ctl.session import Session

POLL_S = 0.5

_CODES = {
    OperationState.DONE: ExitCode.DONE,
    OperationState.FAILED: ExitCode.FAILED,
    OperationState.ABANDONED: ExitCode.FAILED,
}


def follow(
    session: Session, operations: Sequence[Operation], *, timeout_s: float | None, wait: bool
) -> list[ExitCode]:
    """Return the exit code of each operation, having waited for its end when asked to.

    Ctrl-C and the time-out end the waiting, never the operation.
    """
    paper = session.paper
    known = {operation.id: operation for operation in operations}
    for operation in operations:
        paper.line(f"{operation.node}  operation {operation.id}")
    codes = [ExitCode.DONE for _ in operations]
    if wait and operations:
        try:
            codes = _until_closed(session, known, timeout_s)
        except KeyboardInterrupt:
            paper.remark("detached: " + _goes_on(known))
            codes = [ExitCode.DETACHED for _ in operations]
    paper.json(Operations(operations=tuple(known.values())))
    return codes


def _until_closed(
    session: Session, known: dict[OperationId, Operation], timeout_s: float | None
) -> list[ExitCode]:
    paper, waited_s, is_away = session.paper, 0.0, False
    shown = dict.fromkeys(known, 0)
    if len(known) and paper.out.isatty():
        paper.line("(Ctrl-C detaches, it goes on)")
    while True:
        try:
            for id_ in [i for i, o in known.items() if o.state is OperationState.OPEN]:
                known[id_] = session.scaler.get(f"/operations/{id_}", Operation)
            is_away = False
        except Trouble as trouble:
            if trouble.code is not ExitCode.UNREACHABLE:
                raise
            if not is_away:
                paper.remark(f"{trouble}; asking again until it answers, the operation is stored")
            is_away = True
        for id_, operation in known.items():
            shown[id_] = _show_new(session, operation, shown[id_])
        if all(o.state is not OperationState.OPEN for o in known.values()):
            return [_close(session, o) for o in known.values()]
        if timeout_s is not None and waited_s >= timeout_s:
            paper.remark(f"no end within {show_duration(timeout_s)}: " + _goes_on(known))
            return [_CODES.get(o.state, ExitCode.TIMED_OUT) for o in known.values()]
        session.wait(POLL_S)
        waited_s += POLL_S


def _show_new(session: Session, operation: Operation, shown: int) -> int:
    """Print the steps beyond the first ``shown``; return how many have been printed now."""
    for step in operation.steps[shown:]:
        session.paper.line(f"{clock_text(step.at)} {operation.node}  {step.text}")
    return max(shown, len(operation.steps))


def _close(session: Session, operation: Operation) -> ExitCode:
    took_s = None if operation.closed_at is None else operation.closed_at - operation.created_at
    result = f": {operation.result}" if operation.result else ""
    session.paper.line(f"{operation.node}  {operation.state.value} in {show_duration(took_s)}{result}")
    return _CODES[operation.state]


def _goes_on(known: dict[OperationId, Operation]) -> str:
    running = [o for o in known.values() if o.state is OperationState.OPEN]
    still = ", ".join(f"{o.kind} of {o.node} ({o.id})" for o in running)
    back = ", `agentctl undrain` takes it back" if any(o.kind in ("drain", "leave") for o in running) else ""
    return f"{still or 'the operation'} goes on; `agentctl events -f` shows it{back}"


def clock_text(at: float) -> str:
    """Return wall-clock seconds as local hours, minutes and seconds."""
    return time.strftime("%H:%M:%S", time.localtime(at))
