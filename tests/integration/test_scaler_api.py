"""The REST API over a real unix socket, with the real book, ledger and loop. Only the head is a stand-in."""

import asyncio
import contextlib
import getpass
import json
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.kit.scaler import CLUSTER, ONE, KeptBus, document, state
from tests.kit.scaler import book as opened

from gpuherd import holds
from gpuherd.health import Severity, Verdict
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName, PoolName, RayNodeId
from gpuherd.phases import Phase
from gpuherd.ray import ClusterSight, RayNode, RayStatus, Shape
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.http_listen import Unix, serving
from gpuherd.wire.documents import Gpu, Witness
from gpuherd_autoscaler.api import Api
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.commander import Commander
from gpuherd_autoscaler.faces import Look
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.loop import Loop
from gpuherd_autoscaler.people import People
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.sources import SightReader
from gpuherd_autoscaler.sqlite_ledger import KEPT_EVENTS, SqliteLedger
from gpuherd_autoscaler.steering import Steering
from gpuherd_autoscaler.steering_api import SteeringApi

LIMITS = Limits(pools=(Pool(name=PoolName("p"), nodes=("n-[1-3]",), min=0, max=3, gpus_per_node=8),))
SIGHT = ClusterSight(
    session="session-1",
    nodes=(
        RayNode(
            id=RayNodeId("ray-1"),
            name=ONE,
            status=RayStatus.RUNNING,
            total={"GPU": 8.0},
            available={"GPU": 2.0},
            activity=("6 GPUs in use", "a driver"),
        ),
    ),
    pending=(Shape(resources=(("GPU", 1.0),), count=3),),
)
HEALTH = Hold(id=HoldId("h"), owner=holds.HEALTH, kind=HoldKind.EVICT, reason="gpu lost", since=0.0)


class Scaler:
    """One life of the scaler's inner parts, and a client at its socket."""

    def __init__(self, book: Book, socket: Path) -> None:
        self.book = book
        self.socket = socket
        clock = SystemClock()
        reader = SightReader(self._sight, clock, deadline_s=5.0)
        publisher = Publisher(KeptBus(), book.ledger, CLUSTER)
        self.loop = Loop(book=book, bus=KeptBus(), publisher=publisher, read_sight=reader.read, limits=LIMITS)
        self.bus = KeptBus()
        self.api = Api(People(book), Commander(book, self.bus), self.look, is_ready=self.why_not)
        for event in book.ledger.events(after=0, limit=KEPT_EVENTS):
            self.api.put(event)
        book.on_event(self.api.put)

    async def _sight(self) -> ClusterSight:
        return SIGHT

    def look(self) -> Look:
        return Look(book=self.book, decided=self.loop.outcome.last, broker_connected=True)

    def why_not(self) -> str:
        return "" if self.loop.outcome.last else "no decision has been made yet"

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.UnixConnector(path=str(self.socket))
        async with aiohttp.ClientSession(base_url="http://scaler", connector=connector) as session:
            yield session

    async def ask(
        self, method: str, path: str, body: bytes | Mapping[str, object] = b"", **headers: str
    ) -> tuple[int, Any]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client() as client, client.request(method, path, data=data, headers=given) as reply:
            text = await reply.read()
            assert reply.headers["X-Content-Type-Options"] == "nosniff"
            return reply.status, json.loads(text) if reply.content_type.endswith("json") else text.decode()

    async def get(self, path: str) -> tuple[int, Any]:
        return await self.ask("GET", path)

    async def drain(self, node: str = "n-1", **body: object) -> tuple[int, Any]:
        return await self.ask("POST", f"/api/v1/nodes/{node}:drain", body)

    async def undrain(self, node: str = "n-1", **body: object) -> tuple[int, Any]:
        return await self.ask("POST", f"/api/v1/nodes/{node}:undrain", body)

    def hear(
        self,
        node: NodeName = ONE,
        *listed: Hold,
        phase: Phase = Phase.MEMBER,
        seq: int = 1,
        **more: object,
    ) -> None:
        order = self.book.order(node)
        told = state(node, *listed, phase=phase, obeys=document(self.book, node) if order else None, seq=seq)
        gpus = tuple(Gpu(uuid=f"GPU-{i}", present=True, healthy=True) for i in range(8))  # type: ignore[arg-type]
        told = msgspec.structs.replace(
            told,
            gpus=gpus,
            gpus_declared=8,
            gpus_counted=8,
            verdict=Verdict(severity=Severity.OK),
            witness=Witness(ray_workers=2, foreign_gpu_processes=0),
            **more,
        )
        self.book.inventory.receive_state(told, at=self.book.clock.now())


