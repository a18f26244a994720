"""Decisions of the engine alone: runs, memory, snapshots, and their report."""

from __future__ import annotations

import itertools
import math
import multiprocessing
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from treadle import events
from treadle.config.reader import parse_settings, read_settings
from treadle.config.settings import Settings, Source
from treadle.engine import Engine
from treadle.events import Event
from treadle.policy.catalogue import register_parts
from treadle.policy.user_parts import PolicyFailedError, raise_if_failed
from treadle.process_limits import peak_memory_mb
from treadle.simulate.comparison import Interval
from treadle_lab.bench.engine_load import Load, SteadyState
from treadle_lab.rows import Table, plain, slope_of
from treadle_lab.sls.load import BenchError

NODES: Final = (100, 1_000, 5_000, 20_000)
ROWS: Final = (100, 1_000, 10_000)
LEAVES: Final = (1, 1_000)
QUICK: Final = (
    (100, 1_000, 1),
    (1_000, 1_000, 1),
    (1_000, 10_000, 1),
    (1_000, 1_000, 1_000),
    (5_000, 10_000, 1_000),
)
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
    times = _Times()
    placed = ticks = 0
    while ticks < WARM_TICKS or times.spent_s() < seconds:
        frame = state.tick()
        times.start()
        engine.apply(frame)
        times.applied()
        made = engine.decide(state.now_ms, load.batch, sequence=state.sequence)
        times.decided()
        raise_if_failed(engine.failure, f"in tick {ticks + 1}")
        state.commit(made)
        ticks += 1
        placed += len(made)
        if ticks == WARM_TICKS:
            times, placed = _Times(), 0
    return _figures(name, load, times, placed, tuple(engine.warnings()))


