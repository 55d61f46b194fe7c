"""The loop: term first, acts only in enforce mode, and a disk that refuses stops all acts."""

import msgspec
from tests.kit.scaler import CLUSTER, HERD, ONE, KeptBus, state

from gpuherd import holds
from gpuherd.fence import Mark
from gpuherd.health import Severity, Verdict
from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, OperationId, PoolName
from gpuherd.phases import Phase
from gpuherd.ray import ClusterSight, Shape
from gpuherd.wire.documents import Gpu, Online
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.inventory import Inventory
from gpuherd_autoscaler.ledger import Change, Mode
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.loop import Loop
from gpuherd_autoscaler.orders import Ask
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.publisher import Publisher
from gpuherd_autoscaler.snapshot import Freshness, Sourced
from gpuherd_autoscaler.steering import Steering
from gpuherd_sim.memory_ledger import MemoryLedger
from gpuherd_sim.virtual_time import VirtualClock, VirtualLoop, run

LIMITS = Limits(
    pools=(Pool(name=PoolName("p"), nodes=("n-[1-3]",), min=0, max=3, gpus_per_node=8, cooldown_s=0.0),)
)
ONE_GPU = ClusterSight(session="s", pending=(Shape(resources=(("GPU", 1.0),)),))


class Stage:
    """A loop on a ledger in memory; node 1 stands by, and the head says what it is told to."""

    def __init__(self, loop: VirtualLoop, *, mode: Mode = Mode.ENFORCE) -> None:
        self.ledger = MemoryLedger()
        self.bus = KeptBus()
        self.sight = Sourced(value=ONE_GPU, freshness=Freshness.FRESH, read_at=0.0)
        clock = VirtualClock(loop)
        numbers = iter(range(1, 1_000))
        self.book = Book(
            self.ledger,
            Inventory(),
            HERD,
            clock,
            start_mode=mode,
            new_id=lambda: OperationId(f"op-{next(numbers)}"),
        )
        publisher = Publisher(self.bus, self.ledger, CLUSTER)
        self.book.on_order(lambda node: publisher.offer(node, now=clock.now()))
        self.loop = Loop(
            book=self.book, bus=self.bus, publisher=publisher, read_sight=self._read, limits=LIMITS
        )
        self.clock = clock
        self.seq = 0
        self.say()

    async def _read(self) -> Sourced[ClusterSight]:
        return self.sight

    def say(self, phase: Phase = Phase.OUTSIDE, *listed: Hold, mark: Mark | None = None) -> None:
        self.seq += 1
        online = Online(cluster=CLUSTER, node=ONE, epoch=1, conn=1, online=True)
        self.book.inventory.receive_online(online)
        gpus = tuple(Gpu(uuid=f"GPU-{i}", present=True, healthy=True) for i in range(8))  # type: ignore[arg-type]
        told = msgspec.structs.replace(
            state(ONE, *listed, phase=phase, mark=mark, seq=self.seq),
            verdict=Verdict(severity=Severity.OK),
            gpus=gpus,
            gpus_declared=8,
            gpus_counted=8,
        )
        self.book.inventory.receive_state(told, at=self.clock.now())

    async def turn(self, times: int = 1) -> None:
        for _ in range(times):
            await self.loop.cycle()
            await self.clock.sleep_until(self.clock.now() + 5.0)
            self.say()

    @property
    def published(self) -> list[str]:
        return [topic.rsplit("/", 2)[1] for topic, _ in self.bus.kept if topic.endswith("/desired")]

    @property
    def told(self) -> list[str]:
        return [event.note.kind for event in self.ledger.events(after=0)]


def test_the_first_turn_takes_a_term_and_a_later_one_acts() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.turn()
        assert (stage.ledger.term, stage.published) == (1, [])
        await stage.turn(3)
        assert stage.published[0] == ONE
        order = stage.book.order(ONE)
        assert order is not None
        assert order.serve

    run(main, until_s=1_000)


