"""Smoke work in its own child, through a stand-in of CUDA's library that fails, hangs and computes wrong."""

import os
import shutil
from pathlib import Path

import psutil
import pytest

from gpuherd.names import GpuUuid
from gpuherd_agent.doors import Smoked, SmokeOutcome
from gpuherd_agent.sensors.smoke import SmokeWork, parse
from gpuherd_agent.site_settings import PreflightSettings
from gpuherd_sim.gpus.cuda_library import FAULT_VARIABLE, UUID_VARIABLE, build_cuda

GPU = GpuUuid("GPU-01234567-89ab-cdef-0123-456789abcdef")
needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc builds the stand-in")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_cuda(tmp_path_factory.mktemp("cuda"))


def work(library: Path, *, deadline_s: float = 30.0, **environment: str) -> SmokeWork:
    settings = PreflightSettings(smoke=True, smoke_deadline_s=deadline_s)
    return SmokeWork(settings, {**os.environ, "LD_LIBRARY_PATH": str(library), **environment})


@needs_gcc
@pytest.mark.parametrize(
    ("fault", "outcome", "detail"),
    [
        pytest.param("", SmokeOutcome.PASSED, "", id="a good GPU"),
        pytest.param("fail:cuInit:999", SmokeOutcome.FAILED, "cuInit: CUDA error 999", id="init fails"),
        pytest.param("fail:cuInit:100", SmokeOutcome.UNAVAILABLE, "error 100", id="no device"),
        pytest.param("fail:cuCtxCreate_v2:46", SmokeOutcome.FAILED, "cuCtxCreate_v2", id="no context"),
        pytest.param("fail:cuMemAlloc_v2:2", SmokeOutcome.FAILED, "error 2", id="no memory"),
        pytest.param("fail:cuMemcpyDtoH_v2:214", SmokeOutcome.FAILED, "error 214", id="ECC error in a copy"),
        pytest.param("fail:cuModuleLoadData:218", SmokeOutcome.FAILED, "error 218", id="PTX refused"),
        pytest.param("fail:cuCtxSynchronize:719", SmokeOutcome.FAILED, "error 719", id="kernel dies"),
        pytest.param("copy", SmokeOutcome.WRONG_DATA, "copied 0x", id="a copy with a wrong bit"),
        pytest.param("kernel", SmokeOutcome.WRONG_DATA, "at word 87381", id="a wrong result"),
    ],
)
async def test_what_the_gpu_does_is_told(
    library: Path, fault: str, outcome: SmokeOutcome, detail: str
) -> None:
    smoked = await work(library, **{FAULT_VARIABLE: fault}).run(GPU)
    assert smoked.outcome is outcome, smoked
    assert detail in smoked.detail


@needs_gcc
async def test_another_gpu_than_the_one_that_is_meant_is_not_put_to_work(library: Path) -> None:
    other = "GPU-ffffffff-0000-0000-0000-000000000000"
    smoked = await work(library, **{UUID_VARIABLE: other}).run(GPU)
    assert smoked == Smoked(outcome=SmokeOutcome.UNAVAILABLE, detail=f"CUDA shows {other} instead")


@needs_gcc
@pytest.mark.parametrize("call", ["cuInit", "cuCtxCreate_v2", "cuMemcpyHtoD_v2", "cuCtxSynchronize"])
async def test_a_call_that_hangs_costs_the_deadline_and_leaves_nothing(library: Path, call: str) -> None:
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    smoked = await work(library, deadline_s=1.5, **{FAULT_VARIABLE: f"hang:{call}"}).run(GPU)
    assert smoked == Smoked(outcome=SmokeOutcome.HUNG, detail="no end within 1.5 s")
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


async def test_without_a_library_it_is_unavailable(tmp_path: Path) -> None:
    if any((Path(place) / "libcuda.so.1").exists() for place in ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")):
        pytest.skip("this host has NVIDIA's own")
    smoked = await work(tmp_path).run(GPU)
    assert smoked.outcome is SmokeOutcome.UNAVAILABLE
    assert "libcuda.so.1" in smoked.detail


@pytest.mark.parametrize("output", ["", "Traceback\nKeyError: 1", '{"outcome": "excellent"}', "[]"])
def test_a_child_without_a_word_has_failed(output: str) -> None:
    assert parse(-11, output).outcome is SmokeOutcome.FAILED
