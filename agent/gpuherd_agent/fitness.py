"""Is the host fit to join? What GPUs and host themselves tell, before each join. Pure.

Who the head is and what it runs is judged in ``admission``; findings over time in the rules.
"""

from collections.abc import Collection, Iterator, Sequence
from typing import Final

from gpuherd.names import GpuUuid
from gpuherd.preflight import Check, Preflight
from gpuherd_agent.doors import HookEnded, Smoked, SmokeOutcome
from gpuherd_agent.memory import Board, NodeMemory
from gpuherd_agent.readings import GpuReading, HostReading, NvmlCode, Snapshot

CORES_PER_GPU: Final = 8
MEMORY_RATIO: Final = 2.0
"""Host memory over GPU memory: below it, data loading and checkpoints run the host out of memory."""


def checks(snapshot: Snapshot, good: Sequence[GpuUuid], memory: NodeMemory) -> Iterator[Check]:
    """Yield the checks of host and GPUs; ``good`` are the GPUs that would be offered."""
    probe = snapshot.probe
    if probe is not None and probe.code is not None:
        yield _driver(probe.code)
    read = [g for g in probe.gpus if g.gpu in good] if probe else []
    yield from _identity(read, memory.accepted)
    for gpu in read:
        yield from _of_gpu(gpu, memory)
    if snapshot.host is not None and read:
        yield from _host(snapshot.host, read)


def _of_gpu(gpu: GpuReading, memory: NodeMemory) -> Iterator[Check]:
    yield from _ecc(gpu, memory.accepted)
    yield from _temperature(gpu)
    yield from _rows(gpu)
    yield from _link(gpu)
    yield from _persistence(gpu)


def unfit(
    snapshot: Snapshot, gpus: Collection[GpuUuid], memory: NodeMemory
) -> dict[GpuUuid, tuple[Check, ...]]:
    """Return those of these GPUs that would not pass a join, with what refuses them."""
    read = [g for g in snapshot.probe.gpus if g.gpu in gpus] if snapshot.probe else []
    found: dict[GpuUuid, tuple[Check, ...]] = {}
    for gpu in read:
        made = (*_identity([gpu], memory.accepted), *_of_gpu(gpu, memory))
        if refusals := Preflight(checks=made).refusals:
            found[gpu.gpu] = refusals
    return found


def _driver(code: int) -> Check:
    differs = code == NvmlCode.LIB_RM_VERSION_MISMATCH
    return Check(
        code="driver_library_match",
        passed=not differs,
        what="NVIDIA's library and the loaded driver are of different versions"
        if differs
        else f"the driver answers with NVML code {code}",
        mend="reboot, or unload and load the driver: it was upgraded under a running kernel"
        if differs
        else "",
    )


def _identity(read: Sequence[GpuReading], accepted: Sequence[Board]) -> Iterator[Check]:
    """Boards that nobody has accepted stand in the way; a host that never joined is taken as it is."""
    known = {board.gpu: board for board in accepted}
    if not known:
        return
    strange = [g.gpu for g in read if g.gpu not in known]
    changed = [words for g in read if g.gpu in known for words in _changes(g, known[g.gpu])]
    told = [*(f"GPU {gpu} was not here when this host was accepted" for gpu in strange), *changed]
    yield Check(
        code="gpu_identity",
        passed=not told,
        what="; ".join(told[:8]) or f"all {len(read)} GPUs are those that were accepted",
        mend="if that is meant, run `agentctl accept` for this node" if told else "",
    )


def _changes(gpu: GpuReading, board: Board) -> Iterator[str]:
    for name, now, before in (("serial number", gpu.serial, board.serial), ("VBIOS", gpu.vbios, board.vbios)):
        if now and before and now != before:
            yield f"GPU {gpu.gpu} has {name} {now}, accepted was {before}"


def _ecc(gpu: GpuReading, accepted: Sequence[Board]) -> Iterator[Check]:
    board = next((b for b in accepted if b.gpu == gpu.gpu), None)
    now, before = gpu.ecc_uncorrected_aggregate_total, board.ecc_uncorrected_total if board else None
    if now is None or before is None:
        return
    rose = now - before
    yield Check(
        code="ecc_baseline",
        passed=rose <= 0,
        what=f"GPU {gpu.gpu}: {max(rose, 0)} uncorrected memory errors since it was accepted",
        mend="reset the GPU, then run `agentctl accept` for this node" if rose > 0 else "",
    )


