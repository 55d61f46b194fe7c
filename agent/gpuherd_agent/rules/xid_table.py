"""What an Xid means for the node, a row each with its source. Data only.

Sources: "NVIDIA" = NVIDIA's Xid catalogue (docs.nvidia.com/deploy/xid-errors), immediate action; others name
the issue. Where peers disagree NVIDIA's word counts, and less is done before more.
"""

import enum
from dataclasses import dataclass
from typing import Final

from gpuherd.health import Repair


class Meaning(enum.Enum):
    """What follows for the node."""

    APPLICATION = "application"
    """The job's own fault. Never acts on the node."""
    INFORMATION = "information"
    CONTAINED = "contained"
    """Memory error that was kept to one application: it fails, the GPU wants a reset once it is idle."""
    RESET = "reset"
    LOST = "lost"
    """The board is off the bus."""
    REBOOT = "reboot"
    INSPECT = "inspect"
    CONFIRM = "confirm"
    """Means something only together with what NVML says: told, and left to the other rules."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Row:
    """One code."""

    meaning: Meaning
    words: str
    source: str = "NVIDIA"
    repair: Repair = Repair.NONE


def _rows(codes: tuple[int, ...], row: Row) -> dict[int, Row]:
    return dict.fromkeys(codes, row)


XIDS: Final[dict[int, Row]] = {
    **_rows((8, 11, 25, 32, 39, 40, 41, 60, 68, 69), Row(Meaning.APPLICATION, "fault of the application")),
    13: Row(Meaning.APPLICATION, "graphics engine exception, mostly an error of the application"),
    31: Row(Meaning.APPLICATION, "memory page fault, mostly an illegal access of the application"),
    **_rows((70, 71, 72, 75, 76, 77, 80, 82, 83, 84, 86, 88, 89), Row(Meaning.APPLICATION, "engine error")),
    **_rows(tuple(range(96, 106)), Row(Meaning.APPLICATION, "engine error")),
    **_rows(tuple(range(126, 136)), Row(Meaning.APPLICATION, "engine error")),
    139: Row(Meaning.APPLICATION, "engine error"),
    43: Row(Meaning.APPLICATION, "the application was stopped; the GPU is healthy"),
    45: Row(
        Meaning.APPLICATION,
        "channels torn down after the end of an application: follows from another event",
        "NVIDIA; NVSentinel #1629 and #1710: storms of it took 77 healthy nodes out",
    ),
    **_rows((37, 38, 44, 66, 67, 137, 141), Row(Meaning.APPLICATION, "no action")),
    **_rows((14, 106, 107, 108, 121, 152, 153, 160, 161, 162), Row(Meaning.INFORMATION, "no action")),
    63: Row(Meaning.INFORMATION, "a row or page is marked for remapping; `remap_pending` judges it"),
    92: Row(Meaning.INFORMATION, "many corrected memory errors; `ecc_corrected_rate` judges it"),
    93: Row(Meaning.INFORMATION, "inforom warning"),
    154: Row(Meaning.INFORMATION, "the recovery action changed; `gpu_recovery_action` judges it"),
    94: Row(Meaning.CONTAINED, "contained memory error", repair=Repair.RESET_GPU),
    **_rows((46, 62, 110, 136, 140, 155, 156, 158), Row(Meaning.RESET, "GPU error", repair=Repair.RESET_GPU)),
    48: Row(Meaning.RESET, "double-bit memory error", repair=Repair.RESET_GPU),
    64: Row(Meaning.RESET, "a row or page could not be retired", repair=Repair.RMA),
    95: Row(Meaning.RESET, "uncontained memory error", repair=Repair.RESET_GPU),
    119: Row(Meaning.RESET, "the GPU's system processor does not answer", repair=Repair.RESET_GPU),
    120: Row(Meaning.RESET, "error of the GPU's system processor", repair=Repair.RESET_GPU),
    143: Row(Meaning.RESET, "the GPU could not be initialised", repair=Repair.RESET_GPU),
    171: Row(Meaning.RESET, "uncorrectable DRAM error", repair=Repair.RESET_GPU),
    172: Row(Meaning.RESET, "uncorrectable SRAM error", repair=Repair.RESET_GPU),
    109: Row(
        Meaning.CONFIRM,
        "context switch timed out",
        "k8s-device-plugin ignores it; noise under vGPU (koordinator #2834)",
    ),
    74: Row(Meaning.INSPECT, "NVLink error; `nvlink_errors` judges its rate", repair=Repair.INSPECT),
    **_rows(
        tuple(range(144, 151)), Row(Meaning.CONFIRM, "NVLink error; fatal ones show as a recovery action")
    ),
    79: Row(Meaning.LOST, "the GPU has fallen off the bus", repair=Repair.REBOOT),
    151: Row(Meaning.REBOOT, "the virtual machine has to be restarted", repair=Repair.REBOOT),
    167: Row(Meaning.REBOOT, "fatal PCIe time-out", "gpud: reboot", Repair.REBOOT),
    169: Row(Meaning.REBOOT, "fatal error", "gpud: reboot", Repair.REBOOT),
    173: Row(Meaning.REBOOT, "fatal error", "gpud: reboot", Repair.REBOOT),
    54: Row(Meaning.INSPECT, "auxiliary power is not connected", repair=Repair.INSPECT),
    61: Row(Meaning.INSPECT, "breakpoint of the power unit", repair=Repair.INSPECT),
    78: Row(Meaning.INSPECT, "vGPU start error: update driver or firmware", repair=Repair.INSPECT),
    **_rows((49, 142), Row(Meaning.INSPECT, "not explained by NVIDIA", repair=Repair.INSPECT)),
    157: Row(Meaning.INSPECT, "a page could not be retired", repair=Repair.RMA),
    168: Row(Meaning.INSPECT, "reduced memory; `memory_shrunk` judges it", repair=Repair.INSPECT),
}

_UNKNOWN: Final = Row(Meaning.UNKNOWN, "not known here")


def row(code: int) -> Row:
    """Return what the code means; one that is in no row is unknown and never acts."""
    return XIDS.get(code, _UNKNOWN)
