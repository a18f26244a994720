"""Benchmarks on simulated clusters: rounds of modes, figures and ratios; of one load, how long it takes."""

from __future__ import annotations

import math
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from rich.table import Table

from treadle import __version__
from treadle.simulate.comparison import Interval, interval_of_ratio
from treadle.tables import empty_table
from treadle_lab.rows import plain
from treadle_lab.sls import run as sls

Progress = Callable[[str, dict[str, Any]], None]
"""Called with the label of a run and its measurements so far."""
Figures = dict[str, float]
"""The figures of a run by name (docs/benchmark.md): wall-clock times unless CPU is named; NaN where a mode has none."""

WORST: Final = frozenset({"rejected", "placed_by_capacity_scheduler", "containers_missing", "attempts_not_finished"})
"""Figures for which a mode shows its worst round instead of the median."""
KEEPS_UP: Final = 0.5
"""A mode that handles a smaller fraction of the due heartbeats does not schedule the requested cluster."""


@dataclass(frozen=True)
class Rounds:
    """All rounds of a mode."""

    mode: sls.Mode
    rounds: tuple[Figures | None, ...] = ()
    """What each showed; None for one that failed, whose cause is among the failures."""
    failures: tuple[str, ...] = ()

    def median(self, figure: str) -> float:
        """Return the median of a figure over the rounds; NaN if all failed."""
        values = [each[figure] for each in self.rounds if each is not None]
        if not values:
            return math.nan
        return float(max(values) if figure in WORST else statistics.median(values))

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
    modes: Sequence[sls.Mode],
    rounds: int,
    setting: sls.Setting,
    progress: Progress,
    judge: Callable[[sls.Run], Figures],
    folder: Path,
    written: Callable[[Sequence[Rounds]], None],
) -> list[Rounds]:
    """Run each mode once per round, every other round in the opposite order: changes on the machine affect all modes.

    Args:
        modes: the modes to compare
        rounds: number of rounds
        setting: of all runs
        progress: is called now and then
        judge: returns the figures of a successful run
        folder: contains a folder for each run
        written: called after each run with all results so far, so that an interruption loses none
    """
    found = {mode.name: Rounds(mode) for mode in modes}
    for number in range(1, rounds + 1):
        for mode in modes if number % 2 else reversed(modes):
            label = f"{mode.name}, round {number} of {rounds}"
            ran = sls.simulate(mode, setting, folder / f"{number}-{mode.name}", partial(progress, label))
            shown, failure = None, ran.failure
            if failure is None:
                try:
                    shown = judge(ran)
                except sls.BenchError as error:
                    failure = str(error)
            own = found[mode.name]
            failures = own.failures if failure is None else (*own.failures, f"round {number}: {failure}")
            found[mode.name] = replace(own, rounds=(*own.rounds, shown), failures=failures)
            written(list(found.values()))
    return list(found.values())


def behind(outcome: Sequence[Rounds]) -> list[str]:
    """Return the modes that did not keep up with the heartbeats, by the median."""
    return [each.mode.name for each in outcome if each.median("heartbeats_share") < KEEPS_UP]


