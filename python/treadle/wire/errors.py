"""What is wrong with bytes that came over the wire."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that are not a frame as docs/wire-format.md defines it; ``field`` names the part that is wrong."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class TooManyError(WireError):
    """More of something than there may be between two snapshots. A snapshot that has too many itself is no remedy."""
