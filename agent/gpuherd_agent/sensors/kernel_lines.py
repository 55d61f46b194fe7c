"""Lines of the kernel log as events. Pure; what is not about GPUs or the host's memory yields nothing.

Forms are those of the open kernel modules (NVRM, nvidia-nvswitch) and of Linux (OOM, AER).
"""

import re
from dataclasses import dataclass
from typing import Final

from gpuherd_agent.readings import KernelEvent, KernelKind

_TEXT_MAX: Final = 300
_BUS: Final = r"(?:PCI:)?(?P<bus>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2})(?:\.[0-9a-fA-F])?"
_XID: Final = re.compile(rf"NVRM: Xid \({_BUS}\).*?: (?P<code>\d{{1,4}})\b(?P<rest>.*)")
_SXID: Final = re.compile(
    rf"nvidia-nvswitch\d+: SXid \({_BUS}\): (?P<code>\d{{1,6}}), (?P<fatal>Fatal|Non-fatal)(?P<rest>.*)"
)
_BUS_LOST: Final = re.compile(rf"NVRM:.*?(?:GPU(?: at)? {_BUS}.*?)?(?:GPU )?has fallen off the bus")
_INIT: Final = re.compile(rf"NVRM: GPU {_BUS}: RmInitAdapter failed")
_OOM: Final = re.compile(r"(?:Out of memory|Memory cgroup out of memory): Killed process (?P<pid>\d{1,10})")
_AER: Final = re.compile(rf"{_BUS}: (?:AER: )?PCIe Bus Error: severity=Uncorrected")
_PID: Final = re.compile(r"\bpid='?(?P<pid>\d{1,10})")
_RECORD: Final = re.compile(r"(?P<prefix>\d+),(?P<seq>\d+),(?P<stamp>\d+),[^;]*;(?P<text>.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of /dev/kmsg: its sequence number, microseconds since boot, and its first line."""

    sequence: int
    microseconds: int
    text: str


def parse_record(raw: bytes) -> Record | None:
    """Return one record of /dev/kmsg; None for bytes that are none. Continuation lines are left out."""
    found = _RECORD.match(raw.decode("utf-8", "replace"))
    if found is None:
        return None
    return Record(
        sequence=int(found["seq"][:20]),
        microseconds=int(found["stamp"][:20]),
        text=found["text"].split("\n", 1)[0],
    )


def parse_line(text: str) -> KernelEvent | None:
    """Return what a line says; None when it says nothing of GPUs or of kills."""
    line = text[:_TEXT_MAX]
    if "NVRM" in line:
        return _of_driver(line)
    if "nvswitch" in line and (found := _SXID.search(line)):
        return KernelEvent(
            kind=KernelKind.SXID,
            code=int(found["code"]),
            bus=_short(found["bus"]),
            text=line,
            is_fatal=found["fatal"] == "Fatal",
        )
    if found := _OOM.search(line):
        return KernelEvent(kind=KernelKind.OOM, pid=int(found["pid"]), text=line)
    if "PCIe Bus Error" in line and (found := _AER.search(line)):
        return KernelEvent(kind=KernelKind.PCIE, bus=_short(found["bus"]), text=line)
    return None


def _of_driver(line: str) -> KernelEvent | None:
    if found := _XID.search(line):
        pid = _PID.search(found["rest"])
        return KernelEvent(
            kind=KernelKind.XID,
            code=int(found["code"]),
            bus=_short(found["bus"]),
            pid=int(pid["pid"]) if pid else None,
            text=line,
        )
    if found := _BUS_LOST.search(line):
        return KernelEvent(kind=KernelKind.BUS_LOST, bus=_short(found["bus"] or ""), text=line)
    if found := _INIT.search(line):
        return KernelEvent(kind=KernelKind.INIT_FAILED, bus=_short(found["bus"]), text=line)
    return None


def _short(bus: str) -> str:
    """Return the address with four digits of domain, in lower case."""
    domain, _, rest = bus.lower().partition(":")
    return f"{domain[-4:]}:{rest}" if bus else ""
