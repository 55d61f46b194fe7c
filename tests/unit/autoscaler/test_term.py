"""Which term is taken, and how a ledger that fell behind its nodes is noticed."""

from pathlib import Path

import pytest
from tests.kit.scaler import ONE, TWO, book, document, state, take_term

from gpuherd.fence import MAX_TERM_STEP, Mark
from gpuherd.names import NodeName
from gpuherd.phases import Phase
from gpuherd.wire.documents import State
from gpuherd_autoscaler import term
from gpuherd_autoscaler.ledger import Change, Mode
from gpuherd_autoscaler.people import DrainWish, People

THREE = NodeName("n-3")
FAR = MAX_TERM_STEP + 1


def seen(node: NodeName, place: tuple[int, int], *, phase: Phase = Phase.MEMBER) -> State:
    return state(node, mark=Mark(term=place[0], generation=place[1], digest="x"), phase=phase)


def states(*terms: int | None) -> dict[NodeName, State]:
    names = (ONE, TWO, THREE)
    return {
        name: state(name) if found is None else seen(name, (found, 1))
        for name, found in zip(names, terms, strict=False)
    }


@pytest.mark.parametrize(
    ("own", "reported", "highest", "outliers"),
    [
        pytest.param(4, (), 4, (), id="nobody speaks"),
        pytest.param(4, (None, None), 4, (), id="nobody obeys anything"),
        pytest.param(4, (2, 3), 4, (), id="nodes lag"),
        pytest.param(4, (2, 7), 7, (), id="a node is ahead"),
        pytest.param(4, (4 + MAX_TERM_STEP,), 4 + MAX_TERM_STEP, (), id="on the edge of reach"),
        pytest.param(4, (4 + FAR,), 4, (ONE,), id="beyond reach"),
        pytest.param(4, (5, 4 + FAR), 4 + FAR, (), id="beyond reach, but for another node"),
        pytest.param(0, (9_000, 9_001), 9_001, (), id="a new ledger believes the lowest"),
        pytest.param(0, (3, 9_000), 3, (TWO,), id="a new ledger and one far ahead"),
    ],
)
def test_the_highest_term_that_all_could_follow(
    own: int, reported: tuple[int | None, ...], highest: int, outliers: tuple[NodeName, ...]
) -> None:
    found = term.reported(own, states(*reported))
    assert (found.highest, found.outliers) == (highest, outliers)
    assert term.reported(own, states(*reported)).highest + 1 == highest + 1


@pytest.mark.parametrize(
    ("place", "why"),
    [
        pytest.param((1, 1), None, id="as ordered"),
        pytest.param((0, 5), None, id="an earlier term"),
        pytest.param((1, 2), "the ledger's is 1", id="a later generation"),
        pytest.param((2, 1), "the ledger knows 1", id="a later term"),
    ],
)
def test_a_node_that_obeys_what_the_ledger_never_wrote_is_noticed(
    tmp_path: Path, place: tuple[int, int], why: str | None
) -> None:
    with book(tmp_path) as made:
        People(made).drain(DrainWish(node=ONE, by="ann"))
        found = term.behind(made.ledger.term, made.ledger.orders, [seen(ONE, place)])
        assert [why in text for _, text in found if why] == ([True] if why else [])
        assert bool(found) is (why is not None)


def test_a_node_without_an_order_of_ours_that_obeys_one_is_noticed(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        ((name, why),) = term.behind(made.ledger.term, made.ledger.orders, [seen(TWO, (1, 4))])
        assert (name, "no order for it" in why) == (TWO, True)


def test_a_ledger_that_its_nodes_have_overtaken_only_recommends_and_keeps_what_they_do(
    tmp_path: Path,
) -> None:
    with book(tmp_path) as made:
        made.commit(Change(mode=Mode.ENFORCE))
        found = {
            ONE: seen(ONE, (7, 3), phase=Phase.MEMBER),
            TWO: seen(TWO, (7, 5), phase=Phase.OUTSIDE),
        }
        assert take_term(made, found, is_start=False)
        assert (made.mode, made.ledger.term) == (Mode.RECOMMEND, 8)
        assert (document(made, ONE).serve, document(made, TWO).serve) == (True, False)
        told = [e.note.kind for e in made.ledger.events(after=0)]
        assert told.count("ledger.behind") == 2
        assert not take_term(made, found, is_start=False), "once is enough"


def test_a_term_is_raised_when_a_node_reports_a_higher_one_and_orders_follow(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        People(made).drain(DrainWish(node=ONE, by="ann", reason="fan"))
        before = document(made)
        assert take_term(made, {TWO: seen(TWO, (4, 1))}, is_start=False)
        after = document(made)
        assert (after.term, after.generation) == (5, before.generation + 1)
        assert (after.holds, after.serve, after.op_id) == (before.holds, before.serve, before.op_id)


def test_a_start_takes_one_term_and_an_ordinary_turn_none(tmp_path: Path) -> None:
    with book(tmp_path, term=0) as made:
        assert take_term(made, {}, is_start=True)
        assert made.ledger.term == 1
        assert not take_term(made, {ONE: state(ONE)}, is_start=False)
        assert made.ledger.term == 1


def test_a_term_out_of_reach_raises_nothing_and_is_told(tmp_path: Path) -> None:
    with book(tmp_path) as made:
        made.commit(Change(mode=Mode.ENFORCE))
        bomb = {ONE: seen(ONE, (FAR + 1, 1))}
        assert not take_term(made, bomb, is_start=False)
        assert (made.ledger.term, made.mode) == (1, Mode.ENFORCE)
        take_term(made, bomb, is_start=True)
        assert (made.ledger.term, made.mode) == (2, Mode.ENFORCE)
        assert "term.unbelievable" in [e.note.kind for e in made.ledger.events(after=0)]
