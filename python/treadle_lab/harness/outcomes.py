"""Which jobs of an experiment on clusters did not succeed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Outcome(Protocol):
    """How a job ended."""

    @property
    def name(self) -> str:
        """The job's."""

    @property
    def status(self) -> str:
        """Its final status."""


class Jobs(Protocol):
    """The jobs of a seed under one scheduler."""

    @property
    def seed(self) -> int:
        """Of the draw."""

    @property
    def scheme(self) -> str:
        """The scheduler's name."""

    @property
    def jobs(self) -> Sequence[Outcome]:
        """Its jobs."""


def failed(rounds: Sequence[Jobs]) -> list[str]:
    """Name each job that did not succeed, with how it ended."""
    return [
        f"seed {one.seed}, {one.scheme}: {job.name} ended as {job.status}"
        for one in rounds
        for job in one.jobs
        if job.status != "SUCCEEDED"
    ]
