"""The quota: a bound over all pools together. Settings (``[quota]``)."""

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """``[quota]``: what all pools together may have serving. Unset = no bound beyond each pool's ``max``."""

    nodes: int | None = None
    gpus: int | None = None
    """Counted as ``gpus_per_node`` of each pool."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield what makes these values unusable."""
        for key, bound in (("nodes", self.nodes), ("gpus", self.gpus)):
            if bound is not None and bound < 0:
                yield key, "must not be negative"
