"""Work that came to a node after Ray had taken its drain: old work is known by process and name. Pure.

Measured with Ray 2.60: a task on a GPU gets a worker process of its own; one on CPUs may get a process that
ran another before; tasks share one without a new lease only when they are of the same function; an actor
keeps process and class whatever it is asked. A drained raylet takes the lease back at the end of the
running task. So what works in another process, or under another name, than when the drain was taken is new.
The same function once more in the same process cannot be told from the first.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from gpuherd.ray import RayNode
from gpuherd_agent.blockers import groups, named
from gpuherd_agent.doors import Worker
from gpuherd_agent.memory import DrainRecord

SETTLE_S: Final = 8.0
"""Work whose lease Ray gave just before may need so long to show: a worker imports its program first."""

MOST: Final = 16
"""As many are told and remembered."""

_NAME_END: Final = re.compile(r"[.( ]")
"""A method, arguments or an actor's own words follow."""

Checked = tuple[DrainRecord, tuple[str, ...]]


def taken(drain: DrainRecord, boot_s: float) -> DrainRecord:
    """Return the record of a drain that Ray has taken now; a second yes to it changes nothing."""
    return drain if drain.taken_boot_s is not None else msgspec.structs.replace(drain, taken_boot_s=boot_s)


def check(drain: DrainRecord, work: Sequence[Worker], node: RayNode | None, boot_s: float) -> Checked:
    """Return the record with what was seen now, and words for each piece of work that is told anew.

    ``work`` is all that runs user code here. Nothing is said of a drain to which Ray has not said yes.
    """
    if drain.taken_boot_s is None:
        return drain, ()
    settled_boot_s = drain.taken_boot_s + SETTLE_S
    seen = {_key(worker): named(worker.title) for worker in work}
    seen |= {f"group {group}": f"placement group {group[:12]}" for group in groups(node)}
    if boot_s < settled_boot_s:
        return _with(drain, there=(*drain.there, *seen)), ()
    if not drain.there_known:
        # Nobody looked in time, as the agent was not there: the start of a process is all that tells.
        old = [_key(worker) for worker in work if worker.started_boot_s < settled_boot_s]
        drain = _with(drain, there=(*drain.there, *old, *(f"group {group}" for group in groups(node))))
    new = [key for key in seen if key not in drain.there][:MOST]
    return _with(drain, there=(*drain.there, *new), late=(*drain.late, *(seen[key] for key in new))), tuple(
        seen[key] for key in new
    )


def _key(worker: Worker) -> str:
    return f"{worker.pid} {worker.started_boot_s:.2f} {_NAME_END.split(worker.title, maxsplit=1)[0]}"


def _with(drain: DrainRecord, *, there: Iterable[str], late: Iterable[str] | None = None) -> DrainRecord:
    return msgspec.structs.replace(
        drain,
        there=tuple(dict.fromkeys(there)),
        there_known=True,
        late=drain.late if late is None else tuple(late)[:MOST],
    )
