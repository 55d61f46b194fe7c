"""What tells old work from new on a draining node, on real Ray."""

import sys
from pathlib import Path

import pytest
from tests.kit.ray_cluster import RayCluster
from tests.kit.ray_member import CLOCK, Member, Plan, member

from gpuherd.holds import Hold, HoldKind
from gpuherd.names import HoldId, NodeName
from gpuherd.phases import Phase
from gpuherd.ray import DrainReason
from gpuherd_agent import latecomers
from gpuherd_agent.latecomers import SETTLE_S
from gpuherd_agent.memory import DrainRecord

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(180)]

HOLD = Hold(id=HoldId("fan"), owner="user:ann", kind=HoldKind.DRAIN, reason="fan", since=0.0)


async def begin(one: Member, folder: Path) -> tuple[Path, str]:
    """Start the user's program on the node; return the file that has it begin anew, and its name."""
    cluster, raylet = one.plan.cluster, await one.joined()
    ready, more, name = folder / "ready", folder / "more", f"queue-{one.plan.name}"
    program = Path(__file__).parents[1] / "kit" / "ray_queue.py"
    command = [sys.executable, str(program), "--head", cluster.head, "--on", raylet.node_id]
    command += ["--ready", str(ready), "--more", str(more)]
    cluster.crew.start(name, command, cluster.stage.environment())
    await one.until("the program works", ready.exists, within_s=60.0)
    return more, name


def titles(one: Member) -> set[str]:
    return {worker.title for worker in one.child.work(one.raylet) or ()}


@pytest.mark.long
async def test_a_drained_raylet_takes_nothing_new_and_an_actor_that_goes_on_is_not_new(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    plan = Plan.make(ray_cluster, NodeName("late-1"), tmp_path)
    async with member(plan) as one:
        _, program = await begin(one, tmp_path)
        try:
            assert "ray::queued" in titles(one)
            assert one.steward.remember(one.steward.memory.with_holds(HOLD))
            await one.until("draining", lambda: one.steward.station.phase is Phase.DRAINING, within_s=30.0)
            end = CLOCK.now() + SETTLE_S + 8.0
            await one.until("looks at what is there", lambda: CLOCK.now() > end, within_s=60.0)
            drain = one.steward.memory.drain
            assert drain is not None
            assert (drain.taken_boot_s is not None, drain.there_known, drain.late) == (True, True, ())
            assert all(title.startswith("ray::Caller") for title in titles(one))
        finally:
            ray_cluster.crew.kill(program)


async def test_a_task_and_an_actor_that_begin_later_are_told_from_those_that_were_there(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    """On a raylet that was not drained, as Ray 2.60 gives a drained one nothing."""
    plan = Plan.make(ray_cluster, NodeName("late-2"), tmp_path)
    async with member(plan) as one:
        more, program = await begin(one, tmp_path)
        try:
            asked = DrainRecord(
                node_id=one.raylet.node_id,
                boot_id=one.raylet.boot_id,
                reason=DrainReason.PREEMPTION,
                message="fan",
                asked_boot_s=CLOCK.boot_s(),
            )
            drain = latecomers.taken(asked, CLOCK.boot_s() - SETTLE_S + 0.1)
            drain, told = latecomers.check(drain, one.child.work(one.raylet) or (), None, CLOCK.boot_s())
            assert told == ()
            assert len(drain.there) >= 2
            more.touch()
            await one.until(
                "the new work", lambda: {"ray::later", "ray::Server.call"} <= titles(one), within_s=60.0
            )
            work = [w for w in one.child.work(one.raylet) or () if w.title != "ray::queued"]
            _, told = latecomers.check(drain, work, None, CLOCK.boot_s())
            assert sorted(told) == ["actor Server in call", "task later"]
        finally:
            ray_cluster.crew.kill(program)
