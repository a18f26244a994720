"""Draws what a workload is like: when its work comes, and how long the tails of its sizes are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from treadle.workload.job import Workload, job_work
from treadle.workload.summary import Summary, Weighted

__all__ = ["plot_workload"]

BINS = 100
SECOND_MS = 1_000


def plot_workload(workload: Workload, summary: Summary, title: str, target: Path) -> None:
    """Write a chart of four panels: jobs and work by time of arrival; tails of job sizes, stage widths, durations."""
    figure = Figure(figsize=(11, 7), layout="constrained")
    arrivals, sizes, widths, durations = figure.subplots(2, 2).ravel()
    _draw_arrivals(workload, arrivals)
    tails = summary.distributions
    _draw_tail(sizes, tails["job_ms"], "all tasks of a job, one after another (s)", "jobs", SECOND_MS)
    _draw_tail(widths, tails["stage_tasks"], "tasks of a stage", "stages")
    _draw_tail(durations, tails["task_ms"], "duration (s)", "tasks", SECOND_MS)
    figure.suptitle(f"{title}: {summary.jobs:,} jobs, {summary.tasks:,} tasks")
    figure.savefig(target, dpi=150)


def _draw_arrivals(workload: Workload, panel: Axes) -> None:
    """Draw how many jobs come in each hundredth of the span, and what of each resource their work would hold then."""
    times = np.array([job.arrival_ms for job in workload.jobs], np.float64) / SECOND_MS
    edges = np.histogram_bin_edges(times, BINS)
    panel.stairs(np.histogram(times, edges)[0], edges, fill=True, color="0.85", label="jobs")
    panel.set_xlabel("arrival (s)")
    panel.set_ylabel("jobs")
    if len(workload.jobs) < 2 or times[0] == times[-1]:
        return
    beside = panel.twinx()
    step_ms = float(edges[1] - edges[0]) * SECOND_MS
    for number, resource in enumerate(workload.resources):
        work = np.array([job_work(job).get(resource, 0.0) for job in workload.jobs])
        held = np.histogram(times, edges, weights=work)[0] / step_ms
        peak = held.max()
        if peak > 0:
            label = f"{resource} (1 = {peak:.3g})"
            beside.stairs(held / peak, edges, color=f"C{number}", label=label, linewidth=1)
    beside.set_ylabel("work that arrives, over its peak")
    beside.legend(fontsize=8)


def _draw_tail(panel: Axes, found: Weighted, label: str, what: str, unit: float = 1) -> None:
    """Draw which share of all is larger, both axes logarithmic: a Pareto tail is a straight line."""
    panel.set_xlabel(label)
    panel.set_ylabel(f"share of {what} at least so large")
    if not len(found.values):
        return
    ends = np.cumsum(found.counts)
    above = 1.0 - (ends - found.counts) / ends[-1]
    panel.step(found.values / unit, above, where="pre")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.grid(alpha=0.3)
