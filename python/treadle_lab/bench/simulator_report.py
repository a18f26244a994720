"""The simulator's figures as tables and as a plot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.table import Table

from treadle_lab.bench.plots import load_pyplot
from treadle_lab.bench.simulator_run import FailedFigures, SimulatorFigures

SHOWN: Final = 0.005
"""A part of the CPU time that is less in all runs has no column."""


def figures_table(results: Sequence[SimulatorFigures | FailedFigures]) -> Table:
    """Return a row for each run: what it did, how fast, and where the time went."""
    table = Table(title="the simulator: per second of CPU time, and where that went", title_justify="left")
    for name in ("policy", "load"):
        table.add_column(name)
    measured = [result.parts for result in results if isinstance(result, SimulatorFigures)]
    parts = [name for name in (measured[0] if measured else ()) if any(of[name] >= SHOWN for of in measured)]
    for name in ("nodes", "tasks", "CPU s", "completions/s", "placements/s", "events/task", "decides", *parts):
        table.add_column(name, justify="right")
    for result in results:
        if isinstance(result, FailedFigures):
            rest = ["-"] * (5 + len(parts))
            table.add_row(result.policy, result.load, f"{result.nodes:,}", "failed", *rest)
            continue
        table.add_row(
            result.policy,
            result.load,
            f"{result.nodes:,}",
            f"{result.tasks:,}",
            f"{result.cpu_s:.2f}",
            f"{result.completions_per_s:,.0f}",
            f"{result.placements_per_s:,.0f}",
            f"{result.events / max(result.tasks, 1):.2f}",
            f"{result.decides:,}",
            *(f"{result.parts[name]:.0%}" for name in parts),
        )
    return table


def write_plot(folder: Path, results: Sequence[SimulatorFigures]) -> Path:
    """Draw completions a second over the number of nodes, a line for each policy and load; return the file."""
    pyplot = load_pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(figsize=(9, 5))
    for key in dict.fromkeys((result.policy, result.load) for result in results):
        mine = sorted((each.nodes, each.completions_per_s) for each in results if (each.policy, each.load) == key)
        axes.plot(*zip(*mine, strict=True), marker="o", label=f"{key[0]}, {key[1]}")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("nodes of 40 slots")
    axes.set_ylabel("task completions per second of CPU time")
    axes.legend()
    path = folder / "simulator.png"
    figure.savefig(path, dpi=120, bbox_inches="tight")
    pyplot.close(figure)
    return path
