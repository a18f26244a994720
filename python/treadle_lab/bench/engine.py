"""Decisions of the engine alone: runs and their report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.config.reader import read_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.policy.catalogue import register_parts
from treadle.policy.user_parts import PolicyFailedError, raise_if_failed
from treadle_lab.bench.engine_load import Load, SteadyState
from treadle_lab.rows import Table
from treadle_lab.sls.load import BenchError

NODES: Final = (100, 1_000, 5_000, 20_000)
ROWS: Final = (100, 1_000, 10_000)
LEAVES: Final = (1, 1_000)
QUICK: Final = ((100, 1_000, 1), (1_000, 1_000, 1), (1_000, 10_000, 1), (1_000, 1_000, 1_000), (5_000, 10_000, 1_000))
GOAL: Final = (5_000, 10_000, 1_000)
DIMENSIONS: Final = ("nodes", "rows", "leaves")
TIMES: Final = ("decide_p50", "decide_p99", "apply_p50")
"""Figures of the table."""
GOAL_S: Final = 10.0
"""Minimum duration in seconds of a measurement of the target configuration."""

WARM_TICKS: Final = 20
"""Ticks before the measurement: compiled code is read, tables have grown."""


Result = dict[str, Any]
"""The figures of a policy in one configuration, by name, or the ``failure`` of a part of it with the configuration."""


def measure_all(
    policies: Mapping[str, Settings],
    configurations: Sequence[Mapping[str, Any]],
    measured: Callable[[str, Settings, Mapping[str, Any]], Result],
    progress: Callable[[str], None],
    *,
    keep_going: bool,
) -> list[Result]:
    """Measure every policy in every configuration.

    Args:
        policies: by name
        configurations: the sizes of each, by name
        measured: measures a policy in one
        progress: is given words for what runs
        keep_going: a configuration in which a part fails has no figures, and the next one follows

    Raises:
        BenchError: a part of a policy failed.
    """
    results: list[Result] = []
    for name, settings in policies.items():
        for sizes in configurations:
            done = f"{len(results)} of {len(policies) * len(configurations)} done"
            words = (f"{size:,} {what}" if isinstance(size, int) else str(size) for what, size in sizes.items())
            progress(f"{done}; {name}: {', '.join(words)}")
            try:
                results.append({"failure": None} | measured(name, settings, sizes))
            except PolicyFailedError as error:
                if not keep_going:
                    raise BenchError(f"{name}: {error}; --keep-going goes on without its figures") from error
                results.append({"failure": str(error), "policy": name, **sizes})
    return results


def load_policies(files: Iterable[Path]) -> dict[str, Settings]:
    """Return the settings in files by the files' names without their ending.

    Raises:
        BenchError: there are none, or one has several engines.
        ConfigError: a file is wrong.
    """
    register_parts()
    policies = {file.stem: read_settings(file) for file in files}
    if several := [name for name, settings in policies.items() if settings.engines]:
        raise BenchError(f"{', '.join(several)}: this benchmark has one engine; take the section engines out")
    if not policies:
        raise BenchError("there are no policies; name files with --policy")
    return policies


def measure(name: str, settings: Settings, load: Load, seconds: float) -> Result:
    """Run a steady state on one thread until applying and deciding have taken ``seconds`` together.

    Figures ``*_cpu`` are the thread's CPU time, the others wall time, which is longer on a loaded machine.

    Raises:
        PolicyFailedError: a part of the policy failed.
    """
    state, engine = SteadyState(load), Engine(settings)
    engine.apply(state.snapshot())
    taken_ns: list[tuple[int, int, int, int]] = []
    placed = ticks = spent_ns = 0
    while ticks < WARM_TICKS or spent_ns < 1e9 * seconds:
        frame = state.tick()
        began, began_cpu = _clocks()
        engine.apply(frame)
        middle, middle_cpu = _clocks()
        made = engine.decide(state.now_ms, load.batch, sequence=state.sequence)
        ended, ended_cpu = _clocks()
        raise_if_failed(engine.failure, f"in tick {ticks + 1}")
        state.commit(made)
        ticks += 1
        placed += len(made)
        spent_ns += ended - began
        taken_ns.append((middle - began, middle_cpu - began_cpu, ended - middle, ended_cpu - middle_cpu))
        if ticks == WARM_TICKS:
            taken_ns, placed, spent_ns = [], 0, 0
    return _figures(name, load, taken_ns, placed, tuple(engine.warnings()))


def _clocks() -> tuple[int, int]:
    """Return the time and the thread's CPU time, in nanoseconds."""
    return time.perf_counter_ns(), time.thread_time_ns()


