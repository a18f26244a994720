"""The benchmark of a simulated cluster, and tables and plots of benchmarks."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import psutil
from rich.table import Table

from treadle import __version__
from treadle_lab.plots import Line, Panel, panels
from treadle_lab.sls import run as results
from treadle_lab.sls.load import BenchError, Mode
from treadle_lab.sls.run import Figures, ModeResult, Run, Setting, simulate

Progress = Callable[[str, dict[str, Any]], None]
"""Called with the label of a run and its measurements so far."""


def run_benchmark(
    modes: Sequence[Mode], setting: Setting, rounds: int, folder: Path, json_file: Path, progress: Progress
) -> tuple[list[ModeResult], list[Run]]:
    """Run each mode once a round, so that whatever changes on the machine meanwhile touches all alike.

    Return the result of each mode and all runs. Runs that fail are in the result with their cause. The report is
    written to `json_file` after each run, so that what was measured is not lost if a later run is interrupted.
    """
    runs: list[Run] = []
    outcome: list[ModeResult] = []
    for number in range(1, rounds + 1):
        for mode in modes:
            label = f"{mode.name}, round {number} of {rounds}"
            runs.append(simulate(mode, setting, folder / f"{number}-{mode.name}", partial(progress, label)))
            outcome = [_result(each, runs, setting.workload.containers) for each in modes]
            write_report(json_file, report(setting, rounds, outcome))
    return outcome, runs


def _result(mode: Mode, runs: Sequence[Run], containers: int) -> ModeResult:
    own = [run for run in runs if run.mode == mode]
    rounds: list[Figures] = [results.figures_of(run, containers) for run in own if run.failure is None]
    return results.combine(mode, rounds, [run.failure for run in own if run.failure is not None])


def report(setting: Setting, rounds: int, outcome: Sequence[ModeResult]) -> dict[str, Any]:
    """Everything that goes to the JSON file."""
    workload = setting.workload
    return {
        "workload": {
            **asdict(workload),
            "containers": workload.containers,
            "ideal_span_s": workload.ideal_span_ms / 1000,
        },
        "rounds": rounds,
        "heap_mb": setting.heap_mb,
        **machine(),
        **results.as_json(outcome),
    }


def machine() -> dict[str, Any]:
    """Return on what, and with which version, something was measured."""
    return {
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_mb": psutil.virtual_memory().total // 2**20,
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "treadle": __version__,
    }


def write_report(path: Path, content: dict[str, Any]) -> None:
    """Write the report as JSON."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"--json {path}: {error.strerror or error}; name a file that can be written") from error


AnyMode = TypeVar("AnyMode")

Rows = Sequence[tuple[str, str, str]]
"""Rows of a table: the figure's name, its title, how a number of it is written."""

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("span_s", "span, s", ".1f"),
    ("peak_containers_per_s", "peak containers/s", ",.0f"),
    ("mean_containers_per_s", "mean containers/s", ",.0f"),
    ("commit_wall_us", "commit, wall µs", ".1f"),
    ("commit_cpu_us", "commit, CPU µs", ".1f"),
    ("scheduler_cpu_us", "scheduler CPU µs per container", ".1f"),
    ("shim_link_cpu_us", "of it the link thread", ".1f"),
    ("shim_frame_us", "of that frames, wall", ".1f"),
    ("shim_commit_cpu_us", "of that commits with all checks", ".1f"),
    ("heartbeat_p50_us", "heartbeat p50, µs", ",.0f"),
    ("heartbeat_p99_us", "heartbeat p99, µs", ",.0f"),
    ("stale_nodes_mean", "nodes silent for 2 s, mean", ",.0f"),
    ("rm_cpu_s", "RM and simulation, CPU s", ".1f"),
    ("sidecar_cpu_s", "sidecar, CPU s", ".1f"),
    ("decide_p50_us", "decide p50, µs", ",.0f"),
    ("decide_p99_us", "decide p99, µs", ",.0f"),
    ("rejected", "rejected", ",.0f"),
    ("placed_natively", "placed natively", ",.0f"),
    ("containers_missing", "containers missing", ",.0f"),
)


def results_table(outcome: Sequence[ModeResult], comparison: dict[str, Any]) -> Table:
    """Return a column for each mode, a row for each figure; the ratios below."""
    return figures_table(
        _ROWS,
        {result.mode.name: result for result in outcome},
        lambda result, name: None if result.figures is None else float(getattr(result.figures, name)),
        _ratios(comparison),
    )


def figures_table(
    rows: Rows, modes: Mapping[str, AnyMode], figure: Callable[[AnyMode, str], float | None], caption: str
) -> Table:
    """Return a column for each mode, a row for each figure.

    Args:
        rows: the figures
        modes: the modes by their names
        figure: returns a figure of a mode by its name; NaN if it was not measured, None if the mode failed
        caption: stands below the table
    """
    table = Table(title="median of the rounds", caption=caption, caption_justify="left")
    table.add_column("")
    for name in modes:
        table.add_column(name, justify="right")
    for name, title, form in rows:
        table.add_row(title, *(_cell(figure(mode, name), form) for mode in modes.values()))
    return table


def _cell(value: float | None, form: str) -> str:
    if value is None:
        return "failed"
    return "-" if math.isnan(value) else format(value, form)


def _ratios(comparison: dict[str, Any]) -> str:
    parts = []
    for name, of in (
        ("span_ratio", comparison["better_stock_mode"]),
        ("floor_ratio", "floor"),
        ("floor_to_stock", comparison["better_stock_mode"]),
        ("observe_span_ratio", "sync"),
        ("observe_cpu_ratio", "sync"),
    ):
        value = comparison[name]
        parts.append(f"{name} {'-' if value is None else format(value, '.2f')} (to {of or 'nothing: it did not run'})")
    return "\n".join(parts)


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


def write_plots(folder: Path, runs: Sequence[Run]) -> list[Path]:
    """Draw the last successful run of each mode; return the files."""
    last = {run.mode.name: run for run in runs if run.failure is None}
    paths = []
    for name, series, label in (("running", running, "containers running"), ("rate", rate, "containers per second")):
        lines = {mode: Line(*series(run)) for mode, run in last.items()}
        paths.append(panels([Panel(lines, "seconds since the first container", label)], folder / f"{name}.png"))
    return paths