class _Times:
    """Times of ticks: columns apply wall, apply CPU, decide wall, decide CPU, in nanoseconds."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int, int, int]] = []
        self._spent = 0
        self._last = self._middle = (0, 0)

    def start(self) -> None:
        self._last = (time.perf_counter_ns(), time.thread_time_ns())

    def applied(self) -> None:
        self._middle = (time.perf_counter_ns(), time.thread_time_ns())

    def decided(self) -> None:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        (began, began_cpu), (middle, middle_cpu) = self._last, self._middle
        self.rows.append((middle - began, middle_cpu - began_cpu, wall - middle, cpu - middle_cpu))
        self._spent += wall - began

    def spent_s(self) -> float:
        """Return the wall time of all ticks."""
        return self._spent / 1e9


def _figures(name: str, load: Load, times: _Times, placed: int, warnings: tuple[str, ...]) -> Figures:
    taken = np.array(times.rows) / 1e6
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
    nodes: Sequence[int] | None,
    rows: Sequence[int] | None,
    leaves: Sequence[int] | None,
    *,
    quick: bool = False,
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

    return measure_all(policies, _named(grid), measured, progress, keep_going=keep_going)


def _named(grid: Sequence[tuple[int, int, int]]) -> list[dict[str, int]]:
    return [dict(zip(DIMENSIONS, sizes, strict=True)) for sizes in grid]


def growth(results: Sequence[Figures]) -> dict[str, dict[str, Interval | None]]:
    """Return for each policy and dimension the exponent k of CPU time per placement ~ n^k; None with only one size.

    The slope of a least-squares line through the logarithms, with a level of its own for each choice of the other two.
    The interval says how well one power of n describes the sizes measured, not how repeatable they are.
    """
    found: dict[str, dict[str, Interval | None]] = {}
    for policy in dict.fromkeys(result.policy for result in results):
        mine = [result for result in results if result.policy == policy and result.placements_per_s_cpu > 0]
        found[policy] = {name: _exponent(mine, name) for name in DIMENSIONS}
    return found


def _exponent(results: Sequence[Figures], dimension: str) -> Interval | None:
    lines: dict[tuple[Any, ...], list[tuple[float, float]]] = {}
    for result in results:
        others = tuple(getattr(result, name) for name in DIMENSIONS if name != dimension)
        point = (math.log(getattr(result, dimension)), -math.log(result.placements_per_s_cpu))
        lines.setdefault(others, []).append(point)
    return slope_of(list(lines.values()))


def figures(results: Sequence[Figures | Failed]) -> list[Figures]:
    """Return the results that are none of a policy that failed."""
    return [result for result in results if isinstance(result, Figures)]


def report(results: Sequence[Figures | Failed], memory_mb: dict[str, float]) -> dict[str, Any]:
    """Return the results as they are written to a file; ``memory_mb`` by policy, if it was measured."""
    measured = [each.plain() if isinstance(each, Failed) else {"failure": None} | asdict(each) for each in results]
    fitted = plain(growth(figures(results)))
    return {"benchmark": "engine", "results": measured, "growth": fitted, "memory_mb": memory_mb}


PIECE: Final = 65_536
"""Rows of an event that are sent at once."""

TICKS: Final = 30

LARGEST: Final = (20_000, 100_000, 1_000)
"""Nodes, rows and leaves of the goal for memory: under 500 MB."""

SPLIT: Final = (events.Containers, events.Requests, events.Applications, events.ApplicationUsage, events.Nodes)


def pieces(events: Sequence[Event]) -> Iterator[Event]:
    """Return the same events with no more than `PIECE` rows each."""
    for event in events:
        if not isinstance(event, SPLIT):
            yield event
            continue
        columns = [getattr(event, field.name) for field in fields(event)]
        for start in range(0, max(len(columns[0]), 1), PIECE):
            yield type(event)(*(column[start : start + PIECE].copy() for column in columns))


def measure_memory(settings: Settings, load: Load) -> float:
    """Return the most memory (MB) that a process with an engine has had resident after some ticks of a steady state.

    Kernels are compiled before, in this process.

    Raises:
        BenchError: the process ended, or a part of the policy failed.
    """
    Engine(settings).warm_up()
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there, _sendable(settings)), daemon=True)
    process.start()
    there.close()
    try:
        state = SteadyState(load)
        for event in pieces(state.snapshot()):
            here.send([event])
        for _ in range(TICKS):
            for event in state.tick():
                here.send([event])
            here.send((state.now_ms, load.batch, state.sequence))
            made = here.recv()
            if isinstance(made, str):
                raise BenchError(f"{made}; put the part right: what would run instead is another policy")
            state.commit(made)
        here.send(None)
        return float(here.recv())
    except (EOFError, OSError) as error:
        raise BenchError("the process whose memory is measured has ended; is there too little of it?") from error
    finally:
        here.close()
        process.join(10)


def _sendable(settings: Settings) -> Settings | Source:
    """Return what another process can make the settings of: classes from users' files are known only to this one."""
    source = settings.source
    return source if source is not None and source.part_files else settings


def _again(source: Source) -> Settings:
    return parse_settings(source.file, source.text, kept=source.part_files, trust_code=True)


def _serve(pipe: Connection, given: Settings | Source) -> None:
    """Apply lists of events and answer what else comes with a decide, until there is None."""
    settings = given if isinstance(given, Settings) else _again(given)
    engine = Engine(settings)
    message: Any = pipe.recv()
    while message is not None:
        if isinstance(message, list):
            engine.apply(message)
        else:
            now_ms, limit, sequence = message
            made = engine.decide(now_ms, limit, sequence=sequence)
            pipe.send(made if engine.failure is None else str(engine.failure))
        message = pipe.recv()
    pipe.send(peak_memory_mb())


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


def growth_table(results: Sequence[Figures]) -> Table:
    """Return the exponents of growth of each policy."""
    title = "CPU time per placement grows as n^k; in brackets 95 % intervals of the fit"
    rows = [(policy, *(found[name] for name in DIMENSIONS)) for policy, found in growth(results).items()]
    return Table(title, ("policy", *(f"k, {name}" for name in DIMENSIONS)), rows)
