"""``agentctl head``: what it says of a head that answers, and when it starts one."""

import asyncio
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.ray_cluster import RayCluster

from gpuherd_ctl.exit_codes import ExitCode
from gpuherd_sim.demo.stage import clear, free_ports, head_command, set_up


async def agentctl(*words: str, env: dict[str, str] | None = None) -> tuple[int, str]:
    """Run it and return its exit code and all that it said."""
    ran = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gpuherd_ctl", *words),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
    )
    out, _ = await ran.communicate()
    assert ran.returncode is not None
    return ran.returncode, out.decode()


@pytest.mark.slow
async def test_a_head_that_is_not_there_is_named_by_its_fault() -> None:
    code, said = await agentctl("head", "check", f"127.0.0.1:{free_ports(1)[0]}")
    assert code == ExitCode.UNREACHABLE
    assert "refused" in said


@pytest.mark.slow
async def test_no_head_is_started_beside_a_program_that_holds_its_port(tmp_path: Path) -> None:
    async def say_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    started = tmp_path / "started"
    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
        head = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        code, said = await agentctl("head", "rebuild", head, "--yes", "--start", f"touch {started}")
    assert code == ExitCode.PRECONDITION
    assert "ss -ltnp" in said
    assert not started.exists()


@pytest.mark.slow
async def test_without_kept_state_nothing_is_started_unasked(tmp_path: Path) -> None:
    started = tmp_path / "started"
    head = f"127.0.0.1:{free_ports(1)[0]}"
    empty = tmp_path / "gcs"
    empty.mkdir()
    for storage in ((), ("--storage", str(empty))):
        code, said = await agentctl("head", "rebuild", head, *storage, "--start", f"touch {started}")
        assert code == ExitCode.USAGE
        assert "no kept state" in said
    assert not started.exists()


@pytest.mark.slow
async def test_a_start_that_fails_is_tried_again_and_told(tmp_path: Path) -> None:
    tries = tmp_path / "tries"
    head = f"127.0.0.1:{free_ports(1)[0]}"
    start = shlex.join(["sh", "-c", f"echo x >> {tries}; exit 1"])
    code, said = await agentctl("head", "rebuild", head, "--yes", "--tries", "2", "--start", start)
    assert code == ExitCode.FAILED
    assert "does not answer after 2 starts" in said
    assert tries.read_text() == "x\nx\n"


@pytest.mark.ray
@pytest.mark.slow
async def test_a_living_head_is_described_and_no_second_one_is_started(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    token = ("--token-file", str(ray_cluster.stage.token))
    async with ray_cluster.gcs():
        code, said = await agentctl("head", "check", ray_cluster.head, *token)
        assert (code, "2.60.0" in said, "session_" in said) == (ExitCode.DONE, True, True), said
        for key in (token, ()):
            code, said = await agentctl(
                "head", "rebuild", ray_cluster.head, *key, "--yes", "--start", f"touch {started}"
            )
            assert (code, "a head answers" in said) == (ExitCode.REFUSED, True), said
    assert not started.exists()


@pytest.mark.ray
@pytest.mark.slow
@pytest.mark.long
async def test_a_head_that_is_gone_is_started_and_waited_for() -> None:
    if os.geteuid() != 0:
        pytest.skip("a head beside others needs a process namespace of its own, which takes root")
    stage = set_up()
    inside = f"{shlex.join(head_command(stage))} >/dev/null 2>&1 & echo $! > {stage.folder / 'pid'}"
    start = shlex.join(["sh", "-c", f"setsid unshare --fork --pid --mount-proc --kill-child {inside}"])
    try:
        code, said = await agentctl(
            *("head", "rebuild", stage.head, "--token-file", str(stage.token), "--yes", "--start", start),
            env=stage.environment(),
        )
        assert (code, "every node rejoins" in said) == (ExitCode.DONE, True), said
    finally:
        os.kill(int((stage.folder / "pid").read_text()), 9)
        clear(stage.folder)
