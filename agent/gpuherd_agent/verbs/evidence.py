"""``evidence``: one tar on the node with readings, findings, kernel log, processes and versions."""

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from gpuherd import __version__
from gpuherd.errors import HerdError, Refused
from gpuherd.wire.documents import Command
from gpuherd_agent import programs
from gpuherd_agent.evidence_child import Packed
from gpuherd_agent.verbs.verb import Desk, Done, Verb

FOLDER: Final = "evidence"
_CHILD_S: Final = 60.0
_DEADLINE_S: Final = 80.0
_KERNEL_LOG: Final = "/dev/kmsg"
_MODULE: Final = "gpuherd_agent.evidence_child"


class EvidenceFailed(HerdError):
    """No bundle was made; nothing of it is left."""


async def run(desk: Desk, command: Command) -> Done:
    """Make the bundle and tell its path; raises Refused for a GPU that this node never had."""
    if desk.state_dir is None:
        raise Refused("this node keeps no files")
    gpu = command.arguments.get("gpu", "")
    if gpu and gpu not in desk.sensing.health.snapshot.known:
        raise Refused(f"GPU {gpu[:80]} was never seen on this node; `agentctl gpus` lists those that were")
    place = desk.state_dir / FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(desk.clock.wall()))
    name = f"{desk.identity.node}-{gpu or 'node'}-{stamp}-{desk.rng.getrandbits(16):04x}"
    folder = Path(tempfile.mkdtemp(prefix=".gathering-", dir=place))
    try:
        for file, content in _what_the_agent_knows(desk, command).items():
            (folder / file).write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1))
        ended = await programs.run(
            Path(sys.executable),
            arguments=("-m", _MODULE, str(folder), name, _KERNEL_LOG),
            deadline_s=_CHILD_S,
            environment=os.environ,
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return _told(ended)


def _told(ended: programs.Ended) -> Done:
    last = ended.output.splitlines()[-1] if ended.output else ""
    try:
        packed = msgspec.json.decode(last, type=Packed)
    except msgspec.DecodeError as error:
        how = "did not end in time" if ended.is_late else f"ended with {ended.code}: {last[:200]}"
        raise EvidenceFailed(f"the bundle could not be made: its child {how}") from error
    lacks = f"; without {', '.join(packed.missing)}" if packed.missing else ""
    reason = f"{packed.files} files, {packed.size_bytes / 1_024:.0f} KiB{lacks}"
    return Done(reason=reason, output=packed.path)


def _what_the_agent_knows(desk: Desk, command: Command) -> dict[str, object]:
    health, steward = desk.sensing.health, desk.steward
    memory = steward.memory
    return {
        "about.json": {
            "node": desk.identity.node,
            "gpu": command.arguments.get("gpu", ""),
            "asked_by": command.by,
            "reason": command.reason,
            "wall": desk.clock.wall(),
            "boot_id": desk.identity.boot_id,
            "agent": __version__,
        },
        "readings.json": health.snapshot,
        "findings.json": {"verdict": health.verdict, "latched": health.latched},
        "memory.json": {
            "holds": memory.holds,
            "boards": memory.boards,
            "accepted": memory.accepted,
            "drain": memory.drain,
            "raylet": memory.raylet,
            "phase": steward.station.phase,
            "reason": steward.station.reason,
        },
    }


VERB: Final = Verb(name="evidence", deadline_s=_DEADLINE_S, run=run)
