"""Tables of members: hashes that tell them apart, tombstones, the order of witnesses, the order of news."""

import pytest

from gpuherd.gossip import limits
from gpuherd.gossip.addresses import Address
from gpuherd.gossip.bodies import Body
from gpuherd.gossip.broadcast import BroadcastQueue, News
from gpuherd.gossip.electorate import Electorate
from gpuherd.gossip.identity import Identity, NameHash, name_hash
from gpuherd.gossip.members import Members, parse_heads
from gpuherd.gossip.records import Draft, Record, sign
from gpuherd.names import NodeName
from gpuherd_sim.gossip.quick_keys import QuickSigner, make_key


def record(name: str, epoch: int = 1, version: int = 1, *, has_left: bool = False) -> Record:
    draft = Draft(
        owner=name_hash(name),
        epoch=epoch,
        version=version,
        address=Address("10.0.0.1", 7946),
        body=Body(),
        has_left=has_left,
    )
    return sign(draft, b"cluster!", QuickSigner(make_key(name)))


def add(members: Members, name: str, epoch: int = 1, version: int = 1) -> None:
    which = name_hash(name)
    member = members.get(which) or members.admit(
        which, Identity(name=NodeName(name), key=make_key(name)), 0.0
    )
    assert member is not None
    members.merge(member, record(name, epoch, version), 0.0)


NAMES = [f"n{number}" for number in range(300)]


def test_tables_with_the_same_records_have_one_hash_in_whatever_order_they_came() -> None:
    one, other = Members(), Members()
    for name in NAMES:
        add(one, name)
    for name in reversed(NAMES):
        add(other, name, version=1)
    assert one.table_hash == other.table_hash
    assert one.bucket_hashes == other.bucket_hashes
    add(other, "n7", version=2)
    assert one.table_hash != other.table_hash


def test_the_heads_of_differing_buckets_hold_what_differs_and_little_else() -> None:
    one, other = Members(), Members()
    for name in NAMES:
        add(one, name)
        add(other, name)
    add(other, "n7", version=9)
    differing = other.differing(one.bucket_hashes)
    heads = dict(parse_heads(other.heads(differing)))
    assert heads[name_hash("n7")] == (1, 9)
    assert len(heads) < 20


def test_an_older_record_never_wins() -> None:
    members = Members()
    add(members, "a", epoch=5, version=3)
    for epoch, version in [(5, 3), (5, 2), (4, 99)]:
        add(members, "a", epoch, version)
    member = members.get(name_hash("a"))
    assert member is not None
    assert member.rank == (5, 3)


def test_a_tombstone_refuses_old_runs_keeps_the_hash_and_lets_a_new_run_in() -> None:
    early, late = Members(), Members()
    for members in (early, late):
        add(members, "a", epoch=5)
        add(members, "b")
    gone = early.get(name_hash("a"))
    assert gone is not None
    early.bury(gone, now=10.0)
    assert early.table_hash == late.table_hash  # who reaps earlier does not differ from who reaps later
    assert early.is_buried(name_hash("a"), 5)
    add(early, "a", epoch=5, version=99)
    assert early.get(name_hash("a")) is None or early.get(name_hash("a")).record is None  # type: ignore[union-attr]
    add(early, "a", epoch=6)
    back = early.get(name_hash("a"))
    assert back is not None
    assert back.rank == (6, 1)
    assert early.tombstones == 0


def test_tombstones_expire_and_are_bounded() -> None:
    members = Members()
    for number in range(limits.MAX_TOMBSTONES + 10):
        name = f"x{number}"
        add(members, name)
        gone = members.get(name_hash(name))
        assert gone is not None
        members.bury(gone, now=float(number))
    assert members.tombstones == limits.MAX_TOMBSTONES
    members.expire(limits.TOMBSTONE_S * 10)
    assert members.tombstones == 0
    assert members.table_hash == bytes(8)


@pytest.mark.parametrize("racks", [2, 4, 8])
def test_the_first_witnesses_come_from_as_many_racks_as_there_are(racks: int) -> None:
    members, electorate = Members(), Electorate()
    names = [NodeName(name) for name in NAMES[:64]]
    rack_of = {name: f"r{number % racks}" for number, name in enumerate(names)}
    for name in names:
        add(members, name)
    electorate.set_roster(rack_of)
    electorate.refresh(members, ())
    by_hash = {name_hash(name): rack_of[name] for name in names}
    for subject in names[:10]:
        first = electorate.witnesses(name_hash(subject))[: limits.WITNESSES]
        assert name_hash(subject) not in first
        assert {by_hash[one] for one in first} == set(rack_of.values())


def test_everybody_asks_the_same_witnesses() -> None:
    orders = set()
    for seed in range(5):
        members, electorate = Members(), Electorate()
        for name in sorted(NAMES, key=lambda one: name_hash(f"{seed}{one}")):
            add(members, name)
        electorate.refresh(members, ())
        orders.add(electorate.witnesses(name_hash("n1"))[:8])
    assert len(orders) == 1


def owner(number: int) -> NameHash:
    return name_hash(f"n{number}")


def test_retractions_go_first_and_one_place_is_kept_for_health() -> None:
    queue = BroadcastQueue()
    queue.put(owner(0), News.STATE, introduces=False)
    for number in range(1, 10):
        queue.put(owner(number), News.ACCUSATION, introduces=False)
    queue.put(owner(10), News.RETRACTION, introduces=False)
    chosen = [item.owner for item in queue.choose(4)]
    assert chosen[0] == owner(10)
    assert owner(0) in chosen


def test_news_of_one_member_has_one_place_and_leaves_after_its_transmissions() -> None:
    queue = BroadcastQueue()
    for _ in range(100):
        queue.put(owner(1), News.STATE, introduces=False)
    assert len(queue) == 1
    for _ in range(limits.retransmits(30)):
        (item,) = queue.choose(4)
        queue.sent(item, 30)
    assert len(queue) == 0
