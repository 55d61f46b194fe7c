"""What people set for the whole herd: mode, pause, size of a pool. Each is recorded with who and why."""

from datetime import UTC, datetime
from typing import Final

from gpuherd import holds
from gpuherd.errors import NotFound, Refused
from gpuherd.names import PoolName
from gpuherd_autoscaler.book import Book
from gpuherd_autoscaler.ledger import Change, Mode, Note
from gpuherd_autoscaler.pools import Pool
from gpuherd_autoscaler.wishes import LONGEST_S, Size, Wish, Wishes, ended, standing, with_size

PAUSE_S: Final = 3_600.0
"""How long a pause lasts when nobody says so."""
SIZE_S: Final = 8 * 3_600.0
"""How long a pool keeps a size when nobody says so: a day at work, or a night."""
_REASON_MAX: Final = 500


class Steering:
    """Carries what people set into the book."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def set_mode(self, text: str, by: str) -> Mode:
        """Set the mode and return it; the mode that stands already is not recorded again."""
        try:
            mode = Mode(text)
        except ValueError as error:
            raise Refused(f"mode {text[:40]!r} is unknown: use {', '.join(Mode)}") from error
        if mode is not self._book.ledger.mode:
            why = f"{mode.value} (by {holds.user(by)})"
            note = Note(at=self._book.clock.wall(), kind="mode.changed", reason=why)
            self._book.commit(Change(mode=mode, notes=(note,)))
        return mode

    def pause(self, by: str, *, for_s: float | None = None, reason: str = "") -> Wishes:
        """Let no plan be carried out for a time, and return what stands; a new pause replaces an old one.

        Requests of people go on being carried out, and nodes go on looking after their own health.
        """
        wish = self._wish(by, PAUSE_S if for_s is None else for_s, reason)
        return self._set(Wishes(pause=wish, sizes=self._present().sizes), "scaler.paused", _until(wish))

    def resume(self, by: str) -> Wishes:
        """End the pause and return what stands; without one nothing is recorded."""
        present = self._present()
        if present.pause is None:
            return present
        text = f"resumed by {holds.user(by)}; it was paused {present.pause.words}"
        return self._set(Wishes(sizes=present.sizes), "scaler.resumed", text)

    def scale(
        self, pool: str, nodes: int | None, by: str, *, for_s: float | None = None, reason: str = ""
    ) -> Wishes:
        """Let a pool serve with exactly ``nodes`` for a time; None = let it follow demand again.

        Raises NotFound, and Refused outside the pool's min and max: those are the settings' to change. A
        smaller size waits for nodes to be idle, as every scale-down does.
        """
        found = self._pool(pool)
        present = self._present()
        if nodes is None:
            if present.size(found.name) is None:
                return present
            text = f"pool {found.name} follows demand again (by {holds.user(by)})"
            return self._set(with_size(present, found.name, None), "pool.released", text)
        if not found.floor <= nodes <= found.ceiling:
            raise Refused(
                f"pool {found.name} may serve with {found.floor} to {found.ceiling} nodes, not {nodes}: "
                f"change its min or max in the settings"
            )
        wish = self._wish(by, SIZE_S if for_s is None else for_s, reason)
        size = Size(pool=found.name, nodes=nodes, wish=wish)
        text = f"pool {found.name} serves with {nodes} nodes, {_until(wish)}"
        return self._set(with_size(present, found.name, size), "pool.scaled", text)

    def _pool(self, name: str) -> Pool:
        pools = {pool.name: pool for pool in self._book.herd.pools}
        found = pools.get(PoolName(name))
        if found is None:
            raise NotFound(f"pool {name[:80]!r} is none; known: {', '.join(sorted(pools))}")
        return found

    def _wish(self, by: str, for_s: float, reason: str) -> Wish:
        if not 0 < for_s <= LONGEST_S:
            raise Refused(f"for_s must be above 0 and at most {LONGEST_S:.0f} seconds (7 days)")
        wall = self._book.clock.wall()
        return Wish(by=holds.user(by), since=wall, until=wall + for_s, reason=reason[:_REASON_MAX])

    def _present(self) -> Wishes:
        return let_end(self._book)

    def _set(self, wishes: Wishes, kind: str, text: str) -> Wishes:
        self._book.commit(Change(wishes=wishes, notes=(self._note(kind, text),)))
        return wishes

    def _note(self, kind: str, text: str) -> Note:
        return Note(at=self._book.clock.wall(), kind=kind, reason=text)


def _until(wish: Wish) -> str:
    end = datetime.fromtimestamp(wish.until, UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"until {end} {wish.words}"


def let_end(book: Book) -> Wishes:
    """Record that wishes are over whose time is, and return those that stand; raises LedgerFailed."""
    wall, before = book.clock.wall(), book.ledger.wishes
    after = standing(before, wall)
    if after != before:
        notes = tuple(Note(at=wall, kind=e.kind, reason=e.text) for e in ended(before, after))
        book.commit(Change(wishes=after, notes=notes))
    return after
