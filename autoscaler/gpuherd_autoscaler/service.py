"""The daemon: ledger, broker, loop and API put together, and the life cycle that systemd sees.

The only module that knows every part; it decides nothing.
"""

import asyncio
import contextlib
import functools
import os
import random
import secrets
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from aiohttp import hdrs, web

from gpuherd.broker_settings import parse_url
from gpuherd.errors import ConfigInvalid
from gpuherd.exposition import CONTENT_TYPE
from gpuherd.names import OperationId
from gpuherd.shell import logs
from gpuherd.shell.broker import MqttBus
from gpuherd.shell.clock import SystemClock
from gpuherd.shell.gcs import Gcs
from gpuherd.shell.http import new_app
from gpuherd.shell.http_listen import Tcp, Unix, serving
from gpuherd.shell.sd_notify import SdNotify
from gpuherd_autoscaler.api import Api
from gpuherd_autoscaler.book import Book, Herd
from gpuherd_autoscaler.chronicle import Chronicle
from gpuherd_autoscaler.commander import Commander
from gpuherd_autoscaler.embedded_broker import EmbeddedBroker
from gpuherd_autoscaler.explanations import Explanations
from gpuherd_autoscaler.exporter import ScalerFacts, render
from gpuherd_autoscaler.faces import Look
from gpuherd_autoscaler.gossip_source import GossipSource
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.lease import Lease, SoleLease, StoreLease
from gpuherd_autoscaler.ledger import Change, LedgerFailed, Note
from gpuherd_autoscaler.loop import Loop, Pace
from gpuherd_autoscaler.people import People
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.racks import racks_of
from gpuherd_autoscaler.record import Inputs, append
from gpuherd_autoscaler.scrape_targets import ScrapeTargets
from gpuherd_autoscaler.settings import ScalerSettings
from gpuherd_autoscaler.sources import Inbox, SightReader
from gpuherd_autoscaler.sqlite_decisions import SqliteDecisions
from gpuherd_autoscaler.sqlite_ledger import KEPT_EVENTS, SqliteLedger
from gpuherd_autoscaler.steering import Steering
from gpuherd_autoscaler.steering_api import SteeringApi
from gpuherd_autoscaler.triggers.watch import Watch
from gpuherd_autoscaler.window_watch import WindowWatch

_WATCHDOG_S: Final = 1.0
_STALLED_S: Final = 30.0

log = logs.get("gpuherd.autoscaler")


class _Ended(Exception):
    """SIGTERM or SIGINT came."""


def run(settings: ScalerSettings) -> int:
    """Run the autoscaler and return its exit code; raises ConfigInvalid before anything has started."""
    try:
        ledger = SqliteLedger(Path(settings.state_dir))
    except LedgerFailed as error:
        raise ConfigInvalid({"state_dir": str(error)}) from error
    if ledger.set_aside is not None:
        log.error("ledger.unsound", kept_as=str(ledger.set_aside))
    try:
        kept = SqliteDecisions(Path(settings.state_dir))
    except LedgerFailed as error:
        ledger.close()
        raise ConfigInvalid({"state_dir": str(error)}) from error
    try:
        return asyncio.run(_live(settings, ledger, kept))
    finally:
        kept.close()
        ledger.close()


async def _live(settings: ScalerSettings, ledger: SqliteLedger, kept: SqliteDecisions) -> int:
    try:
        async with _broker(settings):
            await _serve(settings, ledger, kept)
    except* _Ended:
        log.info("autoscaler.stopped")
    return 0


def _bus(settings: ScalerSettings, clock: SystemClock) -> MqttBus:
    client_id = f"scaler-{settings.cluster}-{secrets.token_hex(4)}"
    return MqttBus(settings.broker, client_id=client_id, clock=clock, rng=random.Random())  # noqa: S311  spreads reconnects


def _publisher(settings: ScalerSettings, bus: MqttBus, ledger: SqliteLedger) -> Publisher:
    leader = f"{socket.gethostname()}:{os.getpid()}"
    return Publisher(bus, ledger, settings.cluster, leader=leader, racks=racks_of(settings.rack))


