"""Triggers: from an answer to nodes, from nodes to a decision, and what silence means."""

import math

import pytest
from tests.kit.fleets import POOL, Scaler, booting, followed, gpus, limits, pool, serving, standby

from gpuherd.errors import ConfigInvalid
from gpuherd.names import PoolName
from gpuherd.settings import parse
from gpuherd_autoscaler.asks import Terms, ask_of
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.plan import Plan
from gpuherd_autoscaler.pools import Deferrable, Pool
from gpuherd_autoscaler.settings import ScalerSettings
from gpuherd_autoscaler.snapshot import Freshness, Sourced
from gpuherd_autoscaler.triggers.kinds import TriggerMissing, make
from gpuherd_autoscaler.triggers.numbers import at_pointer, nodes, number, one_sample

HOLD = Terms(name="queue", pool=POOL)
FALLBACK = Terms(name="queue", pool=POOL, on_missing="fallback", fallback_nodes=2)


def fresh(value: int) -> Sourced[int]:
    return Sourced(value=value, freshness=Freshness.FRESH, read_at=0.0)


def lost(last: int | None = None) -> Sourced[int]:
    return Sourced(value=last, error="no answer within 5 s")


def bounds(*terms: Terms, of: Pool | None = None, deferrable: Deferrable | None = None) -> Limits:
    return Limits(pools=(of or pool(),), triggers=terms, deferrable=deferrable or Deferrable())


def rules(plan: Plan) -> set[str]:
    return {refusal.rule for refusal in plan.refusals}


@pytest.mark.parametrize(
    ("terms", "reading", "wanted", "is_blind"),
    [
        pytest.param(HOLD, fresh(3), 3, False, id="its word"),
        pytest.param(HOLD, fresh(0), 0, False, id="zero is a word"),
        pytest.param(HOLD, lost(3), 3, False, id="hold keeps the last word"),
        pytest.param(HOLD, lost(), 0, True, id="hold without a last word lets nothing go"),
        pytest.param(HOLD, None, 0, True, id="not read yet"),
        pytest.param(FALLBACK, lost(), 2, False, id="fallback"),
        pytest.param(FALLBACK, lost(5), 5, False, id="fallback never lowers the last word"),
        pytest.param(FALLBACK, lost(1), 2, False, id="fallback raises it"),
        pytest.param(FALLBACK, fresh(1), 1, False, id="a word that is there beats the fallback"),
    ],
)
def test_what_one_trigger_asks_for(
    terms: Terms, reading: Sourced[int] | None, wanted: int, is_blind: bool
) -> None:
    ask = ask_of([terms], {} if reading is None else {"queue": reading})[POOL]
    assert (ask.nodes, bool(ask.blind)) == (wanted, is_blind)


def test_of_several_triggers_the_greatest_counts_and_one_blind_one_holds_all() -> None:
    terms = [Terms(name=name, pool=POOL) for name in ("a", "b", "c")]
    ask = ask_of(terms, {"a": fresh(2), "b": fresh(4), "c": lost()})[POOL]
    assert (ask.nodes, ask.why) == (4, "trigger b asks for 4")
    assert "trigger c tells nothing" in ask.blind


def test_a_trigger_starts_nodes_and_keeps_them_with_no_queue_at_all() -> None:
    scaler = Scaler(bounds=bounds(HOLD))
    fleet = [standby(f"n-{i}") for i in (1, 2, 3, 4)]
    plan = scaler.look(fleet, triggers={"queue": fresh(2)})
    assert plan.serve == ("n-1", "n-2")
    assert plan.reasons["n-1"] == "trigger queue asks for 2"
    fleet = followed(fleet, plan)
    plan = scaler.look_for(2_000, fleet, triggers={"queue": fresh(2)})
    assert plan.is_silent
    assert "below 2 nodes: trigger queue asks for 2" in plan.kept["n-1"]


def test_a_trigger_that_asks_less_lets_idle_nodes_go() -> None:
    scaler = Scaler(bounds=bounds(HOLD, of=pool(leaving_max=4)))
    fleet = [serving("n-1"), serving("n-2")]
    assert scaler.look_for(2_000, fleet, triggers={"queue": fresh(2)}).is_silent
    assert scaler.look(fleet, triggers={"queue": fresh(0)}).release == ("n-1", "n-2")


def test_a_trigger_never_lowers_what_the_queue_asks_for() -> None:
    scaler = Scaler(bounds=bounds(HOLD))
    fleet = [standby(f"n-{i}") for i in (1, 2, 3, 4)]
    scaler.look(fleet, [gpus(8, 3)], triggers={"queue": fresh(1)})
    fleet = [booting("n-1"), *fleet[1:]]
    assert scaler.look(fleet, [gpus(8, 3)], triggers={"queue": fresh(0)}).serve == ("n-2", "n-3")


