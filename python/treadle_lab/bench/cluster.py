"""Benchmarks on simulated clusters: rounds of modes; and one of them, how long a load takes from begin to end."""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from rich.table import Table

from treadle import __version__
from treadle.tables import empty_table
from treadle_lab.rows import plain
from treadle_lab.sls.load import BenchError, Kind, Mode
from treadle_lab.sls.run import P50, P99, SCHEDULER_THREADS, Run, Setting, decide_us, simulate

Progress = Callable[[str, dict[str, Any]], None]
"""Called with the label of a run and its measurements so far."""
Keep = Callable[[dict[str, Any]], None]
"""Called with the report so far, after each run."""
Figures = dict[str, float]
"""The figures of a run by name (docs/benchmark.md): wall-clock times unless CPU is named; NaN where a mode has none."""


@dataclass(frozen=True)
class Rounds:
    """All rounds of a mode."""

    mode: Mode
    rounds: tuple[Figures | None, ...] = ()
    """What each showed; None for one that failed, whose cause is among the failures."""
    failures: tuple[str, ...] = ()
    worst: tuple[str, ...] = ()
    """Figures for which the mode shows the worst round instead of the median."""

    def median(self, figure: str) -> float:
        """Return the median of a figure over the rounds; NaN if all failed."""
        values = [each[figure] for each in self.rounds if each is not None]
        if not values:
            return math.nan
        return float(max(values) if figure in self.worst else statistics.median(values))

    def as_json(self) -> dict[str, Any]:
        """Return the median and all rounds, with NaN as null."""
        done = [each for each in self.rounds if each is not None]
        names = list(done[0]) if done else []
        return {
            "kind": self.mode.kind.value,
            "median": {name: plain(self.median(name)) for name in names} or None,
            "rounds": [each and plain(each) for each in self.rounds],
            "failures": list(self.failures),
        }


def run_rounds(
    modes: Sequence[Mode],
    rounds: int,
    setting: Setting,
    progress: Progress,
    judge: Callable[[Run], Figures],
    folder: Path,
    written: Callable[[Sequence[Rounds]], None],
    *,
    worst: tuple[str, ...] = (),
    turning: bool = False,
) -> list[Rounds]:
    """Run each mode once per round, so that changes on the machine affect all modes.

    Args:
        modes: the modes to compare
        rounds: number of rounds
        setting: of all runs
        progress: is called now and then
        judge: returns the figures of a successful run
        folder: contains a folder for each run
        written: called after each run with all results so far, so that an interruption loses none
        worst: see `Rounds`
        turning: whether every other round is in the opposite order
    """
    found = {mode.name: Rounds(mode, worst=worst) for mode in modes}
    for number in range(1, rounds + 1):
        for mode in modes if number % 2 or not turning else reversed(modes):
            label = f"{mode.name}, round {number} of {rounds}"
            ran = simulate(mode, setting, folder / f"{number}-{mode.name}", partial(progress, label))
            shown, failure = None, ran.failure
            if failure is None:
                try:
                    shown = judge(ran)
                except BenchError as error:
                    failure = str(error)
            own = found[mode.name]
            failures = own.failures if failure is None else (*own.failures, f"round {number}: {failure}")
            found[mode.name] = replace(own, rounds=(*own.rounds, shown), failures=failures)
            written(list(found.values()))
    return list(found.values())


def run_benchmark(
    modes: Sequence[Mode], setting: Setting, rounds: int, folder: Path, keep: Keep, progress: Progress
) -> list[Rounds]:
    """Run each mode, and write the report after each run; return the result of each mode."""
    return run_rounds(
        modes,
        rounds,
        setting,
        progress,
        partial(figures_of, containers_wanted=setting.workload.containers),
        folder,
        lambda found: keep(report(setting, rounds, found)),
        worst=COUNTED_PER_MODE,
    )


