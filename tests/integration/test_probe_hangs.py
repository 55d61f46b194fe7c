"""One GPU of eight hangs in a real child: it is named and left out, and the others are read on."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from tests.kit.probing import HOST, QUICK, first_good, probing

from gpuherd.health import Action
from gpuherd_agent.readings import ProbeOutcome, ProbeReading
from gpuherd_agent.sensors.probe import GpuProbe
from gpuherd_agent.sightings import Sightings
from gpuherd_agent.verdict import Judge
from gpuherd_sim.gpus.scenario import Scenario, Value, gpu_uuid
from gpuherd_sim.gpus.scenario_file import write_scenario

HANGS = (
    pytest.param({"gpu.3.hang_s": 1e9}, "nvmlDeviceGetHandleByIndex_v2", id="in every call"),
    pytest.param({"gpu.3.call.nvmlDeviceGetUUID.hang_s": 1e9}, "nvmlDeviceGetUUID", id="before its name"),
    pytest.param(
        {"gpu.3.call.nvmlDeviceGetPowerUsage.hang_s": 1e9}, "nvmlDeviceGetPowerUsage", id="in one reading"
    ),
    pytest.param(
        {"gpu.3.call.nvmlDeviceGetFieldValues.hang_s": 1e9}, "nvmlDeviceGetFieldValues", id="in a field"
    ),
)
SLOW_TO_RETRY = replace(QUICK, backoff_s=60.0, backoff_max_s=60.0)


def hanging(*gpus: int, **changes: Value) -> Scenario:
    return HOST.having({**{f"gpu.{i}.hang_s": 1e9 for i in gpus}, **changes})


async def until_hung(probe: GpuProbe, *, missed: int, limit: int = 100) -> ProbeReading:
    for _ in range(limit):
        reading = await probe.read()
        if reading.hung and reading.hung[0].missed >= missed:
            return reading
        await asyncio.sleep(0.1)
    raise AssertionError(f"expected a hang, the last reading was {reading}")


@pytest.mark.parametrize(("changes", "call"), HANGS)
async def test_a_gpu_that_hangs_is_named_with_its_call_and_the_others_are_read_on(
    scenario: Path, library: Path, changes: dict[str, Value], call: str
) -> None:
    async with probing(scenario, library, SLOW_TO_RETRY) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having(changes))
        reading = await probe.read()
        assert (reading.outcome, reading.missed, reading.call) == (ProbeOutcome.DEADLINE, 0, call)
        assert [(h.index, h.gpu, h.call) for h in reading.hung] == [(3, gpu_uuid("probe-test", 3), call)]
        await first_good(probe)
        for _ in range(3):
            reading = await probe.read()
            assert reading.outcome is ProbeOutcome.OK
            assert [g.index for g in reading.gpus] == [0, 1, 2, 4, 5, 6, 7]
            assert (reading.counted, [h.index for h in reading.hung]) == (8, [3])


async def test_a_gpu_that_answers_again_is_read_again(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(3))
        await until_hung(probe, missed=2)
        write_scenario(scenario, HOST)
        for _ in range(100):
            reading = await probe.read()
            if len(reading.gpus) == 8:
                break
            await asyncio.sleep(0.1)
        assert (len(reading.gpus), reading.hung) == (8, ())


async def test_a_try_of_the_hung_gpu_blinds_no_other(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(3))
        await probe.read()
        await first_good(probe)
        missed = set()
        for _ in range(60):
            reading = await probe.read()
            missed.add(reading.hung[0].missed)
            assert (reading.outcome, len(reading.gpus)) == (ProbeOutcome.OK, 7)
            await asyncio.sleep(0.05)
        assert max(missed) >= 2


async def test_two_gpus_that_hang_leave_six(scenario: Path, library: Path) -> None:
    async with probing(scenario, library, SLOW_TO_RETRY) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(1, 6))
        assert (await probe.read()).outcome is ProbeOutcome.DEADLINE
        reading = await first_good(probe)
        assert [g.index for g in reading.gpus] == [0, 2, 3, 4, 5, 7]
        assert [h.index for h in reading.hung] == [1, 6]


async def test_a_hang_of_every_gpu_is_one_of_the_driver(scenario: Path, library: Path) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(*range(8)))
        for _ in range(100):
            reading = await probe.read()
            if reading.missed:
                break
            await asyncio.sleep(0.1)
        assert reading.outcome is ProbeOutcome.DEADLINE
        write_scenario(scenario, HOST)
        for _ in range(100):
            reading = await probe.read()
            if len(reading.gpus) == 8:
                break
            await asyncio.sleep(0.1)
        assert (reading.outcome, reading.hung) == (ProbeOutcome.OK, ())


async def test_many_slow_calls_of_one_gpu_cost_that_gpu_only(scenario: Path, library: Path) -> None:
    async with probing(scenario, library, SLOW_TO_RETRY) as probe:
        await first_good(probe)
        write_scenario(scenario, HOST.having({"gpu.5.hang_s": 0.1}))
        assert [h.index for h in (await probe.read()).hung] == [5]
        assert len((await first_good(probe)).gpus) == 7


async def test_a_gpu_in_which_a_child_is_stuck_is_not_tried_and_costs_one_child(
    scenario: Path, library: Path
) -> None:
    async with probing(scenario, library) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(3, hang_blocks_term=1))
        reading = await until_hung(probe, missed=2)
        for _ in range(20):
            reading = await probe.read()
            assert len(reading.children) <= 2
            await asyncio.sleep(0.1)
        assert (reading.outcome, len(reading.gpus), reading.stuck_children) == (ProbeOutcome.OK, 7, 1)
        assert [p.index for p in reading.children if p.call] == [3]
        write_scenario(scenario, HOST)
        assert len((await until_whole(probe)).gpus) == 8


async def until_whole(probe: GpuProbe) -> ProbeReading:
    for _ in range(100):
        reading = await probe.read()
        if len(reading.gpus) == 8:
            break
        await asyncio.sleep(0.1)
    return reading


async def test_a_board_that_goes_while_another_hangs_is_found(scenario: Path, library: Path) -> None:
    """Indexes move then: whatever was left out is tried, and what hangs is found anew at its new place."""
    async with probing(scenario, library, SLOW_TO_RETRY) as probe:
        await first_good(probe)
        write_scenario(scenario, hanging(3))
        await probe.read()
        await first_good(probe)
        write_scenario(scenario, hanging(3, **{"gpu.1.gone": 1}))
        for _ in range(100):
            reading = await probe.read()
            if reading.outcome is ProbeOutcome.OK and len(reading.gpus) == 6 and reading.hung:
                break
            await asyncio.sleep(0.1)
        assert (reading.counted, [h.index for h in reading.hung]) == (7, [2])
        assert gpu_uuid("probe-test", 3) not in [g.gpu for g in reading.gpus]


async def test_the_verdict_evicts_for_the_hung_gpu_and_blames_neither_driver_nor_count(
    scenario: Path, library: Path
) -> None:
    async with probing(scenario, library) as probe:
        seen, judge, told = Sightings(), Judge(), set()
        await first_good(probe)
        write_scenario(scenario, hanging(3))
        for at in range(100):
            reading = await probe.read()
            verdict = judge.step(seen.take(probe=reading, declared=8, now=float(at)))
            told |= {(f.rule, f.gpu) for f in verdict.findings}
            if verdict.action is Action.EVICT:
                break
            await asyncio.sleep(0.1)
        assert verdict.action is Action.EVICT
        assert told == {("gpu_hung", gpu_uuid("probe-test", 3))}


async def test_a_driver_that_was_loaded_anew_is_read_by_a_fresh_child_at_once(
    scenario: Path, library: Path
) -> None:
    async with probing(scenario, library, SLOW_TO_RETRY) as probe:
        await first_good(probe)
        before = probe.child_pid
        write_scenario(scenario, HOST.having({"driver": "590.12"}))
        for _ in range(12):
            await probe.read()
        reading = await first_good(probe)
        assert (reading.driver, probe.child_pid == before) == ("590.12", False)
