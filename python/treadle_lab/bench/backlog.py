"""A load that only schedulers bound: asks that never run out, slots that are always free; and containers a second."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from treadle_lab.bench.cluster import machine, write_report
from treadle_lab.rows import Interval, ratio_of
from treadle_lab.sls.load import CONTAINER_MB, MODES, BenchError, Kind, Mode, Workload
from treadle_lab.sls.run import (
    HEARTBEAT_MS,
    P50,
    P99,
    PROFILE,
    SCHEDULER_THREADS,
    Run,
    Setting,
    decide_us,
    heartbeats_share,
    profiles,
    read_samples,
    simulate,
    write_profiles,
)

SLOTS: Final = 100_000
"""Containers that fit on the cluster at a time, unless the user says how many fit on a node."""
LEAST_FREE: Final = 0.1
"""The share of slots that must be free throughout: where fewer are, slots bound the run and not the scheduler."""
BACKLOG_SIZES: Final = {"jobs": 400, "tasks": 100, "task_ms": 1}
"""By default: 40,000 containers a second are asked for, by many masters. Where few get most containers, each has many
that it has not fetched yet, and the ResourceManager goes over all of these whenever one of its containers ends: that
would be most of what a run measures. A scheduler that serves applications strictly in order suffers most from it."""
MOST_ASKED: Final = 100_000_000
KEEPS_UP: Final = 0.5
"""A mode that handles a smaller share of the heartbeats due does not schedule the cluster that was asked for."""
_CAPACITY: Final = "yarn.scheduler.capacity."
_BACKLOG: Final = "treadle.bench.backlog."

BACKLOG_MODES: Final[dict[str, Mode]] = {
    mode.name: mode
    for mode in (
        MODES["sync"],
        MODES["observe"],
        replace(
            MODES["async-1"],
            name="async-3.5",
            capacity_settings={_CAPACITY + "schedule-asynchronously.enable": "true"},
        ),
        MODES["async-1"],
        MODES["async-2"],
        replace(
            MODES["async-1"],
            name="async-4",
            capacity_settings={
                _CAPACITY + "schedule-asynchronously.enable": "true",
                _CAPACITY + "schedule-asynchronously.maximum-threads": "4",
            },
        ),
        MODES["treadle"],
        replace(
            MODES["treadle"],
            name="treadle-async",
            capacity_settings={_CAPACITY + "schedule-asynchronously.enable": "true"},
        ),
        MODES["floor"],
    )
}
"""`async-3.5` sets only what has another default in Hadoop 3.5.0: asynchronous scheduling is on. What else there
is (one thread, 5 ms between passes, 100 proposals in wait at most) has the same default in both, as `async-1`."""


@dataclass(frozen=True)
class BacklogLoad(Workload):
    """Application masters (`jobs`) that ask for `tasks` containers each, anew once a second, until all is measured."""

    queues: int = 3
    users: int = 1
    preferred_nodes: int = 0
    """Nodes that each master draws and would like its containers on best, then their racks, then anywhere."""
    slots_per_node: int = 0
    """Containers that fit on a node; 0: as many that `SLOTS` fit on the cluster, at least 20."""
    heartbeat_ms: int = HEARTBEAT_MS
    """From one heartbeat of a node to the next; masters call once a second all the same."""
    warm_s: float = 15.0
    """From the first container to the window in which is measured."""
    window_s: float = 20.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, value, least, most in (
            ("--queues", self.queues, 1, 10_000),
            ("--users", self.users, 1, self.jobs),
            ("--preferred-nodes", self.preferred_nodes, 0, min(self.nodes, 1_000)),
            ("--slots-per-node", self.slots_per_node, 0, 10_000),
            ("--heartbeat-ms", self.heartbeat_ms, 100, 60_000),
        ):
            if not least <= value <= most:
                raise BenchError(f"{option} is {value}: it must lie between {least:,} and {most:,}")
        for option, seconds in (("--warm-s", self.warm_s), ("--window-s", self.window_s)):
            if not 1 <= seconds <= 3600:
                raise BenchError(f"{option} is {seconds:g}: it must lie between 1 and 3,600")
        if self.jobs * self.tasks > MOST_ASKED:
            raise BenchError(
                f"--jobs {self.jobs} times --tasks {self.tasks}: at most {MOST_ASKED:,} containers can be asked for"
            )
        if self.queues > self.jobs:
            raise BenchError(f"--queues is {self.queues}: there must be as many jobs (--jobs {self.jobs}), one in each")

    @property
    def slots_of_node(self) -> int:
        """Return how many containers fit on a node."""
        return self.slots_per_node or max(20, -(-SLOTS // self.nodes))

    @property
    def slots(self) -> int:
        """Return how many containers fit on the cluster."""
        return self.nodes * self.slots_of_node

    @property
    def yarn_settings(self) -> dict[str, str]:
        """Return the settings of the simulator and its masters."""
        node_mb = str(self.slots_of_node * CONTAINER_MB)
        return {
            "yarn.sls.am.type.mapreduce": "io.treadle.sls.BacklogMaster",
            "yarn.sls.nm.memory.mb": node_mb,
            "yarn.sls.nm.vcores": str(self.slots_of_node),
            "yarn.sls.nm.heartbeat.interval.ms": str(self.heartbeat_ms),
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(self.heartbeat_ms),
            "yarn.scheduler.maximum-allocation-mb": node_mb,
            "yarn.scheduler.maximum-allocation-vcores": str(self.slots_of_node),
            "treadle.bench.warm-ms": str(round(1000 * self.warm_s)),
            "treadle.bench.window-ms": str(round(1000 * self.window_s)),
            _BACKLOG + "queues": str(self.queues),
            _BACKLOG + "asks": str(self.tasks),
            _BACKLOG + "task-ms": str(self.task_ms),
            _BACKLOG + "preferred-nodes": str(self.preferred_nodes),
            _BACKLOG + "container-mb": str(CONTAINER_MB),
            _BACKLOG + "seed": str(self.seed),
        }

    @property
    def capacity_settings(self) -> dict[str, str]:
        """Return the queues: equal ones, each of which may grow to the whole cluster."""
        names = [f"q{number}" for number in range(self.queues)]
        settings = {_CAPACITY + "root.queues": ",".join(names), _CAPACITY + "maximum-am-resource-percent": "0.9"}
        for number, name in enumerate(names):
            # shares of 10,000 parts, which must add up to 100 %
            parts = 10_000 // self.queues + (1 if number < 10_000 % self.queues else 0)
            settings[f"{_CAPACITY}root.{name}.capacity"] = f"{parts / 100:.2f}"
            settings[f"{_CAPACITY}root.{name}.maximum-capacity"] = "100"
            settings[f"{_CAPACITY}root.{name}.user-limit-factor"] = "10000"
        return settings

    def mode(self, mode: Mode) -> Mode:
        """Return a mode with what this load needs set."""
        return replace(
            mode,
            yarn_settings=self.yarn_settings | mode.yarn_settings,
            capacity_settings=self.capacity_settings | mode.capacity_settings,
        )

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace: a job is a master, whose tasks the simulator only counts; users are drawn."""
        share = self._share_of("q0", 1)
        (job,) = share["job_classes"]
        job["tasks"][0]["count"] = {"val": 1}
        classes = [{**job, "class_name": f"job{user}", "user_name": f"user{user}"} for user in range(self.users)]
        return super().trace() | {"workloads": [share | {"job_classes": classes}]}