def report(setting: Setting, rounds: int, outcome: Sequence[Rounds]) -> dict[str, Any]:
    """Everything that goes to the JSON file."""
    workload = setting.workload
    more = {"containers": workload.containers, "ideal_span_s": workload.ideal_span_ms / 1000}
    return {"workload": asdict(workload) | more} | measured(setting, rounds, comparison(outcome), outcome)


def measured(setting: Setting, rounds: int, compared: dict[str, Any], outcome: Sequence[Rounds]) -> dict[str, Any]:
    """Return the part of the JSON file that both loads have."""
    modes = {each.mode.name: each.as_json() for each in outcome}
    return {"rounds": rounds, "heap_mb": setting.heap_mb, **machine(), "comparison": compared, "modes": modes}


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


COUNTED_PER_MODE: Final = ("rejected", "placed_by_capacity_scheduler", "containers_missing", "attempts_not_finished")


def figures_of(run: Run, containers_wanted: int) -> Figures:
    """Return the figures of a complete run."""
    seen = run.measurements
    commits, completions = seen["commits"], seen["completions"]
    committed = max(1, commits["total"])
    start_ms, end_ms = commits["first_ms"], completions["last_ms"]
    origin_ms, placing_ms = seen["origin_epoch_ms"], commits["last_ms"] - start_ms
    cpu = seen["cpu_ns"]
    sidecar_s = run.sidecar_cpu_between(origin_ms + start_ms, origin_ms + end_ms)
    shim = Shim(seen)
    return {
        "span_s": (end_ms - start_ms) / 1000,
        "containers": commits["total"],
        "peak_containers_per_s": peak_per_s(commits["counts"], commits["bucket_ms"]),
        "mean_containers_per_s": 1000 * commits["total"] / placing_ms if placing_ms > 0 else 0.0,
        "commit_wall_us": seen["commit_wall"]["total_ns"] / 1000 / committed,
        "commit_cpu_us": seen["commit_cpu"]["total_ns"] / 1000 / committed,
        "scheduler_cpu_us": (scheduling_us(seen) + sidecar_s * 1e6) / committed,
        "shim_commit_cpu_us": shim.since_first_container("CommitCpuNanos") / 1000 / committed,
        "shim_frame_us": shim.since_first_container("FrameNanos") / 1000 / committed,
        "shim_link_cpu_us": shim.since_first_container("LinkCpuNanos") / 1000 / committed,
        "heartbeat_p50_us": seen["heartbeat_wall"]["p50_ns"] / 1000,
        "heartbeat_p99_us": seen["heartbeat_wall"]["p99_ns"] / 1000,
        "stale_nodes_mean": stale_nodes(seen, start_ms, end_ms),
        "rm_cpu_s": cpu.get("process", 0) / 1e9,
        "sidecar_cpu_s": sidecar_s,
        "decide_p50_us": shim.decide_us(P50),
        "decide_p99_us": shim.decide_us(P99),
        "rejected": shim.value("Rejected", absent=0),
        "placed_by_capacity_scheduler": shim.value("PlacedByCapacityScheduler", absent=0),
        "containers_missing": max(0, containers_wanted - commits["total"]),
        # SLS reports an AM's end to its node and to the RM at about the same time: if the node is heard first, the RM
        # takes the AM for failed, after all of its tasks have run
        "attempts_not_finished": seen["attempts_not_finished"],
    }


def scheduling_us(seen: Mapping[str, Any]) -> float:
    """Return the CPU time of all that schedules in the JVM."""
    groups = sum(seen["cpu_ns"].get(group, 0) for group in SCHEDULER_THREADS)
    return float(groups + seen["allocate_cpu"]["total_ns"]) / 1000


class Shim:
    """The shim's own metrics at the end of a run; none in a stock run."""

    def __init__(self, measurements: Mapping[str, Any]) -> None:
        self._end: Mapping[str, Any] = measurements.get("shim") or {}
        self._start: Mapping[str, Any] = measurements.get("shim_at_first_container") or {}

    def value(self, name: str, absent: float = math.nan) -> float:
        """Return a metric."""
        return float(self._end.get(name, absent))

    def decide_us(self, name: str) -> float:
        """Return a quantile of the decisions of the last window."""
        return decide_us(self._end, name)

    def since_first_container(self, name: str, absent: float = math.nan) -> float:
        """Return by how much a metric has grown."""
        return self.value(name, absent) - float(self._start.get(name, 0) if name in self._end else 0)


