"""Bodies by which Prometheus finds what to scrape, in the form of its HTTP and file service discovery."""

from gpuherd.rest import Body


class TargetGroup(Body, frozen=True, kw_only=True):
    """One element of GET /prometheus/targets: addresses ``host:port`` with their labels."""

    targets: tuple[str, ...]
    labels: dict[str, str]


class Scraping(Body, frozen=True, kw_only=True):
    """GET /prometheus: what a scrape configuration is made of."""

    cluster: str
    scaler: str = ""
    """``host:port`` of the autoscaler's own page and of its targets; empty = it has none over TCP."""
    agents: tuple[TargetGroup, ...] = ()
    """Every expected node, also one that never spoke: what is no target cannot be missed."""