def _temperature(gpu: GpuReading) -> Iterator[Check]:
    if gpu.core_celsius is None or gpu.slowdown_celsius is None:
        return
    hot = gpu.core_celsius >= gpu.slowdown_celsius
    yield Check(
        code="temperature",
        passed=not hot,
        what=f"GPU {gpu.gpu} is at {gpu.core_celsius:.0f} °C, it slows down at {gpu.slowdown_celsius:.0f} °C",
        mend="look at fans, air and neighbours; it joins once it has cooled" if hot else "",
    )


def _rows(gpu: GpuReading) -> Iterator[Check]:
    if gpu.is_row_remap_failed is None:
        return
    failed, pending = gpu.is_row_remap_failed, bool(gpu.is_row_remap_pending)
    said = "has used up its spare rows" if failed else "waits for a row to be remapped"
    mend = "have the board replaced" if failed else "reset the GPU: that remaps the row"
    bad = failed or pending
    yield Check(
        code="row_remap",
        passed=not bad,
        what=f"the memory of GPU {gpu.gpu} {said if bad else 'has no row to remap'}",
        mend=mend if bad else "",
    )


def _link(gpu: GpuReading) -> Iterator[Check]:
    if gpu.link_width is None or gpu.link_width_max is None:
        return
    narrow = gpu.link_width < gpu.link_width_max
    yield Check(
        code="link_width",
        passed=not narrow,
        what=f"GPU {gpu.gpu} uses {gpu.link_width} of {gpu.link_width_max} PCIe lanes",
        mend="power the host off and seat the board and its riser anew" if narrow else "",
    )


def _persistence(gpu: GpuReading) -> Iterator[Check]:
    """A warning: without it each first call wakes the GPU, which takes seconds."""
    if gpu.is_persistent is None:
        return
    yield Check(
        code="persistence",
        passed=gpu.is_persistent,
        what=f"persistence mode of GPU {gpu.gpu} is {'on' if gpu.is_persistent else 'off'}",
        mend="" if gpu.is_persistent else "start nvidia-persistenced",
        is_warning=True,
    )


def _host(host: HostReading, read: Sequence[GpuReading]) -> Iterator[Check]:
    """Warnings: Ray runs on such a host, and its GPUs wait for it."""
    cores = host.cpu_count / len(read)
    few = cores < CORES_PER_GPU
    yield Check(
        code="cores_per_gpu",
        passed=not few,
        what=f"{host.cpu_count} cores for {len(read)} GPUs",
        mend=f"fewer than {CORES_PER_GPU} cores a GPU leave GPUs waiting for their data" if few else "",
        is_warning=True,
    )
    of_gpus = sum(g.total_bytes or 0 for g in read)
    short = host.memory_total_bytes < MEMORY_RATIO * of_gpus
    yield Check(
        code="memory_for_gpus",
        passed=not short,
        what=f"{host.memory_total_bytes / 2**30:.0f} GiB of memory for {of_gpus / 2**30:.0f} GiB on GPUs",
        mend=f"less than {MEMORY_RATIO:g} times as much is short for loading and checkpoints"
        if short
        else "",
        is_warning=True,
    )


def smoke_check(gpu: GpuUuid, smoked: Smoked) -> Check:
    """Return what a GPU's smoke work says of it."""
    passed = smoked.outcome is SmokeOutcome.PASSED
    mend = {
        SmokeOutcome.WRONG_DATA: "it computes wrong results: take it out and have it replaced",
        SmokeOutcome.HUNG: "reset the GPU; if it hangs again, reboot the host",
        SmokeOutcome.FAILED: "reset the GPU, and look at the kernel log for its Xid",
        SmokeOutcome.UNAVAILABLE: "install NVIDIA's driver library, or set [preflight] smoke = false",
    }
    return Check(
        code="gpu_smoke",
        passed=passed,
        what=f"GPU {gpu}: smoke work {smoked.outcome.value.replace('_', ' ')}"
        + (f", {smoked.detail}" if smoked.detail else ""),
        mend=mend.get(smoked.outcome, ""),
    )


def hook_checks(ended: HookEnded | None) -> Iterator[Check]:
    """Yield the word of the site's ``pre-join`` hook: fail-closed, as only its own yes lets the node join."""
    if ended is None:
        return
    passed = ended.code == 0
    how = "did not end in time" if ended.is_late else f"ended with {ended.code}"
    yield Check(
        code="hook_pre_join",
        passed=passed,
        what=f"hook pre-join {how}" + (f": {ended.output[:500]}" if ended.output else ""),
        mend="" if passed else "mend what it says, or take the hook away",
    )
