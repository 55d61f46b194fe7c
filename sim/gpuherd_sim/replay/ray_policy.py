"""Ray's own autoscaler as a policy of a replay: its real scheduler, and around it its throttle of launches.

The throttle is a model of ``_compute_to_launch``: of a type at most max(1, speed x running) nodes a round
and ``launches_max`` nodes on their way at once. Ray takes no GPU health into account, so sick hosts stay.
"""

import subprocess
import sys
from collections import Counter
from typing import Final

import msgspec

from gpuherd_autoscaler.limits import Limits
from gpuherd_sim.replay.policy import Decision
from gpuherd_sim.replay.ray_scheduler import Answer, Ask, Node
from gpuherd_sim.replay.world import Host, Power, World

LAUNCHES_MAX: Final = 10
"""``max_concurrent_launches`` of Ray's shipped defaults."""
UPSCALING_SPEED: Final = 1.0
"""As in Ray's shipped ``defaults.yaml``."""
_STOP_WAIT_S: Final = 10.0


class RayPolicy:
    """Owns the process with Ray's scheduler; ``close`` ends it."""

    name = "ray"
    watches_health = False

    def __init__(self, limits: Limits) -> None:
        self._pools = {str(pool.name): pool for pool in limits.pools}
        self._idle_timeout_s = min(pool.idle_timeout_s for pool in limits.pools)
        self._process = subprocess.Popen(  # our own interpreter
            [sys.executable, "-P", "-m", "gpuherd_sim.replay.ray_scheduler"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        if self._readline() != b"ready\n":
            self.close()
            raise RuntimeError("Ray's scheduler did not start; is ray installed in this environment?")

    def decide(self, world: World, now: float, *, metrics_known: bool) -> Decision:
        """Return what Ray would launch and terminate; nothing while the head is silent."""
        if not metrics_known:
            return Decision()
        answer = self._ask(self._request(world, now))
        by_name = {str(host.name): host.index for host in world.hosts}
        return Decision(
            start=[host.index for host in self._launch(world, answer.launch)],
            stop=[by_name[name] for name in answer.terminate],
            look_again_at=self._next_look(world, now),
        )

    def may_take_out(self, world: World, host: Host) -> bool:
        """Ray has no budget: a person takes the host out."""
        del world, host
        return True

    def close(self) -> None:
        """End the process: it ends by itself when its input does."""
        process = self._process
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def _readline(self) -> bytes:
        return self._process.stdout.readline() if self._process.stdout is not None else b""

    def _ask(self, ask: Ask) -> Answer:
        stdin = self._process.stdin
        if stdin is None:
            raise RuntimeError("Ray's scheduler has ended")
        stdin.write(msgspec.json.encode(ask) + b"\n")
        stdin.flush()
        return msgspec.json.decode(self._readline(), type=Answer)

    def _request(self, world: World, now: float) -> Ask:
        whole = max(host.gpus for host in world.hosts)
        pending = world.pending
        return Ask(
            nodes=[
                Node(
                    id=host.name,
                    kind=host.pool,
                    is_up=host.power is Power.UP,
                    gpus=host.gpus,
                    free=host.free,
                    idle_s=0.0 if host.idle_since is None else now - host.idle_since,
                )
                for host in world.hosts
                if host.power is Power.BOOTING or host.takes_work
            ],
            requests={str(size): count for size, count in pending.items() if size <= whole},
            gangs=[
                (-(-size // whole), whole) for size, n in pending.items() if size > whole for _ in range(n)
            ],
            max_by_kind={name: pool.ceiling for name, pool in self._pools.items()},
            min_by_kind={name: pool.floor for name, pool in self._pools.items()},
            gpus_by_kind={name: pool.gpus_per_node for name, pool in self._pools.items()},
            idle_timeout_s=self._idle_timeout_s,
        )

    def _launch(self, world: World, wanted: dict[str, int]) -> list[Host]:
        booting = Counter(str(host.pool) for host in world.of_power(Power.BOOTING))
        running = Counter(str(host.pool) for host in world.of_power(Power.UP))
        room = LAUNCHES_MAX - booting.total()
        chosen: list[Host] = []
        for kind, count in sorted(wanted.items()):
            most = max(1, int(UPSCALING_SPEED * max(running[kind], 1))) - booting[kind]
            off = [host for host in world.of_power(Power.OFF) if host.pool == kind]
            got = off[: max(0, min(count, most, room))]
            room -= len(got)
            chosen += got
        return chosen

    def _next_look(self, world: World, now: float) -> float | None:
        due = [host.idle_since + self._idle_timeout_s for host in world.hosts if host.idle_since is not None]
        return min((at for at in due if at >= now), default=None)
