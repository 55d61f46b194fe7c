"""A real Prometheus on loopback for tests."""

import asyncio
import json
import shutil
import urllib.parse
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuherd_sim.demo.stage import free_ports


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server that runs."""

    url: str

    def query(self, text: str) -> list[dict[str, Any]]:
        """Return the series of an instant query as their labels with ``value``; [] while it starts."""
        try:
            address = f"{self.url}/api/v1/query?{urllib.parse.urlencode({'query': text})}"
            with urllib.request.urlopen(address, timeout=10.0) as reply:  # noqa: S310  our own server
                found = json.load(reply)["data"]["result"]
        except OSError:
            return []
        return [{**series["metric"], "value": float(series["value"][1])} for series in found]

    async def until(self, text: str, count: int, *, within_s: float = 60.0) -> list[dict[str, Any]]:
        """Return the series once there are ``count``; the failure shows what there was."""
        loop = asyncio.get_running_loop()
        end = loop.time() + within_s
        while len(found := await asyncio.to_thread(self.query, text)) != count:
            assert loop.time() < end, f"not {count} series of {text}: {found}"
            await asyncio.sleep(0.2)
        return found


@asynccontextmanager
async def prometheus(folder: Path, config: str) -> AsyncIterator[Prometheus]:
    """Run the server while the block lasts; ``SELF`` in the configuration is its own address."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian package: prometheus)")
    (port,) = free_ports(1)
    file = folder / "prometheus.yml"
    file.write_text(config.replace("SELF", f"127.0.0.1:{port}"), encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        *("prometheus", f"--config.file={file}", f"--storage.tsdb.path={folder / 'prometheus'}"),
        f"--web.listen-address=127.0.0.1:{port}",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        await process.wait()