def peak_per_s(counts: Sequence[int], bucket_ms: int) -> float:
    """Return the most events in any second that starts with a bucket."""
    width = max(1, 1000 // bucket_ms)
    return float(max((sum(counts[i : i + width]) for i in range(len(counts))), default=0))


def stale_nodes(measurements: Mapping[str, Any], start_ms: float, end_ms: float) -> float:
    """Return the mean number of silent nodes over the samples of the span."""
    columns = measurements["sample_columns"]
    elapsed, stale = columns.index("elapsed_ms"), columns.index("stale_nodes")
    inside = [sample[stale] for sample in measurements["samples"] if start_ms <= sample[elapsed] <= end_ms]
    return statistics.fmean(inside) if inside else 0.0


def comparison(outcome: Sequence[Rounds]) -> dict[str, Any]:
    """Return the better stock mode, Treadle's span over its span and the floor's, and what observing costs `sync`.

    None where a mode is missing.
    """
    ran = {each.mode.name: each for each in outcome if any(each.rounds)}
    spans = {name: each.median("span_s") for name, each in ran.items()}
    stock = sorted((name for name, each in ran.items() if each.mode.kind is Kind.STOCK), key=spans.__getitem__)
    better = next(iter(stock), None)

    def ratio(part: str, whole: str | None, figure: str = "span_s") -> float | None:
        if part not in ran or whole not in ran or not (below := ran[whole].median(figure)):
            return None
        return ran[part].median(figure) / below

    return {
        "better_stock_mode": better,
        "better_async_mode": next((name for name in stock if name.startswith("async")), None),
        "span_ratio": ratio("treadle", better),
        "floor_ratio": ratio("treadle", "floor"),
        "floor_to_stock": ratio("floor", better),
        "observe_span_ratio": ratio("observe", "sync"),
        "observe_cpu_ratio": ratio("observe", "sync", "rm_cpu_s"),
    }


Rows = Sequence[tuple[str, str, str]]
"""Rows of a table: the figure's name, its title, how a number of it is written."""

SPAN_ROWS: Final = (
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
    ("placed_by_capacity_scheduler", "by CapacityScheduler", ",.0f"),
    ("containers_missing", "containers missing", ",.0f"),
)


def figures_table(rows: Rows, outcome: Sequence[Rounds], caption: str) -> Table:
    """Return a column for each mode, a row for each figure.

    Args:
        rows: the figures
        outcome: the modes
        caption: stands below the table
    """
    modes = [each.mode.name for each in outcome]
    table = empty_table("median of the rounds", ("",), modes, caption=caption, caption_justify="left")
    for name, title, form in rows:
        table.add_row(title, *(_cell(each, name, form) for each in outcome))
    return table


def _cell(mode: Rounds, name: str, form: str) -> str:
    if not any(mode.rounds):
        return "failed"
    value = mode.median(name)
    return "-" if math.isnan(value) else format(value, form)


def results_table(outcome: Sequence[Rounds]) -> Table:
    """Return the figures of each mode; the ratios below."""
    compared, lines = comparison(outcome), []
    for name, of in (
        ("span_ratio", compared["better_stock_mode"]),
        ("floor_ratio", "floor"),
        ("floor_to_stock", compared["better_stock_mode"]),
        ("observe_span_ratio", "sync"),
        ("observe_cpu_ratio", "sync"),
    ):
        value = compared[name]
        lines.append(f"{name} {'-' if value is None else format(value, '.2f')} (to {of or 'nothing: it did not run'})")
    return figures_table(SPAN_ROWS, outcome, "\n".join(lines))
