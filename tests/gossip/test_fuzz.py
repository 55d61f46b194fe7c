"""Mutated packets, as noise and signed by bad members: nothing is raised, nothing outgrows its bound."""

import pytest

from gpuherd_sim.gossip.fuzz import corpus, run


def test_the_corpus_holds_datagrams_and_frames_of_every_kind() -> None:
    packets = corpus(1)
    assert len(packets) > 200
    assert max(map(len, packets)) > 1_200


@pytest.mark.parametrize("seed", range(4))
def test_no_mutated_packet_crashes_a_node_or_makes_it_send_without_bound(seed: int) -> None:
    outcome = run(100_000, seed)
    assert outcome.packets == 100_000
    assert outcome.used > 5_000  # signed ones that reach the rules, not noise alone
