"""Plots of a benchmark: containers running and containers per second over time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from treadle.errors import install_extra
from treadle_lab.sls.load import BenchError
from treadle_lab.sls.run import Run


def running(run: Run) -> tuple[list[float], list[float]]:
    """Return seconds since the first container, and containers running then."""
    seen = run.measurements
    columns = seen["sample_columns"]
    elapsed, count = columns.index("elapsed_ms"), columns.index("running")
    start = seen["commits"]["first_ms"]
    inside = [sample for sample in seen["samples"] if sample[elapsed] >= start]
    return [(sample[elapsed] - start) / 1000 for sample in inside], [sample[count] for sample in inside]


def rate(run: Run) -> tuple[list[float], list[float]]:
    """Return seconds since the first container, and commits per second in each bucket."""
    commits = run.measurements["commits"]
    bucket_s = commits["bucket_ms"] / 1000
    first = int(commits["first_ms"] // commits["bucket_ms"])
    counts = commits["counts"][first:]
    return [index * bucket_s for index in range(len(counts))], [count / bucket_s for count in counts]


def load_pyplot() -> Any:
    """Return matplotlib's pyplot, drawing to files; raise BenchError if matplotlib is not installed."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError as error:
        raise BenchError(f"--plot needs matplotlib: {install_extra('plot')}") from error
    return pyplot


def write_plots(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """Draw the last successful run of each mode; return the files."""
    pyplot = load_pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    last = {run.mode.name: run for run in runs if run.failure is None}
    paths = []
    for name, series, label in (("running", running, "containers running"), ("rate", rate, "containers per second")):
        figure, axes = pyplot.subplots(figsize=(9, 4.5))
        for mode, run in last.items():
            seconds, values = series(run)
            axes.plot(seconds, values, label=mode, linewidth=1)
        axes.set_xlabel("seconds since the first container")
        axes.set_ylabel(label)
        axes.legend()
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        pyplot.close(figure)
        paths.append(path)
    return paths
