"""The shipped autoscaler as a process: its API, its broker, its faults. The node is played by the test."""

import asyncio
import http.client
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.kit.broker import Mosquitto, free_port
from tests.kit.prometheus import prometheus
from tests.kit.repository import ROOT
from tests.kit.scaler import ONE, state

from gpuherd.broker_settings import BrokerSettings
from gpuherd.bus import Message
from gpuherd.names import ClusterName
from gpuherd.phases import Phase
from gpuherd.shell.broker import MqttBus
from gpuherd.shell.clock import SystemClock
from gpuherd.wire import topics
from gpuherd.wire.codec import decode, encode
from gpuherd.wire.documents import Desired, Online

pytestmark = [pytest.mark.broker]

CLUSTER = ClusterName("herd")
BIN = Path(sys.executable).parent


class Unix(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=10.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(10.0)
        self.sock.connect(str(self._path))


class Daemon:
    """One autoscaler with its folder; restart it as often as you like."""

    def __init__(self, folder: Path, port: int, *, embedded: bool = True) -> None:
        self.folder = folder
        self.port = port
        self.socket = folder / "s.sock"
        self.config = folder / "autoscaler.toml"
        self.metrics_port = free_port()
        self.process: subprocess.Popen[str] | None = None
        self.config.write_text(
            f"""
            cluster = "herd"
            state_dir = "{folder / "state"}"
            insecure = true
            [scaler]
            start_mode = "enforce"
            interval_s = 0.5
            min_gap_s = 0.1
            settle_s = 1.0
            leadership = "single"
            [head]
            addresses = ["127.0.0.1:9"]
            deadline_s = 0.5
            [broker]
            url = "mqtt://127.0.0.1:{port}"
            embedded = {str(embedded).lower()}
            [api]
            socket = "{self.socket}"
            [metrics]
            port = {self.metrics_port}
            [[pool]]
            name = "p"
            nodes = ["n-[1-3]"]
            min = 0
            max = 3
            gpus_per_node = 8
            """
        )

    def start(self) -> None:
        self.process = subprocess.Popen(
            [str(BIN / "gpuherd-autoscaler"), "--config", str(self.config)],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        end = time.monotonic() + 20.0
        while time.monotonic() < end:
            with suppress(OSError):
                if self.get("/api/v1/version")[0] == 200:
                    return
            assert self.process.poll() is None, self.process.communicate()[1]
            time.sleep(0.05)
        raise AssertionError("the autoscaler does not answer")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
        connection = Unix(self.socket)
        try:
            connection.request(
                method, path, body=body, headers={"Content-Type": "application/json", **headers}
            )
            reply = connection.getresponse()
            text = reply.read()
            return reply.status, json.loads(text) if text[:1] in b"{[" else text
        finally:
            connection.close()

    def get(self, path: str) -> tuple[int, Any]:
        return self.ask("GET", path)

    def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        return self.ask("POST", path, json.dumps(body).encode(), **headers)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, free_port())
    try:
        yield made
    finally:
        if made.process is not None and made.process.poll() is None:
            made.kill()


class Played:
    """A node without an agent: speaks when told to, and keeps what it was ordered."""

    def __init__(self, bus: MqttBus) -> None:
        self.bus = bus
        self.orders: list[Desired] = []
        self.payloads: list[bytes] = []
        self.seq = 0

    def receive(self, message: Message) -> None:
        self.payloads.append(message.payload)
        self.orders.append(decode(message.payload, Desired))

    def say(self, phase: Phase) -> None:
        self.seq += 1
        obeys = self.orders[-1] if self.orders else None
        told = state(ONE, *(obeys.holds if obeys else ()), phase=phase, obeys=obeys, seq=self.seq)
        self.bus.keep(topics.node(CLUSTER, ONE, "state"), encode(told))

    async def until(self, what: str, is_so: Callable[[], bool], within_s: float = 20.0) -> None:
        end = time.monotonic() + within_s
        while not is_so():
            assert time.monotonic() < end, what
            await asyncio.sleep(0.05)


@asynccontextmanager
async def node(port: int) -> AsyncIterator[Played]:
    settings = BrokerSettings(url=f"mqtt://127.0.0.1:{port}", reconnect_first_s=0.2, reconnect_cap_s=0.4)
    bus = MqttBus(settings, client_id="played", clock=SystemClock(), rng=random.Random(1))  # noqa: S311
    played = Played(bus)
    bus.subscribe(topics.node(CLUSTER, ONE, "desired"), played.receive)
    online = Online(cluster=CLUSTER, node=ONE, epoch=1, conn=1, online=True)
    bus.keep(topics.node(CLUSTER, ONE, "online"), encode(online))
    running = asyncio.ensure_future(bus.run())
    try:
        await played.until("connected", lambda: bus.is_connected)
        yield played
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def drained(daemon: Daemon, played: Played) -> str:
    """Drain the node and return the operation's id once the order has come."""
    await played.until("a term is taken", lambda: daemon.get("/api/v1/fleet")[1]["term"] > 0)
    status, operation = daemon.post("/api/v1/nodes/n-1:drain", {"by": "ann", "reason": "fan"})
    assert (status, operation["state"]) == (202, "open")
    await played.until("the order comes", lambda: any(o.holds for o in played.orders))
    return str(operation["id"])


async def test_what_was_decided_is_kept_over_a_restart_and_explained(daemon: Daemon) -> None:
    daemon.start()
    async with node(daemon.port) as played:
        played.say(Phase.MEMBER)
        await drained(daemon, played)
        status, plan = daemon.get("/api/v1/plan")
        assert (status, plan["demand_known"], set(plan["kept"])) == (200, False, {"n-1", "n-2", "n-3"})
        status, problem = daemon.post("/api/v1/plan", {"demand": [{"resources": {"GPU": 8}, "count": 1}]})
        assert (status, problem["detail"]) == (
            503,
            "Ray's head tells nothing of the present, so no plan can be made",
        )
        assert daemon.post("/api/v1/plan", {"demand": [{"resources": {"GPU": -8}, "count": 1}]})[0] == 400
        past = daemon.get("/api/v1/nodes/n-1/history")[1]
        assert "drain.asked" in [event["kind"] for event in past["events"]]
        assert [operation["kind"] for operation in past["operations"]] == ["drain"]
        before = daemon.get("/api/v1/decisions")[1]["decisions"]
        assert before
        daemon.kill()
        daemon.start()
        newest = before[0]
        assert daemon.get(f"/api/v1/decisions/{newest['id']}")[0] == 200
        then = daemon.get(f"/api/v1/plan?at={newest['at']}")[1]
        assert then["decision"] == newest["id"]
        assert daemon.get("/api/v1/plan?at=1")[0] == 404
        assert daemon.get("/api/v1/plan?at=nan")[0] == 400
        assert daemon.get("/api/v1/decisions?limit=0")[0] == 400
        assert daemon.get("/api/v1/nodes/n-9/history")[0] == 404
        await played.until("a plan", lambda: daemon.get("/api/v1/plan")[0] == 200)
        command = [str(BIN / "agentctl"), "--socket", str(daemon.socket), "why", "n-1"]
        told = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        assert "fan" in told.stdout


async def test_a_drain_goes_out_is_followed_and_ends(daemon: Daemon) -> None:
    daemon.start()
    async with node(daemon.port) as played:
        played.say(Phase.MEMBER)
        operation = await drained(daemon, played)
        played.say(Phase.DRAINING)
        path = f"/api/v1/operations/{operation}"
        await played.until(
            "it is seen", lambda: any("draining" in s["text"] for s in daemon.get(path)[1]["steps"])
        )
        played.say(Phase.OUTSIDE)
        await played.until("it is done", lambda: daemon.get(path)[1]["state"] == "done")
        held = daemon.get("/api/v1/nodes/n-1")[1]
        assert [h["reason"] for h in held["holds"]] == ["fan"]


@pytest.mark.parametrize("embedded", [True, False], ids=["amqtt", "mosquitto"])
async def test_a_scaler_killed_in_mid_drain_goes_on_where_it_was(tmp_path: Path, embedded: bool) -> None:
    (tmp_path / "b").mkdir()
    broker = None if embedded else Mosquitto(tmp_path / "b")
    if broker is not None:
        await broker.start()
    port = free_port() if broker is None else int(broker.url.rpartition(":")[2])
    daemon = Daemon(tmp_path, port, embedded=embedded)
    daemon.start()
    try:
        async with node(port) as played:
            played.say(Phase.MEMBER)
            operation = await drained(daemon, played)
            played.say(Phase.DRAINING)
            before, as_sent = played.orders[-1], played.payloads[-1]
            daemon.kill()
            played.orders.clear()
            played.payloads.clear()
            daemon.start()
            await played.until("the order is published again", lambda: bool(played.orders))
            after = played.orders[-1]
            if not embedded:  # an embedded broker died too: what it gave out first may be missed
                assert played.payloads[0] == as_sent, "first the same generation, byte for byte"
            assert [h.id for h in after.holds] == [h.id for h in before.holds]
            assert (after.serve, after.op_id) == (before.serve, before.op_id)
            assert (after.term, after.generation) >= (before.term, before.generation)
            assert daemon.get(f"/api/v1/operations/{operation}")[1]["state"] == "open"
            await played.until("the new term is heard", lambda: played.orders[-1].term > before.term)
            played.say(Phase.OUTSIDE)
            path = f"/api/v1/operations/{operation}"
            await played.until("it is done", lambda: daemon.get(path)[1]["state"] == "done")
    finally:
        daemon.kill()
        if broker is not None:
            await broker.stop()


async def test_a_broker_that_comes_back_empty_is_given_everything_again(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    broker = Mosquitto(tmp_path / "b")
    await broker.start()
    daemon = Daemon(tmp_path, int(broker.url.rpartition(":")[2]), embedded=False)
    try:
        daemon.start()
        async with node(daemon.port) as played:
            played.say(Phase.MEMBER)
            await drained(daemon, played)
            order = played.payloads[-1]
        await broker.stop()
        await played.until("it is noticed", lambda: not daemon.get("/api/v1/fleet")[1]["broker_connected"])
        assert [h["reason"] for h in daemon.get("/api/v1/nodes/n-1")[1]["holds"]] == ["fan"]
        await broker.start()
        async with node(daemon.port) as reborn:
            await reborn.until("the order stands again", lambda: order in reborn.payloads)
    finally:
        if daemon.process is not None:
            daemon.kill()
        await broker.stop()


async def test_a_full_disk_refuses_what_is_asked_and_publishes_nothing(daemon: Daemon) -> None:
    daemon.start()
    async with node(daemon.port) as played:
        played.say(Phase.MEMBER)
        await played.until("a term is taken", lambda: daemon.get("/api/v1/fleet")[1]["term"] > 0)
        assert daemon.process is not None
        before = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, before[1]))
        status, problem = daemon.post("/api/v1/nodes/n-1:drain", {"by": "ann"})
        assert (status, problem["code"]) == (409, "refused")
        assert "mend the disk" in problem["detail"]
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, before)
        assert not any(order.holds for order in played.orders)
        assert daemon.get("/api/v1/operations")[1]["operations"] == []
        await drained(daemon, played)


