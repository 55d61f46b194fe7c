# nvidia-ml-py is untyped; only gpuherd_agent.sensors.nvml and the fakes import it.
from typing import Any

def __getattr__(name: str) -> Any: ...
