"""Who leads: the rules one by one, and never two that act, whatever stops, breaks or is cut off."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest

from gpuherd.errors import HeadUnreachable
from gpuherd.names import ClusterName
from gpuherd_autoscaler import leadership
from gpuherd_autoscaler.leadership import GRACE_S, LEASE_S, TAKE_OVER_S, Claim, Leadership, Look
from gpuherd_autoscaler.lease import PROMOTED_S, StoreLease

CLUSTER = ClusterName("herd")
OTHER = Claim(term=7, holder="b")


@dataclass(slots=True)
class HandClock:
    """A clock that the test moves; ``wall`` may jump on its own."""

    at: float = 0.0
    wall_at: float = 1e9

    def now(self) -> float:
        return self.at

    def boot_s(self) -> float:
        return self.at

    def wall(self) -> float:
        return self.wall_at

    async def sleep_until(self, deadline: float) -> None:
        self.at = max(self.at, deadline)


@dataclass(slots=True)
class DictStore:
    """The head's store; ``is_cut`` for one claimant, ``drops`` writes whose answer is lost."""

    values: dict[str, bytes] = field(default_factory=dict)
    is_cut: bool = False
    answers_lost: bool = False

    async def kv_keys(self, prefix: str) -> tuple[str, ...]:
        self._reach()
        return tuple(sorted(key for key in self.values if key.startswith(prefix)))

    async def kv_get(self, key: str) -> bytes | None:
        self._reach()
        return self.values.get(key)

    async def kv_create(self, key: str, value: bytes) -> bool:
        self._reach()
        created = self.values.setdefault(key, value) is value
        self._answer()
        return created

    async def kv_put(self, key: str, value: bytes) -> None:
        self._reach()
        self.values[key] = value
        self._answer()

    def _reach(self) -> None:
        if self.is_cut:
            raise HeadUnreachable("cut off")

    def _answer(self) -> None:
        if self.answers_lost:
            raise HeadUnreachable("no answer")


def watched(*looks: tuple[float, bytes]) -> Leadership:
    known = Leadership(holder="a")
    for at, beat in looks:
        known = leadership.see(known, Look(at=at, claim=OTHER, beat=beat))
    return known


def test_an_empty_store_is_claimed_at_once() -> None:
    known = leadership.see(Leadership(holder="a"), Look(at=0.0, claim=None))
    assert leadership.why_not_bid(known, 0.0) == ""


def test_our_own_former_life_is_succeeded_at_once() -> None:
    look = Look(at=0.0, claim=Claim(term=3, holder="a"))
    known = leadership.see(Leadership(holder="a"), look)
    assert leadership.why_not_bid(known, 0.0) == ""
    assert leadership.next_term(known, look, 2) == 4
    assert leadership.won(known, look, 4, 0.0).acts_from is None


def test_another_is_succeeded_only_after_a_silence_that_was_watched() -> None:
    steady = watched(*((float(at), b"1") for at in range(0, 25, 5)))
    assert leadership.why_not_bid(steady, 19.0) == "b leads under term 7"
    assert leadership.why_not_bid(steady, 20.0) == ""


def test_a_new_heartbeat_begins_the_silence_anew() -> None:
    known = watched((0.0, b"1"), (5.0, b"1"), (10.0, b"2"), (15.0, b"2"), (20.0, b"2"))
    assert leadership.why_not_bid(known, 29.0)
    assert not leadership.why_not_bid(known, 10.0 + TAKE_OVER_S)


def test_time_that_was_not_watched_is_no_silence() -> None:
    assert leadership.why_not_bid(watched((0.0, b"1"), (60.0, b"1")), 60.0)
    blinded = leadership.blind(watched((0.0, b"1"), (5.0, b"1")))
    assert "does not answer" in leadership.why_not_bid(blinded, 100.0)


def test_a_leader_acts_only_while_its_lead_is_fresh_and_after_its_look_round() -> None:
    known = leadership.won(Leadership(holder="a"), Look(at=0.0, claim=Claim(term=2, holder="a")), 3, 0.0)
    assert leadership.why_not_acting(known, LEASE_S) == ""
    assert "not been confirmed" in leadership.why_not_acting(known, LEASE_S + 0.1)
    assert leadership.why_not_leading(known, 1_000.0) == "", "people are served without the head"
    from_another = leadership.won(watched((0.0, b"1")), Look(at=0.0, claim=OTHER), 8, 0.0)
    assert "took the lead just now" in leadership.why_not_acting(from_another, 5.0)
    assert leadership.why_not_acting(leadership.confirmed(from_another, GRACE_S), GRACE_S) == ""


def test_a_higher_claim_deposes() -> None:
    leading = leadership.won(Leadership(holder="a"), Look(at=0.0, claim=None), 3, 0.0)
    known = leadership.see(leading, Look(at=1.0, claim=OTHER))
    assert known.term == 0
    assert leadership.why_not_acting(known, 1.0) == "b leads under term 7"


def new_lease(store: DictStore, clock: HandClock, holder: str) -> StoreLease:
    return StoreLease(store, clock, CLUSTER, holder=holder)


def test_an_empty_store_may_hide_a_leader_so_its_claimant_waits_until_that_one_must_have_looked() -> None:
    known = leadership.won(Leadership(holder="a"), Look(at=0.0, claim=None), 1, 1.0)
    assert leadership.why_not_acting(known, 1.0)
    assert leadership.why_not_acting(leadership.confirmed(known, 10.0), 11.0) == ""


