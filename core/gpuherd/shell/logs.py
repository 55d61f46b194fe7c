"""Log set-up of the programs: one JSON object a line, or a readable line on a terminal.

Libraries that log by ``logging`` come out in the same form under the event ``library.logged``.
"""

import logging
import sys
from typing import TextIO

import structlog


def configure(*, level: str = "info", stream: TextIO | None = None) -> None:
    """Set logging up once for the process; call it from a program's start, never on import.

    Writes to standard error, which systemd takes to the journal. Raises ValueError for an unknown level.
    """
    out = sys.stderr if stream is None else stream
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise ValueError(f"log level {level!r} is unknown: use debug, info, warning or error")
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *_renderers(out),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(handlers=[_ToStructlog()], level=max(number, logging.WARNING), force=True)


def get(name: str) -> structlog.typing.FilteringBoundLogger:
    """Return the logger of one program; this module is the only door to structlog."""
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger(name)
    return log


def _renderers(out: TextIO) -> list[structlog.typing.Processor]:
    if out.isatty():
        return [structlog.dev.ConsoleRenderer(colors=True)]
    return [structlog.processors.format_exc_info, structlog.processors.JSONRenderer()]


class _ToStructlog(logging.Handler):
    """Hands a record of the standard library over."""

    def emit(self, record: logging.LogRecord) -> None:
        log = structlog.get_logger(record.name)
        log.log(
            record.levelno,
            "library.logged",
            library=record.name,
            message=record.getMessage(),
            **({"exc_info": record.exc_info} if record.exc_info else {}),
        )