def _figures(
    name: str, load: Load, taken_ns: Sequence[tuple[int, int, int, int]], placed: int, warnings: tuple[str, ...]
) -> Result:
    """Return figures of ticks; the columns of their times are apply, apply CPU, decide, decide CPU."""
    taken = np.array(taken_ns) / 1e6
    p50, p99 = (np.percentile(taken, percent, axis=0).round(4).tolist() for percent in (50, 99))
    apply_s, apply_cpu_s, decide_s, decide_cpu_s = (taken.sum(axis=0) / 1e3).tolist()
    figures: Result = {"policy": name, "nodes": load.nodes, "rows": load.rows, "leaves": load.leaves}
    figures |= {
        "batch": load.batch,
        "seconds": round(apply_s + decide_s, 3),
        "ticks": len(taken),
        "placed": placed,
        "placements_per_s": round(placed / (apply_s + decide_s), 1),
        "placements_per_s_cpu": round(placed / (apply_cpu_s + decide_cpu_s), 1),
        "placed_per_decide": round(placed / len(taken), 1),
    }
    for column, what in {2: "decide_{}_ms", 3: "decide_{}_ms_cpu", 0: "apply_{}_ms", 1: "apply_{}_ms_cpu"}.items():
        figures |= {what.format("p50"): p50[column], what.format("p99"): p99[column]}
    return figures | {"warnings": warnings}


def grid_of(
    nodes: Sequence[int] | None, rows: Sequence[int] | None, leaves: Sequence[int] | None, *, quick: bool = False
) -> list[tuple[int, int, int]]:
    """Return the configurations to measure: (nodes, rows, leaves)."""
    if quick and not (nodes or rows or leaves):
        return list(QUICK)
    return list(itertools.product(nodes or NODES, rows or ROWS, leaves or LEAVES))


def run_grid(
    policies: Mapping[str, Settings],
    grid: Sequence[tuple[int, int, int]],
    batch: int,
    seconds: float,
    progress: Callable[[str], None],
    *,
    keep_going: bool = False,
) -> list[Result]:
    """Measure every policy in every configuration (nodes, rows, leaves), the goal's for `GOAL_S` at least.

    Raises:
        BenchError: a part of a policy failed, and ``keep_going`` is not set.
    """

    def measured(name: str, settings: Settings, sizes: Mapping[str, Any]) -> Result:
        goal = tuple(sizes.values()) == GOAL
        return measure(name, settings, Load(**sizes, batch=batch), max(seconds, GOAL_S) if goal else seconds)

    sizes = [dict(zip(DIMENSIONS, each, strict=True)) for each in grid]
    return measure_all(policies, sizes, measured, progress, keep_going=keep_going)


def report(results: Sequence[Result]) -> dict[str, Any]:
    """Return the results as they are written to a file."""
    return {"benchmark": "engine", "results": results}


def figures_table(results: Sequence[Result]) -> Table:
    """Return a row for each policy and configuration."""
    title = "a steady state: apply the events of a tick, decide; milliseconds, wall (CPU of the thread)"
    heading = ("policy", *DIMENSIONS, "placed a decide", "placements/s", "decide p50", "decide p99", "apply p50")
    return Table(title, heading, [_row(result) for result in results])


def _row(result: Result) -> tuple[str, ...]:
    of = (result["policy"], *(f"{result[name]:,}" for name in DIMENSIONS))
    if result["failure"] is not None:
        return (*of, "failed", *["-"] * 4)
    times = (f"{result[f'{name}_ms']:.2f} ({result[f'{name}_ms_cpu']:.2f})" for name in TIMES)
    rate = f"{result['placements_per_s']:,.0f} ({result['placements_per_s_cpu']:,.0f})"
    return (*of, f"{result['placed_per_decide']:,.0f}", rate, *times)
