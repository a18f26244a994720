"""Whether the machine kept up with a run of the testbed: all of it happens in real time, beside whatever else runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from treadle_lab.sls.cluster import Cluster
from treadle_lab.sls.decide_times import P50, P99, decide_us
from treadle_lab.sls.results import heartbeats_share
from treadle_lab.sls.script import Script

__all__ = ["Pace", "behind", "pace_of", "shown"]

LEAST_HEARTBEATS: Final = 0.9
MOST_LATE: Final = 10
"""Heartbeats of application masters by which a submission may be late."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How close a run was to its script."""

    heartbeats_share: float
    """Nodes' heartbeats that the ResourceManager handled, of those that were due while containers ran."""
    late_ms: float
    """By how much the latest submission was behind the script, measured from the one that was least behind."""
    late_most_ms: float
    """How much is still taken for in time."""
    held_over_work: float
    """How long tasks had their containers, by their masters' clocks, over how long they were to run."""
    decide_p50_ms: float | None = None
    """Of the engine; None where it decides nothing."""
    decide_p99_ms: float | None = None

    @property
    def kept_up(self) -> bool:
        """Did the ResourceManager handle nearly all heartbeats, and did jobs come when they should?"""
        return self.heartbeats_share >= LEAST_HEARTBEATS and self.late_ms <= self.late_most_ms

    def __str__(self) -> str:
        """Return a line about it."""
        decide = ""
        if self.decide_p50_ms is not None and self.decide_p99_ms is not None:
            decide = f", decide P50 {self.decide_p50_ms:.1f} ms and P99 {self.decide_p99_ms:.1f} ms"
        verdict = "the machine kept up" if self.kept_up else "the machine did NOT keep up"
        return (
            f"{verdict}: {self.heartbeats_share:.0%} of heartbeats handled, submissions up to {self.late_ms:.0f} ms "
            f"late, containers held {self.held_over_work:.2f} times as long as their tasks run{decide}"
        )


def behind(paces: Mapping[str, Pace | None]) -> list[str]:
    """Return a line for each run, by its title, in which the machine did not keep up. None was not measured."""
    return [f"{title}: {pace}" for title, pace in paces.items() if pace is not None and not pace.kept_up]


def shown(paces: Sequence[Pace | None]) -> str:
    """Return the worst of some runs for a table: the share of heartbeats handled, and the latest submission."""
    known = [pace for pace in paces if pace is not None]
    if not known:
        return ""
    worst = "" if all(pace.kept_up for pace in known) else " !"
    return f"{min(p.heartbeats_share for p in known):.0%}, {max(p.late_ms for p in known):.0f} ms{worst}"


def pace_of(script: Script, cluster: Cluster, seen: Mapping[str, Any]) -> Pace:
    """Return how close a run was to its script, by its measurements at the end."""
    commits, completions = seen["commits"], seen["completions"]
    shim = seen.get("shim") or {}
    share = heartbeats_share(seen, cluster.nodes, cluster.heartbeat_ms, commits["first_ms"], completions["last_ms"])
    columns, rows = seen["job_columns"], seen["jobs"]
    at = {name: columns.index(name) for name in ("name", "submitted_ms", "tasks_ms")}
    submitted_ms = {row[at["name"]]: row[at["submitted_ms"]] for row in rows}
    ended = [job for job in script.jobs if job.name in submitted_ms]
    offsets_ms = np.array([submitted_ms[job.name] - job.at_ms for job in ended])
    held_ms = sum(_held_ms(row[at["tasks_ms"]]) for row in rows)
    work_ms = sum(job.work_ms for job in ended)
    return Pace(
        share,
        float(np.ptp(offsets_ms)) if len(offsets_ms) else 0.0,
        float(MOST_LATE * cluster.heartbeat_ms),
        held_ms / max(1, work_ms),
        _decide_ms(shim, P50),
        _decide_ms(shim, P99),
    )


def _decide_ms(shim: Mapping[str, Any], name: str) -> float | None:
    """Return a quantile of decide times, by a reading of the bean; None if nothing was decided."""
    found_us = decide_us(shim, name)
    return None if math.isnan(found_us) else found_us / 1000


def _held_ms(spans_ms: Sequence[Sequence[int]]) -> int:
    return sum(end_ms - start_ms for start_ms, end_ms in spans_ms if end_ms >= 0)
