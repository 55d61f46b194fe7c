"""The probe on the C library, through the real pynvml, in the real child."""

import asyncio
import ctypes
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pynvml
import pytest
from tests.kit.probing import HOST, QUICK, first_good, probing

from gpuherd.health import Action, Severity, Verdict
from gpuherd.names import GpuUuid
from gpuherd.shell.clock import SystemClock
from gpuherd_agent.readings import GpuReading, NvmlCode, ProbeOutcome
from gpuherd_agent.sensors.probe import GpuProbe
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.verdict import Judge
from gpuherd_sim.gpus.library import SONAME, build_library
from gpuherd_sim.gpus.scenario import Value, gpu_uuid
from gpuherd_sim.gpus.scenario_file import VARIABLE, write_scenario

NOT_OFFERED = {
    *("fan_ratio", "retired_pages_total", "retired_pending", "unrepairable", "banks_without_spares"),
    *("sram_uncorrected_total", "sram_threshold_exceeded", "nvlink_errors_total", "fabric_completed"),
}
"""What an H200 does not have, or what no call of ours asks for yet."""


async def test_every_value_of_a_healthy_host_is_read(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        reading = await first_good(probe)
        assert (reading.counted, reading.driver, reading.lost) == (8, "580.95.05", ())
        assert [g.gpu for g in reading.gpus] == [gpu_uuid("probe-test", i) for i in range(8)]
        gpu = reading.gpus[3]
        assert gpu.errors == {}
        assert gpu.core_celsius == 45.0
        assert gpu.slowdown_celsius == 89.0
        assert gpu.total_bytes == 150_754_820_096
        assert gpu.pids == ()
        assert gpu.recovery_action == 0
        missing = {f.name for f in GpuReading.__dataclass_fields__.values() if getattr(gpu, f.name) is None}
        assert missing == NOT_OFFERED


async def test_changed_values_are_read_at_the_next_cycle(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(
            scenario,
            HOST.having(
                {"gpu.3.core_celsius": 91, "gpu.3.ecc_uncorrected_volatile": 2, "gpu.3.pids": (7, 9)}
            ),
        )
        gpu = (await probe.read()).gpus[3]
        assert (gpu.core_celsius, gpu.ecc_uncorrected_volatile_total, gpu.pids) == (91.0, 2, (7, 9))


async def test_what_slows_a_gpu_down_and_what_joins_it_is_read(scenario: Path, library: Path) -> None:
    write_scenario(
        scenario,
        HOST.having(
            {
                "gpu.3.clock_reasons": 0x40 | 0x80,
                "gpu.4.clock_reasons": 0x20,
                "gpu.3.nvlinks_up": 17,
                "gpu.5.nvlinks": 0,
                "gpu.3.pcie_generation": 1,
                "gpu.3.ecc_mode_pending": 0,
                "gpu.3.mig_mode": 1,
            }
        ),
    )
    async with probing(scenario, library) as probe:
        gpus = (await first_good(probe)).gpus
        assert [(g.hw_slowdown, g.power_brake, g.sw_thermal) for g in gpus[2:5]] == [
            (False, False, False),
            (True, True, False),
            (False, False, True),
        ]
        assert [(g.nvlinks_up, g.nvlinks_supported) for g in gpus[3:6]] == [(17, 18), (18, 18), (None, None)]
        third = gpus[3]
        assert (third.pcie_generation, third.pcie_generation_max) == (1, 5)
        assert (third.ecc_enabled, third.ecc_pending, third.mig_enabled) == (True, False, True)
        assert (third.power_limit_watts, third.sm_clock_max_hertz) == (700.0, 1.98e9)


async def test_one_lost_gpu_hides_no_other(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.with_lost(3))
        reading = await probe.read()
        lost = [h.code for h in reading.lost] + [
            NvmlCode.GPU_IS_LOST for g in reading.gpus if NvmlCode.GPU_IS_LOST in g.errors.values()
        ]
        assert lost == [NvmlCode.GPU_IS_LOST]
        well = [g for g in reading.gpus if not g.errors]
        assert GpuUuid(gpu_uuid("probe-test", 3)) not in [g.gpu for g in well]
        assert len(well) == 7
        assert all(g.core_celsius == 45.0 for g in well)


async def test_one_failing_call_costs_one_value(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having({"gpu.5.call.nvmlDeviceGetPowerUsage.error": 999}))
        reading = await probe.read()
        gpu = reading.gpus[5]
        assert (gpu.power_watts, gpu.errors) == (None, {"power_watts": 999})
        assert gpu.core_celsius == 45.0
        assert all(not g.errors for g in reading.gpus if g.index != 5)


async def test_what_the_driver_does_not_offer_is_no_error(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having({"gpu.1.call.nvmlDeviceGetTotalEccErrors.error": 3}))
        gpu = (await probe.read()).gpus[1]
        assert gpu.ecc_uncorrected_volatile_total is None
        assert gpu.errors == {}


async def test_a_shrunk_count_is_read_and_the_others_keep_their_names(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having({"gpu.2.gone": 1}))
        reading = await probe.read()
        assert reading.counted == 7
        assert [g.gpu for g in reading.gpus] == [gpu_uuid("probe-test", i) for i in range(8) if i != 2]


async def test_a_hung_driver_costs_the_deadline_and_the_loop_ticks_on(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.with_hang())
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1

        ticking = asyncio.ensure_future(tick())
        reading = await probe.read()
        ticking.cancel()
        assert (reading.outcome, reading.missed) == (ProbeOutcome.DEADLINE, 1)
        assert reading.duration_s >= QUICK.deadline_s
        assert ticks >= 20
        write_scenario(scenario, HOST.with_hang(0.0))
        assert (await first_good(probe)).counted == 8


async def test_children_that_cannot_be_ended_are_counted_and_capped(scenario: Path, library: Path) -> None:
    settings = replace(QUICK, deadline_s=0.2, start_deadline_s=1.0)
    async with probing(scenario, library, settings) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having({"hang_blocks_term": 1}).with_hang())
        most = 0
        for _ in range(120):
            reading = await probe.read()
            most = max(most, reading.stuck_children)
            await asyncio.sleep(0.1)
            if most == 3:
                break
        assert most == 3
        assert reading.outcome is ProbeOutcome.DEADLINE
        # The driver lets go: the stuck ones end, and a new child answers.
        write_scenario(scenario, HOST.with_hang(0.0))
        assert (await first_good(probe)).counted == 8


async def test_a_killed_child_is_replaced(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        assert probe.child_pid is not None
        os.kill(probe.child_pid, signal.SIGKILL)
        assert (await probe.read()).outcome is ProbeOutcome.CHILD_DIED
        assert (await first_good(probe)).counted == 8


async def test_without_a_library_there_is_no_driver(scenario: Path) -> None:
    async with probing(scenario, None) as probe:
        reading = await probe.read()
        while reading.outcome is ProbeOutcome.STARTING:
            reading = await probe.read()
        assert (reading.outcome, reading.code) == (ProbeOutcome.NO_DRIVER, NvmlCode.LIBRARY_NOT_FOUND)


async def test_an_older_library_without_a_symbol_offers_less(scenario: Path, tmp_path: Path) -> None:
    older = build_library(tmp_path, hidden=["nvmlDeviceGetMarginTemperature", "nvmlDeviceGetTemperatureV"])
    async with probing(scenario, older) as probe:
        gpu = (await first_good(probe)).gpus[0]
        assert (gpu.margin_celsius, gpu.core_celsius, gpu.errors) == (None, 45.0, {})


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param(
            {"gpu.1.core_celsius": 70, "gpu.4.pids": (5,), "gpu.6.call.nvmlDeviceGetPowerUsage.error": 999},
            id="values and a failing call",
        ),
        pytest.param({"gpu.2.error": 15, "gpu.3.gone": 1}, id="one lost and one not counted"),
        pytest.param({"gpu.0.call.nvmlDeviceGetUtilizationRates.error": 16}, id="one needs a reset"),
        pytest.param(
            {
                "gpu.5.field.230.error": 3,
                "gpu.5.field.82.error": 999,
                "call.nvmlDeviceGetMemoryInfo_v2.error": 999,
                "gpu.7.pci_bus_id": "00000001:AB:00.0",
                "all.slowdown_offset_celsius": -4,
                "gpu.7.recovery_action": 2,
            },
            id="fields, fallback of memory, addresses",
        ),
        pytest.param({"gpus": 0}, id="no GPU"),
    ],
)
async def test_the_stand_in_without_a_compiler_reads_the_same(
    scenario: Path, library: Path, changes: dict[str, Value]
) -> None:
    write_scenario(scenario, HOST.having(changes))
    async with probing(scenario, library) as probe:
        by_library = await first_good(probe)
    async with probing(scenario, None, replace(QUICK, backend="scenario")) as probe:
        by_stand_in = await first_good(probe)
    assert replace(by_stand_in, duration_s=0.0, children=()) == replace(
        by_library, duration_s=0.0, children=()
    )


