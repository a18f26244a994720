"""Request priorities by which MapReduce's application master marks what it asks for (RMContainerAllocator)."""

from __future__ import annotations

from typing import Final

FAILED_MAP: Final = 5
"""Maps that are asked for again."""
REDUCE: Final = 10
OPPORTUNISTIC_MAP: Final = 19
MAP: Final = 20
