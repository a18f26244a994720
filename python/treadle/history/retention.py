"""How much a store keeps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DAY_MS = 86_400_000

MIB: Final = 1 << 20
PROFILE_BYTES_MAX: Final = 4 * MIB
"""Of one profile; further stages are not kept."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Bounds of a store.

    What was seen longest ago goes first: of an application and of a user that have too much; and where all have too
    much together, of the user that has most.
    """

    age_days: int = 180
    """A job that was not seen for so long is forgotten."""
    rows_per_user: int = 5_000
    """A row is a stage of a profile."""
    size_mb: int = 256
    """Of the whole store, in MiB: pages in use of an SQLite file, bytes of the rows in another database."""
    user_mb: int = 32
    """Of the profiles of one user, in MiB."""
    application_mb: int = 8
    """Of the profiles that one application was the last to change, in MiB: a session may run many DAGs."""


KEEP_ALL: Final = Retention(1_000_000, 1 << 40, 1 << 40, 1 << 40, 1 << 40)
"""For whoever writes and does not know what the administrator allows: whoever writes next and does know removes."""
