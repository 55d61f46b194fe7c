"""The GPUs as bus and driver show them, on a tree that the test makes."""

from pathlib import Path

from gpuherd_agent.readings import DevicesReading
from gpuherd_agent.sensors.devices import DevicesSensor


def board(root: Path, address: str, *, vendor: str = "0x10de", kind: str = "0x030200") -> None:
    folder = root / "sys/bus/pci/devices" / address
    folder.mkdir(parents=True)
    (folder / "vendor").write_text(f"{vendor}\n")
    (folder / "class").write_text(f"{kind}\n")


def test_boards_on_the_bus_taken_by_the_driver_and_their_device_files(tmp_path: Path) -> None:
    board(tmp_path, "0000:18:00.0")
    board(tmp_path, "0000:3b:00.0", kind="0x030000")
    board(tmp_path, "0000:3b:00.1", kind="0x040300")
    board(tmp_path, "0000:5e:00.0", vendor="0x1002")
    (tmp_path / "proc/driver/nvidia/gpus/0000:18:00.0").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (tmp_path / "dev" / name).touch()
    assert DevicesSensor(tmp_path).read(5.0) == DevicesReading(
        at=5.0, pci=("0000:18:00", "0000:3b:00"), driver=("0000:18:00",), nodes=2
    )


def test_places_that_are_not_there_are_not_known(tmp_path: Path) -> None:
    assert DevicesSensor(tmp_path).read(0.0) == DevicesReading(at=0.0)


def test_a_device_that_vanishes_while_it_is_read_is_passed_over(tmp_path: Path) -> None:
    board(tmp_path, "0000:18:00.0")
    (tmp_path / "sys/bus/pci/devices/0000:18:00.0/class").unlink()
    assert DevicesSensor(tmp_path).read(0.0).pci == ()
