"""What may be missing, and must not be in a test."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def present(value: T | None) -> T:
    """Return a value that must be there."""
    assert value is not None
    return value
