"""Every verb that this agent carries out. Explicit: importing has no effects."""

from typing import Final

from gpuherd_agent.verbs import accept, ack, end_drain, evidence, record, repair, verify
from gpuherd_agent.verbs.verb import Verb

VERBS: Final[tuple[Verb, ...]] = (
    ack.VERB,
    accept.VERB,
    verify.VERB,
    evidence.VERB,
    record.VERB,
    repair.VERB,
    end_drain.VERB,
)
