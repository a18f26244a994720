"""How many examples property tests draw."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

SAME_EXAMPLES: Final = 40
"""What a property test draws by default."""


def few(examples: int) -> int:
    """Return how many examples a test draws of which each is dear; as many as others where it explores."""
    most = settings.default.max_examples if settings.default is not None else SAME_EXAMPLES
    return most if most > SAME_EXAMPLES else examples
