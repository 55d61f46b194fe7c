"""Topics under ``gpuherd/v1/<cluster>/``: who writes them is said in each document's docstring."""

from typing import Final

from gpuherd.names import ClusterName, NameInvalid, NodeName, parse_node

_ROOT: Final = "gpuherd/v1"


def node(cluster: ClusterName, name: NodeName, leaf: str) -> str:
    """Return one node's topic, such as ``…/node/gpu-1/state``."""
    return f"{_ROOT}/{cluster}/node/{name}/{leaf}"


def every_node(cluster: ClusterName, leaf: str) -> str:
    """Return the filter that matches one leaf of every node."""
    return f"{_ROOT}/{cluster}/node/+/{leaf}"


def cluster_wide(cluster: ClusterName, leaf: str) -> str:
    """Return a topic of the whole cluster, such as ``…/roster`` or ``…/scaler/state``."""
    return f"{_ROOT}/{cluster}/{leaf}"


def parse(topic: str, cluster: ClusterName) -> tuple[NodeName, str] | None:
    """Return (node, leaf) of a node's topic of this cluster, or None for any other topic."""
    start = f"{_ROOT}/{cluster}/node/"
    if not topic.startswith(start):
        return None
    name, slash, leaf = topic.removeprefix(start).partition("/")
    try:
        return (parse_node(name), leaf) if slash and leaf else None
    except NameInvalid:
        return None
