"""How long jobs take: the estimate from their progress while they ran, against the outcome."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from treadle.dashboard.cluster import Job, plain

MARKS: Final = (0.25, 0.5, 0.75)
"""Progress at which it is kept how long the job would take in all."""
_PROGRESS_MIN: Final = 0.02


def expected_ms(job: Job) -> int | None:
    """Return how long a job takes in all if it goes on as it did, by the progress that its master claims.

    None: it has not come far enough to tell.
    """
    if job.state != "RUNNING" or job.progress < _PROGRESS_MIN:
        return None
    return int(job.elapsed_ms / job.progress)


class Estimates:
    """What was expected of each job at some marks of its progress."""

    def __init__(self, kept: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        """Begin with what was kept of jobs that ran."""
        self._kept = {name: dict(of.get("expected_ms", {})) for name, of in (kept or {}).items()}

    def see(self, jobs: Iterable[Job]) -> dict[str, dict[str, Any]]:
        """Return the entries to keep of jobs that have just passed a mark."""
        changed = {}
        for job in jobs:
            expected = expected_ms(job)
            marks = [str(mark) for mark in MARKS if job.progress >= mark]
            if expected is None or not marks:
                continue
            kept = self._kept.setdefault(job.id, {})
            # one who looks late knows nothing of the marks before
            if marks[-1] not in kept:
                kept[marks[-1]] = expected
                changed[job.id] = {"ended_ms": 0, "expected_ms": dict(kept)}
        return changed

    def end(self, job: Job) -> dict[str, Any]:
        """Return the entries to keep of a job that has ended, and forget it."""
        return {**plain(job), "expected_ms": self._kept.pop(job.id, {})}

    def gone(self, running: Iterable[str]) -> list[str]:
        """Forget the jobs that are not among those that run, and return them."""
        left = sorted(set(self._kept) - set(running))
        for name in left:
            del self._kept[name]
        return left