def chosen(names: Sequence[str]) -> list[Mode]:
    """Return the modes of these names, all if there are none; raise BenchError on a name that there is not."""
    if unknown := sorted(set(names) - BACKLOG_MODES.keys()):
        raise BenchError(
            f"--mode {unknown[0]}: there is no such mode with --backlog; there are {', '.join(BACKLOG_MODES)}"
        )
    return [mode for mode in BACKLOG_MODES.values() if not names or mode.name in names]


@dataclass(frozen=True)
class Rate:
    """What the window of a run showed; CPU times are of the window, a container; nan where a mode has no such thing."""

    containers_per_s: float
    scheduler_cpu_us: float
    """All that schedules: see `treadle_lab.sls.run.Figures`."""
    link_cpu_us: float
    frame_us: float
    commit_cpu_us: float
    """Commits with all that the shim does around `tryCommit`."""
    try_commit_cpu_us: float
    sidecar_cpu_us: float
    jvm_cpu_us: float
    """The whole JVM: ResourceManager, simulated nodes and masters, garbage collection, compilation."""
    heartbeats_share: float
    """Heartbeats that were handled, of those that were due: below 1 the ResourceManager is behind, hears of the ends of
    containers late, and has fewer calls to pay for; such a mode's containers a second are dearer than they look."""
    heartbeat_p50_us: float
    heartbeat_p99_us: float
    decide_p50_us: float
    decide_p99_us: float
    decide_cpu_us: float
    """CPU time of the sidecar a decision; what a decision takes beside it is mostly waiting for a processor."""
    rejected: float
    placed_natively: float
    least_free: float
    """The smallest share of slots that was free."""


