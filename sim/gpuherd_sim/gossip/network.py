"""The network between simulated nodes: latency, loss, doubles, reordering, corruption, cut ways."""

import random
from dataclasses import dataclass, field


@dataclass(slots=True)
class Network:
    """Ways between nodes by number. Probabilities are for one packet on one way; times are in seconds."""

    rng: random.Random
    latency_s: float = 0.0002
    jitter_s: float = 0.0008
    """Added evenly at random, so packets also overtake each other."""
    loss: float = 0.0
    doubles: float = 0.0
    corrupts: float = 0.0
    node_loss: dict[int, float] = field(default_factory=dict)
    """Loss of single nodes, on the way in and on the way out."""
    _cut: set[tuple[int, int]] = field(default_factory=set)
    _group: dict[int, int] = field(default_factory=dict)
    _deaf: set[int] = field(default_factory=set)
    _mute: set[int] = field(default_factory=set)

    def cut(self, source: int, target: int) -> None:
        """Lose everything that ``source`` sends to ``target``; the way back stays."""
        self._cut.add((source, target))

    def split(self, *groups: tuple[int, ...]) -> None:
        """Lose everything between these groups; nodes in none of them form one more."""
        self._group = {node: number for number, group in enumerate(groups, 1) for node in group}

    def deafen(self, node: int) -> None:
        """Lose everything that is sent to ``node``."""
        self._deaf.add(node)

    def mute(self, node: int) -> None:
        """Lose everything that ``node`` sends."""
        self._mute.add(node)

    def heal(self) -> None:
        """Open every way; loss and latency stay."""
        self._cut.clear()
        self._group.clear()
        self._deaf.clear()
        self._mute.clear()

    def is_open(self, source: int, target: int) -> bool:
        """Return whether the way is not cut."""
        return (
            (source, target) not in self._cut
            and self._group.get(source, 0) == self._group.get(target, 0)
            and target not in self._deaf
            and source not in self._mute
        )

    def passes(self, source: int, target: int) -> bool:
        """Return whether one packet gets through."""
        if not self.is_open(source, target):
            return False
        loss = max(self.loss, self.node_loss.get(source, 0.0), self.node_loss.get(target, 0.0))
        return loss == 0.0 or self.rng.random() >= loss

    def delay(self) -> float:
        """Return how long one packet travels."""
        return self.latency_s + self.rng.random() * self.jitter_s

    def spoil(self, payload: bytes) -> bytes:
        """Return ``payload``, perhaps with one byte changed."""
        if self.corrupts == 0.0 or self.rng.random() >= self.corrupts:
            return payload
        at = self.rng.randrange(len(payload))
        return payload[:at] + bytes([payload[at] ^ (1 + self.rng.randrange(255))]) + payload[at + 1 :]
