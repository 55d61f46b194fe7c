"""What keeps a draining node from being empty: tasks, actors, placement groups, objects. Pure.

Names come from the titles that Ray gives its workers (2.49 to 2.60), counts of the rest from the head.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from gpuherd.ray import RayNode

MOST: Final = 16
"""As many are named; work of the same name is counted."""

_GROUP: Final = re.compile(r"bundle_group_([0-9a-f]{8,})")
_METHOD: Final = re.compile(r"ray::(\w+)\.(\w+)")
_STORE: Final = "object_store_memory"


def blockers(node: RayNode | None, titles: Iterable[str]) -> tuple[str, ...]:
    """Return what is in the way, at most MOST entries; ``titles`` are those of workers with user code.

    ``node`` None = the head was not heard of: only what runs here is told.
    """
    told = [*_work(titles), *(_of_head(node) if node is not None else ())]
    rest = len(told) - MOST
    return (*told[:MOST], f"and {rest} more") if rest > 0 else tuple(told)


def groups(node: RayNode | None) -> tuple[str, ...]:
    """Return the ids of the placement groups that have a bundle on the node."""
    found = map(_GROUP.fullmatch, node.total) if node is not None else ()
    return tuple(sorted({m[1] for m in found if m is not None}))


def _work(titles: Iterable[str]) -> Iterator[str]:
    for words, count in sorted(Counter(named(title) for title in titles).items()):
        yield f"{words} x{count}" if count > 1 else words


def named(title: str) -> str:
    """Return what a worker runs, by its title.

    Ray titles an actor by its class, also while it runs a method, and a task by its function.
    """
    name = title.removeprefix("ray::").split(" ")[0].removesuffix("()")
    method = _METHOD.match(title)
    if method is not None:
        return f"actor {method[1]} in {method[2]}"
    return f"actor {name}" if name[:1].isupper() else f"task {name}"


def _of_head(node: RayNode) -> Iterator[str]:
    for group in groups(node):
        yield f"placement group {group[:12]}"
    used = node.total.get(_STORE, 0.0) - node.available.get(_STORE, 0.0)
    if used > 0:
        yield f"objects, {used / 2**20:.0f} MiB"