async def test_a_head_that_came_back_empty_is_claimed_anew_by_its_leader_and_not_by_the_standby() -> None:
    values: dict[str, bytes] = {}
    clock = HandClock()
    first, second = (new_lease(DictStore(values), clock, name) for name in "ab")
    await first.look()
    assert await first.claim(1) == 1
    clock.at = 5.0
    await first.look()
    await second.look()
    values.clear()
    clock.at = 11.0
    await second.look()
    assert await second.claim(1) is None
    await first.look()
    assert first.why_not_acting() == ""
    assert values["gpuherd/herd/lease/1"] == b"a"


async def test_a_leader_that_was_long_cut_off_waits_before_it_acts_on_a_claim_in_an_empty_store() -> None:
    store, clock = DictStore(), HandClock()
    lease = new_lease(store, clock, "a")
    await lease.look()
    await lease.claim(1)
    store.values.clear()
    clock.at = 100.0
    await lease.look()
    assert "took the lead just now" in lease.why_not_acting()
    clock.at = 110.0
    await lease.look()
    assert lease.why_not_acting() == ""


async def test_a_claim_whose_answer_was_lost_leads_to_a_higher_term_of_the_same_holder() -> None:
    store, clock = DictStore(), HandClock()
    lease = new_lease(store, clock, "a")
    await lease.look()
    store.answers_lost = True
    assert await lease.claim(1) is None
    store.answers_lost = False
    await lease.look()
    assert await lease.claim(1) == 2


async def test_promote_takes_the_lead_from_one_that_still_beats() -> None:
    values: dict[str, bytes] = {}
    clock = HandClock()
    first, second = (new_lease(DictStore(values), clock, name) for name in "ab")
    await first.look()
    await first.claim(1)
    await second.look()
    second.promote()
    assert await second.claim(1) == 2
    await first.look()
    assert "b leads" in first.why_not_leading()


async def test_a_promotion_of_the_leader_or_of_long_ago_deposes_nobody() -> None:
    values: dict[str, bytes] = {}
    clock = HandClock()
    first, second = (new_lease(DictStore(values), clock, name) for name in "ab")
    await first.look()
    await first.claim(1)
    first.promote()
    await second.look()
    second.promote()
    assert await second.claim(1) == 2
    await first.look()
    assert await first.claim(1) is None, "it led when it was promoted"
    first.promote()
    clock.at += PROMOTED_S
    await second.look()
    await first.look()
    assert await first.claim(1) is None, "that word is old"


async def test_keys_that_are_no_terms_are_passed_over() -> None:
    junk = {f"gpuherd/herd/lease/{text}": b"x" for text in ("", "x", "-3", "9" * 40, "٣")}
    lease = new_lease(DictStore(junk), HandClock(), "a")
    await lease.look()
    assert await lease.claim(1) == 1


@dataclass(slots=True)
class Candidate:
    """One scaler: it turns every five seconds, may be stopped, and may be cut off from the store."""

    name: str
    store: DictStore
    lease: StoreLease = field(init=False)
    clock: HandClock = field(default_factory=HandClock)
    stopped_until: float = 0.0
    next_turn: float = 0.0

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.lease = new_lease(self.store, self.clock, self.name)

    def suffer(self, rng: random.Random) -> None:
        """Now and then: a stop, a cut, a restart, a jump of the wall clock, answers that get lost."""
        match int(rng.random() * 1_000):
            case 0 | 1 | 2 | 3:
                self.stopped_until = self.clock.at + rng.choice((3.0, 12.0, 25.0, 60.0))
            case 4 | 5 | 6 | 7:
                self.store.is_cut = not self.store.is_cut
            case 8 | 9:
                self.restart()
            case 10 | 11:
                self.clock.wall_at += rng.choice((-3_600.0, 3_600.0, -1e9))
            case 12 | 13 | 14:
                self.store.answers_lost = not self.store.answers_lost

    async def would_act(self) -> bool:
        """Turn when it is due, and say whether it would act now; a stopped process does nothing."""
        now = self.clock.at
        if now < self.stopped_until:
            return False
        if now >= self.next_turn:
            self.next_turn = now + 5.0
            await self.lease.look()
            if self.lease.why_not_leading():
                await self.lease.claim(1)
        return not self.lease.why_not_acting()


async def seconds_led(seed: int) -> int:
    """Run three scalers for 600 s of trouble and return for how many of them one would have acted."""
    rng = random.Random(seed)  # noqa: S311  repeatable, not secret
    values: dict[str, bytes] = {}
    candidates = [
        Candidate(name=f"s{i}", store=DictStore(values), next_turn=rng.random() * 5) for i in range(3)
    ]
    led = 0
    for second in range(600):
        if rng.random() < 0.001:
            values.clear()
        for each in candidates:
            each.clock.at = float(second)
            each.suffer(rng)
        acting = [each.name for each in candidates if await each.would_act()]
        assert len(acting) <= 1, (seed, second, acting)
        led += len(acting)
    return led


@pytest.mark.parametrize("block", range(10))
def test_never_do_two_act_in_a_hundred_seeds(block: int) -> None:
    led = sum(asyncio.run(seconds_led(seed)) for seed in range(100 * block, 100 * block + 100))
    assert led > 20_000, "a third of the time somebody must lead, else this shows nothing"