def test_in_recommend_mode_plans_are_shown_and_people_are_obeyed() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop, mode=Mode.RECOMMEND)
        await stage.turn(4)
        decided = stage.loop.outcome.last
        assert decided is not None
        assert decided.plan.serve == (ONE,)
        assert (stage.published, dict(stage.ledger.orders)) == ([], {})
        People(stage.book).drain(DrainWish(node=ONE, by="ann"))
        assert stage.published == [ONE]

    run(main, until_s=1_000)


def test_a_head_that_fails_grows_and_shrinks_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        stage.sight = Sourced(error="refused")
        await stage.turn(20)
        assert dict(stage.ledger.orders) == {}

    run(main, until_s=1_000)


def test_a_disk_that_refuses_stops_all_acts_and_loses_no_news() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.turn()
        stage.ledger.is_full = True
        held = Hold(id=HoldId("h"), owner=holds.HEALTH, kind=HoldKind.DRAIN, reason="gpu lost", since=0.0)
        stage.say(Phase.OUTSIDE, held)
        before = len(stage.told)
        await stage.turn(4)
        assert "full" in stage.loop.outcome.ledger_failed
        assert (stage.published, len(stage.told)) == ([], before)
        stage.ledger.is_full = False
        await stage.turn(2)
        assert stage.loop.outcome.ledger_failed == ""
        assert stage.published[0] == ONE
        assert "node.held" in stage.told, "what happened while the disk was full is told now"
        assert stage.told.count("node.held") == 1

    run(main, until_s=1_000)


def test_a_full_disk_at_the_start_takes_no_term_and_acts_on_nothing() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        stage.ledger.is_full = True
        await stage.turn(5)
        assert (stage.ledger.term, stage.bus.kept, stage.loop.outcome.has_term) == (0, [], False)
        stage.ledger.is_full = False
        await stage.turn(5)
        assert (stage.ledger.term, stage.published[0]) == (1, ONE)

    run(main, until_s=1_000)


def test_an_order_that_would_outgrow_its_document_costs_its_node_alone_and_not_the_scaler() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.turn()
        ours = Hold(id=HoldId("s"), owner=holds.SCALER, kind=HoldKind.DRAIN, reason="idle", since=0.0)
        lifts = tuple(HoldId(f"l{i}") for i in range(256))
        full = stage.book.next_order(ONE, Ask(serve=False, add=(ours,), lift=lifts))
        assert full is not None
        stage.book.commit(Change(orders=(full,)))
        await stage.turn(4)
        decided = stage.loop.outcome.last
        assert decided is not None
        assert decided.plan.serve == (ONE,)
        assert stage.book.order(ONE) == full
        assert stage.loop.outcome.refusals["order_bounds"] >= 1

    run(main, until_s=1_000)


def test_a_node_that_obeys_a_later_term_raises_ours_and_leaves_only_recommendations() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.turn()
        stage.say(Phase.MEMBER, mark=Mark(term=9, generation=4, digest="x"))
        await stage.loop.cycle()
        assert (stage.ledger.term, stage.book.mode) == (10, Mode.RECOMMEND)
        order = stage.book.order(ONE)
        assert order is not None
        assert (order.mark, order.serve, stage.published) == ((10, 1), True, [ONE])
        assert stage.told.count("ledger.behind") == 1

    run(main, until_s=1_000)


def test_a_paused_loop_shows_its_plans_and_acts_when_the_pause_is_over() -> None:
    async def main(loop: VirtualLoop) -> None:
        stage = Stage(loop)
        await stage.turn()
        Steering(stage.book).pause("ann", for_s=60.0)
        await stage.turn(8)
        decided = stage.loop.outcome.last
        assert decided is not None
        assert decided.plan.serve == (ONE,)
        assert (stage.published, stage.loop.outcome.refusals["paused"] > 0) == ([], True)
        await stage.turn(8)
        assert stage.published[0] == ONE
        assert stage.told.count("pause.ended") == 1

    run(main, until_s=1_000)
