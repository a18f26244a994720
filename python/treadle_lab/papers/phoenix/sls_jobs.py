"""The jobs of a round: long ones that go anywhere, and short ones that only the special nodes can serve."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["Arrival", "Settings", "arrivals"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a round is."""

    short_jobs: int
    short_tasks: int
    gap_ms: int
    """Mean time from one short job to the next."""
    long_jobs: int
    slots: int
    """Tasks at a time in the cluster."""
    short_ms: int = 1_000
    """How long a task of a short job sleeps."""
    long_ms: int = 8_000
    """How long a task of a long job sleeps."""
    load: float = 0.7
    """Of long jobs: slots that they keep busy on average."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted."""

    name: str
    at_ms: int
    tasks: int
    task_ms: int
    short: bool


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
        Arrival(f"long-{number}", round(number * span / settings.long_jobs), tasks, settings.long_ms, False)
        for number in range(settings.long_jobs)
    ]
    drawn += [
        Arrival(f"short-{number}", round(float(at)), settings.short_tasks, settings.short_ms, True)
        for number, at in enumerate(times)
    ]
    return sorted(drawn, key=lambda one: (one.at_ms, one.name))
