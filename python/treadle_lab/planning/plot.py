"""A plan as a picture: how much of each resource is in use over time, what of it by troublesome stages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from treadle.planner.plan import Plan
from treadle.planner.problem import F64, I64


def usage(plan: Plan, capacity: Mapping[str, float], machines: int, resource: str) -> tuple[I64, F64, F64]:
    """Return points in time, and from each to the next the share of the cluster in use: by all, by troublesome stages.

    The plan must have its placements.
    """
    stages = {stage.id: stage for stage in plan.dag.stages}
    changes: dict[int, list[float]] = {0: [0.0, 0.0]}
    whole = max(capacity.get(resource, 0.0) * machines, 1e-12)
    for placed in plan.placements:
        stage = stages[placed.stage]
        share = placed.tasks * stage.demand.get(resource, 0.0) / whole
        end = placed.start + placed.times * stage.duration_ms
        for time, sign in ((placed.start, share), (end, -share)):
            change = changes.setdefault(time, [0.0, 0.0])
            change[0] += sign
            change[1] += sign if placed.stage in plan.troublesome else 0.0
    times = sorted(changes)
    amounts = np.cumsum(np.array([changes[time] for time in times]), axis=0)
    return np.array(times, np.int64), amounts[:, 0], amounts[:, 1]


def plot_plan(plan: Plan, capacity: Mapping[str, float], machines: int, unit: str, path: Path) -> None:
    """Draw a plan that has its placements.

    Raises:
        ImportError: matplotlib is not installed.
        OSError: the file cannot be written.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    resources = sorted(capacity)
    figure, axes = pyplot.subplots(
        len(resources), 1, sharex=True, squeeze=False, figsize=(10, 2.2 * len(resources) + 1)
    )
    for axis, resource in zip(axes[:, 0], resources, strict=True):
        times, used, troublesome = usage(plan, capacity, machines, resource)
        axis.fill_between(times, 0, used, step="post", color="#9ecae1", label="in use")
        axis.fill_between(times, 0, troublesome, step="post", color="#de2d26", label="by troublesome stages")
        axis.axvline(plan.bounds.best, color="black", linestyle=":", label="lower bound")
        axis.set_ylim(0, 1.05)
        axis.set_ylabel(f"{resource}, share")
    axes[0, 0].legend(loc="upper right")
    axes[0, 0].set_title(f"{plan.dag.name}, {plan.algorithm}: planned {plan.makespan}, lower bound {plan.bounds.best}")
    axes[-1, 0].set_xlabel(f"time, {unit}")
    figure.savefig(path, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