async def _serve(settings: ScalerSettings, ledger: SqliteLedger, kept: SqliteDecisions) -> None:
    clock = SystemClock()
    book = _book(settings, ledger, clock)
    herd, inventory = book.herd, book.inventory
    bus = _bus(settings, clock)
    publisher = _publisher(settings, bus, ledger)
    async with Gcs(
        settings.head.addresses[0], token=settings.head.token, timeout_s=settings.head.deadline_s
    ) as gcs:
        lease = _lease(settings, gcs, clock, book, publisher)
        reader = SightReader(gcs.sight, clock, deadline_s=settings.head.deadline_s)
        loop = Loop(
            book=book,
            bus=bus,
            publisher=publisher,
            read_sight=reader.read,
            limits=settings.limits,
            pace=_pace(settings),
        )
        loop.lead_by(lease)
        chronicle = Chronicle(kept)
        loop.tell_to(chronicle)
        if settings.scaler.record:
            loop.record_to(_recorder(Path(settings.scaler.record)))
        inbox = Inbox(inventory, clock, settings.cluster, on_news=loop.wake, listed=herd.names)
        inbox.listen(bus)
        book.on_order(lambda node: publisher.offer(node, now=clock.now()))
        bus.on_connect(lambda: publisher.offer_all(herd.names, now=clock.now()))
        commander = Commander(book, bus)
        commander.listen()
        look = functools.partial(_look, book, loop, bus)
        api = Api(People(book), commander, look, is_ready=lambda: _why_not_ready(loop))
        _feed(api, book, ledger)
        pages = _pages(settings, herd, lambda: _facts(look(), loop, inbox))
        steering = SteeringApi(Steering(book), look, lambda: _promote(lease, loop), on_news=loop.wake)
        others = [*Explanations(book=book, loop=loop, chronicle=chronicle).routes(), *steering.routes()]
        hearing = _hearing(settings, clock, herd, loop)
        listening = _listening(settings, api, pages, others)
        watch = _watch(settings, clock, loop)
        async with hearing, listening, asyncio.TaskGroup() as group:
            log.info(
                "autoscaler.started", cluster=settings.cluster, mode=book.mode.value, nodes=len(herd.names)
            )
            group.create_task(_until_told())
            group.create_task(bus.run())
            group.create_task(loop.run())
            group.create_task(watch.run())
            group.create_task(_notify(loop))


def _watch(settings: ScalerSettings, clock: SystemClock, loop: Loop) -> Watch:
    """Return what reads the triggers; raises ConfigInvalid for a kind that is none."""
    watch = Watch(settings.trigger, settings.window, clock, on_news=loop.wake)
    loop.ask_by(watch.readings, WindowWatch(settings.window, clock).look)
    return watch


def _hearing(
    settings: ScalerSettings, clock: SystemClock, herd: Herd, loop: Loop
) -> contextlib.AbstractAsyncContextManager[None]:
    """Return the block in which the loop hears the gossip; an empty one where the settings have it off."""
    if not settings.gossip.enabled:
        return contextlib.nullcontext()
    state_dir = Path(settings.state_dir)
    racks = racks_of(settings.rack)
    expected = {name: racks.get(name, "") for name in herd.names}
    source = GossipSource(settings.cluster, settings.gossip, clock, state_dir=state_dir, expected=expected)
    loop.hear_by(source.read)
    return source.listening()


def _book(settings: ScalerSettings, ledger: SqliteLedger, clock: SystemClock) -> Book:
    """Return the book of this herd; that the ledger had to be begun anew is told."""
    book = Book(
        ledger,
        Inventory(),
        Herd(cluster=settings.cluster, pools=settings.pool, head=settings.head.addresses),
        clock,
        start_mode=settings.scaler.start_mode,
        new_id=lambda: OperationId(f"op-{secrets.token_hex(6)}"),
    )
    if ledger.set_aside is not None:
        log.error("ledger.unreadable", kept_as=str(ledger.set_aside))
        why = f"the ledger could not be read and is kept as {ledger.set_aside.name}; nothing is done unasked"
        book.commit(Change(notes=(Note(at=clock.wall(), kind="ledger.unreadable", reason=why),)))
    return book


def _lease(settings: ScalerSettings, gcs: Gcs, clock: SystemClock, book: Book, publisher: Publisher) -> Lease:
    """Return the lead, which bounds book and publisher. Its holder stays the same for a ledger."""
    if settings.scaler.leadership == "single":
        return SoleLease()
    holder = f"{socket.gethostname()}:{Path(settings.state_dir).resolve()}"
    lease = StoreLease(gcs, clock, settings.cluster, holder=holder)
    book.lead_by(lease.why_not_leading)
    publisher.silence_by(lease.why_not_leading)
    return lease


def _promote(lease: Lease, loop: Loop) -> None:
    lease.promote()
    loop.wake()