@pytest.mark.parametrize("backend", ["nvml", "scenario"])
async def test_a_driver_that_will_not_start_is_no_driver_with_its_code(
    scenario: Path, library: Path, backend: str
) -> None:
    write_scenario(scenario, HOST.having({"call.nvmlInitWithFlags.error": 18}))
    async with probing(scenario, library, replace(QUICK, backend=backend)) as probe:
        reading = await probe.read()
        assert (reading.outcome, reading.code) == (
            ProbeOutcome.NO_DRIVER,
            NvmlCode.LIB_RM_VERSION_MISMATCH,
        )


def test_a_child_ends_with_its_parent(scenario: Path, library: Path) -> None:
    program = (
        "import asyncio, os, sys\n"
        "from gpuherd.shell.clock import SystemClock\n"
        "from gpuherd_agent.sensors.probe import GpuProbe\n"
        "from gpuherd_agent.sensors.probe_settings import ProbeSettings\n"
        "async def main():\n"
        "    probe = GpuProbe(ProbeSettings(), SystemClock())\n"
        "    await probe.read()\n"
        "    print(probe.child_pid, flush=True)\n"
        "    os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    environ = {**os.environ, VARIABLE: str(scenario), "LD_LIBRARY_PATH": str(library)}
    said = subprocess.run(
        [sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=False
    ).stdout
    child = int(said)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(child).wait(5.0)
    assert not psutil.pid_exists(child)


LAYOUT = (
    "nvmlTemperature_t",
    "nvmlMarginTemperature_t",
    "nvmlMemory_t",
    "nvmlMemory_v2_t",
    "nvmlUtilization_t",
    "nvmlProcessInfo_t",
    "nvmlFieldValue_t",
    "nvmlPciInfo_t",
)
"""The structs of the C library in the order in which it tells their sizes."""


def test_the_sizes_of_structs_are_those_of_nvidias_header(library: Path, tmp_path: Path) -> None:
    """The header comes from the package nvidia-nvml-dev, at test time only."""
    found = [p for site in sys.path for p in Path(site or ".").glob("nvidia/**/nvml.h")]
    assert found, "nvidia-nvml-dev is not installed"
    header = header_sizes(found[0].parent, tmp_path)
    ours = ctypes.CDLL(str(library / SONAME))
    assert [ours.nvmlFakeLayout(i) for i in range(len(LAYOUT) + 1)] == [*header.values(), 0]
    by_pynvml = {
        "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
        "nvmlPciInfo_t": pynvml.nvmlPciInfo_t,
        "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_v2_t,
        "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
        "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    }
    assert {name: ctypes.sizeof(kind) for name, kind in by_pynvml.items()} == {
        name: header[name] for name in by_pynvml
    }


def header_sizes(include: Path, folder: Path) -> dict[str, int]:
    lines = "".join(f'printf("{name} %zu\\n", sizeof({name}));' for name in LAYOUT)
    source = folder / "sizes.c"
    head = "#define NVML_NO_UNVERSIONED_FUNC_DEFS 1\n#include <nvml.h>\n#include <stdio.h>\n"
    source.write_text(f"{head}int main(void){{{lines}}}\n")
    subprocess.run(["gcc", f"-I{include}", "-o", str(folder / "sizes"), str(source)], check=True)
    said = subprocess.run([str(folder / "sizes")], capture_output=True, text=True, check=True).stdout
    return {name: int(size) for name, size in re.findall(r"(\w+) (\d+)", said)}


class Judged:
    """A probe's readings through memory and judge, as the agent does it."""

    def __init__(self, probe: GpuProbe) -> None:
        self.probe = probe
        self.seen = Sightings()
        self.judge = Judge()
        self.clock = SystemClock()

    async def look(self) -> Verdict:
        reading = await self.probe.read()
        return self.judge.step(self.seen.take(probe=reading, declared=8, now=self.clock.now()))

    async def until(self, rule: str | None) -> Verdict:
        for _ in range(100):
            verdict = await self.look()
            if [f.rule for f in verdict.findings] == ([] if rule is None else [rule]) and (
                verdict.severity is not Severity.UNKNOWN
            ):
                return verdict
            await asyncio.sleep(0.05)
        raise AssertionError(f"expected {rule}, and the last verdict was {verdict}")


async def test_a_gpu_that_the_driver_calls_lost_is_named_in_the_verdict(
    scenario: Path, library: Path
) -> None:
    async with probing(scenario, library) as probe:
        judged = Judged(probe)
        assert (await judged.until(None)).severity is Severity.OK
        write_scenario(scenario, HOST.with_lost(3))
        first, second = await judged.look(), await judged.look()
        assert (first.action, second.action) == (Action.NONE, Action.EVICT)
        (found,) = second.findings
        assert found.gpu == gpu_uuid("probe-test", 3)
        assert f"{found.gpu} (00000000:13:00.0) is lost" in found.reason


async def test_a_hang_of_the_driver_is_one_finding_that_ends_with_answers(
    scenario: Path, library: Path
) -> None:
    settings = replace(QUICK, deadline_s=0.3, start_deadline_s=1.0)
    async with probing(scenario, library, settings) as probe:
        judged = Judged(probe)
        await judged.until(None)
        write_scenario(scenario, HOST.with_hang())
        told = await judged.until("driver_hung")
        assert (told.severity, told.action) == (Severity.WARN, Action.WATCH)
        while told.action is not Action.EVICT:
            told = await judged.until("driver_hung")
        assert told.findings[0].gpu is None
        write_scenario(scenario, HOST.with_hang(0.0))
        assert (await judged.until(None)).severity is Severity.OK


async def test_a_missing_driver_is_believed_after_a_second_child_found_none(scenario: Path) -> None:
    async with probing(scenario, None) as probe:
        judged = Judged(probe)
        reading = await probe.read()
        assert not reading.is_repeat
        assert (await judged.until("driver_missing")).action is Action.EVICT


async def test_a_failure_that_is_told_again_says_so(scenario: Path) -> None:
    async with probing(scenario, None, replace(QUICK, backoff_s=60.0, backoff_max_s=60.0)) as probe:
        first = await probe.read()
        again = await probe.read()
        assert (first.outcome, first.is_repeat) == (ProbeOutcome.NO_DRIVER, False)
        assert (again.outcome, again.is_repeat) == (ProbeOutcome.NO_DRIVER, True)
