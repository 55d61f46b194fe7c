"""Who is logged in on this host, as the system's own record of sessions tells."""

import psutil


def logged_in() -> int | None:
    """Return how many interactive sessions there are, None when the record cannot be read."""
    try:
        return len(psutil.users())
    except OSError:
        return None
