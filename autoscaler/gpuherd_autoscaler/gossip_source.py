"""What the autoscaler hears by gossip, as a member without a voice: verdicts, sight and E.

Evidence for decisions, with its freshness; nothing here acts, and no call to Ray ever follows from it.
"""

import contextlib
import random
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from gpuherd.gossip.gossip import Gossip, Self
from gpuherd.gossip.identity import Identity
from gpuherd.gossip.inputs import SetRoster
from gpuherd.gossip.outputs import ClusterMismatch, Event, RoleChanged, VerdictChanged
from gpuherd.gossip_settings import GossipSettings
from gpuherd.names import ClusterName, NodeName
from gpuherd.shell import logs
from gpuherd.shell.clock import Clock
from gpuherd.shell.gossip import GossipShell
from gpuherd.shell.gossip_keys import InsecureVerifier, load_or_make
from gpuherd_autoscaler.gossip_sight import judged
from gpuherd_autoscaler.snapshot import GossipSight, Sourced

_LOG_GAP_S: Final = 60.0

log = logs.get("gpuherd.autoscaler")


class GossipSource:
    """Make it, then ``listening`` while it is read. Two autoscalers have two names, by their keys."""

    def __init__(
        self,
        cluster: ClusterName,
        settings: GossipSettings,
        clock: Clock,
        *,
        state_dir: Path,
        expected: Mapping[NodeName, str],
    ) -> None:
        """``expected``: name to rack, or ""; raises ConfigInvalid when the key file is of no use."""
        signer = load_or_make(state_dir / "gossip.key")
        own = Self(
            cluster=cluster,
            identity=Identity(name=NodeName(f"scaler-{signer.key.hex()[:12]}"), key=signer.key),
            epoch=int(clock.wall() * 1_000),
            advertised=settings.advertised,
            is_observer=True,
        )
        core = Gossip(own, signer, InsecureVerifier(), random.Random())  # noqa: S311  order of contacts
        self._settings = settings
        self._clock = clock
        self._expected = expected
        self._told_at = -_LOG_GAP_S
        self._shell = GossipShell(core, clock, on_event=self._on_event)

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Follow the gossip while the block lasts; raises ConfigInvalid when the port is taken."""
        await self._shell.start(self._settings.bind, self._settings.port, self._settings.seed_addresses)
        self._shell.tell(SetRoster(racks=self._expected))
        try:
            yield
        finally:
            await self._shell.leave()
            await self._shell.close()

    def read(self, now: float) -> Sourced[GossipSight]:
        """Return what the members say of each other now."""
        return judged(self._shell.view(), now)

    def _on_event(self, event: Event) -> None:
        match event:
            case VerdictChanged():
                before, after = event.before.value, event.after.value
                log.info("gossip.verdict", member=event.name, before=before, after=after)
            case RoleChanged():
                log.info("gossip.role", before=event.before.value, after=event.after.value)
            case ClusterMismatch() if self._clock.now() - self._told_at >= _LOG_GAP_S:
                self._told_at = self._clock.now()
                log.warning("gossip.cluster_mismatch", about=str(event.address))
            case _:
                pass
