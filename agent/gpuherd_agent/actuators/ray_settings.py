"""Settings of the raylet that the agent starts: section ``[ray]`` of ``agent.toml``."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

MAX_TEMP_DIR: Final = 41
"""Ray puts ``/session_DATE_TIME_MICROS_PID/sockets/plasma_store.1`` behind it, and a unix socket's path
ends at 107 bytes (unix(7)). With 41 the longest one fits."""

MIN_OBJECT_STORE_BYTES: Final = 78_643_200
"""Ray 2.60 refuses less (ray_constants.OBJECT_STORE_MINIMUM_MEMORY_BYTES)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaySettings:
    """``[ray]``."""

    binary: str = "ray"
    """Ray's command, a path or a name on PATH. Its environment decides the Ray and Python versions, which
    must equal the head's."""
    mode: Literal["child"] = "child"
    """``child`` = the agent starts ``ray start --block`` in a session of its own; it outlives the agent."""
    auth_mode: Literal["token", "disabled"] = "token"
    """Always handed to Ray, which otherwise guesses it from the files it finds. Must equal the head's.
    ``disabled`` lets everyone who reaches the head's port run code."""
    token_path: str = ""
    """File with Ray's token, needed by ``auth_mode = "token"``. A path and no secret, as the raylet and the
    one-shot helper read the file themselves; it must be readable for the agent's user only."""
    num_cpus: int | None = None
    """CPUs that Ray hands out; unset = as many as Ray counts. A task asks for one unless told otherwise,
    so too few leave GPUs without work."""
    object_store_bytes: int | None = None
    """Shared memory for objects; unset = Ray's own choice (30 % of memory)."""
    node_ip: str = ""
    """Address by which the other nodes reach this one; unset = Ray's own choice, which on a host with several
    networks may be one that the head cannot reach. A wrong one costs the join."""
    port_base: int | None = None
    """First of the ports that the raylet listens on: 6 for its daemons, and its workers from the tenth on.
    Unset = Ray takes random ones, which no firewall can be told of. Raylets on one host need ranges apart;
    below 32768 no outgoing connection takes them away."""
    worker_ports: int = 1_000
    """How many ports workers may take when ``port_base`` is set; each worker process takes one, and without a
    free one no task starts."""
    temp_dir: str = ""
    """Ray's folder for sockets and logs; unset = Ray's own ``/tmp/ray``. Two agents on one host need one
    each: parallel starts in a shared folder fight for a socket's name."""
    start_timeout_s: float = 60.0
    """How long a raylet's process may take to appear. A loaded host needs 10 to 25 s; a head that does not
    answer would keep ``ray start`` waiting for ever."""
    stop_grace_s: float = 60.0
    """How long the raylet may take to end after SIGTERM before SIGKILL. Killing a process within a CUDA
    call can leave its GPU unusable, so too short is worse than too long."""
    extra_args: tuple[str, ...] = ()
    """Added to ``ray start`` as they are, such as ``--node-ip-address=10.0.0.3`` or ports for a firewall."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        if self.auth_mode == "token" and not self.token_path:
            yield "token_path", 'is missing: auth_mode = "token" needs it'
        if len(self.temp_dir.encode()) > MAX_TEMP_DIR:
            yield "temp_dir", f"is longer than {MAX_TEMP_DIR} bytes: its sockets' paths would be too long"
        if self.temp_dir and not self.temp_dir.startswith("/"):
            yield "temp_dir", "is no absolute path"
        if self.num_cpus is not None and self.num_cpus < 0:
            yield "num_cpus", "must not be below 0"
        if self.object_store_bytes is not None and self.object_store_bytes < MIN_OBJECT_STORE_BYTES:
            yield "object_store_bytes", f"is below Ray's least, {MIN_OBJECT_STORE_BYTES}"
        if self.worker_ports < 1:
            yield "worker_ports", "must be at least 1"
        if self.port_base is not None and not 1_024 <= self.port_base <= 65_525 - self.worker_ports:  # noqa: PLR2004
            yield "port_base", "leaves no room between 1024 and 65535 for all ports"
        for key in ("start_timeout_s", "stop_grace_s"):
            if getattr(self, key) <= 0:
                yield key, "must be above 0"