@contextlib.asynccontextmanager
async def life(folder: Path, *, has_decided: bool = True) -> AsyncIterator[Scaler]:
    socket = folder / "s.sock"
    with opened(folder / "state", term=0) as book:
        scaler = Scaler(book, socket)
        steering = SteeringApi(Steering(book), scaler.look, lambda: None, scaler.loop.wake)
        async with serving(scaler.api.app(*steering.routes()), Unix(path=socket, key="api.socket")):
            if has_decided:
                scaler.hear()
                await scaler.loop.cycle()
            yield scaler


@pytest.fixture
async def scaler(tmp_path: Path) -> AsyncIterator[Scaler]:
    async with life(tmp_path) as made:
        yield made


async def test_every_page_answers_what_is_known(scaler: Scaler) -> None:
    assert await scaler.get("/livez") == (200, "ok\n")
    assert await scaler.get("/readyz") == (200, "ok\n")
    assert (await scaler.get("/api/v1/version"))[1]["api"] == "v1"
    status, fleet = await scaler.get("/api/v1/fleet")
    assert status == 200
    assert (fleet["cluster"], fleet["mode"], fleet["term"], fleet["nodes"]) == ("herd", "recommend", 1, 3)
    assert (fleet["head_reachable"], fleet["head_session"]) == (True, "session-1")
    assert fleet["by_lifecycle"] == {"missing": 2, "serving": 1}
    assert (fleet["gpus_declared"], fleet["gpus_healthy"], fleet["gpus_serving"]) == (8, 8, 8)
    assert fleet["demand"] == [{"resources": {"GPU": 1.0}, "count": 3}]
    assert fleet["decision"]
    nodes = (await scaler.get("/api/v1/nodes"))[1]["nodes"]
    assert [(n["name"], n["lifecycle"]) for n in nodes] == [
        ("n-1", "serving"),
        ("n-2", "missing"),
        ("n-3", "missing"),
    ]
    one = (await scaler.get("/api/v1/nodes/n-1"))[1]
    assert one == nodes[0]
    assert (one["ray_status"], one["ray_node_id"], one["gpus_counted"]) == ("running", "ray-1", 8)


async def test_before_the_first_decision_it_is_live_not_ready_and_says_what_it_does_not_know(
    tmp_path: Path,
) -> None:
    async with life(tmp_path, has_decided=False) as scaler:
        assert (await scaler.get("/livez"))[0] == 200
        status, problem = await scaler.get("/readyz")
        assert (status, problem["code"]) == (503, "retry")
        fleet = (await scaler.get("/api/v1/fleet"))[1]
        assert (fleet["head_reachable"], fleet["decided_at"], fleet["term"]) == (None, None, 0)
        assert (await scaler.get("/api/v1/nodes/n-1"))[1]["reason"] == "not looked at yet"
        status, problem = await scaler.drain(by="ann")
        assert (status, problem["code"]) == (503, "retry")
        assert "term" in problem["detail"]


async def test_a_node_shows_what_is_in_its_way(scaler: Scaler) -> None:
    scaler.hear(seq=2, phase=Phase.DRAINING, blockers=("task train x2",), obstacles=("raylet_gone",))
    one = (await scaler.get("/api/v1/nodes/n-1"))[1]
    assert (one["blockers"], one["obstacles"]) == (["task train x2"], ["raylet_gone"])


