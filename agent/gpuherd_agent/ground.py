"""What a raylet would find on this host, and whether it could live there. Pure.

Ray tells most of this late and as a general time-out (2.60: a wrong address after 36 s).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuherd.preflight import Check
from gpuherd_agent.refusals import JoinRefusal

DISK_FULL_RATIO: Final = 0.95
"""Ray 2.60 refuses to create objects above it (RayConfig ``local_fs_capacity_threshold``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """One reading. An empty ``..._error`` = well; None = not read, which stands in nobody's way here.

    ``ports`` is what of the pinned ports another process listens on, with what it was meant for.
    """

    auth_mode: str = "disabled"
    token_path: str = ""
    token_error: str = ""
    node_ip: str = ""
    node_ip_error: str = ""
    temp_dir: str = ""
    temp_dir_error: str = ""
    disk_total_bytes: int | None = None
    disk_free_bytes: int | None = None
    shm_free_bytes: int | None = None
    object_store_bytes: int | None = None
    ports: Mapping[int, str] = field(default_factory=dict)


def checks(ground: Ground) -> Iterator[Check]:
    """Yield a check for everything that was read."""
    if ground.auth_mode == "token":
        yield _check(
            JoinRefusal.TOKEN_UNREADABLE,
            ground.token_error,
            good=f"the token {ground.token_path} can be read",
            bad=f"the token {ground.token_path}: {ground.token_error}",
            mend=f"put the head's token into {ground.token_path}, readable for the agent's user only",
        )
    if ground.node_ip:
        yield _check(
            JoinRefusal.NODE_ADDRESS,
            ground.node_ip_error,
            good=f"{ground.node_ip} is an address of this host",
            bad=f"[ray] node_ip {ground.node_ip} is no address of this host: {ground.node_ip_error}",
            mend="correct [ray] node_ip; `ip -brief address` lists what this host has",
        )
    yield _check(
        JoinRefusal.TEMP_DIR,
        ground.temp_dir_error,
        good=f"{ground.temp_dir} can be written",
        bad=f"[ray] temp_dir {ground.temp_dir} cannot be written: {ground.temp_dir_error}",
        mend=f"`install -d -o $(id -un) {ground.temp_dir}`, or correct [ray] temp_dir",
    )
    yield from _ports(ground.ports)
    yield from _room(ground)


def _check(code: JoinRefusal, error: str, *, good: str, bad: str, mend: str) -> Check:
    return Check(code=code, passed=not error, what=bad if error else good, mend=mend if error else "")


def _ports(taken: Mapping[int, str]) -> Iterator[Check]:
    named = ", ".join(f"{port} ({use})" for port, use in sorted(taken.items()))
    which = min(taken, default=0)
    yield Check(
        code=JoinRefusal.PORT_TAKEN,
        passed=not taken,
        what=f"another process listens on {named}" if taken else "the pinned ports are free",
        mend=f"`ss -ltnp 'sport = :{which}'` names it; end it or move [ray] port_base" if taken else "",
    )


def _room(ground: Ground) -> Iterator[Check]:
    total, free = ground.disk_total_bytes, ground.disk_free_bytes
    if total and free is not None:
        used = 1 - free / total
        full = used >= DISK_FULL_RATIO
        yield Check(
            code=JoinRefusal.DISK_FULL,
            passed=not full,
            what=f"the disk of {ground.temp_dir} is {used:.0%} used"
            + (f", Ray stops at {DISK_FULL_RATIO:.0%}" if full else ""),
            mend=f"`du -xsh {ground.temp_dir}/*` and make room" if full else "",
        )
    wanted, shm = ground.object_store_bytes, ground.shm_free_bytes
    if wanted is not None and shm is not None:
        small = shm < wanted
        yield Check(
            code=JoinRefusal.SHM_SMALL,
            passed=not small,
            what=f"shared memory has {shm} bytes free, the object store wants {wanted}",
            mend="`mount -o remount,size=SIZE /dev/shm`, or lower [ray] object_store_bytes" if small else "",
        )
