"""How much a store keeps."""

from __future__ import annotations

from dataclasses import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of a store; what was seen longest ago goes first."""

    age_days: int = 180
    """A job that was not seen for so long is forgotten."""
    rows_per_user: int = 5_000
    """A row is a stage of a profile."""
    size_mb: int = 256
    """Of the whole store, in MiB: pages in use of an SQLite file, characters of the rows in another database."""