@dataclass(frozen=True)
class Sheet:
    """The table and the ratios of a load.

    Attributes:
        rows: figures of the table: name, title, how a number of it is written.
        best: the figure that makes a stock mode the best one.
        most: whether by its maximum; else by its minimum.
        ratios: by name a mode, the one that it is compared with (None: the best stock mode), and the figure.
        words: the names of these figures below the table.
    """

    rows: Sequence[tuple[str, str, str]]
    best: str
    most: bool
    ratios: Mapping[str, tuple[str, str | None, str]]
    words: Mapping[str, str]

    def best_stock(self, outcome: Sequence[Rounds]) -> str | None:
        """Return the best stock mode, None if none ran."""
        stock = {each.mode.name: each.median(self.best) for each in outcome if each.mode.kind is sls.Kind.STOCK}
        ran = {name: value for name, value in stock.items() if not math.isnan(value)}
        return next(iter(sorted(ran, key=lambda name: ran[name], reverse=self.most)), None)

    def comparison(self, outcome: Sequence[Rounds]) -> dict[str, Any]:
        """Return what Treadle is to the best stock mode and to the floor, and what observing costs the RM."""
        best = self.best_stock(outcome)
        found = {name: ratio(outcome, part, whole or best, of) for name, (part, whole, of) in self.ratios.items()}
        return {"best_stock_mode": best} | {name: value and value.as_json() for name, value in found.items()}

    def report(self, setting: sls.Setting, rounds: int, outcome: Sequence[Rounds]) -> dict[str, Any]:
        """Return everything that goes to the JSON file."""
        return {
            "workload": setting.workload.as_json(),
            "rounds": rounds,
            "heap_mb": setting.heap_mb,
            **machine(),
            "comparison": self.comparison(outcome) | {"behind": behind(outcome)},
            "modes": {each.mode.name: each.as_json() for each in outcome},
        }

    def table(self, outcome: Sequence[Rounds]) -> Table:
        """Return a column for each mode, a row for each figure; the ratios below."""
        best = self.best_stock(outcome)
        lines = [f"best stock mode: {best or 'none ran'}; in brackets 95 % intervals over several rounds"]
        for part, whole, figure in self.ratios.values():
            value = ratio(outcome, part, whole or best, figure)
            if value is not None:
                lines.append(f"{self.words[figure]}, {part} to {whole or best}: {value}")
        modes = [each.mode.name for each in outcome]
        table = empty_table("median of the rounds", ("",), modes, caption="\n".join(lines), caption_justify="left")
        for name, title, form in self.rows:
            table.add_row(title, *(_cell(each, name, form) for each in outcome))
        return table


def _cell(mode: Rounds, name: str, form: str) -> str:
    if not any(mode.rounds):
        return "failed"
    value = mode.median(name)
    return "-" if math.isnan(value) else format(value, form)


def ratio(outcome: Sequence[Rounds], part: str, whole: str | None, figure: str) -> Interval | None:
    """Return a figure of one mode over that of another, of the rounds that both came through; None if there is none."""
    by_name = {each.mode.name: each.rounds for each in outcome}
    if whole is None or part not in by_name or whole not in by_name:
        return None
    pairs = [(a, b) for a, b in zip(by_name[part], by_name[whole], strict=False) if a is not None and b is not None]
    if not pairs:
        return None
    return interval_of_ratio([a[figure] for a, _ in pairs], [b[figure] for _, b in pairs])


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


COMMON_ROWS: Final = (
    ("scheduler_cpu_us", "scheduler CPU µs per container", ".1f"),
    ("link_cpu_us", "of it the link thread", ".1f"),
    ("frame_us", "of that frames, wall", ".1f"),
    ("commit_cpu_us", "of that commits with all checks", ".1f"),
    ("sidecar_cpu_us", "of it the sidecar", ".1f"),
    ("try_commit_cpu_us", "tryCommit alone, CPU µs", ".1f"),
    ("jvm_cpu_us", "RM and simulation, CPU µs per container", ".0f"),
    ("heartbeats_share", "heartbeats handled, of those due", ".0%"),
    ("heartbeat_p50_us", "heartbeat p50, µs", ",.0f"),
    ("heartbeat_p99_us", "heartbeat p99, µs", ",.0f"),
    ("decide_p50_us", "decide p50, µs", ",.0f"),
    ("decide_p99_us", "decide p99, µs", ",.0f"),
    ("decide_cpu_us", "sidecar CPU a decision, µs", ",.0f"),
    ("rejected", "rejected", ",.0f"),
    ("placed_by_capacity_scheduler", "by CapacityScheduler", ",.0f"),
)


