"""Names of nodes, pools and clusters: their grammar and the range notation of a pool.

A name is a DNS label, since it becomes a topic level, a key in Ray's store and a metric label.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Final, NewType

NodeName = NewType("NodeName", str)
PoolName = NewType("PoolName", str)
ClusterName = NewType("ClusterName", str)

GpuUuid = NewType("GpuUuid", str)
"""NVML's ``GPU-…`` string: stable over reboots, unlike the index."""

RayNodeId = NewType("RayNodeId", str)
"""56 hexadecimal digits; a raylet that rejoins has a new one."""

HoldId = NewType("HoldId", str)
OperationId = NewType("OperationId", str)

MAX_NODES: Final = 10_000
"""Bound of one pool's expansion, so that a typo such as ``[0-999999999]`` is an error, not a hang."""

_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_RANGE: Final = re.compile(r"\[([^\[\]]*)\]")
_SPAN: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


class NameInvalid(ValueError):
    """A name or range is outside the grammar; the message says which and what is allowed."""


def parse_name(text: str, what: str = "node name") -> str:
    """Return ``text`` when it is 1-63 of ``a-z 0-9 -`` without a dash at either end.

    Raises NameInvalid otherwise.
    """
    if _NAME.fullmatch(text) is None:
        raise NameInvalid(
            f"{what} {text[:80]!r} is not allowed: use 1 to 63 of a-z, 0-9 and '-', no '-' at the ends"
        )
    return text


def parse_node(text: str) -> NodeName:
    """Return the node name in ``text``; raises NameInvalid."""
    return NodeName(parse_name(text))


def expand_nodes(patterns: Iterable[str]) -> tuple[NodeName, ...]:
    """Return the names that patterns such as ``gpu-[001-003,7]`` stand for, in their order, once each.

    Widths are kept (``001``). Raises NameInvalid for a bad name, a reversed range, or more than
    MAX_NODES names.
    """
    found: dict[NodeName, None] = {}
    for pattern in patterns:
        for name in _expand(pattern):
            found[parse_node(name)] = None
            if len(found) > MAX_NODES:
                raise NameInvalid(f"{pattern[:80]!r} stands for more than {MAX_NODES} nodes")
    return tuple(found)


def _expand(pattern: str) -> Iterator[str]:
    bracket = _RANGE.search(pattern)
    if bracket is None:
        yield pattern
        return
    before, after = pattern[: bracket.start()], pattern[bracket.end() :]
    for number in _numbers(bracket.group(1), pattern):
        yield from _expand(f"{before}{number}{after}")


def _numbers(spans: str, pattern: str) -> Iterator[str]:
    for span in spans.split(","):
        match = _SPAN.fullmatch(span)
        if match is None:
            raise NameInvalid(f"{pattern[:80]!r}: {span!r} is no range; write gpu-[001-500] or gpu-[1,3,7]")
        first, last = match.group(1), match.group(2) or match.group(1)
        if int(last) < int(first):
            raise NameInvalid(f"{pattern[:80]!r}: {span!r} runs backwards")
        for number in range(int(first), int(last) + 1):
            yield str(number).zfill(len(first))
