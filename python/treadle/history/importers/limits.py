"""How much of everything reading a history may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the process that reads histories, by history, by owner and in all."""

    memory_mb: int = 1536
    """Address space of the process."""
    cpu_s: int = 300
    """CPU time of one history."""
    wall_s: float = 1800.0
    """How long one history may take: disks may be slow."""
    answer_bytes: int = 64 << 20
    """Errors that are reported for one history."""
    export_bytes: int = 1 << 30
    """Errors that are reported for one export of profiles, which may be a whole store's."""
    owner_cpu_s: float = 3600.0
    """CPU time of the histories of one owner."""
    all_cpu_s: float = 4 * 3600.0
    """CPU time of all histories of an import."""


LIMITS = Limits()
