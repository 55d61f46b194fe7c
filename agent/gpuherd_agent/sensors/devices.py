"""The GPUs as PCI, the driver's /proc tree and the device files show them: readable with the driver dead."""

import re
from pathlib import Path
from typing import Final

from gpuherd_agent.readings import DevicesReading

_NVIDIA: Final = "0x10de"
_DISPLAY: Final = ("0x0300", "0x0302")
"""PCI classes VGA controller and 3D controller."""
_NODE: Final = re.compile(r"nvidia\d+")
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-9a-f])?")


class DevicesSensor:
    """Reads below ``root``, which is ``/`` on a host."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._pci = root / "sys/bus/pci/devices"
        self._driver = root / "proc/driver/nvidia/gpus"
        self._dev = root / "dev"

    def read(self, now: float) -> DevicesReading:
        """Return what is there; a place that cannot be read is None. No device is opened: that can hang."""
        return DevicesReading(at=now, pci=self._on_bus(), driver=self._taken(), nodes=self._nodes())

    def _on_bus(self) -> tuple[str, ...] | None:
        try:
            entries = sorted(self._pci.iterdir())
        except OSError:
            return None
        return tuple(_short(entry.name) for entry in entries if _is_nvidia_gpu(entry))

    def _taken(self) -> tuple[str, ...] | None:
        try:
            names = sorted(entry.name for entry in self._driver.iterdir())
        except OSError:
            return None
        return tuple(_short(name) for name in names if _ADDRESS.fullmatch(name.lower()))

    def _nodes(self) -> int | None:
        try:
            return sum(
                _NODE.fullmatch(name) is not None for name in (entry.name for entry in self._dev.iterdir())
            )
        except OSError:
            return None


def _is_nvidia_gpu(entry: Path) -> bool:
    try:
        vendor = (entry / "vendor").read_text(encoding="ascii").strip()
        kind = (entry / "class").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return False
    return vendor == _NVIDIA and kind[:6] in _DISPLAY


def _short(address: str) -> str:
    """Return the address with four digits of domain and without function, in lower case."""
    domain, _, rest = address.lower().partition(":")
    return f"{domain[-4:]}:{rest.partition('.')[0]}"
