"""The shipped agent as a process, without Ray's head: its settings, its name, its topics, its refusals."""

import asyncio
import json
import os
import subprocess
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.herd import ONE, TWO, Ear, Herd, drain_hold
from tests.kit.node import desired as stranger_desired

from gpuherd.names import ClusterName, NodeName
from gpuherd.phases import Phase
from gpuherd.wire import topics
from gpuherd.wire.codec import encode
from gpuherd.wire.documents import Mode, Online, State
from gpuherd_agent.sensors.recorded import Recorded
from gpuherd_sim.demo.stage import CLUSTER, healthy
from gpuherd_sim.gpus.scenario_file import write_scenario

pytestmark = [pytest.mark.broker, pytest.mark.timeout(120)]

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def running() -> Iterator[Herd]:
    herd = Herd.make()
    try:
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


def check(herd: Herd, text: str) -> subprocess.CompletedProcess[str]:
    """Start an agent with these settings; it must end by itself."""
    config = herd.stage.folder / "bad.toml"
    config.write_text(text)
    return subprocess.run(
        [str(BIN / "gpuherd-agent"), "--config", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
        env=herd.stage.agent_environment(ONE),
    )


def page(herd: Herd, node: NodeName = ONE) -> str:
    url = f"http://127.0.0.1:{herd.stage.agent_ports[node]}/metrics"
    with urllib.request.urlopen(url, timeout=5.0) as reply:
        return str(reply.read().decode())


async def outside(ear: Ear, words: str) -> State:
    """Wait until the node is outside for this reason."""
    await ear.until(
        f"the state says {words!r}", lambda: ONE in ear.states and words in ear.states[ONE].reason
    )
    assert ear.herd.raylets() == []
    return ear.states[ONE]


GOOD = 'cluster = "demo"\nnode = "gpu-1"\ninsecure = true\n[gpu]\ndeclared = 8\n[head]\naddresses = ["h:1"]\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("cluster = \n", "is not TOML", id="bad TOML"),
        pytest.param("colour = 1\n" + GOOD, "colour: unknown key", id="unknown key"),
        pytest.param(GOOD.replace("declared = 8", 'declared = "many"'), "gpu.declared:", id="wrong type"),
        pytest.param(GOOD.replace('"gpu-1"', '"GPU_1"'), "node:", id="name outside the grammar"),
        pytest.param(GOOD.replace("insecure = true", ""), "insecure:", id="not insecure"),
        pytest.param(GOOD.replace("declared = 8", "declared = -1"), "gpu.declared:", id="negative count"),
        pytest.param(
            GOOD.replace("declared = 8", 'declared = 8\nbackend = "tarot"'),
            "gpu.backend:",
            id="unknown backend",
        ),
    ],
)
def test_bad_settings_are_refused_with_their_key(herd: Herd, text: str, words: str, tmp_path: Path) -> None:
    text = text.replace("[gpu]", f'state_dir = "{tmp_path}"\n[gpu]', 1)
    done = check(herd, text + '[ray]\nauth_mode = "disabled"\n')
    assert done.returncode == 78
    assert words in done.stderr


def test_a_missing_settings_file_is_named(herd: Herd) -> None:
    command = [str(BIN / "gpuherd-agent"), "--config", str(herd.stage.folder / "absent.toml")]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=20, env=os.environ.copy()
    )
    assert done.returncode == 78
    assert "absent.toml: no such file" in done.stderr


def test_a_taken_port_is_named(herd: Herd) -> None:
    herd.start_agent()
    wait_ready(herd)
    herd.start_agent(TWO, GPUHERD__HTTP__PORT=str(herd.stage.agent_ports[ONE]))
    assert herd.crew.code(TWO) == 78
    assert "http.port" in (herd.stage.folder / "logs" / f"{TWO}.log").read_text()


def test_a_second_agent_on_the_same_state_is_refused(herd: Herd) -> None:
    herd.start_agent()
    wait_ready(herd)
    herd.start_agent(ONE, name="twin", GPUHERD__HTTP__PORT=str(herd.stage.agent_ports[TWO]))
    assert herd.crew.code("twin") == 78
    assert "state_dir" in (herd.stage.folder / "logs" / "twin.log").read_text()


def wait_ready(herd: Herd) -> None:
    url = f"http://127.0.0.1:{herd.stage.agent_ports[ONE]}/readyz"
    for _ in range(200):
        try:
            with urllib.request.urlopen(url, timeout=1.0):
                return
        except OSError:
            asyncio.run(asyncio.sleep(0.05))
    raise AssertionError("the agent did not become ready")


