"""Prints a line for each InfiniBand or RoCE port below a root, and ends. Standard library only.

Its own process, since such a read asks the adapter's firmware: with that gone it hangs for a minute and more.
It is run by path and without site packages (10 ms), so it imports nothing of ours.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PORTS_MAX = 40
"""Ports of physical functions come first; a host with more than that many has virtual ones."""


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return " ".join(file.read(64).decode("ascii", "replace").split())
    except OSError:
        return ""


def _natural(path: Path) -> tuple[object, ...]:
    """Order mlx5_2 before mlx5_10, and whatever is a virtual function last."""
    parts = re.split(r"(\d+)", path.name)
    return ((path / "device/physfn").exists(), *(part.zfill(8) for part in parts))


def lines(root: Path) -> Iterator[str]:
    """Yield name, state, physical state, layer, rate and two counters of falls, parted by tabs."""
    try:
        devices = sorted((root / "sys/class/infiniband").iterdir(), key=_natural)
    except OSError:
        return
    for device in devices:
        try:
            ports = sorted((device / "ports").iterdir())
        except OSError:
            continue
        for port in ports:
            falls = [_read(path) for path in device.glob("device/net/*/carrier_down_count")]
            known = [int(count) for count in falls if count.isdecimal()]
            yield "\t".join(
                (
                    f"{device.name}/{port.name}",
                    _read(port / "state"),
                    _read(port / "phys_state"),
                    _read(port / "link_layer"),
                    _read(port / "rate"),
                    _read(port / "counters/link_downed"),
                    str(sum(known)) if known else "",
                    ".",
                )
            )


def main() -> int:
    """Print every line, at most PORTS_MAX of them."""
    for number, line in enumerate(lines(Path(sys.argv[1]))):
        if number == PORTS_MAX:
            break
        sys.stdout.write(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
