"""What the core counts of its own work; the shell's metrics page reads it."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals since start. ``dropped`` counts refused packets and records by reason, a closed set of words."""

    packets_out: int = 0
    bytes_out: int = 0
    packets_in: int = 0
    bytes_in: int = 0
    calls: int = 0
    rounds: int = 0
    rounds_void: int = 0
    looks_failed: int = 0
    roll_calls: int = 0
    accusations: int = 0
    retractions: int = 0
    records_in: int = 0
    exchanges: int = 0
    checks: int = 0
    """Signatures checked: what a flood costs (219 us each)."""
    shed: int = 0
    """Packets not sent, since the budget of packets or bytes was spent."""
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str) -> None:
        """Count one refused packet, message or record."""
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
