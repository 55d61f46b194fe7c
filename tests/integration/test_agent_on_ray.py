"""The shipped agent on real Ray: kills in six phases, and the faults of the main job."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kit.herd import ONE, TWO, Ear, Herd, drain_hold, go_on, stop

from gpuherd.phases import Phase
from gpuherd.ray import RayStatus
from gpuherd_sim.demo.stage import healthy
from gpuherd_sim.gpus.scenario_file import write_scenario

pytestmark = [pytest.mark.ray, pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def running() -> Iterator[Herd]:
    if os.geteuid() != 0:
        pytest.skip("the head needs a process namespace of its own, which takes root")
    herd = Herd.make()
    try:
        herd.start_head()
        yield herd
    finally:
        herd.close()


@pytest.fixture
def herd(running: Herd) -> Iterator[Herd]:
    running.start_broker()
    try:
        yield running
    finally:
        running.fresh()


async def member(ear: Ear) -> str:
    """Order the node to serve and return its id once it is a member."""
    ear.herd.start_agent()
    ear.order()
    return (await ear.joined()).id


async def started(ear: Ear, seconds: float) -> Callable[[], bool]:
    """Start a task, wait until it runs, and return what tells whether it has finished."""
    out = ear.herd.start_task(seconds)
    await ear.until("the task runs", out.exists)
    return lambda: "finished" in out.read_text()


# Six cells of the kill table on real Ray. Each kills one process in one phase and says what must hold.


async def agent_while_a_task_runs(ear: Ear) -> None:
    node_id = await member(ear)
    (raylet,) = ear.herd.raylets()
    has_finished = await started(ear, 8.0)
    ear.herd.crew.kill(ONE)
    ear.herd.start_agent()
    await ear.until("the raylet is adopted", lambda: "ray.adopted" in ear.events)
    await ear.phase(Phase.MEMBER)
    assert [r.pid for r in ear.herd.raylets()] == [raylet.pid]
    await ear.until("the task has finished", has_finished)
    assert [n.id for n in await ear.listed()] == [node_id]


async def agent_while_draining(ear: Ear) -> None:
    await member(ear)
    has_finished = await started(ear, 10.0)
    ear.order(drain_hold("fan"))
    await ear.phase(Phase.DRAINING)
    ear.herd.crew.kill(ONE)
    ear.herd.start_agent()
    await ear.phase(Phase.OUTSIDE)
    assert has_finished()
    assert await ear.listed() == []
    assert ear.herd.raylets() == []
    assert "fan" in ear.states[ONE].reason


async def raylet_while_serving(ear: Ear) -> None:
    node_id = await member(ear)
    (raylet,) = ear.herd.raylets()
    raylet.kill()
    again = await ear.joined(other_than=node_id)
    assert again.id != node_id
    assert len(ear.herd.raylets()) == 1


async def probe_child_while_a_task_runs(ear: Ear) -> None:
    node_id = await member(ear)
    has_finished = await started(ear, 6.0)
    child = ear.herd.child()
    child.kill()
    await ear.until("the task has finished", has_finished)
    assert ear.herd.child().pid != child.pid
    assert [n.id for n in await ear.listed()] == [node_id]
    assert ear.states[ONE].holds == ()


async def broker_restarted_empty_while_serving(ear: Ear) -> None:
    node_id = await member(ear)
    ear.herd.crew.kill("broker")
    ear.states.clear()
    ear.herd.start_broker()
    state = await ear.phase(Phase.MEMBER)
    assert state.observed is not None
    assert [n.id for n in await ear.listed()] == [node_id]
    assert set(ear.phases[ONE]) <= {Phase.OUTSIDE, Phase.VERIFYING, Phase.JOINING, Phase.MEMBER}
    assert ear.online[ONE].online


async def head_while_a_task_runs(ear: Ear) -> None:
    node_id = await member(ear)
    (raylet,) = ear.herd.raylets()
    await started(ear, 5.0)
    ear.herd.kill_head()
    await asyncio.sleep(4.0)
    assert [r.pid for r in ear.herd.raylets()] == [raylet.pid]
    assert ear.states[ONE].phase is Phase.MEMBER
    ear.herd.start_head()
    again = await ear.joined(other_than=node_id)
    assert again.id != node_id


@dataclass(frozen=True, slots=True)
class Cell:
    """Who is killed when; ``play`` does it and asserts what must hold after."""

    victim: str
    phase: str
    play: Callable[[Ear], Awaitable[None]]


CELLS = (
    Cell("agent", "serving busy", agent_while_a_task_runs),
    Cell("agent", "draining", agent_while_draining),
    Cell("raylet", "serving idle", raylet_while_serving),
    Cell("probe child", "serving busy", probe_child_while_a_task_runs),
    Cell("broker", "serving idle", broker_restarted_empty_while_serving),
    Cell("head", "serving busy", head_while_a_task_runs),
)


def test_six_cells_of_the_kill_table_run_on_real_ray() -> None:
    assert len({(cell.victim, cell.phase) for cell in CELLS}) == 6


@pytest.mark.parametrize("cell", CELLS, ids=[f"{c.victim} while {c.phase}" for c in CELLS])
async def test_a_kill_on_real_ray_loses_nothing(herd: Herd, cell: Cell) -> None:
    async with herd.ear() as ear:
        await cell.play(ear)
        assert len(herd.raylets()) <= 1


@pytest.mark.parametrize("case", ["serving", "held", "drained"])
async def test_restart_without_broker_changes_nothing(herd: Herd, case: str) -> None:
    async with herd.ear() as ear:
        if case == "held":
            herd.start_agent()
            ear.order(drain_hold("stay"))
            await ear.until("the hold is there", lambda: ONE in ear.states and bool(ear.states[ONE].holds))
        else:
            await member(ear)
        if case == "drained":
            ear.order(drain_hold("fan"))
            await ear.phase(Phase.OUTSIDE)
        before = [r.pid for r in herd.raylets()]
        herd.crew.kill("broker")
        herd.crew.kill(ONE)
        herd.start_agent()
        await ear.until("the agent moves", lambda: any(e["event"] == "agent.ready" for e in herd.log()))
        await asyncio.sleep(3.0)
        assert [r.pid for r in herd.raylets()] == before
        assert len(before) == (1 if case == "serving" else 0)


async def test_drain_timeout_fires_later(herd: Herd) -> None:
    async with herd.ear() as ear:
        node_id = await member(ear)
        (raylet,) = herd.raylets()
        stop(raylet)
        ear.order(drain_hold("fan"))
        state = await ear.phase(Phase.DRAINING)
        assert "no answer in time" in state.reason
        go_on(raylet)
        await ear.phase(Phase.OUTSIDE)
        assert node_id not in [n.id for n in await ear.listed()]
        ear.order(lifted=("fan",))
        again = await ear.joined(other_than=node_id)
        assert again.status in (RayStatus.IDLE, RayStatus.RUNNING)


async def test_a_lost_gpu_ends_new_work_and_not_the_work_that_runs(herd: Herd) -> None:
    async with herd.ear() as ear:
        await member(ear)
        has_finished = await started(ear, 8.0)
        herd.stage.break_gpu(ONE, 5)
        state = await ear.phase(Phase.DRAINING)
        assert [h.owner for h in state.holds] == ["health"]
        assert [g.healthy for g in state.gpus].count(False) == 1
        assert "lost" in state.verdict.reason
        herd.start_agent(TWO)
        ear.order(node=TWO)
        second = await ear.joined(TWO)
        later = herd.start_task(0.1)
        await ear.until("the later task has run", later.exists)
        assert later.read_text().startswith(second.id)
        await ear.until("the first task has finished", has_finished)
        state = await ear.phase(Phase.OUTSIDE)
        assert state.reason.startswith("held by health")


async def test_a_node_with_one_lost_gpu_of_eight_serves_with_seven_and_later_with_eight(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent(GPUHERD__GPU__SHRINK_MIN_RATIO="0.5")
        ear.order()
        eight = await ear.joined()
        assert eight.total["GPU"] == 8.0
        has_finished = await started(ear, 8.0)
        herd.stage.break_gpu(ONE, 5)
        await ear.phase(Phase.DRAINING)
        assert not has_finished()
        seven = await ear.joined(other_than=eight.id)
        assert has_finished(), "it ran to its end on the node that drained, at the first try"
        assert (seven.total["GPU"], seven.labels["gpuherd/degraded"]) == (7.0, "1")
        await ear.until("the slot is free again", lambda: "slot.released" in ear.events)
        state = await ear.phase(Phase.MEMBER)
        assert (state.holds, state.verdict.action.value) == ((), "watch")
        later = herd.start_task(0.1)
        await ear.until("a task has run on the seven", later.exists)
        assert later.read_text().startswith(seven.id)
        write_scenario(herd.stage.scenario(ONE), healthy(ONE))
        state = await ear.phase(Phase.MEMBER)
        ear.command("ack", epoch=state.epoch)
        again = await ear.joined(other_than=seven.id, within_s=120.0)
        assert again.total["GPU"] == 8.0
        assert "gpuherd/degraded" not in again.labels
        assert "finding.acknowledged" in ear.events


async def test_a_hung_driver_evicts_the_node(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent(
            GPUHERD__GPU__DEADLINE_S="0.5", GPUHERD__GPU__BACKOFF_S="0.5", GPUHERD__GPU__START_DEADLINE_S="3"
        )
        ear.order()
        await ear.joined()
        write_scenario(herd.stage.scenario(ONE), healthy(ONE).with_hang())
        state = await ear.phase(Phase.OUTSIDE)
        assert "the driver does not answer" in state.reason
        assert herd.raylets() == []


async def test_another_version_of_ray_is_refused_before_the_join(herd: Herd, tmp_path: Path) -> None:
    binary = tmp_path / "bin" / "ray"
    binary.parent.mkdir()
    binary.write_text(f"#!{sys.executable}\n")
    binary.chmod(0o755)
    (tmp_path / "lib" / "python3.11" / "site-packages" / "ray-2.54.0.dist-info").mkdir(parents=True)
    async with herd.ear() as ear:
        herd.start_agent(GPUHERD__RAY__BINARY=str(binary))
        ear.order()
        await ear.until(
            "the refusal names both versions",
            lambda: ONE in ear.states and "Ray here is 2.54.0, on the head 2.60.0" in ear.states[ONE].reason,
        )
        assert herd.raylets() == []


async def test_a_node_waits_for_its_head_and_joins_when_it_comes(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.kill_head()
        herd.start_agent()
        ear.order()
        await ear.until(
            "the refusal names the head",
            lambda: ONE in ear.states and herd.stage.head in ear.states[ONE].reason,
        )
        assert herd.raylets() == []
        herd.start_head()
        await ear.joined()