def common_figures(
    run: sls.Run, nodes: int, heartbeat_ms: float, start_ms: float, end_ms: float, committed: int
) -> Figures:
    """Return the figures that all loads have, between two times of the run; CPU times per container.

    Args:
        run: the run
        nodes: of the cluster
        heartbeat_ms: from one heartbeat of a node to the next
        start_ms: of the run
        end_ms: of the run
        committed: containers, at least 1
    """
    seen, origin_ms = run.measurements, run.measurements["origin_epoch_ms"]
    sidecar_us = 1e6 * run.sidecar_cpu_between(origin_ms + start_ms, origin_ms + end_ms)
    threads_ns = sum(seen["cpu_ns"].get(group, 0) for group in sls.SCHEDULER_THREADS)
    scheduling_us = (threads_ns + seen["allocate_cpu"]["total_ns"]) / 1000
    decided, has_sidecar = grown(seen, "Frames", 0), run.mode.kind in (sls.Kind.TREADLE, sls.Kind.OBSERVER)
    return {
        "scheduler_cpu_us": (scheduling_us + sidecar_us) / committed,
        "link_cpu_us": grown(seen, "LinkCpuNanos") / 1000 / committed,
        "frame_us": grown(seen, "FrameNanos") / 1000 / committed,
        "commit_cpu_us": grown(seen, "CommitCpuNanos") / 1000 / committed,
        "sidecar_cpu_us": sidecar_us / committed if has_sidecar else math.nan,
        "try_commit_cpu_us": seen["commit_cpu"]["total_ns"] / 1000 / max(1, seen["commit_cpu"]["count"]),
        "jvm_cpu_us": seen["cpu_ns"]["process"] / 1000 / committed,
        # below 1 the ResourceManager is late: it learns of ended containers late and handles fewer calls, so that
        # containers look cheaper than they are
        "heartbeats_share": sls.heartbeats_share(seen, nodes, heartbeat_ms, start_ms, end_ms),
        "heartbeat_p50_us": seen["heartbeat_wall"]["p50_ns"] / 1000,
        "heartbeat_p99_us": seen["heartbeat_wall"]["p99_ns"] / 1000,
        "decide_p50_us": sls.decide_us(seen.get("shim") or {}, sls.P50),
        "decide_p99_us": sls.decide_us(seen.get("shim") or {}, sls.P99),
        # the rest of a decision's time is mostly a wait for a processor
        "decide_cpu_us": sidecar_us / decided if decided else math.nan,
        "rejected": grown(seen, "Rejected", 0),
        "placed_by_capacity_scheduler": grown(seen, "PlacedByCapacityScheduler", 0),
    }


def grown(seen: Mapping[str, Any], name: str, absent: float = math.nan) -> float:
    """Return by how much a metric of the shim has grown since the first container; a stock run has none."""
    end, start = (seen.get(key) or {} for key in ("shim", "shim_at_first_container"))
    return float(end[name]) - float(start.get(name, 0)) if name in end else absent


def span_of(run: sls.Run, workload: sls.Workload) -> Figures:
    """Return the figures of a complete run of a load that slots bound."""
    seen, commits = run.measurements, run.measurements["commits"]
    start_ms, end_ms = commits["first_ms"], seen["completions"]["last_ms"]
    return common_figures(run, workload.nodes, sls.HEARTBEAT_MS, start_ms, end_ms, max(1, commits["total"])) | {
        "span_s": (end_ms - start_ms) / 1000,
        "containers": commits["total"],
        "stale_nodes_mean": stale_nodes(seen, start_ms, end_ms),
        "containers_missing": max(0, workload.containers - commits["total"]),
        # SLS reports an AM's end to its node and to the RM at about the same time: if the node is heard first, the RM
        # takes the AM for failed, after all of its tasks have run
        "attempts_not_finished": seen["attempts_not_finished"],
    }


def stale_nodes(measurements: Mapping[str, Any], start_ms: float, end_ms: float) -> float:
    """Return the mean number of silent nodes over the samples of the span."""
    columns = measurements["sample_columns"]
    elapsed, stale = columns.index("elapsed_ms"), columns.index("stale_nodes")
    inside = [sample[stale] for sample in measurements["samples"] if start_ms <= sample[elapsed] <= end_ms]
    return statistics.fmean(inside) if inside else 0.0


SPAN: Final = Sheet(
    (
        ("span_s", "span, s", ".1f"),
        *COMMON_ROWS,
        ("stale_nodes_mean", "nodes silent for 2 s, mean", ",.0f"),
        ("containers_missing", "containers missing", ",.0f"),
    ),
    "span_s",
    False,
    {
        "span_ratio": ("treadle", None, "span_s"),
        "floor_ratio": ("treadle", "floor", "span_s"),
        "floor_to_stock": ("floor", None, "span_s"),
        "observe_span_ratio": ("observe", "sync", "span_s"),
        "observe_cpu_ratio": ("observe", "sync", "jvm_cpu_us"),
    },
    {"span_s": "span", "jvm_cpu_us": "CPU of RM and simulation"},
)