def test_a_trigger_above_max_is_refused_with_the_figure() -> None:
    scaler = Scaler(bounds=bounds(HOLD, of=pool(max=1)))
    plan = scaler.look([standby("n-1"), standby("n-2")], triggers={"queue": fresh(9)})
    assert plan.serve == ("n-1",)
    (refusal,) = (r for r in plan.refusals if r.rule == "max")
    assert refusal.figure == 8.0


@pytest.mark.parametrize(
    ("terms", "reading", "stays"),
    [
        pytest.param(HOLD, lost(), True, id="hold, never read"),
        pytest.param(HOLD, lost(2), True, id="hold, two at its last word"),
        pytest.param(FALLBACK, lost(), True, id="fallback of two"),
        pytest.param(HOLD, lost(0), False, id="its last word was none"),
    ],
)
def test_missing_data_never_lowers(terms: Terms, reading: Sourced[int], stays: bool) -> None:
    scaler = Scaler(bounds=bounds(terms, of=pool(leaving_max=4)))
    plan = scaler.look_for(2_000, [serving("n-1"), serving("n-2")], triggers={"queue": reading})
    assert plan.is_silent is stays
    if reading.value is None and terms.on_missing == "hold":
        assert "trigger queue tells nothing of the present" in plan.kept["n-1"]


def test_work_that_can_wait_counts_only_inside_its_window() -> None:
    night = bounds(deferrable=Deferrable(window="night"))
    scaler, fleet = Scaler(bounds=night), [standby("n-1"), standby("n-2")]
    patient = gpus(1, 4, deferrable=0.001)
    for _ in range(3):
        plan = scaler.look(fleet, [patient])
        assert plan.is_silent
        assert rules(plan) == {"deferrable"}
        assert plan.demand == (patient,)
    rich = Limits(pools=(pool(resources={"deferrable": 1_000.0}),), deferrable=Deferrable(window="night"))
    scaler = Scaler(bounds=rich)
    assert scaler.look(fleet, [patient], windows=["night"]).serve == ("n-1",)


def test_other_work_does_not_wait_for_the_window() -> None:
    scaler = Scaler(bounds=bounds(deferrable=Deferrable(window="night")))
    assert scaler.look([standby("n-1")], [gpus(1)]).serve == ("n-1",)


def test_spares_follow_their_windows() -> None:
    scaler = Scaler(bounds=limits(pool(warm_spares=1, warm_spares_in={"day": 3}, leaving_max=4)))
    fleet = [standby(f"n-{i}") for i in (1, 2, 3, 4)]
    assert len(scaler.look(fleet).serve) == 1
    assert len(scaler.look(fleet, windows=["day"]).serve) == 3
    up = [serving("n-1"), serving("n-2"), serving("n-3"), standby("n-4")]
    assert scaler.look_for(2_000, up, windows=["day"]).is_silent
    assert len(scaler.look(up).release) == 2


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(value, id=repr(value)[:20])
        for value in (None, True, {}, [1], "many", "", "NaN", math.nan, math.inf, -1, "-0.5", "1e999")
    ],
)
def test_what_is_no_count_is_missing(value: object) -> None:
    with pytest.raises(TriggerMissing):
        number(value)


@pytest.mark.parametrize(
    ("value", "per_node", "wanted"),
    [
        pytest.param(0.0, 1.0, 0, id="none"),
        pytest.param(0.1, 1.0, 1, id="a part of one is one"),
        pytest.param(100.0, 50.0, 2, id="exact"),
        pytest.param(101.0, 50.0, 3, id="rounded up"),
        pytest.param(0.3, 0.1, 3, id="binary fractions"),
        pytest.param(1e300, 1.0, 10_000, id="bounded"),
    ],
)
def test_nodes_for_a_value(value: float, per_node: float, wanted: int) -> None:
    assert nodes(value, per_node) == wanted


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        pytest.param("", {"a": [{"b/c": 7}], "~": 1}, id="the whole"),
        pytest.param("/a/0/b~1c", 7, id="list, object, escaped slash"),
        pytest.param("/~0", 1, id="escaped tilde"),
        pytest.param("/a/1", None, id="past the end"),
        pytest.param("/a/-1", None, id="from the end is not in the standard"),
        pytest.param("/a/99999999999999999999", None, id="huge index"),
        pytest.param("/x", None, id="no such key"),
        pytest.param("/a/0/b~1c/d", None, id="below a number"),
    ],
)
def test_where_the_number_is_in_the_answer(pointer: str, found: object) -> None:
    document = {"a": [{"b/c": 7}], "~": 1}
    if found is None:
        with pytest.raises(TriggerMissing):
            at_pointer(document, pointer)
    else:
        assert at_pointer(document, pointer) == found


