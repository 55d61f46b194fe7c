"""Every sensor beside the driver, with its pace. Explicit: importing has no effects."""

from pathlib import Path
from typing import Final

from gpuherd.shell.clock import Clock
from gpuherd_agent.doors import KernelDoor
from gpuherd_agent.sensors.devices import DevicesSensor
from gpuherd_agent.sensors.host import HostSensor
from gpuherd_agent.sensors.sense import Sense
from gpuherd_agent.settings import AgentSettings

FAST_S: Final = 1.0
SLOW_S: Final = 10.0


def senses(settings: AgentSettings, clock: Clock, kernel: KernelDoor | None) -> tuple[Sense, ...]:
    """Return what is looked at beside the driver of this host."""
    root = Path(settings.sensors.root)
    host = HostSensor(clock, disk=Path(settings.ray.temp_dir or "/"))
    found = [Sense(name="host", look=lambda _now: host.read(), period_s=FAST_S)]
    if kernel is not None:
        found.append(Sense(name="kernel", look=kernel.read, period_s=0.0, is_quick=True))
    if settings.gpu.declared:
        found.append(Sense(name="devices", look=DevicesSensor(root).read, period_s=SLOW_S / 2))
    return tuple(found)
