"""What /proc tells of a host that stands still."""

from pathlib import Path

from gpuherd_agent.sensors.host_stalls import (
    HostStalls,
    is_stuck_in_driver,
    parse_blocked,
    parse_kills,
    parse_stall,
)

PRESSURE = (
    "some avg10=12.00 avg60=3.00 avg300=1.00 total=9\nfull avg10=31.50 avg60=2.00 avg300=0.50 total=7\n"
)


def test_a_stall_is_the_share_in_which_some_waited_or_nothing_ran() -> None:
    assert parse_stall(PRESSURE, "full") == 0.315
    assert parse_stall(PRESSURE, "some") == 0.12
    assert parse_stall("some avg10=1.00\n", "full") is None


def test_pressure_and_blocked_processes_are_read_from_a_tree(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    for name in ("memory", "io", "cpu"):
        (tmp_path / "pressure" / name).write_text(PRESSURE)
    (tmp_path / "stat").write_text("cpu 1 2\nprocs_running 2\nprocs_blocked 4\n")
    stalls = HostStalls(tmp_path)
    assert (stalls.io_stall_ratio(), stalls.cpu_stall_ratio()) == (0.315, 0.12)
    assert stalls.blocked_processes() == 4
    assert parse_blocked("procs_running 2\n") is None


def test_kills_are_read_from_vmstat() -> None:
    assert parse_kills("nr_free_pages 1\noom_kill 3\nx 4\n") == 3
    assert parse_kills("") is None


def test_a_process_of_the_driver_in_state_d_is_stuck() -> None:
    assert is_stuck_in_driver("77 (nvidia-modeset/) D 2 0 0")
    assert not is_stuck_in_driver("77 (nvidia-smi) S 2 0 0")
    assert not is_stuck_in_driver("77 (my) D nvidia) D 2 0 0")
    assert not is_stuck_in_driver("")


def test_stuck_processes_are_counted_on_a_tree(tmp_path: Path) -> None:
    for pid, stat in (
        ("1", "1 (init) S 0"),
        ("2", "2 (nvidia-smi) D 1"),
        ("3", "3 (nvidia-uvm) D 1"),
        ("x", ""),
    ):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "stat").write_text(stat)
    stalls = HostStalls(tmp_path)
    assert stalls.stuck_processes() == 2
    assert (stalls.memory_stall_ratio(), stalls.kills()) == (None, None)


def test_this_machine_is_read() -> None:
    stuck = HostStalls().stuck_processes()
    assert stuck is not None
    assert stuck >= 0
