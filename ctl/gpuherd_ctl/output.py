"""What agentctl prints: a table or JSON. Text from outside is stripped of control characters."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

import msgspec


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """Where results (``out``) and remarks (``err``) go, and in which form results are wanted."""

    as_json: bool = False
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)

    def line(self, text: str = "") -> None:
        """Print one line for people; silent when JSON is wanted."""
        if not self.as_json:
            print(plain(text), file=self.out, flush=True)

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print rows under their heads; silent when JSON is wanted."""
        for text in table_lines(heads, rows):
            self.line(text)

    def json(self, body: object) -> None:
        """Print one indented JSON document; silent unless JSON is wanted."""
        if self.as_json:
            print(msgspec.json.format(msgspec.json.encode(body), indent=2).decode(), file=self.out)

    def json_line(self, body: object) -> None:
        """Print JSON on a line of its own, for streams; silent unless JSON is wanted."""
        if self.as_json:
            print(msgspec.json.encode(body).decode(), file=self.out, flush=True)

    def remark(self, text: str) -> None:
        """Print a line that is no result: a warning, a hint."""
        print(plain(text), file=self.err, flush=True)


def plain(text: str) -> str:
    """Return ``text`` without characters that a terminal would act upon."""
    return "".join(c if c.isprintable() else "?" for c in text)


def table_lines(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table whose columns are as wide as their widest cell."""
    cells = [list(heads), *([plain(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(heads))]
    return ["  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