def vector(*values: str) -> dict[str, object]:
    return {
        "status": "success",
        "data": {"resultType": "vector", "result": [{"metric": {}, "value": [1.0, v]} for v in values]},
    }


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(vector(), "no series", id="empty is missing"),
        pytest.param(vector("1", "2"), "2 series", id="two series"),
        pytest.param({"status": "error", "error": "parse error"}, "parse error", id="refused"),
        pytest.param(
            {"status": "success", "data": {"resultType": "matrix", "result": []}}, "matrix", id="matrix"
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "vector", "result": [{}]}}, "no sample", id="{}"
        ),
        pytest.param(
            {"status": "success", "data": {"resultType": "vector", "result": [[]]}}, "no sample", id="[]"
        ),
        pytest.param({"status": "success", "data": 3}, "no result", id="data is a number"),
        pytest.param([], "refuses", id="a list"),
        pytest.param(None, "refuses", id="null"),
    ],
)
def test_what_prometheus_may_answer(answer: object, words: str) -> None:
    with pytest.raises(TriggerMissing, match=words):
        one_sample(answer)


def test_one_sample_of_either_kind_is_its_value() -> None:
    assert one_sample(vector("7")) == "7"
    assert one_sample({"status": "success", "data": {"resultType": "scalar", "result": [1.0, "7"]}}) == "7"


SOUND: dict[str, object] = {
    "cluster": "lab",
    "insecure": True,
    "head": {"addresses": ["h:1"]},
    "pool": [{"name": "a", "nodes": ["n-[1-4]"]}],
    "window": [{"name": "night", "start": "0 20 * * *", "duration_s": 3600.0}],
}


def problems(trigger: dict[str, object], **others: object) -> dict[str, str]:
    try:
        parse(
            ScalerSettings,
            {**SOUND, "trigger": [{"name": "t", "pool": "a", **trigger}], **others},
            read_secret=lambda _: "",
        )
    except ConfigInvalid as error:
        return dict(error.problems)
    return {}


@pytest.mark.parametrize(
    ("trigger", "key"),
    [
        pytest.param({"kind": "schedule", "nodes": 2}, "window", id="schedule without window"),
        pytest.param({"kind": "schedule", "window": "day", "nodes": 2}, "window", id="no such window"),
        pytest.param({"kind": "schedule", "window": "night"}, "nodes", id="schedule without nodes"),
        pytest.param({"kind": "promql", "url": "http://h:1"}, "query", id="promql without query"),
        pytest.param({"kind": "promql", "query": "up"}, "url", id="promql without url"),
        pytest.param({"kind": "http", "url": "file:///etc/passwd"}, "url", id="a file"),
        pytest.param({"kind": "http", "url": "http://me:secret@h/"}, "url", id="a password in the url"),
        pytest.param({"kind": "http", "url": "http://h/", "pointer": "a.b"}, "pointer", id="no pointer"),
        pytest.param({"kind": "http", "url": "http://h/", "pool": "b"}, "pool", id="no such pool"),
        pytest.param({"kind": "http", "url": "http://h/", "per_node": 0.0}, "per_node", id="per_node 0"),
        pytest.param(
            {"kind": "http", "url": "http://h/", "per_node": math.nan}, "per_node", id="per_node NaN"
        ),
        pytest.param({"kind": "http", "url": "http://h/", "deadline_s": 60.0}, "deadline_s", id="deadline"),
        pytest.param({"kind": "http", "url": "http://h/", "period_s": 0.0}, "period_s", id="period"),
        pytest.param(
            {"kind": "http", "url": "http://h/", "on_missing": "fallback"}, "fallback_nodes", id="fallback"
        ),
        pytest.param({"kind": "http", "url": "http://h/", "on_missing": "drop"}, "on_missing", id="drop"),
    ],
)
def test_each_problem_is_told_with_its_key(trigger: dict[str, object], key: str) -> None:
    assert f"trigger[0].{key}" in problems(trigger)


def test_sound_triggers_are_no_problem_and_an_unknown_kind_is_told_when_it_is_made() -> None:
    assert problems({"kind": "schedule", "window": "night", "nodes": 2}) == {}
    assert problems({"kind": "http", "url": "https://h/x", "pointer": "/a"}) == {}
    with pytest.raises(ConfigInvalid) as caught:
        make("tarot", "trigger[0].kind")
    assert "known: http, promql, schedule" in caught.value.problems["trigger[0].kind"]


def test_windows_that_are_none_are_told_wherever_they_are_named() -> None:
    sound = {"kind": "http", "url": "https://h/x"}
    assert "deferrable.window" in problems(sound, deferrable={"window": "day"})
    spare = [{"name": "a", "nodes": ["n-1"], "warm_spares_in": {"day": 1}}]
    assert "pool[0].warm_spares_in.day" in problems(sound, pool=spare)


def test_pools_without_a_trigger_are_asked_nothing() -> None:
    assert ask_of([HOLD], {"queue": fresh(1)}).get(PoolName("other")) is None
