"""Where a probe child is: the driver call that it entered last, in memory that it shares with its parent.

A child that hangs in the driver can tell nothing any more; what it wrote before the call can still be read.
Writing costs about a microsecond. It holds no history and no lock: there is one writer.
"""

import mmap
import os
import struct
import time
from typing import Final

from gpuherd_agent.sensors.backend import HOST
from gpuherd_agent.sensors.isolation import Place

SIZE: Final = 128
_PLACE: Final = struct.Struct("<ddqB64s")
_TRIES: Final = 8


def _now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Progress:
    """One child's place, as ``Notes`` for its backend. The child enters calls, the parent reads."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` names SIZE bytes of shared memory; it is closed with this object, not before."""
        self._descriptor = descriptor
        self._memory = mmap.mmap(descriptor, SIZE)
        self._index = HOST
        self._turned_at = 0.0

    @classmethod
    def create(cls) -> "Progress":
        """Return a fresh place in memory of its own; raises OSError."""
        descriptor = os.memfd_create("gpuherd-probe", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, SIZE)
        return cls(descriptor)

    @property
    def descriptor(self) -> int:
        """Return what to hand to the child."""
        return self._descriptor

    def turn_to(self, index: int) -> None:
        """Note which GPU the next calls are for; HOST = none."""
        self._index = index
        self._turned_at = _now()

    def enter(self, call: str) -> None:
        """Note that this call is made now; an empty one = none is under way."""
        name = call.encode("ascii", "replace")[:64]
        _PLACE.pack_into(self._memory, 0, _now(), self._turned_at, self._index, len(name), name)

    def read(self) -> Place:
        """Return where the child is; None of it is read while it is being written."""
        before = bytes(self._memory[: _PLACE.size])
        for _ in range(_TRIES):
            now = bytes(self._memory[: _PLACE.size])
            if now == before:
                break
            before = now
        since, turned_at, index, length, name = _PLACE.unpack(before)
        call = name[:length].decode("ascii", "replace")
        return Place(since=since, turned_at=turned_at, index=index, call=call)

    def close(self) -> None:
        """Let go of the memory; the other side keeps its own."""
        self._memory.close()
        os.close(self._descriptor)
