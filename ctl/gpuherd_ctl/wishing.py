"""What people have set for the whole herd, as pause, resume and scale print it."""

from collections.abc import Iterator
from datetime import datetime

from gpuherd.rest import Wish, Wishes
from gpuherd_ctl.session import Session


def show(session: Session, wishes: Wishes) -> None:
    """Print all that stands, with the time of this host."""
    session.paper.json(wishes)
    for line in wish_lines(wishes):
        session.paper.line(line)
    if wishes == Wishes():
        session.paper.line("nothing is set: plans are carried out, and pools follow demand")


def wish_lines(wishes: Wishes) -> Iterator[str]:
    """Yield a line for each thing that people have set, as the page of the fleet has them."""
    if wishes.pause is not None:
        yield f"PAUSED    {_words(wishes.pause)}"
    for pool, wish in sorted(wishes.sizes.items()):
        yield f"size      pool {pool}: {wish.nodes} nodes {_words(wish)}"


def _words(wish: Wish) -> str:
    end = datetime.fromtimestamp(wish.until).astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"by {wish.by} until {end}" + (f": {wish.reason}" if wish.reason else "")
