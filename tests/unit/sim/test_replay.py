"""The replay: its world, its traces, its faults, both policies, and the verb that runs it."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gpuherd.names import NodeName, PoolName
from gpuherd_autoscaler import record
from gpuherd_autoscaler.decide import decide
from gpuherd_autoscaler.limits import Limits
from gpuherd_autoscaler.memory import Memory
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.record import Inputs
from gpuherd_autoscaler.snapshot import Snapshot
from gpuherd_sim.replay import history, trace
from gpuherd_sim.replay.faults import FaultModel, Outage, draw
from gpuherd_sim.replay.ours import Ours
from gpuherd_sim.replay.run import Pace
from gpuherd_sim.replay.setup import Case, replay
from gpuherd_sim.replay.synthesis import JOBS_BY_GPUS, Wanted, make
from gpuherd_sim.replay.trace import Job, TraceInvalid
from gpuherd_sim.replay.world import Host, Power, World

HOUR_S = 3_600.0


def limits(hosts: int = 4) -> Limits:
    pool = Pool(
        name=PoolName("a"),
        nodes=(f"gpu-[01-{hosts:02d}]",),
        min=0,
        gpus_per_node=8,
        idle_timeout_s=600.0,
        leaving_max=hosts,
    )
    return Limits(pools=(pool,), join_timeout_s=900.0)


def jobs(*rows: tuple[float, int, float]) -> tuple[Job, ...]:
    return trace.numbered(rows)


QUIET = FaultModel()


def run(
    rows: tuple[Job, ...], *, policy: str = "ours", hosts: int = 4, model: FaultModel = QUIET, seed: int = 0
) -> dict[str, Any]:
    pace = Pace(boot_s=100.0, boot_spread=0.0)
    return replay(Case(jobs=rows, limits=limits(hosts), pace=pace, model=model, seed=seed), policy)


@pytest.fixture
def world() -> Iterator[World]:
    hosts = [Host(index=i, name=NodeName(f"gpu-{i}"), pool=PoolName("a"), gpus=8) for i in range(3)]
    made = World(hosts, FaultModel(), seed=1)
    for host in hosts:
        made.boot(host, 0.0)
        made.come_up(host, 0.0)
    return made


def test_a_job_waits_for_the_start_of_a_host_and_no_longer() -> None:
    told = run(jobs((0.0, 1, 50.0)))
    assert told["unserved"] == 0
    # A request must have been there at two polls, 5 s apart, unless it is the first.
    assert 100.0 <= told["wait_s"]["p50"] <= 110.0


def test_an_idle_host_is_paid_for_until_its_time_out() -> None:
    told = run(jobs((0.0, 8, 100.0), (3 * HOUR_S, 8, 100.0)))
    # Each job: 100 s start, 100 s work, then 600 s idle for the first; the replay ends with the second.
    assert told["launches"] == 2
    assert told["gpu_hours"]["paid"] == pytest.approx(8 * (100 + 100 + 600 + 100 + 100) / HOUR_S, rel=0.03)


def test_small_jobs_share_a_host_and_a_large_one_takes_whole_hosts(world: World) -> None:
    for number, gpus in enumerate((2, 3, 16)):
        world.submit(Job(number=number, submitted_at=0.0, gpus=gpus, duration_s=10.0), 0.0)
    started = {r.waiting.job.gpus: [h.index for h, _ in r.hosts] for r in world.place(0.0)}
    assert started == {2: [0], 3: [0], 16: [1, 2]}


def test_small_jobs_overtake_a_large_one_that_does_not_fit(world: World) -> None:
    for number, gpus in enumerate((32, 1)):
        world.submit(Job(number=number, submitted_at=0.0, gpus=gpus, duration_s=10.0), 0.0)
    assert [r.waiting.job.gpus for r in world.place(0.0)] == [1]
    assert world.pending == {32: 1}


def test_a_job_that_dies_goes_on_from_its_last_checkpoint(world: World) -> None:
    world.submit(Job(number=0, submitted_at=0.0, gpus=8, duration_s=4 * HOUR_S), 0.0)
    (started,) = world.place(0.0)
    world.lose(started.hosts[0][0], 1.5 * HOUR_S, "host")
    assert world.ledger.lost == pytest.approx(8 * 0.5 * HOUR_S)
    assert [w.left_s for w in world.queues[8]] == [3 * HOUR_S]


def test_work_that_lands_on_a_sick_gpu_dies_and_saves_nothing(world: World) -> None:
    for host in world.hosts[1:]:
        world.drain(host)
    world.sicken(world.hosts[0], 7, 0.0)
    world.submit(Job(number=0, submitted_at=0.0, gpus=8, duration_s=HOUR_S), 0.0)
    (started,) = world.place(0.0)
    assert started.is_doomed
    assert world.end_of(started) == FaultModel().shows_s


def test_a_degraded_host_takes_seven_gpus_of_work_and_no_whole_host_job(world: World) -> None:
    host = world.hosts[0]
    world.sicken(host, 0, 0.0)
    world.drain(host)
    world.shrink(host, 0.0)
    world.come_up(host, 12.0)
    for other in world.hosts[1:]:
        world.drain(other)
    for number, gpus in enumerate((8, 7)):
        world.submit(Job(number=number, submitted_at=12.0, gpus=gpus, duration_s=10.0), 12.0)
    assert [r.waiting.job.gpus for r in world.place(12.0)] == [7]


@pytest.mark.parametrize("policy", ["ours", pytest.param("ray", marks=pytest.mark.slow)])
def test_equal_cases_give_equal_reports(policy: str) -> None:
    made = make(Wanted(jobs=150, gpus_max=16, jobs_per_day=300.0), seed=5)
    model = FaultModel(per_node_hour=0.01)
    reports = [run(made, policy=policy, hosts=12, model=model, seed=5) for _ in range(2)]
    for told in reports:
        del told["took_s"], told["decisions_per_s"]
    assert reports[0] == reports[1]
    assert reports[0]["unserved"] == 0


@pytest.mark.slow
def test_our_policy_takes_a_sick_host_out_where_ray_keeps_feeding_it() -> None:
    rows = jobs(*((600.0 * i, 4, 3_000.0) for i in range(200)))
    model = FaultModel(per_node_hour=0.2, gpu_ratio=1.0)
    ours, rays = (run(rows, policy=policy, hosts=6, model=model, seed=3) for policy in ("ours", "ray"))
    assert min(ours["faults_met"], rays["faults_met"]) > 3
    each = [told["attempts_failed"] / told["faults_met"] for told in (ours, rays)]
    assert 3 * each[0] < each[1]


def test_a_pool_has_no_more_than_its_budget_of_hosts_out_for_health(world: World) -> None:
    decider = Ours(limits(3))
    assert decider.may_take_out(world, world.hosts[0])
    world.drain(world.hosts[0])
    assert not decider.may_take_out(world, world.hosts[1])


def test_starts_fail_while_capacity_is_out_and_succeed_after() -> None:
    model = FaultModel(capacity=(Outage(since=0.0, until=1_000.0),))
    told = run(jobs((0.0, 8, 10.0)), model=model)
    assert told["unserved"] == 0
    assert told["wait_s"]["p50"] > 900.0


def test_nothing_is_stopped_while_the_head_is_silent() -> None:
    model = FaultModel(metrics=(Outage(since=150.0, until=8_000.0),))
    told = run(jobs((0.0, 8, 100.0), (7_000.0, 8, 10.0)), model=model)
    assert told["launches"] == 1
    assert told["wait_s"]["p90"] <= 110.0


def test_a_job_that_no_fleet_could_take_ends_the_replay_as_unserved() -> None:
    told = run(jobs((0.0, 1, 10.0), (5.0, 80, 10.0)))
    assert told["unserved"] == 1


def test_the_made_up_trace_has_the_shares_of_the_real_one() -> None:
    made = make(Wanted(jobs=20_000), seed=1)
    ones = sum(job.gpus == 1 for job in made) / len(made)
    assert ones == pytest.approx(JOBS_BY_GPUS[1] / sum(JOBS_BY_GPUS.values()), abs=0.01)
    assert sorted(job.duration_s for job in made if job.gpus == 1)[len(made) // 2] == pytest.approx(
        1_117, rel=0.2
    )
    assert made[-1].submitted_at / 86_400 == pytest.approx(20_000 / 769, rel=0.25)
    assert make(Wanted(jobs=50), seed=1) != make(Wanted(jobs=50), seed=2)


def test_faults_come_at_their_rate_and_are_the_same_for_a_seed() -> None:
    model = FaultModel(per_node_hour=0.01)
    drawn = draw(model, hosts=100, horizon_s=1_000 * HOUR_S, gpus=8, seed=1)
    assert len(drawn) == pytest.approx(1_000, rel=0.15)
    assert drawn == draw(model, hosts=100, horizon_s=1_000 * HOUR_S, gpus=8, seed=1)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("timestamp,duration\n1,2\n", "no column num_gpus"),
        ("timestamp,num_gpus,duration\n0,x,5\n", "line 2"),
        ("timestamp,num_gpus,duration\n0,1,nan\n", "out of range"),
        ("timestamp,num_gpus,duration\nyesterday,1,5\n", "line 2"),
        ("timestamp,num_gpus,duration\n0,999999999,5\n", "out of range"),
        ("timestamp,num_gpus,duration\n0,1\n", "line 2"),
    ],
)
def test_a_bad_trace_is_refused_with_its_line(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(TraceInvalid, match=told):
        trace.read(path)


def test_a_trace_is_sorted_and_idle_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,num_gpus,duration\n2017-09-04 10:31:41,1,5\n2017-09-04 10:30:41,2,7\n0,0,9\n")
    found = trace.read(path)
    assert [(j.submitted_at, j.gpus) for j in found] == [(0.0, 2), (60.0, 1)]


CONFIG = """
cluster = "c"
insecure = true
[head]
addresses = ["127.0.0.1:6379"]
[[pool]]
name = "a"
nodes = ["gpu-[01-04]"]
min = 0
gpus_per_node = 8
"""


def call(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = tmp_path / "autoscaler.toml"
    config.write_text(CONFIG)
    command = [sys.executable, "-P", "-m", "gpuherd_ctl", "simulate", "--config", str(config), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_agentctl_simulate_replays_a_file(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("timestamp,num_gpus,duration\n0,1,50\n10,8,60\n")
    done = call(tmp_path, str(path), "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["jobs"] == 2
    assert "GPU-hours" in call(tmp_path, str(path)).stdout


def test_agentctl_simulate_says_what_is_wrong(tmp_path: Path) -> None:
    assert call(tmp_path).returncode == 2
    missing = call(tmp_path, str(tmp_path / "none.csv"))
    assert missing.returncode == 2
    assert "none.csv" in missing.stderr
    assert "--boot-s" in call(tmp_path, str(tmp_path / "none.csv"), "--boot-s", "0").stderr


def write_history(path: Path, made: Limits) -> None:
    """Record three decisions about one pending request on an empty fleet."""
    memory = Memory()
    for now in (0.0, 5.0, 10.0):
        snapshot = Snapshot(at=now)
        plan, after = decide(snapshot, memory, made, now)
        record.append(path, Inputs(snapshot=snapshot, memory=memory, limits=made, now=now), plan)
        memory = after


def test_history_decided_again_with_its_own_settings_shows_no_difference(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_history(path, limits())
    told = history.compare(path, limits())
    assert told["decisions"] == 3
    assert told["differences"] == []
    assert told["recorded"] == told["replayed"]


def test_a_history_cut_off_by_a_crash_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_history(path, limits())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(history.HistoryInvalid, match="line 3"):
        history.compare(path, limits())


def test_a_power_change_voids_what_was_meant_for_the_state_before(world: World) -> None:
    host = world.hosts[0]
    before = host.ticket
    world.stop(host, 1.0)
    assert host.power is Power.OFF
    assert host.ticket > before


def test_reports_are_plain_json() -> None:
    assert msgspec.json.encode(run(jobs((0.0, 1, 5.0)), model=replace(FaultModel(), repair_s=1.0)))
