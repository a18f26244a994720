"""The parts of Graphene's evaluation."""

from __future__ import annotations

from enum import StrEnum


class Part(StrEnum):
    """A part of the evaluation; each can be run by itself."""

    ONLINE = "online"
    """Poisson arrivals under all schemes."""
    BATCH = "batch"
    """The same jobs at once: throughput."""
    QUEUES = "queues"
    """Two queues: fairness."""
    WRONG = "wrong"
    """Wrong estimates."""
    ALONE = "alone"
    """Single DAGs by wrong plans."""
    RANGE = "range"
    """Poisson arrivals over the range of the generator's parameters."""
    OFFLINE = "offline"
    """Makespans of single DAGs."""
