"""Network ports: what sysfs says, what the child prints of it, and what earlier looks add."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpuherd_agent.port_history import WINDOW_S, PortHistory
from gpuherd_agent.sensors import ports_child
from gpuherd_agent.sensors.port_lines import parse_ports
from gpuherd_agent.surroundings import PortReading, PortsReading

IB = "mlx5_0/1\t4: ACTIVE\t5: LinkUp\tInfiniBand\t400 Gb/sec (4X NDR)\t2\t\t."


def adapter(root: Path, name: str, *, virtual: bool = False, **files: str) -> None:
    port = root / "sys/class/infiniband" / name / "ports/1"
    (port / "counters").mkdir(parents=True)
    plain = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "link_layer": "InfiniBand",
        "rate": "400 Gb/sec (4X NDR)",
    }
    for key, text in {**plain, **files}.items():
        (port / key).write_text(f"{text}\n")
    (port / "counters/link_downed").write_text("2\n")
    (port.parents[1] / "device").mkdir()
    if virtual:
        (port.parents[1] / "device/physfn").mkdir()


def test_a_line_of_an_infiniband_port() -> None:
    assert list(parse_ports(IB)) == [
        PortReading(name="mlx5_0/1", is_active=True, state="ACTIVE, LinkUp", gbps=400.0, downs_total=2)
    ]


@pytest.mark.parametrize(
    "line",
    [
        IB[:-1],
        IB[:40],
        "",
        "\t" * 7,
        IB.replace("mlx5_0/1", "../../etc/1"),
        IB.replace("4: ACTIVE", "fine"),
        IB + "\t.",
    ],
    ids=["no stop", "cut", "empty", "empty fields", "no name", "no state", "a field too many"],
)
def test_a_line_that_is_cut_or_unknown_yields_nothing(line: str) -> None:
    assert list(parse_ports(line)) == []


def test_values_out_of_range_are_not_offered() -> None:
    line = IB.replace("400 Gb/sec (4X NDR)", "99999999 Gb/sec").replace("\t2\t", "\t-1\t")
    (port,) = parse_ports(line)
    assert (port.gbps, port.downs_total) == (None, None)


def test_of_an_ethernet_port_the_carrier_is_counted() -> None:
    (port,) = parse_ports(IB.replace("InfiniBand", "Ethernet").replace("\t2\t\t.", "\t0\t7\t."))
    assert (port.is_ethernet, port.downs_total) == (True, 7)


def test_the_child_reads_a_tree_and_its_lines_are_understood(tmp_path: Path) -> None:
    adapter(tmp_path, "mlx5_0", virtual=True)
    adapter(tmp_path, "mlx5_10", state="1: DOWN", phys_state="2: Polling", rate="10 Gb/sec (4X SDR)")
    adapter(tmp_path, "mlx5_2", link_layer="Ethernet")
    net = tmp_path / "sys/class/infiniband/mlx5_2/device/net/eth0"
    net.mkdir(parents=True)
    (net / "carrier_down_count").write_text("5\n")
    argv = [sys.executable, "-I", "-S", ports_child.__file__, str(tmp_path)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=20, env={}).stdout
    found = list(parse_ports(said))
    assert [port.name for port in found] == ["mlx5_2/1", "mlx5_10/1", "mlx5_0/1"]
    assert [port.downs_total for port in found] == [5, 2, 2]
    assert found[1].state == "DOWN, Polling"


def test_a_host_without_adapters_has_no_ports(tmp_path: Path) -> None:
    assert list(ports_child.lines(tmp_path)) == []


def look(history: PortHistory, at: float, *ports: PortReading) -> PortsReading:
    return history.take(ports, at)


def up(name: str = "mlx5_0/1", *, gbps: float = 400.0, downs: int = 0) -> PortReading:
    return PortReading(name=name, is_active=True, gbps=gbps, downs_total=downs)


DOWN = PortReading(name="mlx5_0/1", is_active=False, gbps=10.0)


def test_a_port_is_wanted_once_it_was_up() -> None:
    history = PortHistory()
    assert not look(history, 0, DOWN).ports[0].is_wanted
    assert look(history, 10, up()).ports[0].is_wanted
    assert look(history, 20, DOWN).ports[0].is_wanted
    assert look(history, 30).missing == ("mlx5_0/1",)


def test_named_ports_alone_are_wanted_from_the_first_look_on() -> None:
    history = PortHistory(("mlx5_0", "mlx5_4/2"))
    reading = look(history, 0, DOWN, up("mlx5_1/1"))
    assert [watch.is_wanted for watch in reading.ports] == [True, False]
    assert reading.missing == ("mlx5_4/2",)


def test_the_best_rate_is_of_times_when_the_port_was_up() -> None:
    history = PortHistory()
    look(history, 0, PortReading(name="mlx5_0/1", is_active=False, gbps=800.0))
    assert look(history, 10, up(gbps=200.0)).ports[0].best_gbps == 200.0
    assert look(history, 20, up(gbps=100.0)).ports[0].best_gbps == 200.0


def test_falls_count_within_the_window_and_a_counter_that_went_back_begins_anew() -> None:
    history = PortHistory()
    assert look(history, 0, up(downs=41)).ports[0].recent_downs == 0
    assert look(history, 10, up(downs=43)).ports[0].recent_downs == 2
    assert look(history, 20, up(downs=0)).ports[0].recent_downs == 2
    assert look(history, 30, up(downs=1)).ports[0].recent_downs == 3
    assert look(history, 30 + WINDOW_S, up(downs=1)).ports[0].recent_downs == 0
