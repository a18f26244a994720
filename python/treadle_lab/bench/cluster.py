"""The benchmark as a whole: all modes over several rounds, interleaved."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from treadle import __version__
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
