"""Settings of the agent: ``agent.toml``. Each field says what it means and what a wrong value costs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from gpuherd.broker_settings import BrokerSettings
from gpuherd.gossip_settings import GossipSettings, loopback_problems
from gpuherd.names import ClusterName, NameInvalid, NodeName, PoolName, parse_name
from gpuherd_agent.actuators.ray_settings import RaySettings
from gpuherd_agent.repair_settings import RepairSettings
from gpuherd_agent.sensors.probe_settings import ProbeSettings
from gpuherd_agent.sensors.sensor_settings import SensorSettings
from gpuherd_agent.site_settings import CheckSettings, HookSettings, PreflightSettings

_ABOVE_ZERO: Final = (
    *("period_s", "confirm_s", "deadline_s", "start_deadline_s", "wake_deadline_s", "backoff_s"),
)
_DEFAULT_POOL: Final = PoolName("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings(ProbeSettings):
    """``[gpu]``."""

    declared: int
    """How many GPUs this host is meant to have. Fewer counted ones keep the node out of Ray and say so;
    Ray itself would believe any number."""
    period_s: float = 1.0
    """One probe cycle each. Longer finds a lost GPU later; much shorter only costs CPU."""
    confirm_s: float = 0.25
    """Pause before the next cycle while a finding waits for its confirmation; at most ``period_s``."""

    shrink_min_ratio: float = 0.5
    """A host with sick GPUs rejoins with the good ones alone while these are at least this share of the
    declared ones. Lower keeps hosts with a single good GPU, on which large jobs find no place; 1 keeps a
    host out as soon as one GPU is sick, which costs its good ones too."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if not 0 <= self.declared <= 64:  # noqa: PLR2004  more GPUs than any host has
            yield "declared", f"{self.declared} is outside 0 to 64"
        for key in _ABOVE_ZERO:
            if getattr(self, key) <= 0:
                yield key, "must be above 0"
        if not 0 < self.shrink_min_ratio <= 1:
            yield "shrink_min_ratio", "must be above 0 and at most 1"
        if self.confirm_s > self.period_s:
            yield "confirm_s", f"must not be above period_s ({self.period_s})"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """``[head]``."""

    addresses: tuple[str, ...] = ()
    """``host:port`` of Ray's head, used until a desired document names others. Of several the next one is
    tried when one does not answer: names for one head, never two heads at once."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield every address that is no host:port."""
        for address in self.addresses:
            host, colon, port = address.rpartition(":")
            if not (host and colon and port.isdecimal() and 0 < int(port) < 65_536):  # noqa: PLR2004
                yield "addresses", f"{address!r} is not host:port"
        if not self.addresses:
            yield "addresses", "is missing: name Ray's head, such as ['10.0.0.1:6379']"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """``[http]``."""

    host: str = "127.0.0.1"
    """Where ``/metrics``, ``/livez`` and ``/readyz`` listen; only loopback while ``insecure``."""
    port: int = 9440
    dcgm_compat: bool = False
    """Also write the ``DCGM_FI_DEV_…`` series that dashboards for NVIDIA's exporter read, such as 12239. Off,
    those dashboards stay empty; on, a page of eight GPUs is about a third longer."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what is wrong with the port."""
        if not 0 < self.port < 65_536:  # noqa: PLR2004
            yield "port", f"{self.port} is outside 1 to 65535"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The whole file."""

    cluster: ClusterName
    node: NodeName
    """The host's name in the fleet; unique, and as listed in a pool of the autoscaler."""
    pool: PoolName = _DEFAULT_POOL
    """Counts only until a desired document names the pool."""
    state_dir: str = "/var/lib/gpuherd"
    """What must outlive a restart. One folder an agent; losing it holds the node until a person looks."""
    insecure: bool = False
    """No signatures and no TLS. Only for loopback: everything named here must be 127.0.0.0/8 or ::1."""
    without_orders: Literal["last", "serve", "stay_out"] = "last"
    """What to do while no desired document was ever accepted: stay as you are, serve, or stay out."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    gpu: GpuSettings
    ray: RaySettings = field(default_factory=RaySettings)
    head: HeadSettings = field(default_factory=HeadSettings)
    broker: BrokerSettings = field(default_factory=BrokerSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    sensors: SensorSettings = field(default_factory=SensorSettings)
    checks: CheckSettings = field(default_factory=CheckSettings)
    hooks: HookSettings = field(default_factory=HookSettings)
    preflight: PreflightSettings = field(default_factory=PreflightSettings)
    repair: RepairSettings = field(default_factory=RepairSettings)
    gossip: GossipSettings = field(default_factory=GossipSettings)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield bad names, and what ``insecure`` does not allow."""
        for key in ("cluster", "node", "pool"):
            try:
                parse_name(getattr(self, key), f"{key} name")
            except NameInvalid as error:
                yield key, str(error)
        if not self.insecure:
            yield "insecure", "must be true: certificates are not supported yet, so only loopback is"
        else:
            yield from loopback_problems(self.gossip)
