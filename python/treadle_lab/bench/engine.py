"""Decisions of the engine alone: runs and their report."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

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
GOAL_S: Final = 10.0
"""Minimum duration in seconds of a measurement of the target configuration."""

WARM_TICKS: Final = 20
"""Ticks before the measurement: compiled code is read, tables have grown."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Measurements of one policy in one configuration, on one thread.

    ``*_cpu`` is the thread's CPU time, the others wall time: equal on an idle core, longer on a loaded machine.
    """

    policy: str
    nodes: int
    rows: int
    leaves: int
    batch: int
    seconds: float
    """Time of all decides and of applying the events before each."""
    ticks: int
    placed: int
    placements_per_s: float
    placements_per_s_cpu: float
    placed_per_decide: float
    decide_p50_ms: float
    decide_p99_ms: float
    decide_p50_ms_cpu: float
    decide_p99_ms_cpu: float
    apply_p50_ms: float
    apply_p99_ms: float
    apply_p50_ms_cpu: float
    apply_p99_ms_cpu: float
    warnings: tuple[str, ...]
    """Warnings of the engine about deviations of the policy."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A configuration without figures: a part of its policy failed."""

    policy: str
    at: Mapping[str, Any]
    """The configuration, by the names of its figures' fields."""
    failure: str

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"failure": self.failure, "policy": self.policy, **self.at}


M = TypeVar("M")


def measure_all(
    policies: Mapping[str, Settings],
    configurations: Sequence[Mapping[str, Any]],
    measured: Callable[[str, Settings, Mapping[str, Any]], M],
    progress: Callable[[str], None],
    *,
    keep_going: bool,
) -> list[M | Failed]:
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
    results: list[M | Failed] = []
    for name, settings in policies.items():
        for sizes in configurations:
            done = f"{len(results)} of {len(policies) * len(configurations)} done"
            words = (f"{size:,} {what}" if isinstance(size, int) else str(size) for what, size in sizes.items())
            progress(f"{done}; {name}: {', '.join(words)}")
            try:
                results.append(measured(name, settings, sizes))
            except PolicyFailedError as error:
                if not keep_going:
                    raise BenchError(f"{name}: {error}; --keep-going goes on without its figures") from error
                results.append(Failed(name, sizes, str(error)))
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


def measure(name: str, settings: Settings, load: Load, seconds: float) -> Figures:
    """Run a steady state until applying and deciding have taken ``seconds`` together.

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
) -> Figures:
    """Return figures of ticks; the columns of their times are apply, apply CPU, decide, decide CPU."""
    taken = np.array(taken_ns) / 1e6
    (apply_50, apply_50_cpu, decide_50, decide_50_cpu) = np.percentile(taken, 50, axis=0).round(4).tolist()
    (apply_99, apply_99_cpu, decide_99, decide_99_cpu) = np.percentile(taken, 99, axis=0).round(4).tolist()
    apply_s, apply_cpu_s, decide_s, decide_cpu_s = (taken.sum(axis=0) / 1e3).tolist()
    return Figures(
        policy=name,
        nodes=load.nodes,
        rows=load.rows,
        leaves=load.leaves,
        batch=load.batch,
        seconds=round(apply_s + decide_s, 3),
        ticks=len(taken),
        placed=placed,
        placements_per_s=round(placed / (apply_s + decide_s), 1),
        placements_per_s_cpu=round(placed / (apply_cpu_s + decide_cpu_s), 1),
        placed_per_decide=round(placed / len(taken), 1),
        decide_p50_ms=decide_50,
        decide_p99_ms=decide_99,
        decide_p50_ms_cpu=decide_50_cpu,
        decide_p99_ms_cpu=decide_99_cpu,
        apply_p50_ms=apply_50,
        apply_p99_ms=apply_99,
        apply_p50_ms_cpu=apply_50_cpu,
        apply_p99_ms_cpu=apply_99_cpu,
        warnings=warnings,
    )


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
) -> list[Figures | Failed]:
    """Measure every policy in every configuration (nodes, rows, leaves), the goal's for `GOAL_S` at least.

    Raises:
        BenchError: a part of a policy failed, and ``keep_going`` is not set.
    """

    def measured(name: str, settings: Settings, sizes: Mapping[str, Any]) -> Figures:
        goal = tuple(sizes.values()) == GOAL
        return measure(name, settings, Load(**sizes, batch=batch), max(seconds, GOAL_S) if goal else seconds)

    sizes = [dict(zip(DIMENSIONS, each, strict=True)) for each in grid]
    return measure_all(policies, sizes, measured, progress, keep_going=keep_going)


def report(results: Sequence[Figures | Failed]) -> dict[str, Any]:
    """Return the results as they are written to a file."""
    measured = [each.plain() if isinstance(each, Failed) else {"failure": None} | asdict(each) for each in results]
    return {"benchmark": "engine", "results": measured}


def figures_table(results: Sequence[Figures | Failed]) -> Table:
    """Return a row for each policy and configuration."""
    title = "a steady state: apply the events of a tick, decide; milliseconds, wall (CPU of the thread)"
    heading = ("policy", *DIMENSIONS, "placed a decide", "placements/s", "decide p50", "decide p99", "apply p50")
    return Table(title, heading, [_row(result) for result in results])


def _row(result: Figures | Failed) -> tuple[str, ...]:
    if isinstance(result, Failed):
        return (result.policy, *(f"{size:,}" for size in result.at.values()), "failed", *["-"] * 4)
    return (
        result.policy,
        *(f"{getattr(result, name):,}" for name in DIMENSIONS),
        f"{result.placed_per_decide:,.0f}",
        f"{result.placements_per_s:,.0f} ({result.placements_per_s_cpu:,.0f})",
        f"{result.decide_p50_ms:.2f} ({result.decide_p50_ms_cpu:.2f})",
        f"{result.decide_p99_ms:.2f} ({result.decide_p99_ms_cpu:.2f})",
        f"{result.apply_p50_ms:.2f} ({result.apply_p50_ms_cpu:.2f})",
    )
