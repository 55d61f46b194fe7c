"""``autoscaler.toml``. Each field says what it means and what a wrong value costs."""

import contextlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from gpuherd.broker_settings import BrokerSettings, parse_url
from gpuherd.gossip_settings import GossipSettings, loopback_problems
from gpuherd.names import ClusterName, NameInvalid, NodeName, parse_name
from gpuherd.settings import Secret
from gpuherd_autoscaler.disruption import Disruption, disruption_problems
from gpuherd_autoscaler.ledger import Mode
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.pools import Deferrable, Pool, pool_problems
from gpuherd_autoscaler.quota import Quota
from gpuherd_autoscaler.racks import Rack, rack_problems
from gpuherd_autoscaler.triggers.settings import Trigger, trigger_problems
from gpuherd_autoscaler.windows import Window, window_problems

_MAX_PORT: Final = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerSection:
    """``[scaler]``."""

    interval_s: float = 5.0
    """Time between decisions; news of a node wakes the loop earlier. Longer follows the queue later."""
    min_gap_s: float = 1.0
    """Least time between two decisions, however much news there is; at most ``interval_s``."""
    start_mode: Mode = Mode.RECOMMEND
    """Mode while nobody has set one. ``recommend`` shows plans; `agentctl scaler arm` makes it act."""
    leadership: Literal["lease", "single"] = "lease"
    """``lease``: of several autoscalers one leads, by a claim in Ray's key-value store; without Ray's
    head none does. ``single``: you promise that this is the only one; two would fight over the nodes."""
    settle_s: float = 5.0
    """Longest wait at the start for what the broker has retained, before a term is taken. Too short and
    the first term may lie below what nodes obey, which a second term then mends."""
    record: str = ""
    """File to which each snapshot and plan is appended, for replay. Empty = none. It grows without bound."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if not 0.05 <= self.interval_s <= 300:  # noqa: PLR2004  from tests to a very calm fleet
            yield "interval_s", f"{self.interval_s:g} is outside 0.05 to 300"
        if not self.min_gap_s > 0:
            yield "min_gap_s", "must be above 0"
        if self.settle_s < 0:
            yield "settle_s", "must not be negative"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSection:
    """``[head]``: Ray's head."""

    addresses: tuple[str, ...] = ()
    """``host:port`` of the GCS; the first is asked, and all are told to the nodes."""
    token: Secret | None = None
    """Ray's token (key ``token_file``) when the head runs with token auth. Unset = Ray's own variables."""
    deadline_s: float = 4.0
    """How long the head may take to answer. A decision waits for it; later counts as unreachable."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield every address that is no host:port."""
        for address in self.addresses:
            host, colon, port = address.rpartition(":")
            if not (host and colon and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
                yield "addresses", f"{address[:80]!r} is not host:port"
        if not self.addresses:
            yield "addresses", "is missing: name Ray's head, such as ['10.0.0.1:6379']"
        if self.deadline_s <= 0:
            yield "deadline_s", "must be above 0"


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSection(BrokerSettings):
    """``[broker]``: where it is, and whether this process is it."""

    embedded: bool = False
    """Run a broker in this process on the url's loopback port. Only for one host, without a password."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what no field can know of itself."""
        yield from BrokerSettings.problems(self)
        if self.embedded and self.username:
            yield "username", "is of no use: the embedded broker asks nobody for a password"


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSection:
    """``[api]``."""

    socket: str = "/run/gpuherd/autoscaler.sock"
    """Unix socket of the REST API; its group may use it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSection:
    """``[metrics]``."""

    host: str = "127.0.0.1"
    port: int = 0
    """Port of ``/metrics``, ``/livez``, ``/readyz`` and the list of targets. 0 = only on the API's socket."""
    agents: str = "{node}:9440"
    """Where Prometheus finds an agent's page, with ``{node}`` for its name: told to it as a list of all
    expected nodes. Names that Prometheus' host cannot resolve look like dead hosts."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the port."""
        if not 0 <= self.port <= _MAX_PORT:
            yield "port", f"{self.port} is outside 0 to {_MAX_PORT}"
        host, colon, port = self.agents.rpartition(":")
        if not (host and colon and port.isdecimal() and 0 < int(port) <= _MAX_PORT):
            yield "agents", f"{self.agents[:80]!r} is not host:port, such as '{{node}}:9440'"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalerSettings:
    """The whole file."""

    cluster: ClusterName
    state_dir: str = "/var/lib/gpuherd-autoscaler"
    """The ledger's folder. Losing it makes the scaler recommend only, until somebody arms it again."""
    insecure: bool = False
    """No signatures and no TLS. Only for loopback: broker and metrics must be 127.0.0.0/8 or ::1."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    scaler: ScalerSection = field(default_factory=ScalerSection)
    head: HeadSection = field(default_factory=HeadSection)
    broker: BrokerSection = field(default_factory=BrokerSection)
    api: ApiSection = field(default_factory=ApiSection)
    metrics: MetricsSection = field(default_factory=MetricsSection)
    gossip: GossipSettings = field(default_factory=GossipSettings)
    """As an observer without a voice: the autoscaler hears verdicts and makes none."""
    pool: tuple[Pool, ...] = ()
    window: tuple[Window, ...] = ()
    """Times of the day or week that triggers, ``[deferrable]`` and ``warm_spares_in`` name."""
    trigger: tuple[Trigger, ...] = ()
    deferrable: Deferrable = field(default_factory=Deferrable)
    quota: Quota = field(default_factory=Quota)
    disruption: tuple[Disruption, ...] = ()
    """Budgets for what the autoscaler takes away, beside each pool's ``leaving_max``."""
    rack: tuple[Rack, ...] = ()
    """Optional. A host that stands in none counts as a rack of its own."""

    @property
    def limits(self) -> Limits:
        """Return what decisions are bound by."""
        return Limits(
            pools=self.pool,
            triggers=tuple(trigger.terms for trigger in self.trigger),
            deferrable=self.deferrable,
            quota=self.quota,
            disruptions=self.disruption,
            racks=self.rack,
        )

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what spans sections: names, pools, and what ``insecure`` does not allow."""
        try:
            parse_name(self.cluster, "cluster name")
        except NameInvalid as error:
            yield "cluster", str(error)
        yield from pool_problems(self.pool)
        yield from trigger_problems(self.trigger, [pool.name for pool in self.pool])
        yield from window_problems(self.window, tuple(_windows_used(self)))
        yield from disruption_problems(self.disruption, {pool.name for pool in self.pool})
        yield from rack_problems(self.rack, _listed(self.pool))
        if not self.insecure:
            yield "insecure", "must be true: certificates are not supported yet, so only loopback is"
        yield from loopback_problems(self.gossip)
        if not _is_loopback(_host(self.broker.url)):
            yield "broker.url", f"{self.broker.url[:80]!r} is not on loopback, which insecure = true demands"
        if not _is_loopback(self.metrics.host):
            yield "metrics.host", f"{self.metrics.host!r} is not on loopback, which insecure = true demands"


def _windows_used(settings: ScalerSettings) -> Iterator[tuple[str, str]]:
    for i, trigger in enumerate(settings.trigger):
        if trigger.window:
            yield f"trigger[{i}].window", trigger.window
    for i, pool in enumerate(settings.pool):
        for window in pool.warm_spares_in:
            yield f"pool[{i}].warm_spares_in.{window}", window
    for i, each in enumerate(settings.disruption):
        if each.window:
            yield f"disruption[{i}].window", each.window
    if settings.deferrable.window:
        yield "deferrable.window", settings.deferrable.window


def _listed(pools: tuple[Pool, ...]) -> set[NodeName]:
    found: set[NodeName] = set()
    for pool in pools:
        with contextlib.suppress(NameInvalid):  # reported by the pool itself
            found.update(pool.names)
    return found


def _host(url: str) -> str:
    try:
        return parse_url(url)[0]
    except ValueError:
        return "127.0.0.1"  # reported by the section itself


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
