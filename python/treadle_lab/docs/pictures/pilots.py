"""SLearn's pilots: the containers of three jobs over time, first come first served and with pilots."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.simulate import Run, Scenario, simulate
from treadle_lab.docs.pictures.canvas import BLUE, DARK, ORANGE, PALE, RED, pyplot, write

SEED: Final = 1
RATIO: Final = 0.03
"""The adaptive ratio's first."""
COLOURS: Final = {"large": PALE, "middle": BLUE, "small": ORANGE}
POLICIES: Final = {"fifo": "first come, first served", "slearn": "SLearn: a few tasks of each job first"}


def scenario() -> Scenario:
    """Return three jobs of one queue, the largest first, on a cluster of 20 containers."""
    demand = {"memory-mb": 1024, "vcores": 1}

    def job(name: str, arrival_s: int, tasks: int, duration_s: int) -> dict[str, Any]:
        stage = {"tasks": tasks, "duration_s": duration_s, "demand": demand}
        return {"name": name, "arrival_s": arrival_s, "framework": "mapreduce", "stages": [stage]}

    return Scenario.of(
        {
            "cluster": {"nodes": [{"count": 5, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "workload": {"jobs": [job("large", 0, 120, 90), job("middle", 20, 30, 30), job("small", 40, 15, 10)]},
        }
    )


def draw_pilots(path: Path) -> None:
    """Draw a bar for each container, in its job's colour, pilots in red."""
    figure, axes = pyplot().subplots(len(POLICIES), 1, figsize=(9, 5.4), sharex=True)
    for axis, (policy, title) in zip(axes, POLICIES.items(), strict=True):
        run = simulate(scenario(), policy, seed=SEED)
        _containers(axis, run, pilots=policy == "slearn")
        ends = ", ".join(f"{job['name']} ends at {int(job['end_ms']) / 1000:.0f} s" for job in run.jobs)
        axis.set_title(f"{title}: {ends}", loc="left", fontsize=9)
        axis.set_ylabel("containers")
    axes[-1].set_xlabel(f"seconds; treadle simulate, seed {SEED}")
    write(figure, path)


def pilots_of(run: Run, job: int) -> list[int]:
    """Return which tasks of a job are its pilots: the first ones that began."""
    mine = np.flatnonzero(run.tasks["job"] == job)
    count = max(int(RATIO * len(mine)), 1)
    return [int(at) for at in mine[np.argsort(run.tasks["start_ms"][mine], kind="stable")][:count]]


def _containers(axis: Any, run: Run, *, pilots: bool) -> None:
    chosen = {at for job in range(len(run.jobs)) for at in pilots_of(run, job)} if pilots else set()
    free_ms: list[int] = []
    bars: dict[str, list[tuple[int, float, float]]] = {}
    for at in np.argsort(run.tasks["start_ms"], kind="stable"):
        task = run.tasks[at]
        begin, end = int(task["start_ms"]), int(task["end_ms"])
        slot = next((slot for slot, since in enumerate(free_ms) if since <= begin), len(free_ms))
        free_ms[slot : slot + 1] = [end]
        colour = RED if int(at) in chosen else COLOURS[str(run.jobs[task["job"]]["name"])]
        bars.setdefault(colour, []).append((slot, begin / 1000, end / 1000))
    for colour, drawn in bars.items():
        axis.hlines(*zip(*drawn, strict=True), colors=colour, linewidth=5)
    legend = [*COLOURS.items(), *([("pilots", RED)] if pilots else [])]
    handles = [pyplot().Rectangle((0, 0), 1, 1, color=colour) for _, colour in legend]
    axis.legend(
        handles, [name for name, _ in legend], loc="upper left", bbox_to_anchor=(1, 1), frameon=False, labelcolor=DARK
    )