def rate_of(run: Run, load: BacklogLoad) -> Rate:
    """Return what a run showed.

    Raises:
        BenchError: something else than the scheduler bounded it: slots or asks ran out.
    """
    seen, window = run.measurements, run.measurements["window"]
    if window is None or "end_ms" not in window:
        raise BenchError(f"{seen['attempts_ended']} application masters ended, which never should; see --keep")
    committed = max(1, window["commits"])
    shim, before = seen.get("shim") or {}, seen.get("shim_at_first_container") or {}

    def grown(name: str, absent: float = math.nan) -> float:
        return float(shim.get(name, absent)) - float(before.get(name, 0) if name in shim else 0)

    cpu, origin_ms = seen["cpu_ns"], seen["origin_epoch_ms"]
    sidecar_us = 1e6 * run.sidecar_cpu_between(origin_ms + window["start_ms"], origin_ms + window["end_ms"])
    scheduling_ns = sum(cpu.get(group, 0) for group in SCHEDULER_THREADS) + seen["allocate_cpu"]["total_ns"]
    return Rate(
        containers_per_s=1000 * window["commits"] / (window["end_ms"] - window["start_ms"]),
        scheduler_cpu_us=(scheduling_ns / 1000 + sidecar_us) / committed,
        link_cpu_us=grown("LinkCpuNanos") / 1000 / committed,
        frame_us=grown("FrameNanos") / 1000 / committed,
        commit_cpu_us=grown("CommitCpuNanos") / 1000 / committed,
        try_commit_cpu_us=seen["commit_cpu"]["total_ns"] / 1000 / max(1, seen["commit_cpu"]["count"]),
        sidecar_cpu_us=sidecar_us / committed if run.mode.kind in (Kind.TREADLE, Kind.OBSERVER) else math.nan,
        jvm_cpu_us=cpu["process"] / 1000 / committed,
        heartbeats_share=heartbeats_share(seen, load.nodes, load.heartbeat_ms, window["start_ms"], window["end_ms"]),
        heartbeat_p50_us=seen["heartbeat_wall"]["p50_ns"] / 1000,
        heartbeat_p99_us=seen["heartbeat_wall"]["p99_ns"] / 1000,
        decide_p50_us=decide_us(shim, P50),
        decide_p99_us=decide_us(shim, P99),
        decide_cpu_us=sidecar_us / decided if (decided := grown("Frames", 0)) else math.nan,
        rejected=grown("Rejected", 0),
        placed_natively=grown("PlacedNatively", 0),
        least_free=_least_free(seen, load),
    )


def _least_free(seen: Mapping[str, Any], load: BacklogLoad) -> float:
    """Return the smallest share of free slots in the window; raise BenchError if slots or asks ran out."""
    columns, window = seen["sample_columns"], seen["window"]
    at, running, pending = (columns.index(name) for name in ("elapsed_ms", "running", "pending"))
    inside = [each for each in seen["samples"] if window["start_ms"] <= each[at] <= window["end_ms"]]
    if not inside:
        raise BenchError("nothing was sampled while it was measured: a longer --window-s is needed")
    free = 1 - float(max(each[running] for each in inside)) / load.slots
    if free < LEAST_FREE:
        raise BenchError(
            f"only {free:.0%} of {load.slots:,} slots were free: they bound the run and not the scheduler; "
            f"try more --slots-per-node than {load.slots_of_node}"
        )
    if min(each[pending] for each in inside) <= 0:
        raise BenchError(
            f"the asks ran out: they bound the run and not the scheduler; try more --tasks than {load.tasks:,}"
        )
    return free


@dataclass(frozen=True)
class ModeRates:
    """All rounds of a mode; None for a round that failed, whose cause is among the failures."""

    mode: Mode
    rounds: tuple[Rate | None, ...]
    failures: tuple[str, ...]

    def median(self, figure: str) -> float:
        """Return the median of a figure over the rounds, nan if all failed."""
        values = [getattr(each, figure) for each in self.rounds if each is not None]
        return statistics.median(values) if values else math.nan


Progress = Callable[[str, dict[str, Any]], None]