async def test_two_agents_with_one_name_the_newcomer_says_where_the_other_is(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        await ear.until("the first is online", lambda: ONE in ear.online and ear.online[ONE].online)
        first = ear.online[ONE]
        herd.start_agent(
            ONE,
            name="twin",
            GPUHERD__STATE_DIR=str(herd.stage.folder / "twin.state"),
            GPUHERD__HTTP__PORT=str(herd.stage.agent_ports[TWO]),
            GPUHERD__GOSSIP__PORT=str(herd.stage.gossip_ports[TWO]),
        )
        assert await asyncio.to_thread(herd.crew.code, "twin") == 78
        said = (herd.stage.folder / "logs" / "twin.log").read_text()
        assert "in use by the agent on" in said
        assert f"{ONE}.state" in said
        await asyncio.sleep(1.0)
        assert (ear.online[ONE].online, ear.online[ONE].epoch) == (True, first.epoch)


async def test_will_never_erases_state(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        await ear.until("its state is there", lambda: ONE in ear.states)
        herd.crew.kill(ONE)
        await ear.until("the will is there", lambda: not ear.online[ONE].online)
        ear.states.clear()
    async with herd.ear() as later:
        await later.until("the retained state is still there", lambda: ONE in later.states)
        assert later.online[ONE].online is False
        assert later.states[ONE].phase is Phase.OUTSIDE


def why(ear: Ear) -> str:
    refused = ear.states[ONE].refused
    return "" if refused is None else refused.why


async def test_garbage_on_its_topics_costs_the_agent_nothing(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        ear.order(drain_hold("first"))
        await ear.until("the order is obeyed", lambda: ONE in ear.states and bool(ear.states[ONE].holds))
        good = ear.states[ONE].observed
        replayed = encode(
            Online(cluster=ClusterName(CLUSTER), node=ONE, epoch=1, conn=1, online=False, host="elsewhere")
        )
        for payload in (b"", b"\xff\x00", b"[" * 5_000, b'{"v":1,"v":1}', b" " * 66_000, b'{"v":9}', b"NaN"):
            for leaf in ("desired", "command", "online", "state", "event/claim"):
                ear.say(leaf, payload, retain=False)
            ear.bus.tell(topics.cluster_wide(ClusterName(CLUSTER), "mode"), payload)
        ear.say("online", replayed, retain=False)
        ear.say("desired", stranger_desired(99), retain=False)
        await ear.until("the garbage is refused", lambda: why(ear) == "wrong_node")
        ear.generation = 0
        ear.order(drain_hold("older"), serve=False)
        await ear.until("the older one is refused", lambda: why(ear) == "two_writers")
        assert ear.states[ONE].observed == good
        assert [h.id for h in ear.states[ONE].holds] == ["first"]
        ear.generation = 1
        ear.order(drain_hold("second"))
        await ear.until("the next good one is obeyed", lambda: len(ear.states[ONE].holds) == 2)
        assert ear.online[ONE].online
        text = page(herd)
        refused = [line for line in text.splitlines() if line.startswith("gpuherd_desired_refused_total{")]
        assert any('reason="syntax"' in line for line in refused), (refused, herd.log()[-12:])
        assert "gpuherd_messages_dropped_total" in text


async def test_term_bomb_refused(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        ear.order(serve=False)
        await ear.until("obeyed", lambda: ONE in ear.states and ear.states[ONE].observed is not None)
        document = json.loads(stranger_desired(1, term=2**40))
        document |= {"cluster": CLUSTER, "node": ONE, "serve": True}
        ear.say("desired", json.dumps(document).encode(), retain=False)
        await ear.until("refused", lambda: ear.states[ONE].refused is not None)
        refused, observed = ear.states[ONE].refused, ear.states[ONE].observed
        assert refused is not None
        assert observed is not None
        assert (refused.why, observed.term) == ("term_bomb", 1)


async def test_the_fleets_observe_mode_lifts_what_health_holds(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.stage.break_gpu(ONE, 5)
        herd.start_agent()
        await ear.until("health holds", lambda: ONE in ear.states and bool(ear.states[ONE].holds))
        mode = encode(Mode(cluster=ClusterName(CLUSTER), term=1, mode="observe"))
        ear.bus.keep(topics.cluster_wide(ClusterName(CLUSTER), "mode"), mode)
        await ear.until("the hold is gone", lambda: not ear.states[ONE].holds)
        assert ear.states[ONE].verdict.findings


async def test_other_than_the_declared_gpus_keep_the_node_outside(herd: Herd) -> None:
    write_scenario(herd.stage.scenario(ONE), healthy(ONE).having({"gpus": 7}))
    async with herd.ear() as ear:
        herd.start_agent()
        ear.order()
        state = await outside(ear, "8 GPUs declared, 7 counted")
        assert (state.gpus_declared, state.gpus_counted) == (8, 7)
        text = page(herd)
        assert (
            'gpuherd_gpus_declared{cluster="demo",node="gpu-1"} 8' in text
            or "gpuherd_gpus_declared 8" in text
        )


async def test_without_ray_the_node_stays_outside_and_says_so(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent(GPUHERD__RAY__BINARY="/nowhere/bin/ray")
        ear.order()
        state = await outside(ear, "/nowhere/bin/ray")
        assert "[ray] binary" in state.reason


async def test_a_head_that_is_not_there_is_named_and_health_goes_on(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        ear.order()
        state = await outside(ear, herd.stage.head)
        assert state.verdict.severity == "ok"


async def test_a_node_whose_store_is_gone_holds_itself(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        await ear.until("its state is told", lambda: ONE in ear.states)
        herd.crew.kill(ONE)
        for file in (herd.stage.folder / f"{ONE}.state").glob("*"):
            file.unlink()
        herd.start_agent()
        await ear.until("it holds itself", lambda: any(h.owner == "repair" for h in ear.states[ONE].holds))
        (hold,) = ear.states[ONE].holds
        ear.order(lifted=(hold.id,))
        await ear.until("a person lifts it", lambda: not ear.states[ONE].holds)


async def test_without_a_broker_the_agent_is_ready_and_joins_by_its_own_settings(herd: Herd) -> None:
    herd.crew.kill("broker")
    herd.start_agent(GPUHERD__WITHOUT_ORDERS="serve")
    await asyncio.to_thread(wait_ready, herd)
    for _ in range(100):
        if any(entry["event"] == "join.refused" for entry in herd.log()):
            break
        await asyncio.sleep(0.1)
    assert any(herd.stage.head in str(entry.get("reason")) for entry in herd.log())


async def test_evidence_is_packed_on_the_node_and_a_repeat_is_answered_and_not_done_again(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        await ear.until(
            "the node tells of its GPUs", lambda: ONE in ear.states and bool(ear.states[ONE].gpus)
        )
        state = ear.states[ONE]
        ear.command("evidence", epoch=state.epoch, gpu=state.gpus[0].uuid)
        await ear.until("it is done", lambda: bool(ear.acks) and ear.acks[-1].outcome == "done")
        assert [a.outcome for a in ear.acks] == ["accepted", "running", "done"]
        path = Path(ear.acks[-1].output)
        with tarfile.open(path) as tar:
            names = {Path(name).name for name in tar.getnames()}
        assert {"readings.json", "findings.json", "memory.json", "about.json", "processes.txt"} <= names
        ear.generation -= 1
        ear.command("evidence", epoch=state.epoch)
        await ear.until("an answer", lambda: len(ear.acks) > 3)
        assert ear.acks[-1] == ear.acks[2]
        assert [p.name for p in path.parent.iterdir()] == [path.name]
        ear.command("evidence", epoch=state.epoch, gpu="GPU-none")
        await ear.until("a refusal", lambda: ear.acks[-1].outcome == "refused")
        assert "never seen" in ear.acks[-1].reason


async def test_a_recording_of_an_agent_is_judged_again_to_the_same_verdicts(herd: Herd) -> None:
    async with herd.ear() as ear:
        herd.start_agent()
        await ear.until(
            "the node tells of its GPUs", lambda: ONE in ear.states and bool(ear.states[ONE].gpus)
        )
        epoch = ear.states[ONE].epoch
        ear.command("record", epoch=epoch, for_s="60")
        await ear.until("it records", lambda: bool(ear.acks) and ear.acks[-1].outcome == "done")
        path = Path(ear.acks[-1].output)
        ear.command("record", epoch=epoch, for_s="1e9")
        await ear.until("a refusal", lambda: ear.acks[-1].outcome == "refused")
        assert "is being recorded" in ear.acks[-1].reason
        write_scenario(herd.stage.scenario(ONE), healthy(ONE).with_lost(3))
        await ear.until(
            "a GPU is lost",
            lambda: any(f.rule == "gpu_lost" for f in ear.states[ONE].verdict.findings),
        )
        ear.command("record", epoch=epoch, stop="yes")
        await ear.until("it has ended", lambda: ear.acks[-1].reason == "ended")
        await ear.until("it is on the disk", lambda: recorded(path))
    done = judged(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 judged otherwise; ended by" in done.stdout
    assert "critical" in done.stdout


def judged(path: Path) -> subprocess.CompletedProcess[str]:
    command = [str(BIN / "agentctl"), "rules", "test", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)


def recorded(path: Path) -> bool:
    """Say whether the recording has its end."""
    it = Recorded.open(path)
    return bool(list(it.looks())) and "cut off" not in it.ended
