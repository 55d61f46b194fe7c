"""Puts a replay together: hosts from the pools, the policy by its name, faults from their seed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from gpuherd_autoscaler.limits import Limits
from gpuherd_sim.replay.faults import FaultModel, draw
from gpuherd_sim.replay.ours import Ours
from gpuherd_sim.replay.policy import Policy
from gpuherd_sim.replay.ray_policy import RayPolicy
from gpuherd_sim.replay.report import report
from gpuherd_sim.replay.run import Pace, Replay
from gpuherd_sim.replay.trace import Job
from gpuherd_sim.replay.world import Host, World

POLICIES = ("ours", "ray")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a replay depends on: equal cases of one policy give equal reports, but for real times."""

    jobs: Sequence[Job]
    limits: Limits
    model: FaultModel = field(default_factory=FaultModel)
    pace: Pace = field(default_factory=Pace)
    seed: int = 0


def replay(case: Case, policy: str) -> dict[str, object]:
    """Replay the case under ``ours`` or ``ray`` and return the report."""
    decider = new_policy(policy, case.limits)
    try:
        hosts = new_hosts(case.limits)
        world = World(hosts, case.model, seed=case.seed)
        horizon_s = 4 * (case.jobs[-1].submitted_at if case.jobs else 0.0) + 30 * 86_400
        faults = draw(
            case.model,
            hosts=len(hosts),
            horizon_s=horizon_s,
            gpus=hosts[0].gpus if hosts else 1,
            seed=case.seed,
        )
        run = Replay(
            world=world, policy=decider, pace=case.pace, jobs=case.jobs, faults=faults, seed=case.seed
        )
        outcome = run.run()
    finally:
        decider.close()
    return {"policy": policy, **report(world, outcome, jobs=len(case.jobs))}


def new_policy(name: str, limits: Limits) -> Policy:
    """Return a fresh policy; close it at the end."""
    return RayPolicy(limits) if name == "ray" else Ours(limits)


def new_hosts(limits: Limits) -> list[Host]:
    """Return the hosts of every pool with GPUs, all off; those of a pool's minimum are asked for at once."""
    hosts: list[Host] = []
    for pool in limits.pools:
        if pool.gpus_per_node < 1:
            continue
        for name in pool.names:
            hosts.append(Host(index=len(hosts), name=name, pool=pool.name, gpus=pool.gpus_per_node))
    return hosts
