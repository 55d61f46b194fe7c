"""One tree of errors, grouped by what the caller does next.

What the world may do (a GPU gone, the broker down) is a value or a finding, not an error here.
"""

import enum
from collections.abc import Mapping


class HerdError(Exception):
    """Base of all errors that gpuherd raises on purpose."""


class Retryable(HerdError):
    """Nothing changed; the same call may succeed later."""


class Refused(HerdError):
    """The call is understood and will not be carried out; repeating it changes nothing."""


class Conflict(Refused):
    """Another operation on the same thing stands in the way; look at it first."""


class NotFound(HerdError):
    """The thing that was named does not exist."""


class ConfigInvalid(HerdError):
    """The settings cannot be used; the message names every bad key, not the first.

    State afterwards: nothing was started, and a running daemon keeps its old settings.
    """

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{key}: {why}" for key, why in sorted(problems.items())))
        self.problems = dict(problems)


class WireInvalid(HerdError):
    """Bytes from outside are no document of ours; ``reason`` is a short word for counting.

    State afterwards: the bytes were dropped and nothing of them was used.
    """

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class HeadFault(enum.StrEnum):
    """What is wrong with the way to Ray's head, as far as it shows."""

    UNRESOLVED = "unresolved"
    """Its name has no address."""
    REFUSED = "refused"
    """The host is there and nothing listens on that port."""
    SILENT = "silent"
    """No answer in time: the host, the path or the head itself stands still."""
    FOREIGN = "foreign"
    """Something answers that is no head of Ray."""
    TOKEN = "token"  # noqa: S105  a word for what is refused
    """It answers, and refuses our token."""
    OTHER = "other"


class HeadUnreachable(Retryable):
    """Ray's head did not answer in time; whether it acted on the call is unknown."""

    def __init__(self, message: str, *, fault: HeadFault = HeadFault.OTHER) -> None:
        super().__init__(message)
        self.fault = fault


class TokenRefused(HeadUnreachable):
    """Ray's head answers, and refuses our token; nothing was done. Mend the token or the mode, then retry."""

    def __init__(self, message: str) -> None:
        super().__init__(message, fault=HeadFault.TOKEN)
