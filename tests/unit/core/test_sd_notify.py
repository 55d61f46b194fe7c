"""Words to systemd, received on a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuherd.shell.sd_notify import SdNotify


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    address = str(tmp_path / "notify") if request.param == "path" else f"@gpuherd-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(address.replace("@", "\0"))
        sock.settimeout(5)
        yield sock, address


def test_each_word_arrives_as_systemd_expects_it(systemd: tuple[socket.socket, str]) -> None:
    sock, address = systemd
    notify = SdNotify({"NOTIFY_SOCKET": address})
    notify.ready("3 of 8 GPUs")
    notify.status("joining\nREADY=0")
    notify.watchdog()
    notify.stopping()
    assert [sock.recv(1_000) for _ in range(4)] == [
        b"READY=1\nSTATUS=3 of 8 GPUs",
        b"STATUS=joining READY=0",
        b"WATCHDOG=1",
        b"STOPPING=1",
    ]


def test_a_reload_carries_the_monotonic_instant(systemd: tuple[socket.socket, str]) -> None:
    sock, address = systemd
    SdNotify({"NOTIFY_SOCKET": address}).reloading()
    word, _, instant = sock.recv(1_000).decode().partition("\n")
    assert word == "RELOADING=1"
    assert int(instant.removeprefix("MONOTONIC_USEC=")) > 0


@pytest.mark.parametrize(
    "environ",
    [{}, {"NOTIFY_SOCKET": ""}, {"NOTIFY_SOCKET": "/nonexistent/notify"}, {"NOTIFY_SOCKET": "vsock:2:1"}],
    ids=["none", "empty", "gone", "of another kind"],
)
def test_without_a_listener_a_word_is_lost_and_nothing_fails(environ: dict[str, str]) -> None:
    SdNotify(environ).ready()


@pytest.mark.parametrize(
    ("environ", "period_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
    ids=["no watchdog", "ours", "ours by pid", "another process's", "garbage"],
)
def test_the_watchdog_wants_a_word_twice_per_period(environ: dict[str, str], period_s: float | None) -> None:
    assert SdNotify(environ).watchdog_period_s == period_s
