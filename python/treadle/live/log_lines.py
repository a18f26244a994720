"""The lines of a sidecar's log: what others call their jobs neither begins a line nor commands a terminal."""

from __future__ import annotations

import logging
from typing import Final

from treadle.errors import printable

FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class PrintableFormatter(logging.Formatter):
    """Writes a record so that only its first line begins at the margin; others, as of a stack trace, are indented."""

    def __init__(self) -> None:
        super().__init__(FORMAT)

    def format(self, record: logging.LogRecord) -> str:
        """Return the lines of a record."""
        return "\n    ".join(printable(line) for line in super().format(record).split("\n"))


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send all records to standard error, in such lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(PrintableFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
