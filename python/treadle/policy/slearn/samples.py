"""Pilot measurements, out of a table and back into another: an engine that starts anew need not sample again.

A snapshot has what runs and what is asked for. It does not have what has ended, and with it which tasks were pilots,
how long they took and whether the gate is open.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.events import ApplicationState, ContainerEvent
from treadle.model.applications import ApplicationTable
from treadle.model.cluster import Cluster
from treadle.model.containers import TaskTable
from treadle.model.requests import RequestTable
from treadle.model.tables import ModelError, Table
from treadle.policy.slearn.table import MAPS, PilotTable, Sampling, belongs_to
from treadle.yarn.codes import FAILED_MAP, MAP

_COLUMNS: Final = {
    "sampling": "sampling",
    "stage": "sampled_stage",
    "width": "width",
    "pilots": "pilots",
    "ended": "pilots_ended",
    "total_ms": "pilots_ms",
    "squares": "pilots_squares",
    "mean_ms": "pilot_mean_ms",
    "error": "pilot_error",
    "percent": "pilot_percent",
    "since_ms": "sampled_since_ms",
    **{name: name for name in ("sized", "sized_ms", "sized_bytes", "sized_squares", "sized_products")},
    "sized_duration_squares": "sized_duration_squares",
}
"""The columns of `events.Samples` in `treadle.policy.slearn.table.JOB`; ``container_ms`` is the application's."""

_SIGNS: Final = ("sampling", "pilots", "pilots_ended", "width")
"""What has changed when there is something to report."""


class SampleLog:
    """Which samples have changed since they were last reported."""

    def __init__(self) -> None:
        self._reported: dict[str, events.I32] = {}

    def changed(self, apps: ApplicationTable, jobs: Table) -> events.Samples | None:
        """Return the samples of applications that differ from those returned before; None if there are none."""
        now = {name: np.array(jobs.at[name][: apps.size]) for name in _SIGNS}
        if not now["sampling"].any():
            return None
        different = np.zeros(apps.size, bool)
        for name, values in now.items():
            before = self._reported.get(name)
            known = 0 if before is None else min(len(before), apps.size)
            different[known:] = True
            if before is not None:
                different[:known] |= values[:known] != before[:known]
        different &= now["sampling"] != Sampling.UNKNOWN
        self._reported = now
        found = np.flatnonzero(different).astype(np.int32)
        return samples_of(apps, jobs, found) if len(found) else None


def samples_of(apps: ApplicationTable, jobs: Table, found: events.I32) -> events.Samples:
    """Return the samples of some applications."""
    return events.Samples(
        application=found,
        container_ms=np.array(apps.at["container_ms"][found]),
        **{name: np.array(jobs.at[column][found]) for name, column in _COLUMNS.items()},
    )


def restore_samples(event: events.Samples, cluster: Cluster, table: PilotTable) -> None:
    """Take back samples; applications that are gone, or that the table has followed as long, are left out.

    Raises:
        ModelError: a number that is not possible.
    """
    apps, requests, tasks = cluster.apps, cluster.requests, cluster.tasks
    apps.cover(event.application, "application")
    jobs = table.fit(cluster).jobs
    phases = np.isin(event.sampling, [int(phase) for phase in Sampling])
    counts = (event.width >= 0) & (event.pilots >= 0) & (event.ended >= 0) & (event.stage >= 0)
    times = (event.total_ms >= 0.0) & (event.squares >= 0.0) & (event.mean_ms >= -1.0) & (event.error >= 0.0)
    shares = (event.percent >= 0.0) & (event.container_ms >= 0.0) & (event.sized >= 0) & (event.sized_bytes >= 0.0)
    if not bool((phases & counts & times & shares).all()):
        raise ModelError("Samples has a number that is not possible")
    for at, app in enumerate(event.application.tolist()):
        if apps.at["state"][app] == ApplicationState.GONE or _knows_more(jobs[app], int(event.since_ms[at])):
            continue
        for name, column in _COLUMNS.items():
            jobs[column][app] = getattr(event, name)[at]
        apps.at["container_ms"][app] = event.container_ms[at]
        stage = int(event.stage[at])
        running = _running_of(apps, tasks, app, stage)
        _mark_pilots(event, at, table, running)
        # the samples know of what is made again
        jobs["failures"][app] = _made_again(apps, requests, tasks, app)
        ended = int(event.width[at]) - len(running) - _pending_of(apps, requests, app, stage)
        if ended > 0:
            _add_ended(event, at, apps, tasks, ended)


