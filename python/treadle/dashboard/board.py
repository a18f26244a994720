"""What the pages show now: documents that are written once a look and served to every reader."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, NamedTuple

PARTS: Final = ("overview", "queues", "nodes", "jobs", "decisions")
_GZIP_LEVEL: Final = 1


class Document(NamedTuple):
    """A document in JSON."""

    version: int
    """Rises with each change of any document."""
    plain: bytes
    packed: bytes
    """The same by gzip."""


class Board:
    """The latest documents. Thread-safe: one thread posts, any number read."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._documents: dict[str, Document] = {}
        self._version = 0
        self._wake: Callable[[], None] = lambda: None
        self.metrics = b""
        self.looked_s = 0.0
        """When a look ended last, seconds since 1970; 0: none has."""

    def on_change(self, wake: Callable[[], None]) -> None:
        """Have something called, on the thread that posts, after each change."""
        self._wake = wake

    @property
    def version(self) -> int:
        """The number of the latest change; 0 before the first."""
        return self._version

    def post(self, at_s: float, parts: Mapping[str, Mapping[str, Any]], metrics: bytes = b"") -> None:
        """Put documents in the place of those of the same names.

        Args:
            at_s: when the look ended, seconds since 1970
            parts: of `PARTS` those that are new
            metrics: the look as Prometheus reads it
        """
        assert set(parts) <= set(PARTS)
        version = self._version + 1
        written = {
            name: json.dumps(part, separators=(",", ":"), allow_nan=False).encode() for name, part in parts.items()
        }
        new = {
            name: Document(version, text, gzip.compress(text, _GZIP_LEVEL, mtime=0)) for name, text in written.items()
        }
        with self._lock:
            self._documents |= new
            self._version = version
            self.looked_s = at_s
            self.metrics = metrics
        self._wake()

    def read(self, part: str) -> Document | None:
        """Return a document; None before the first look."""
        with self._lock:
            return self._documents.get(part)
