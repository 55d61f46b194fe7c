"""What people set for the whole herd: kept with who and why, ended by itself, refused out of bounds."""

from pathlib import Path

import pytest
from tests.kit.fleets import Scaler, gpus, limits, pool, serving, standby
from tests.kit.scaler import ONE, TWO, book, document

from gpuherd.errors import HerdError, NotFound, Refused
from gpuherd.names import PoolName
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import Mode
from gpuherd_autoscaler.people import DrainWish, People
from gpuherd_autoscaler.steering import PAUSE_S, SIZE_S, Steering, let_end
from gpuherd_autoscaler.wishes import LONGEST_S, Size, Wish, Wishes, ended, standing

POOL = PoolName("a")
NIGHT = Wish(by="user:ann", since=0.0, until=100.0, reason="new driver")


def told(made: Book) -> list[tuple[str, str]]:
    return [(e.note.kind, e.note.reason) for e in made.ledger.events(after=0)]


def test_the_mode_is_kept_and_told_once(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        steering = Steering(made)
        for _ in range(2):
            assert steering.set_mode("enforce", "Ann") is Mode.ENFORCE
        assert told(made) == [("mode.changed", "enforce (by user:ann)")]
        with pytest.raises(Refused, match="use enforce, recommend"):
            steering.set_mode("panic", "ann")
    with book(tmp_path) as again:
        assert again.mode is Mode.ENFORCE


def test_what_is_set_outlives_a_restart_and_is_ended_by_hand(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        Steering(made).pause("Ann", reason="new driver")
        Steering(made).scale("p", 2, "bob", for_s=60.0)
    with book(tmp_path) as again:
        found = again.ledger.wishes
        assert found.pause is not None
        assert (found.pause.by, found.pause.until - found.pause.since) == ("user:ann", PAUSE_S)
        size = found.size(PoolName("p"))
        assert size is not None
        assert (size.nodes, size.wish.until - size.wish.since) == (2, 60.0)
        steering = Steering(again)
        assert steering.resume("bob") == Wishes(sizes=(size,))
        assert steering.scale("p", None, "bob") == Wishes()
        before = told(again)
        assert steering.resume("bob") == steering.scale("p", None, "bob") == Wishes()
        assert told(again) == before
        assert [kind for kind, _ in before] == [
            "scaler.paused", "pool.scaled", "scaler.resumed", "pool.released"
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("pool_name", "nodes", "for_s", "kind", "text"),
    [
        pytest.param("q", 1, None, NotFound, "known: p", id="no such pool"),
        pytest.param("p", 4, None, Refused, "0 to 3 nodes, not 4", id="above max"),
        pytest.param("p", -1, None, Refused, "0 to 3 nodes", id="below min"),
        pytest.param("p", 1, 0.0, Refused, "for_s", id="no time"),
        pytest.param("p", 1, LONGEST_S + 1, Refused, "7 days", id="more than a week"),
        pytest.param("p", 1, float("nan"), Refused, "for_s", id="no number"),
    ],
)
def test_a_size_that_cannot_be_is_refused_and_leaves_no_trace(
    tmp_path: Path, pool_name: str, nodes: int, for_s: float | None, kind: type[HerdError], text: str
) -> None:
    with book(tmp_path) as made:
        with pytest.raises(kind, match=text):
            Steering(made).scale(pool_name, nodes, "ann", for_s=for_s)
        assert (made.ledger.wishes, told(made)) == (Wishes(), [])


def test_a_wish_ends_at_its_time_and_says_so_once(tmp_path: Path) -> None:
    size = Size(pool=POOL, nodes=2, wish=NIGHT)
    both = Wishes(pause=NIGHT, sizes=(size,))
    assert standing(both, 99.9) == both
    assert standing(both, 100.0) == Wishes()
    assert [e.kind for e in ended(both, Wishes())] == ["pause.ended", "size.ended"]
    assert not list(ended(both, both))
    with book(tmp_path) as made:
        Steering(made).pause("ann", for_s=1e-9)
        Steering(made).scale("p", 1, "ann", for_s=SIZE_S)
        stands = [let_end(made) for _ in range(2)]
        assert [(w.pause, len(w.sizes)) for w in stands] == [(None, 1)] * 2
        assert [kind for kind, _ in told(made)].count("pause.ended") == 1


def test_a_person_may_still_take_a_node_out_of_a_paused_herd_and_not_above_a_size_set(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        Steering(made).pause("ann")
        Steering(made).scale("p", 1, "ann")
        people = People(made)
        people.join(ONE, "ann")
        with pytest.raises(Refused, match="a max of 1"):
            people.join(TWO, "ann")
        people.drain(DrainWish(node=ONE, by="ann"))
        assert document(made).holds


def scaled(nodes: int) -> Wishes:
    return Wishes(sizes=(Size(pool=POOL, nodes=nodes, wish=NIGHT),))


def test_a_pool_serves_with_the_nodes_set_and_no_more_whatever_waits() -> None:
    scaler = Scaler(limits(pool(4)))
    nodes = [standby(f"n-{i}") for i in range(1, 5)]
    plan = scaler.look_for(30.0, nodes, [gpus(8.0, 4)], wishes=scaled(2))
    assert plan.serve == ("n-1", "n-2")
    assert ("max", PoolName("a")) in {(r.rule, r.pool) for r in plan.refusals}
    assert any("the 2 set by user:ann: new driver" in r.text for r in plan.refusals)
    plan = scaler.look(nodes, wishes=scaled(3))
    assert plan.serve == ("n-1", "n-2", "n-3")
    assert "the 3 set by user:ann" in plan.reasons["n-1"]  # type: ignore[index]


def test_a_smaller_size_lets_idle_nodes_go_and_no_busy_one() -> None:
    scaler = Scaler(limits(pool(4, leaving_max=4)))
    nodes = [serving("n-1", free=0.0), serving("n-2", free=0.0), serving("n-3"), serving("n-4")]
    plan = scaler.look_for(10.0, nodes, wishes=scaled(1))
    assert plan.release == ("n-3", "n-4")
    assert "above the 1 set by user:ann" in plan.reasons["n-3"]  # type: ignore[index]
    assert "not idle" in plan.kept["n-1"]  # type: ignore[index]
