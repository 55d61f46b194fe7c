"""Lines of the ports child as readings. Pure; a line that is cut or unknown yields nothing."""

import re
from collections.abc import Iterator
from typing import Final

from gpuherd_agent.surroundings import PortReading

_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,32}/\d{1,3}")
_STATE: Final = re.compile(r"(?P<code>\d+): (?P<word>[\w/ ]{1,24})")
_RATE: Final = re.compile(r"(?P<gbps>\d{1,5}(?:\.\d{1,3})?) Gb/sec\b")
_COUNT: Final = re.compile(r"\d{1,19}")
_ACTIVE: Final = "4"
"""IBA port state Active; 1 = Down, 2 = Init, 3 = Armed."""
_FIELDS: Final = 8


def parse_ports(text: str) -> Iterator[PortReading]:
    """Yield a reading a line: name, state, physical state, layer, rate, two counters of falls, a full stop.

    An empty field is what the driver does not offer; a line without its full stop was cut.
    """
    for line in text.splitlines():
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != _FIELDS or fields[-1] != "." or not _NAME.fullmatch(fields[0]):
            continue
        name, state, physical, layer, rate, ib_downs, carrier_downs, _ = fields
        found = _STATE.fullmatch(state)
        if found is None:
            continue
        words = [found["word"], *([m["word"]] if (m := _STATE.fullmatch(physical)) else [])]
        is_ethernet = layer == "Ethernet"
        yield PortReading(
            name=name,
            is_active=found["code"] == _ACTIVE,
            state=", ".join(words),
            is_ethernet=is_ethernet,
            gbps=float(m["gbps"]) if (m := _RATE.match(rate)) else None,
            # Of an Ethernet port the InfiniBand counter stands still; its carrier is counted by the netdev.
            downs_total=_count(carrier_downs) if is_ethernet else _count(ib_downs),
        )


def _count(text: str) -> int | None:
    return int(text) if _COUNT.fullmatch(text) else None
