"""Sending a node something to do once, and following it to its end."""

from gpuherd.names import NodeName
from gpuherd.rest import CommandRequest, Operation, OperationState
from gpuherd_ctl.exit_codes import ExitCode, merge
from gpuherd_ctl.follow import follow
from gpuherd_ctl.session import Session


def command(session: Session, node: NodeName, request: CommandRequest, *, wait: bool = True) -> ExitCode:
    """Return the exit code once the node has told its end; what it brought is printed. May raise Trouble."""
    operation = session.scaler.post(f"/nodes/{node}/commands", request, Operation)
    codes = follow(session, [operation], timeout_s=None, wait=wait)
    if wait and not session.paper.as_json:
        ended = session.scaler.get(f"/operations/{operation.id}", Operation)
        for line in ended.output.splitlines():
            session.paper.line(line)
        if ended.state is OperationState.FAILED and ended.result.startswith("refused"):
            return ExitCode.REFUSED
    return merge(codes)
