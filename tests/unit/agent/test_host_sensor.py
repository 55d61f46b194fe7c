"""The host sensor on this very host."""

from pathlib import Path

import pytest

from gpuherd.shell.clock import SystemClock
from gpuherd_agent.sensors.host import HostSensor


def test_memory_disk_and_load_are_read(tmp_path: Path) -> None:
    reading = HostSensor(SystemClock(), disk=tmp_path, shm=tmp_path).read()
    assert 0 < reading.memory_available_bytes <= reading.memory_total_bytes
    assert 0 < reading.disk_free_bytes <= reading.disk_total_bytes
    assert reading.shm_free_bytes is not None
    assert reading.cpu_count >= 1
    assert reading.uptime_s > 0


def test_a_host_without_shared_memory_offers_no_figure_of_it(tmp_path: Path) -> None:
    assert HostSensor(SystemClock(), shm=tmp_path / "none").read().shm_free_bytes is None


def test_a_disk_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        HostSensor(SystemClock(), disk=tmp_path / "none").read()
