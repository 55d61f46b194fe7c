"""What waits to be published."""

from gpuherd.outbox import MAX_TRIES, RING, Outbox, Outgoing


def drained(outbox: Outbox) -> list[Outgoing]:
    found = []
    while (sent := outbox.take()) is not None:
        found.append(sent)
    return found


def test_only_the_newest_value_of_a_topic_is_sent() -> None:
    outbox = Outbox(max_bytes=100)
    outbox.keep("a", b"1")
    outbox.keep("b", b"2")
    outbox.keep("a", b"3")
    assert [(sent.topic, sent.payload) for sent in drained(outbox)] == [("a", b"3"), ("b", b"2")]


def test_kept_values_go_before_told_ones_and_are_retained() -> None:
    outbox = Outbox(max_bytes=100)
    outbox.tell("e", b"1")
    outbox.keep("a", b"2")
    assert [(sent.topic, sent.retain) for sent in drained(outbox)] == [("a", True), ("e", False)]


def test_all_kept_values_are_due_again_after_a_connect_and_told_ones_are_not() -> None:
    outbox = Outbox(max_bytes=100)
    outbox.keep("a", b"1")
    outbox.tell("e", b"2")
    drained(outbox)
    outbox.connected()
    assert [sent.topic for sent in drained(outbox)] == ["a"]


def test_a_full_ring_loses_its_oldest() -> None:
    outbox = Outbox(max_bytes=100)
    for number in range(RING + 2):
        outbox.tell("e", b"%d" % number)
    assert outbox.told == RING
    first = outbox.take()
    assert first is not None
    assert first.payload == b"2"
    assert outbox.dropped == {"ring": 2}


def test_an_unconfirmed_message_goes_first_again_and_only_so_often() -> None:
    outbox = Outbox(max_bytes=100)
    outbox.tell("e", b"1")
    outbox.tell("e", b"2")
    for _ in range(MAX_TRIES):
        sent = outbox.take()
        assert sent is not None
        assert sent.payload == b"1"
        outbox.give_back(sent)
    assert outbox.dropped == {"undelivered": 1}
    assert [sent.payload for sent in drained(outbox)] == [b"2"]


def test_a_message_given_back_to_a_full_ring_is_the_oldest_and_is_lost() -> None:
    outbox = Outbox(max_bytes=100)
    for number in range(RING):
        outbox.tell("e", b"%d" % number)
    sent = outbox.take()
    assert sent is not None
    outbox.tell("e", b"new")
    outbox.give_back(sent)
    assert outbox.told == RING
    assert outbox.dropped == {"ring": 1}


def test_an_oversize_payload_is_never_sent_and_leaves_the_value_before_it() -> None:
    outbox = Outbox(max_bytes=3)
    outbox.keep("a", b"123")
    outbox.keep("a", b"1234")
    outbox.tell("e", b"1234")
    assert [sent.payload for sent in drained(outbox)] == [b"123"]
    assert outbox.dropped == {"oversize_out": 2}
