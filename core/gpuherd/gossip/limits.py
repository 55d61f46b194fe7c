"""Every limit of gossip with its formula; docs/guide/gossip.md says what a wrong value costs.

All times are seconds. E is the number of expected members, N the number of known ones.
"""

import math
from typing import Final

# Rounds. One second is the shortest period whose idle traffic stays at 2 packets/s.
PERIOD_S: Final = 1.0
"""Between two probe rounds of a healthy node."""
SECOND_PING_S: Final = 0.2
"""Without an answer by then, a second ping and a knock follow."""
KNOCK_S: Final = 0.12
"""A knock without a handshake by then is repeated: TCP itself would try again only after 1 s."""
LOOK_S: Final = 0.5
"""A look that found no answer by then has found silence."""
WITNESS_LOOK_S: Final = 0.52
"""How long a prober waits for its witnesses: their look, and the way there and back."""
WITNESSES: Final = 8
HEED_S: Final = 0.1
"""A witness that has not said by then that it looks is replaced by the next one."""
MAX_WALKS: Final = 4
"""How many times witnesses are replaced in one round."""
REPROBE_S: Final = 1.0
"""Between two looks of an accuser at whom it accuses."""
EQUAL_RESULTS: Final = 2
"""So many equal looks in a row change the kind of an accusation."""

# Our own lateness.
LATE_S: Final = 0.2
"""A timer or a packet handled later than this says that our own loop is late: the round is void."""
LATE_MEMORY_S: Final = 3.0
"""For so long after such lateness all rounds are void."""
FREEZE_S: Final = 1.0
"""A timer later than this means that we stood still: clocks of standing verdicts start anew."""
MAX_HEALTH: Final = 7
"""Worst local health score; the period is PERIOD_S * (score + 1)."""
ISOLATED_S: Final = 2.5
"""A node that has heard nobody for so many periods is isolated."""

# Verdicts.
MAX_ACCUSATIONS: Final = 8
MAX_QUORUM: Final = 5
HINT_EXPECTED: Final = 3
"""Up to so many expected members a verdict is only a hint."""
ROLL_S: Final = 0.5
"""How long the answers of a roll call are waited for."""
ROLL_SERVES_S: Final = 5.0
ROLL_AGAIN_S: Final = 5.0
"""A minority calls again after this."""
ROLL_ALL: Final = 128
"""Up to so many expected members all are called; beyond it a random sample of this size."""
ROLL_SAMPLE_SHARE: Final = 0.6

# Spreading.
GOSSIP_S: Final = 0.2
FANOUT: Final = 3
RETRANSMIT: Final = 4
MANY_QUEUED: Final = 12
"""While more records wait, each gossip tick also does one exchange by stream."""
PACKETS_PER_S: Final = 50.0
BYTES_PER_S: Final = 64_000.0
BURST_S: Final = 4.0
"""The token buckets hold so many seconds of their rate."""
SENDER_PACKETS_PER_S: Final = 100.0
"""Packets of one known sender that are looked at; more are dropped before their signature is checked."""

# Contact that is never given up.
RECONNECT_S: Final = 10.0
"""Between two contacts with a random dead member, and with a random seed that is no member."""
EXCHANGE_AFTER_S: Final = 1.0
"""Shortest time between two anti-entropy exchanges that this node starts."""
EXCHANGE_BACKOFF_MAX_S: Final = 30.0
"""Exchanges that bring nothing double their distance up to this."""
CALL_TIMEOUT_S: Final = 5.0
BUCKETS: Final = 256

# Bounds of memory.
MAX_MEMBERS: Final = 2_048
MAX_TOMBSTONES: Final = 4 * MAX_MEMBERS
TOMBSTONE_S: Final = 86_400.0
REAP_S: Final = 3_600.0
"""A member that left, or that failed and is expected no more, becomes a tombstone after this."""
MAX_DATAGRAM_BYTES: Final = 1_200
MAX_FRAME_BYTES: Final = 65_536
MAX_RECORD_BYTES: Final = 256
MAX_IDENTITY_BYTES: Final = 192
MAX_MESSAGES: Final = 16
"""Messages of one datagram."""
MAX_FRAME_MESSAGES: Final = 160
MAX_FRAME_ENTRIES: Final = 128
"""Records of one frame: 128 of at most 256 + 192 bytes fit into MAX_FRAME_BYTES."""
REPLAY_WINDOW: Final = 1_024
REPLAYS_IN_A_ROW: Final = 3
"""After so many packets of the past a sender is challenged: a resumed snapshot learns by that what it is."""
MAX_BACKLOG: Final = 4_096
"""Records of frames that wait for their signatures to be checked."""
CHECKS_PER_TURN: Final = 64
"""Signatures of queued records that one call checks: 64 * 219 us = 14 ms."""

# Strangers.
CHALLENGES_PER_S: Final = 50.0
COOKIE_S: Final = 30.0
"""A challenge is good for one to two times this."""
HELLO_S: Final = 1.0
"""Between two greetings of one address that has not answered; doubles up to RECONNECT_S."""
TAKEN_PATIENCE_S: Final = 15.0
"""A newcomer that is told for so long that its name is online elsewhere gives up."""
MAX_EPOCH: Final = 2**48 - 1
MAX_VERSION: Final = 2**32 - 1


def quorum(expected: int) -> int:
    """Return Q, the voices that make a verdict: min(5, floor((E - 1) / 2) + 1), at least 1."""
    return max(1, min(MAX_QUORUM, (expected - 1) // 2 + 1))


def fail_after_s(expected: int) -> float:
    """Return how long `unreachable` or `agent_dead` stands before `failed`: max(8 s, 4 log10 E s)."""
    return max(8.0, 4.0 * math.log10(max(1, expected)))


def retransmits(known: int) -> int:
    """Return how many packets carry one record from this node: 4 ceil(log10(N + 1))."""
    return RETRANSMIT * max(1, math.ceil(math.log10(known + 1)))


def roll_size(expected: int) -> int:
    """Return how many members a roll call asks, the caller counted."""
    return min(expected, ROLL_ALL)


def roll_needs(expected: int) -> int:
    """Return the fresh answers, the caller counted, without which a node is in a minority."""
    if expected <= ROLL_ALL:
        return expected // 2 + 1
    return math.ceil(ROLL_ALL * ROLL_SAMPLE_SHARE)
