"""What an application may lie about; without what simulates it, so that a command line knows it at once."""

from __future__ import annotations

from enum import StrEnum


class Lie(StrEnum):
    """What is lied about."""

    TASKS = "tasks"
    """How many are left, and how long they take."""
    NAMES = "names"
    """Which job it is that comes back."""
