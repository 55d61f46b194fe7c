"""A person asks a node to serve: is there room in its pool, and will the autoscaler let it stay? Pure."""

from collections.abc import Collection

from gpuherd.errors import Refused
from gpuherd.names import NodeName
from gpuherd_autoscaler.pools import Pool


def require_room(node: NodeName, pool: Pool, asked: Collection[NodeName]) -> None:
    """Raise Refused when ``node`` would be one too many of those of its pool that are ``asked`` to serve."""
    others = len(set(asked) - {node})
    if others >= pool.ceiling:
        raise Refused(
            f"pool {pool.name} has {others} other nodes asked to serve and a max of {pool.ceiling}, so the "
            f"autoscaler would take {node} out again: drain another node first, or raise max"
        )


def outlook(pool: Pool, *, is_armed: bool) -> str:
    """Return what may end the node's service unasked, empty = nothing of ours will."""
    if not is_armed or pool.floor >= pool.ceiling:
        return ""
    return (
        f"the autoscaler is armed: it releases the node again once it has been idle for "
        f"{pool.idle_timeout_s:g} s and pool {pool.name} has more than its min of {pool.floor}"
    )
