"""All that a shell tells the core. Times are of the shell's monotonic clock, the one that ``now`` is of."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.identity import Identity
from gpuherd.gossip.messages import Spread
from gpuherd.names import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class Datagram:
    """A UDP packet. ``received_at`` is when the kernel got it, which may be long before it was read."""

    source: Address
    payload: bytes
    received_at: float


class PathFault(enum.Enum):
    """What the kernel says of a way, by a socket error."""

    REFUSED = "refused"
    """ECONNREFUSED or a reset: the host answers, and nobody listens."""
    UNREACHABLE = "unreachable"
    """EHOSTUNREACH or ENETUNREACH; counts as silence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketError:
    """An error of the socket that is connected to ``destination``."""

    destination: Address
    fault: PathFault


class CallEnd(enum.Enum):
    """How a stream that we opened ended."""

    ANSWERED = "answered"
    HANDSHAKE = "handshake"
    """It was accepted, and no whole answer came in time: the kernel lives, the process may not."""
    REFUSED = "refused"
    SILENT = "silent"
    """No handshake in time, or the host cannot be reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What became of an ``outputs.Call``; told once for each call. ``answer`` is empty unless ANSWERED."""

    call: int
    end: CallEnd
    received_at: float
    answer: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A frame on a stream that somebody opened to us; the core answers it by ``request`` or not at all.

    The shell closes the stream after the answer, or after CALL_TIMEOUT_S. ``request`` is the shell's number.
    """

    request: int
    source: Address
    payload: bytes
    received_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """The next deadline has come, and every packet that waited then has been told before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Contact these addresses, now and for ever: seeds, and members known from a former run."""

    seeds: tuple[Address, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Say that this node goes on purpose. ``outputs.Departed`` follows when it has been spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Put ``body`` into our own record; an equal one changes nothing."""

    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class SetRoster:
    """Who counts in E, each with its rack (empty = unknown). Verdicts are made by these names alone.

    Without any roster, every admitted member that has not left counts.
    """

    racks: Mapping[NodeName, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """Members of a former run, each with its last record: they are checked like any others.

    With it a fleet that lost power as a whole finds itself again, those that are still dark among it.
    """

    known: tuple[tuple[Identity, Spread], ...]


Input = Datagram | SocketError | CallResult | Request | Tick | Join | Leave | Publish | SetRoster | Recall