def _knows_more(job: np.void, since_ms: int) -> bool:
    """Say whether the table has followed an application for as long as the source of its samples."""
    return bool(job["sampling"] != Sampling.UNKNOWN and job["sampled_since_ms"] <= since_ms)


def _running_of(apps: ApplicationTable, tasks: TaskTable, app: int, stage: int) -> list[int]:
    """Return the tasks of a stage that run, those that began first first."""
    found = []
    group = int(apps.at["first_group"][app])
    while group >= 0:
        if belongs_to(stage, int(tasks.at["priority"][group])):
            task = int(tasks.at["first"][group])
            while task >= 0:
                record = tasks.tasks.at[task]
                found.append((int(record["created_ms"]), int(record["key"]), task))
                task = int(record["next"])
        group = int(tasks.at["next"][group])
    return [task for _, _, task in sorted(found)]


def _pending_of(apps: ApplicationTable, requests: RequestTable, app: int, stage: int) -> int:
    pending, row = 0, int(apps.at["first_row"][app])
    while row >= 0:
        if belongs_to(stage, int(requests.at["priority"][row])):
            pending += int(requests.at["count"][row])
        row = int(requests.at["next"][row])
    return pending


def _made_again(apps: ApplicationTable, requests: RequestTable, tasks: TaskTable, app: int) -> int:
    """Return how many maps that have failed are asked for again or run again."""
    count, row = 0, int(apps.at["first_row"][app])
    while row >= 0:
        count += int(requests.at["count"][row]) if requests.at["priority"][row] == FAILED_MAP else 0
        row = int(requests.at["next"][row])
    group = tasks.index.find(app, FAILED_MAP)
    return count + (int(tasks.at["running"][group]) if group >= 0 else 0)


def _mark_pilots(event: events.Samples, at: int, table: PilotTable, running: list[int]) -> None:
    """Take the tasks that began first for the pilots that had not ended; those that idle machines ran began later."""
    left = max(0, int(event.pilots[at]) - int(event.ended[at]))
    samples = event.sampling[at] == Sampling.RUNS_PILOTS
    for place, task in enumerate(running):
        table.pilot[task] = samples and place < left
    table.jobs.at["pilots_running"][int(event.application[at])] = min(left, len(running)) if samples else 0


def _add_ended(event: events.Samples, at: int, apps: ApplicationTable, tasks: TaskTable, ended: int) -> None:
    """Count tasks that ended before the snapshot, each as long as the pilots took in the mean, if that is known."""
    total_ms, pilots = float(event.total_ms[at]), int(event.ended[at])
    mean_ms = total_ms / pilots if pilots else float(event.mean_ms[at])
    if mean_ms <= 0.0:
        return
    app, stage = int(event.application[at]), int(event.stage[at])
    priority = MAP if stage == MAPS else 3 * stage - 1
    one = np.ones(1, np.int64)
    flag = np.zeros(1, np.uint8)
    step = events.Containers(
        container=-one,
        application=np.full(1, app, np.int32),
        priority=np.full(1, priority, np.int32),
        node=np.full(1, -1, np.int32),
        event=flag + np.uint8(ContainerEvent.COMPLETED),
        time_ms=one * round(mean_ms),
        created_ms=0 * one,
        exit_status=np.zeros(1, np.int32),
        by_treadle=flag,
        am=flag,
        capability=np.zeros((1, tasks.amounts.shape[1]), np.int64),
    )
    tasks.apply(step, apps, -1)  # makes their group if there is none
    group = tasks.index.find(app, priority)
    tasks.at["ended"][group] += ended - 1
    tasks.at["ended_ms"][group] += round((ended - 1) * mean_ms)
