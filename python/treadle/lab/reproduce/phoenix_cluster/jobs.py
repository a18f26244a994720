"""The jobs of a round: long ones that go anywhere, and short ones that only the special nodes can serve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["KINDS", "SPECIAL", "Arrival", "Settings", "arrivals"]

KINDS: Final = ("attribute", "resource", "label")
"""What makes the special nodes special, a round each in turn."""
SPECIAL: Final = (5, 6)
"""Their numbers, of six nodes."""
NODES: Final = 6
SLOTS: Final = 3
"""Tasks at a time on a node, beside application masters."""
FRAMEWORKS: Final = ("MapReduce", "distributed shell")
"""Of short jobs, in turn: one with application tags, one with what its client offers for the purpose."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a round is."""

    short_jobs: int = 20
    short_tasks: int = 2
    short_ms: int = 1_000
    """How long a task of a short job sleeps."""
    gap_ms: int = 6_000
    """Mean time from one short job to the next."""
    long_jobs: int = 4
    long_ms: int = 8_000
    """How long a task of a long job sleeps."""
    load: float = 0.7
    """Of long jobs: slots that they keep busy on average."""
    slots: int = NODES * SLOTS
    """Tasks at a time in the cluster."""


QUICK: Final = Settings(short_jobs=4, gap_ms=4_000, long_jobs=2)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted."""

    name: str
    at_ms: int
    tasks: int
    task_ms: int
    short: bool
    framework: str


def arrivals(seed: int, settings: Settings) -> list[Arrival]:
    """Draw the jobs of a round, in the order in which they are submitted.

    Long jobs come evenly; their tasks together keep ``load`` of the slots busy until the last short job comes.
    """
    chance = np.random.default_rng(seed)
    gaps = chance.exponential(settings.gap_ms, settings.short_jobs)
    times = np.cumsum(gaps)
    span = float(times[-1])
    tasks = max(1, round(settings.load * settings.slots * span / settings.long_ms / settings.long_jobs))
    drawn = [
        Arrival(
            f"long-{number}", round(number * span / settings.long_jobs), tasks, settings.long_ms, False, FRAMEWORKS[1]
        )
        for number in range(settings.long_jobs)
    ]
    drawn += [
        Arrival(
            f"short-{number}", round(float(at)), settings.short_tasks, settings.short_ms, True, FRAMEWORKS[number % 2]
        )
        for number, at in enumerate(times)
    ]
    return sorted(drawn, key=lambda one: (one.at_ms, one.name))