async def test_a_drain_and_its_undrain_from_request_to_end(scaler: Scaler) -> None:
    status, drain = await scaler.drain(by="Ann", reason="fan", for_s=60.0, on_deadline="stop")
    assert (status, drain["kind"], drain["state"], drain["by"]) == (202, "drain", "open", "user:ann")
    (held,) = (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"]
    assert (held["owner"], held["reason"], held["for_s"], held["on_deadline"]) == (
        "user:ann",
        "fan",
        60.0,
        "stop",
    )
    assert [o["id"] for o in (await scaler.get("/api/v1/operations?open=1"))[1]["operations"]] == [
        drain["id"]
    ]
    scaler.hear(ONE, *document(scaler.book).holds, phase=Phase.OUTSIDE, seq=2)
    await scaler.loop.cycle()
    ended = (await scaler.get(f"/api/v1/operations/{drain['id']}"))[1]
    assert (ended["state"], ended["result"]) == ("done", "the node is outside")
    status, undrain = await scaler.undrain(by="bob", hold=held["id"])
    assert (status, undrain["kind"], undrain["reason"]) == (202, "undrain", "undrained by bob")
    assert (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"] == []
    everything = (await scaler.get("/api/v1/operations"))[1]["operations"]
    assert [o["kind"] for o in everything] == ["undrain", "drain"]


async def test_a_leave_and_a_join_from_request_to_end(scaler: Scaler) -> None:
    status, leave = await scaler.ask("POST", "/api/v1/nodes/n-1:leave", {"by": "ann"})
    assert (status, leave["kind"], leave["reason"]) == (202, "leave", "manual by ann")
    (held,) = (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"]
    assert held["for_s"] is None
    scaler.hear(ONE, *document(scaler.book).holds, phase=Phase.OUTSIDE, seq=2)
    await scaler.loop.cycle()
    assert (await scaler.get(f"/api/v1/operations/{leave['id']}"))[1]["result"] == "the node is outside"
    status, join = await scaler.ask("POST", "/api/v1/nodes/n-1:join", {"by": "bob"})
    assert (status, join["kind"], join["reason"]) == (202, "join", "joined by bob")
    scaler.hear(phase=Phase.OUTSIDE, seq=3, reason="no answer", obstacles=("head_silent",))
    await scaler.loop.cycle()
    waiting = (await scaler.get(f"/api/v1/operations/{join['id']}"))[1]
    assert (waiting["state"], waiting["steps"][-1]["text"]) == (
        "open",
        "outside: no answer; obstacles: head_silent",
    )
    scaler.hear(seq=4)
    await scaler.loop.cycle()
    ended = (await scaler.get(f"/api/v1/operations/{join['id']}"))[1]
    assert (ended["state"], ended["result"]) == ("done", "the node serves")


async def test_a_join_that_health_stops_on_the_way_fails_with_its_reason(scaler: Scaler) -> None:
    join = (await scaler.ask("POST", "/api/v1/nodes/n-1:join", {"by": "bob"}))[1]
    scaler.hear(ONE, HEALTH, phase=Phase.OUTSIDE, seq=2)
    await scaler.loop.cycle()
    ended = (await scaler.get(f"/api/v1/operations/{join['id']}"))[1]
    assert (ended["state"], ended["result"]) == ("failed", "held by health: gpu lost")
    assert (await scaler.ask("POST", "/api/v1/nodes/n-1:join", {"by": "bob"}))[0] == 409


async def test_a_request_without_a_name_is_of_the_user_at_the_other_end(scaler: Scaler) -> None:
    operation = (await scaler.drain())[1]
    assert operation["by"] == holds.user(getpass.getuser())


async def test_a_dry_run_says_what_would_happen_and_changes_nothing(scaler: Scaler) -> None:
    status, preview = await scaler.drain(by="ann", reason="fan", for_s=60.0, dry_run=True)
    assert status == 200
    assert preview["node"]["name"] == "n-1"
    assert preview["ray_activity"] == ["6 GPUs in use", "a driver"]
    text = " / ".join(preview["effects"])
    for part in ("fan", "2 Ray worker processes", "after 60 s", "8 GPUs are out of service"):
        assert part in text
    assert (await scaler.get("/api/v1/operations"))[1]["operations"] == []
    assert dict(scaler.book.ledger.orders) == {}


async def test_an_undrain_of_healths_hold_is_refused_with_its_reason(scaler: Scaler) -> None:
    scaler.hear(ONE, HEALTH, phase=Phase.DRAINING, seq=2)
    for body in ({"by": "ann"}, {"by": "ann", "hold": "h"}):
        status, problem = await scaler.undrain(**body)
        assert (status, problem["code"]) == (409, "refused")
        assert "gpu lost" in problem["detail"]
    assert [h["id"] for h in (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"]] == ["h"]


async def test_a_key_makes_a_repeated_request_find_the_first_and_another_one_conflict(scaler: Scaler) -> None:
    async def keyed(node: str, verb: str, key: str = "k") -> tuple[int, Any]:
        return await scaler.ask("POST", f"/api/v1/nodes/{node}:{verb}", {"by": "ann"}, Idempotency_Key=key)

    first = await keyed("n-1", "drain")
    assert first[0] == 202
    assert await keyed("n-1", "drain") == first
    for node, verb in (("n-2", "drain"), ("n-1", "undrain")):
        status, problem = await keyed(node, verb)
        assert (status, problem["code"]) == (409, "conflict")
    status, problem = await keyed("n-1", "drain", "k" * 129)
    assert (status, problem["code"]) == (400, "fields")
    assert len((await scaler.get("/api/v1/operations"))[1]["operations"]) == 1


async def test_the_mode_is_set_and_shown(scaler: Scaler) -> None:
    assert await scaler.ask("POST", "/api/v1/scaler:mode", {"mode": "enforce"}) == (200, {"mode": "enforce"})
    assert (await scaler.get("/api/v1/fleet"))[1]["mode"] == "enforce"


async def test_a_pause_and_a_size_are_set_shown_and_ended(scaler: Scaler) -> None:
    status, said = await scaler.ask("POST", "/api/v1/scaler:pause", {"by": "ann", "for_s": 60})
    assert (status, said["pause"]["by"]) == (200, "user:ann")
    status, said = await scaler.ask("POST", "/api/v1/pools/p:scale", {"by": "bob", "nodes": 2})
    assert (status, said["sizes"]["p"]["nodes"], said["pause"]["by"]) == (200, 2, "user:ann")
    fleet = (await scaler.get("/api/v1/fleet"))[1]
    assert fleet["wishes"] == said
    assert (await scaler.ask("POST", "/api/v1/scaler:resume", {}))[1]["pause"] is None
    assert (await scaler.ask("POST", "/api/v1/pools/p:scale", {}))[1] == {"pause": None, "sizes": {}}


DRAIN = "/api/v1/nodes/n-1:drain"


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("GET", "/api/v1/nodes/stranger", b"", 404, "not_found"),
        ("GET", "/api/v1/nodes/BAD", b"", 400, "name"),
        ("GET", f"/api/v1/nodes/{'x' * 300}", b"", 404, "not_found"),
        ("GET", "/api/v1/operations/none", b"", 404, "not_found"),
        ("GET", "/api/v1/nothing", b"", 404, "not_found"),
        ("DELETE", "/api/v1/nodes/n-1", b"", 405, "method"),
        ("POST", "/api/v1/nodes/stranger:drain", b"{}", 404, "not_found"),
        ("POST", "/api/v1/nodes/stranger:drain", b'{"dry_run":true}', 404, "not_found"),
        ("POST", "/api/v1/nodes/stranger:undrain", b"{}", 404, "not_found"),
        ("POST", "/api/v1/nodes/n-1:undrain", b"{}", 409, "refused"),
        ("POST", "/api/v1/nodes/n-1:undrain", b'{"hold":"none"}', 409, "refused"),
        ("POST", "/api/v1/nodes/stranger:leave", b"{}", 404, "not_found"),
        ("POST", "/api/v1/nodes/stranger:join", b"{}", 404, "not_found"),
        ("POST", "/api/v1/nodes/n-1:join", b'{"force":true}', 400, "fields"),
        ("POST", "/api/v1/nodes/n-1:leave", b'{"for_s":-1}', 409, "refused"),
        ("POST", DRAIN, b"{", 400, "syntax"),
        ("POST", DRAIN, b"\xff\xfe", 400, "syntax"),
        ("POST", DRAIN, b"[]", 400, "fields"),
        ("POST", DRAIN, b"[" * 999, 400, "depth"),
        ("POST", DRAIN, b'{"for_s":NaN}', 400, "number"),
        ("POST", DRAIN, b'{"for_s":-1}', 409, "refused"),
        ("POST", DRAIN, b'{"for_s":"1h"}', 400, "fields"),
        ("POST", DRAIN, b'{"on_deadline":"kill"}', 400, "fields"),
        ("POST", DRAIN, b'{"by":"a","by":"b"}', 400, "duplicate_key"),
        ("POST", DRAIN, b'{"force":true}', 400, "fields"),
        ("POST", DRAIN, b" " * 70_000, 413, "oversize"),
        ("POST", "/api/v1/scaler:mode", b'{"mode":"panic"}', 409, "refused"),
        ("POST", "/api/v1/scaler:mode", b"{}", 400, "fields"),
        ("POST", "/api/v1/scaler:pause", b'{"for_s":0}', 409, "refused"),
        ("POST", "/api/v1/scaler:pause", b'{"for_s":1e9}', 409, "refused"),
        ("POST", "/api/v1/pools/q:scale", b'{"nodes":1}', 404, "not_found"),
        ("POST", f"/api/v1/pools/{'x' * 300}:scale", b'{"nodes":1}', 404, "not_found"),
        ("POST", "/api/v1/pools/p:scale", b'{"nodes":4}', 409, "refused"),
        ("POST", "/api/v1/pools/p:scale", b'{"nodes":1.5}', 400, "fields"),
    ],
)
async def test_what_cannot_be_done_is_a_problem_and_changes_nothing(
    scaler: Scaler, method: str, path: str, body: bytes, status: int, code: str
) -> None:
    found, problem = await scaler.ask(method, path, body)
    assert (found, problem["code"]) == (status, code), problem
    assert problem["detail"]
    assert dict(scaler.book.ledger.orders) == {}
    assert scaler.book.ledger.operations() == ()


async def test_a_disk_that_refuses_is_told_to_the_one_who_asked(scaler: Scaler) -> None:
    ledger = scaler.book.ledger
    assert isinstance(ledger, SqliteLedger)
    ledger._database.execute("pragma query_only=on")
    status, problem = await scaler.drain(by="ann")
    assert (status, problem["code"]) == (409, "refused")
    assert "mend the disk" in problem["detail"]
    assert (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"] == []
    ledger._database.execute("pragma query_only=off")
    assert (await scaler.drain(by="ann"))[0] == 202


async def test_many_people_at_once_each_get_an_operation_of_their_own(scaler: Scaler) -> None:
    rng = random.Random(5)  # noqa: S311
    names = [f"user-{i}" for i in range(40)]
    rng.shuffle(names)
    answers = await asyncio.gather(*(scaler.drain(by=name) for name in names))
    assert {status for status, _ in answers} == {202}
    assert len({operation["id"] for _, operation in answers}) == 40
    held = (await scaler.get("/api/v1/nodes/n-1"))[1]["holds"]
    assert {h["owner"] for h in held} == {f"user:{name}" for name in names}
    assert document(scaler.book).generation == 40


async def test_one_hold_too_many_is_refused_and_the_others_stand(scaler: Scaler) -> None:
    for number in range(64):
        assert (await scaler.drain(by=f"user-{number}"))[0] == 202
    status, problem = await scaler.drain(by="one-more")
    assert (status, problem["code"]) == (409, "refused")
    assert "65 holds" in problem["detail"]
    assert len((await scaler.get("/api/v1/nodes/n-1"))[1]["holds"]) == 64


async def heard(scaler: Scaler, count: int, last_id: int | None = None) -> list[tuple[int, str]]:
    """Return (id, kind) of the next ``count`` events after ``last_id``."""
    headers = {} if last_id is None else {"Last-Event-ID": str(last_id)}
    found: list[tuple[int, str]] = []
    async with (
        asyncio.timeout(20),
        scaler.client() as client,
        client.get("/api/v1/events", headers=headers) as reply,
    ):
        assert reply.content_type == "text/event-stream"
        number = 0
        while len(found) < count:
            name, _, value = (await reply.content.readline()).decode().rstrip("\n").partition(": ")
            if name == "id":
                number = int(value)
            if name == "event":
                found.append((number, value))
            if name == "data":
                assert json.loads(value)["id"] == number
    return found


async def test_events_resume_after_the_last_one_over_a_restart_and_their_numbers_rise(tmp_path: Path) -> None:
    async with life(tmp_path) as first:
        await first.drain(by="ann")
        before = await heard(first, 2)
        assert [kind for _, kind in before] == ["term.taken", "drain.asked"]
    async with life(tmp_path) as second:
        await second.drain("n-2", by="bob")
        everything = await heard(second, 4)
        assert everything[:2] == before
        assert [kind for _, kind in everything[2:]] == ["term.taken", "drain.asked"]
        ids = [number for number, _ in everything]
        assert ids == sorted(set(ids))
        assert await heard(second, 2, last_id=before[-1][0]) == everything[2:]


async def test_an_open_stream_is_told_of_a_drain_as_it_is_asked(scaler: Scaler) -> None:
    last = scaler.book.ledger.events(after=0)[-1].id
    listening = asyncio.ensure_future(heard(scaler, 1, last_id=last))
    await asyncio.sleep(0)
    await scaler.drain("n-2", by="bob")
    assert await listening == [(last + 1, "drain.asked")]


async def test_a_command_is_recorded_sent_once_and_its_gpus_are_listed(scaler: Scaler) -> None:
    body = {"verb": "ack", "arguments": {"finding": "gpu_lost"}, "reason": "swapped", "by": "ann"}
    status, first = await scaler.ask("POST", "/api/v1/nodes/n-1/commands", body, Idempotency_Key="k")
    assert (status, first["kind"], first["state"], first["by"]) == (202, "command", "open", "user:ann")
    assert (await scaler.ask("POST", "/api/v1/nodes/n-1/commands", body, Idempotency_Key="k"))[1] == first
    assert [topic.rpartition("/")[2] for topic, _ in scaler.bus.kept] == ["command"]
    for node, code in (("n-2", 503), ("stranger", 404)):
        assert (await scaler.ask("POST", f"/api/v1/nodes/{node}/commands", body))[0] == code
    assert (await scaler.ask("POST", "/api/v1/nodes/n-1/commands", {**body, "shell": "sh"}))[0] == 400
    gpus = (await scaler.get("/api/v1/gpus"))[1]["gpus"]
    assert [(g["node"], g["uuid"]) for g in gpus] == [("n-1", f"GPU-{i}") for i in range(8)]
    assert (await scaler.get("/api/v1/nodes/n-1/gpus"))[1]["gpus"] == gpus
    assert (await scaler.get("/api/v1/nodes/n-2/gpus"))[1]["gpus"] == []
    assert (await scaler.get("/api/v1/nodes/stranger/gpus"))[0] == 404
