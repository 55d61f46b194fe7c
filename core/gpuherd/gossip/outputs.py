"""All that the core asks of its shell, and tells it. The order of outputs is the order to act in."""

import enum
from dataclasses import dataclass

from gpuherd.gossip.addresses import Address
from gpuherd.gossip.verdicts import Role, Verdict
from gpuherd.names import NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class SendDatagram:
    """Send by UDP. Pings (``is_probe``) go by a connected socket, so that the kernel's errors are heard."""

    destination: Address
    payload: bytes
    is_probe: bool = False


class Purpose(enum.Enum):
    """What a stream is opened for."""

    KNOCK = "knock"
    EXCHANGE = "exchange"


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Open a stream, send one frame, read one frame, close. ``inputs.CallResult`` follows in ``timeout_s``.

    A frame is 4 bytes of length (big endian, at most MAX_FRAME_BYTES) and so many bytes.
    """

    call: int
    destination: Address
    payload: bytes
    timeout_s: float
    purpose: Purpose


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Send this frame on the stream of ``inputs.Request`` and close it."""

    request: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """A member is known for the first time, or a new run of it is."""

    name: NodeName
    address: Address
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class VerdictChanged:
    """What the accusations of others and our own make of a member has changed."""

    name: NodeName
    before: Verdict
    after: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordChanged:
    """A member said something new of itself; ``Gossip.view`` has it."""

    name: NodeName


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleChanged:
    """We know something new of our own standing."""

    before: Role
    after: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class PathFailed:
    """We cannot reach a member that others reach: an observation, no verdict."""

    name: NodeName
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NameConflict:
    """Somebody else, at ``address``, speaks for ``name`` by another key or another run; it is kept out."""

    name: NodeName
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class NameTaken:
    """Our own name has been online at ``address`` all the time that we tried to join: stop."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class Superseded:
    """A newer certificate speaks for our name, at ``address``: stop."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvertiseUnreachable:
    """A member heard us and could not reach the address that we advertise."""

    advertised: Address
    told_by: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMismatch:
    """A packet of another cluster came from ``address``: an address was reused, or a seed is wrong."""

    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochTaken:
    """This run has a new epoch (a resumed snapshot, a lost store, a clock set back): store it."""

    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Departed:
    """The word that we leave has been spread; the shell may close."""


Event = (
    Joined
    | VerdictChanged
    | RecordChanged
    | RoleChanged
    | PathFailed
    | NameConflict
    | NameTaken
    | Superseded
    | AdvertiseUnreachable
    | ClusterMismatch
    | EpochTaken
    | Departed
)
Output = SendDatagram | Call | Answer | Event