def test_an_unsound_ledger_is_kept_and_disarms_the_scaler(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.get("/api/v1/fleet")[1]["mode"] == "enforce"
    daemon.kill()
    for file in (daemon.folder / "state").glob("ledger.sqlite3*"):
        file.write_bytes(b"no database" * 500)
    for _ in range(2):
        daemon.start()
        assert daemon.get("/api/v1/fleet")[1]["mode"] == "recommend"
        daemon.kill()
    assert [f.name for f in (daemon.folder / "state").glob("*.unsound-*")] == ["ledger.sqlite3.unsound-1"]


async def test_without_a_head_it_runs_says_so_and_takes_nothing_away(daemon: Daemon) -> None:
    daemon.start()
    async with node(daemon.port) as played:
        played.say(Phase.MEMBER)
        await asyncio.sleep(3.0)
        fleet = daemon.get("/api/v1/fleet")[1]
        assert fleet["head_reachable"] is False
        assert fleet["broker_connected"] is True
        assert all(order.serve and not order.holds for order in played.orders)


async def test_garbage_on_its_topics_costs_it_nothing(daemon: Daemon) -> None:
    daemon.start()
    async with node(daemon.port) as played:
        played.say(Phase.MEMBER)
        await played.until("it is heard", lambda: daemon.get("/api/v1/nodes/n-1")[1]["phase"] == "member")
        for payload in (b"", b"\xff\x00", b"[" * 5_000, b'{"v":1,"v":1}', b" " * 66_000, b'{"v":9}'):
            for leaf in ("state", "online"):
                played.bus.tell(topics.node(CLUSTER, ONE, leaf), payload)
        played.bus.tell(topics.node(CLUSTER, ONE, "state"), encode(state(ONE, phase=Phase.OUTSIDE, epoch=0)))
        await asyncio.sleep(1.0)
        assert daemon.get("/api/v1/nodes/n-1")[1]["phase"] == "member"
        played.say(Phase.DRAINING)
        await played.until(
            "it still listens", lambda: daemon.get("/api/v1/nodes/n-1")[1]["phase"] == "draining"
        )


def test_a_bad_request_is_answered_with_what_is_wrong(daemon: Daemon) -> None:
    daemon.start()
    cases = [
        (daemon.get("/api/v1/nodes/stranger"), 404, "not_found"),
        (daemon.get("/api/v1/operations/none"), 404, "not_found"),
        (daemon.get("/api/v1/nothing"), 404, "not_found"),
        (daemon.post("/api/v1/nodes/BAD:drain", {}), 400, "name"),
        (daemon.post("/api/v1/nodes/n-1:drain", {"for": 3}), 400, "fields"),
        (daemon.ask("POST", "/api/v1/nodes/n-1:drain", b"{"), 400, "syntax"),
        (daemon.ask("POST", "/api/v1/nodes/n-1:drain", b"{" * 40), 400, "depth"),
        (daemon.ask("POST", "/api/v1/nodes/n-1:drain", b" " * 70_000), 413, "oversize"),
        (daemon.post("/api/v1/scaler:mode", {"mode": "panic"}), 409, "refused"),
    ]
    for (status, body), wanted, code in cases:
        assert (status, body["code"]) == (wanted, code), body
        assert body["detail"]


def test_an_idempotency_key_finds_the_first_operation(daemon: Daemon) -> None:
    daemon.start()
    end = time.monotonic() + 10.0
    while daemon.get("/api/v1/fleet")[1]["term"] == 0 and time.monotonic() < end:
        time.sleep(0.1)
    key = {"Idempotency-Key": "abc"}
    first = daemon.post("/api/v1/nodes/n-1:drain", {"by": "ann"}, **key)[1]
    assert daemon.post("/api/v1/nodes/n-1:drain", {"by": "ann"}, **key)[1]["id"] == first["id"]
    status, body = daemon.post("/api/v1/nodes/n-2:drain", {"by": "ann"}, **key)
    assert (status, body["code"]) == (409, "conflict")
    preview = daemon.post("/api/v1/nodes/n-3:drain", {"by": "ann", "dry_run": True})
    assert preview[0] == 200
    assert daemon.get("/api/v1/nodes/n-3")[1]["holds"] == []


def test_its_page_tells_the_fleet(daemon: Daemon) -> None:
    daemon.start()
    url = f"http://127.0.0.1:{daemon.metrics_port}/metrics"
    with urllib.request.urlopen(url, timeout=5.0) as reply:
        text = reply.read().decode()
    assert 'gpuherd_scaler_nodes{lifecycle="missing"} 3' in text
    assert 'gpuherd_scaler_mode{mode="enforce"} 1' in text


def test_sigterm_ends_it_quickly_and_leaves_no_socket(daemon: Daemon) -> None:
    daemon.start()
    assert daemon.process is not None
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(3.0) == 0
    assert not daemon.socket.exists()


def test_every_problem_of_its_settings_is_told_at_once(tmp_path: Path) -> None:
    config = tmp_path / "bad.toml"
    config.write_text(
        'cluster = "A"\ninsecure = true\ncolour = 1\n[head]\naddresses = ["x"]\n[api]\nsocket = 3\n'
    )
    done = subprocess.run(
        [str(BIN / "gpuherd-autoscaler"), "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 78
    for key in ("colour", "api.socket"):
        assert f"{key}:" in done.stderr


@pytest.mark.parametrize("what", ["port", "socket", "ledger"])
def test_what_is_taken_already_is_named(daemon: Daemon, tmp_path: Path, what: str) -> None:
    daemon.start()
    (tmp_path / "other").mkdir()
    other = Daemon(tmp_path / "other", daemon.port if what == "port" else free_port())
    text = other.config.read_text()
    if what == "socket":
        text = text.replace(str(other.socket), str(daemon.socket))
    if what == "ledger":
        text = text.replace(str(tmp_path / "other" / "state"), str(tmp_path / "state"))
    other.config.write_text(text)
    done = subprocess.run(
        [str(BIN / "gpuherd-autoscaler"), "--config", str(other.config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
        env=os.environ.copy(),
    )
    assert done.returncode == 78, done.stderr
    key = {"port": "broker.", "socket": "api.socket", "ledger": "state_dir"}[what]
    assert key in done.stderr
    assert daemon.get("/livez")[0] == 200


@pytest.mark.prometheus
async def test_prometheus_misses_a_host_that_never_spoke(daemon: Daemon, tmp_path: Path) -> None:
    """The configuration is the one that agentctl prints; only its pace is quicker."""
    daemon.start()
    done = await asyncio.to_thread(
        subprocess.run,
        [BIN / "agentctl", "--socket", daemon.socket, "prometheus", "config", "--rules", ROOT / "alerts"],
        capture_output=True,
        text=True,
        check=True,
    )
    config = done.stdout.replace("15s", "1s").replace("gpuherd-*.yml", "gpuherd-node.yml")
    async with prometheus(tmp_path, config) as server:
        silent = await server.until('up{job="gpuherd-agent"} == 0', 3)
        assert {(s["node"], s["pool"], s["cluster"], s["instance"]) for s in silent} == {
            (f"n-{i}", "p", "herd", f"n-{i}:9440") for i in (1, 2, 3)
        }
        await server.until('up{job="gpuherd-autoscaler", cluster="herd"} == 1', 1)
        await server.until('ALERTS{alertname="GpuherdAgentSilent", alertstate="pending"}', 3)
