"""Omega's conflicts: how often transactions of two schedulers collide, by how long one of them decides."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from treadle_lab.docs.pictures.canvas import BLUE, RED, pyplot, write
from treadle_lab.models.cell.cell import warm_up
from treadle_lab.papers.omega.real_engines import Counts, Load, cell_counts, engine_counts

SEED: Final = 1
SCHEDULERS: Final = {"S": ("service engine", RED), "B1": ("batch engine", BLUE)}
T_JOB_S: Final = (0.1, 0.3, 1.0, 3.0, 10.0)
CELL_SEEDS: Final = tuple(range(1, 11))


def draw_conflicts(path: Path, hours: float = 2.0, t_job_s: Sequence[float] = T_JOB_S) -> None:
    """Draw conflicts a transaction and busyness: the cell as lines, real engines as points.

    Args:
        path: of the picture
        hours: simulated, of each point
        t_job_s: decision times of the service engine
    """
    warm_up()
    loads = [Load(hours=hours, t_job_service_s=seconds) for seconds in t_job_s]
    cells = [[cell_counts(load, seed) for seed in CELL_SEEDS] for load in loads]
    engines = [engine_counts(load, SEED) for load in loads]
    figure, axes = pyplot().subplots(1, 2, figsize=(9.5, 3.4))
    for name, (title, colour) in SCHEDULERS.items():
        for axis, measure in zip(axes, (conflicts, busyness), strict=True):
            axis.plot(t_job_s, [measure(seeds, name) for seeds in cells], color=colour, label=f"{title}, cell model")
            points = [measure([one], name) for one in engines]
            axis.plot(t_job_s, points, "o", color=colour, label=f"{title}, simulated cluster")
    for axis, label in zip(axes, ("conflicts per transaction", "busyness"), strict=True):
        axis.set_xscale("log")
        axis.set_xlabel("decision time of a service job, seconds")
        axis.set_ylabel(label)
        axis.set_ylim(bottom=0)
    axes[1].legend(frameon=False, fontsize=8)
    figure.suptitle(
        f"{loads[0].machines} machines, {hours:g} h; cell: seeds 1 to {len(CELL_SEEDS)}; cluster: seed {SEED}"
    )
    figure.tight_layout()
    write(figure, path)


def conflicts(runs: Sequence[Counts], name: str) -> float:
    """Return conflicts per successful transaction, runs added up."""
    transactions = sum(run[name].transactions for run in runs)
    return sum(run[name].conflicts for run in runs) / transactions if transactions else 0.0


def busyness(runs: Sequence[Counts], name: str) -> float:
    """Return the mean share of time that a scheduler decides."""
    return sum(run[name].busyness for run in runs) / len(runs)