def _look(book: Book, loop: Loop, bus: MqttBus) -> Look:
    outcome = loop.outcome
    return Look(book=book, decided=outcome.last, broker_connected=bus.is_connected, lead=outcome.lead)


def _feed(api: Api, book: Book, ledger: SqliteLedger) -> None:
    """Give the API the events of earlier runs to resume from, and every new one."""
    for event in ledger.events(after=0, limit=KEPT_EVENTS):
        api.put(event)
    book.on_event(api.put)


@contextlib.asynccontextmanager
async def _broker(settings: ScalerSettings) -> AsyncIterator[None]:
    """Be the broker while the block lasts, when the settings say so."""
    if not settings.broker.embedded:
        yield
        return
    host, port = parse_url(settings.broker.url)
    broker = EmbeddedBroker(host=host, port=port)
    await broker.start()
    try:
        yield
    finally:
        await broker.stop()


@contextlib.asynccontextmanager
async def _listening(
    settings: ScalerSettings, api: Api, pages: list[web.RouteDef], others: list[web.RouteDef]
) -> AsyncIterator[None]:
    """Serve all on the socket and, when a port is set, the pages for Prometheus and liveness on loopback."""
    async with contextlib.AsyncExitStack() as stack:
        await stack.enter_async_context(
            serving(api.app(*pages, *others), Unix(path=Path(settings.api.socket), key="api.socket"))
        )
        if settings.metrics.port:
            place = Tcp(host=settings.metrics.host, port=settings.metrics.port, key="metrics.port")
            page = new_app([*pages, web.get("/livez", api.livez), web.get("/readyz", api.readyz)])
            await stack.enter_async_context(serving(page, place))
        yield


def _pages(settings: ScalerSettings, herd: Herd, read: Callable[[], ScalerFacts]) -> list[web.RouteDef]:
    """Return the routes for Prometheus: our own page, and what else it should scrape."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=render(read()), headers={hdrs.CONTENT_TYPE: CONTENT_TYPE})

    place = settings.metrics
    own = f"{place.host}:{place.port}" if place.port else ""
    targets = ScrapeTargets(herd=herd, address=place.agents, own=own)
    return [web.get("/metrics", metrics), *targets.routes()]


def _facts(look: Look, loop: Loop, inbox: Inbox) -> ScalerFacts:
    outcome = loop.outcome
    return ScalerFacts(
        fleet=look.fleet(),
        decision_s=outcome.last.took_s if outcome.last else None,
        decisions=outcome.cycles,
        ledger_writable=not outcome.ledger_failed,
        orders=outcome.orders,
        refusals=outcome.refusals,
        dropped=inbox.garbage,
        gossip=outcome.last.snapshot.gossip.fresh if outcome.last else None,
        plan=outcome.last.plan if outcome.last else None,
        triggers=outcome.last.snapshot.triggers if outcome.last else {},
    )


def _recorder(path: Path) -> Callable[[Inputs, Plan], None]:
    """Return what writes decisions down; a file that cannot be written stops nothing but the writing."""

    def record(inputs: Inputs, plan: Plan) -> None:
        try:
            append(path, inputs, plan)
        except OSError as error:
            log.warning("record.failed", path=str(path), error=str(error))

    return record


def _pace(settings: ScalerSettings) -> Pace:
    return Pace(
        interval_s=settings.scaler.interval_s,
        min_gap_s=min(settings.scaler.min_gap_s, settings.scaler.interval_s),
        settle_s=settings.scaler.settle_s,
    )


def _why_not_ready(loop: Loop) -> str:
    if loop.outcome.last is None:
        return "no decision has been made yet"
    return loop.outcome.ledger_failed


async def _until_told() -> None:
    """Wait for SIGTERM or SIGINT, then end the group."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
    SdNotify().stopping()
    raise _Ended


async def _notify(loop: Loop) -> None:
    """Tell systemd when the first decision was made, and that decisions go on being made."""
    systemd = SdNotify()
    clock = SystemClock()
    said_ready, cycles, moved_at = False, -1, clock.now()
    while True:
        if loop.outcome.cycles != cycles:
            cycles, moved_at = loop.outcome.cycles, clock.now()
        if not said_ready and loop.outcome.last is not None:
            systemd.ready()
            said_ready = True
        if clock.now() - moved_at < _STALLED_S:
            systemd.watchdog()
        await asyncio.sleep(_WATCHDOG_S)