def run_backlog(
    modes: Sequence[Mode],
    setting: Setting,
    load: BacklogLoad,
    rounds: int,
    folder: Path,
    json_file: Path,
    progress: Progress,
    profiles_folder: Path | None = None,
) -> list[ModeRates]:
    """Run each mode once a round, every other round in the opposite order; the report is written after each run.

    Where there is a folder for profiles, each run that came through writes where its threads' time went into it.
    """
    rates: dict[str, list[Rate | None]] = {mode.name: [] for mode in modes}
    failures: dict[str, list[str]] = {mode.name: [] for mode in modes}
    outcome: list[ModeRates] = []
    for number in range(1, rounds + 1):
        for mode in modes if number % 2 else list(reversed(modes)):
            label = f"{mode.name}, round {number} of {rounds}"
            own_folder = folder / f"{number}-{mode.name}"
            run = simulate(load.mode(mode), setting, own_folder, partial(progress, label))
            rate, failure = _judged(run, load)
            if rate is not None and profiles_folder is not None:
                _write_profiles(setting.java, run, own_folder, profiles_folder)
            rates[mode.name].append(rate)
            if failure is not None:
                failures[mode.name].append(f"round {number}: {failure}")
            outcome = [ModeRates(each, tuple(rates[each.name]), tuple(failures[each.name])) for each in modes]
            write_report(json_file, report(setting, load, rounds, outcome))
    return outcome


def _write_profiles(java: str, run: Run, folder: Path, to: Path) -> None:
    """Write where the threads' time went in the window."""
    origin_ms, window = run.measurements["origin_epoch_ms"], run.measurements["window"]
    start_ms, end_ms = origin_ms + window["start_ms"], origin_ms + window["end_ms"]
    found = profiles(read_samples(java, folder / PROFILE), start_ms, end_ms)
    write_profiles(found, end_ms - start_ms, to, folder.name)


def _judged(run: Run, load: BacklogLoad) -> tuple[Rate | None, str | None]:
    if run.failure is not None:
        return None, run.failure
    try:
        return rate_of(run, load), None
    except BenchError as error:
        return None, str(error)


def behind(outcome: Sequence[ModeRates]) -> list[str]:
    """Return the modes that did not keep up with the heartbeats, by the median."""
    return [each.mode.name for each in outcome if each.median("heartbeats_share") < KEEPS_UP]


def best_stock(outcome: Sequence[ModeRates]) -> str | None:
    """Return the stock mode that places most containers a second, None if none ran."""
    stock = {each.mode.name: each.median("containers_per_s") for each in outcome if each.mode.kind is Kind.STOCK}
    ran = {name: rate for name, rate in stock.items() if not math.isnan(rate)}
    return max(ran, key=lambda name: ran[name], default=None)


def ratio(outcome: Sequence[ModeRates], part: str, whole: str | None, figure: str) -> Interval | None:
    """Return a figure of one mode over that of another, of the rounds that both came through; None if there is none."""
    by_name = {each.mode.name: each.rounds for each in outcome}
    if whole is None or part not in by_name or whole not in by_name:
        return None
    pairs = [(a, b) for a, b in zip(by_name[part], by_name[whole], strict=False) if a is not None and b is not None]
    if not pairs:
        return None
    return ratio_of([getattr(a, figure) for a, _ in pairs], [getattr(b, figure) for _, b in pairs])


def comparison(outcome: Sequence[ModeRates]) -> dict[str, Any]:
    """Return what Treadle is to the best stock mode and to the floor, and what observing costs the RM."""
    best = best_stock(outcome)
    ratios = {
        "rate_ratio": ratio(outcome, "treadle", best, "containers_per_s"),
        "floor_ratio": ratio(outcome, "treadle", "floor", "containers_per_s"),
        "floor_to_stock": ratio(outcome, "floor", best, "containers_per_s"),
        "heartbeat_p99_ratio": ratio(outcome, "treadle", best, "heartbeat_p99_us"),
        "scheduler_cpu_ratio": ratio(outcome, "treadle", best, "scheduler_cpu_us"),
        "observe_rate_ratio": ratio(outcome, "observe", "sync", "containers_per_s"),
        "observe_cpu_ratio": ratio(outcome, "observe", "sync", "jvm_cpu_us"),
    }
    return {"best_stock_mode": best} | {name: value and value.as_json() for name, value in ratios.items()}


def report(setting: Setting, load: BacklogLoad, rounds: int, outcome: Sequence[ModeRates]) -> dict[str, Any]:
    """Return everything that goes to the JSON file, with nan as null."""
    modes = {
        each.mode.name: {
            "median": {field.name: _plain(each.median(field.name)) for field in fields(Rate)},
            "rounds": [
                None if rate is None else {name: _plain(value) for name, value in asdict(rate).items()}
                for rate in each.rounds
            ],
            "failures": list(each.failures),
        }
        for each in outcome
    }
    return {
        "load": {**asdict(load), "slots": load.slots},
        "rounds": rounds,
        "heap_mb": setting.heap_mb,
        **machine(),
        "comparison": comparison(outcome) | {"behind": behind(outcome)},
        "modes": modes,
    }


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else value
