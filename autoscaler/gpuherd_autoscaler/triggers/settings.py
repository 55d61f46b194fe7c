"""``[[trigger]]``: what asks for nodes of which pool, and what its silence means."""

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

from gpuherd.names import NameInvalid, PoolName, parse_name
from gpuherd.settings import Secret
from gpuherd_autoscaler.asks import Terms

MOST_NODES: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Keys under ``[[trigger]]``."""

    name: str
    """1 to 63 of ``a-z 0-9 -``; a label of metrics."""

    pool: PoolName
    """The pool whose nodes it asks for; never more than the pool's ``max``."""

    kind: str
    """Entry point of the group ``gpuherd.triggers``: ``promql``, ``http``, ``schedule``, or your own."""

    per_node: float = 1.0
    """What one node stands for: the value is divided by it and rounded up. Too low starts too many nodes."""

    on_missing: Literal["hold", "fallback"] = "hold"
    """While it tells nothing: ``hold`` keeps what it last asked for, and with no last word releases nothing
    of the pool; ``fallback`` asks for ``fallback_nodes``, or for its last word where that is more."""

    fallback_nodes: int = 0

    period_s: float = 15.0
    """Time between two readings. Shorter follows sooner and asks its source more."""

    deadline_s: float = 5.0
    """How long one reading may take; then it is missing. Other triggers and decisions never wait for it."""

    window: str = ""
    """``schedule``: the ``[[window]]`` in which it asks."""

    nodes: int = 0
    """``schedule``: how many nodes it asks for while the window is open; outside it asks for none."""

    url: str = ""
    """``promql``: where Prometheus is. ``http``: what to GET; redirects are not followed."""

    query: str = ""
    """``promql``: an expression that gives one number. No series at all counts as missing, not as 0."""

    pointer: str = ""
    """``http``: where the number is in the JSON answer, as a JSON Pointer (RFC 6901), such as
    ``/queues/0/depth``. Empty = the answer is the number."""

    token: Secret | None = None
    """``promql`` and ``http``: bearer token (key ``token_file``)."""

    @property
    def terms(self) -> Terms:
        """Return what a decision knows of it."""
        return Terms(
            name=self.name, pool=self.pool, on_missing=self.on_missing, fallback_nodes=self.fallback_nodes
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield (key, why) for everything that cannot be used."""
        try:
            parse_name(self.name, "trigger name")
        except NameInvalid as error:
            yield "name", str(error)
        if not (math.isfinite(self.per_node) and self.per_node > 0):
            yield "per_node", "must be above 0"
        if not 1 <= self.period_s <= 3_600:  # noqa: PLR2004
            yield "period_s", f"{self.period_s:g} is outside 1 to 3600"
        if not 0 < self.deadline_s <= self.period_s:
            yield "deadline_s", f"must be above 0 and at most period_s ({self.period_s:g})"
        if not 0 <= self.fallback_nodes <= MOST_NODES:
            yield "fallback_nodes", f"is outside 0 to {MOST_NODES}"
        if self.on_missing == "fallback" and self.fallback_nodes == 0:
            yield "fallback_nodes", 'on_missing = "fallback" needs it; "hold" keeps the last word'
        yield from self._kind_problems()

    def _kind_problems(self) -> Iterator[tuple[str, str]]:
        match self.kind:
            case "schedule":
                if not self.window:
                    yield "window", "is missing: name a [[window]]"
                if not 0 < self.nodes <= MOST_NODES:
                    yield "nodes", f"is outside 1 to {MOST_NODES}"
            case "promql":
                yield from self._url_problems()
                if not self.query:
                    yield "query", "is missing"
            case "http":
                yield from self._url_problems()
                if self.pointer and not self.pointer.startswith("/"):
                    yield "pointer", f"{self.pointer[:80]!r} is no JSON Pointer: it begins with /"

    def _url_problems(self) -> Iterator[tuple[str, str]]:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            yield "url", f"{self.url[:80]!r} is no http:// or https:// address"
        if parts.username or parts.password:
            yield "url", "holds a password: name a token_file"


def trigger_problems(triggers: Sequence[Trigger], pools: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (key path, why) for names given twice and pools that are none."""
    first: dict[str, int] = {}
    for i, trigger in enumerate(triggers):
        if trigger.name in first:
            yield f"trigger[{i}].name", f"{trigger.name!r} is the name of trigger[{first[trigger.name]}] too"
        first.setdefault(trigger.name, i)
        if trigger.pool not in pools:
            yield f"trigger[{i}].pool", f"{trigger.pool!r} is no [[pool]]"
