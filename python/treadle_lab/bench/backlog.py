"""A load that only schedulers bound: asks that never run out, slots that are always free; and containers a second."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from rich.table import Table

from treadle.errors import percent
from treadle.simulate.comparison import Interval, interval_of_ratio
from treadle_lab.bench.cluster import (
    Figures,
    Keep,
    Progress,
    Rounds,
    Shim,
    figures_table,
    measured,
    run_rounds,
    scheduling_us,
)
from treadle_lab.sls.load import CONTAINER_MB, MODES, BenchError, Kind, Mode, Workload, asynchronous
from treadle_lab.sls.run import HEARTBEAT_MS, P50, P99, Run, Setting, heartbeats_share

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
"""A mode that handles a smaller fraction of the due heartbeats does not schedule the requested cluster."""
_CAPACITY: Final = "yarn.scheduler.capacity."
_BACKLOG: Final = "treadle.bench.backlog."

BACKLOG_MODES: Final[dict[str, Mode]] = {
    mode.name: mode
    for mode in (
        MODES["sync"],
        MODES["observe"],
        MODES["async-1"],
        MODES["async-2"],
        asynchronous(4),
        MODES["treadle"],
        MODES["floor"],
    )
}


@dataclass(frozen=True)
class BacklogLoad(Workload):
    """Application masters (`jobs`) that request `tasks` containers each, every second until the end."""

    queues: int = 3
    users: int = 1
    preferred_nodes: int = 0
    """Nodes that each master draws and would like its containers on best, then their racks, then anywhere."""
    slots_per_node: int = 0
    """Containers that fit on a node; 0: as many that `SLOTS` fit on the cluster, at least 20."""
    heartbeat_ms: int = HEARTBEAT_MS
    """From one heartbeat of a node to the next; masters call once a second all the same."""
    warm_s: float = 40.0
    """From the first container to the window that is measured. On two cores the JVM compiles the ResourceManager for
    some 30 s. Its compilers take a quarter of the machine meanwhile; one that runs for days does not have that."""
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
        """Return identical queues, each of which may grow to the whole cluster."""
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


def rate_of(run: Run, load: BacklogLoad) -> Figures:
    """Return the figures of a run's window; CPU times per container.

    Raises:
        BenchError: something else than the scheduler bounded it: slots or asks ran out.
    """
    seen, window = run.measurements, run.measurements["window"]
    if window is None or "end_ms" not in window:
        raise BenchError(f"{seen['attempts_ended']} application masters ended, which never should; see --folder")
    committed, shim, origin_ms = max(1, window["commits"]), Shim(seen), seen["origin_epoch_ms"]
    sidecar_us = 1e6 * run.sidecar_cpu_between(origin_ms + window["start_ms"], origin_ms + window["end_ms"])
    decided = shim.since_first_container("Frames", 0)
    return {
        "containers_per_s": 1000 * window["commits"] / (window["end_ms"] - window["start_ms"]),
        "scheduler_cpu_us": (scheduling_us(seen) + sidecar_us) / committed,
        "link_cpu_us": shim.since_first_container("LinkCpuNanos") / 1000 / committed,
        "frame_us": shim.since_first_container("FrameNanos") / 1000 / committed,
        "commit_cpu_us": shim.since_first_container("CommitCpuNanos") / 1000 / committed,
        "try_commit_cpu_us": seen["commit_cpu"]["total_ns"] / 1000 / max(1, seen["commit_cpu"]["count"]),
        "sidecar_cpu_us": sidecar_us / committed if run.mode.kind in (Kind.TREADLE, Kind.OBSERVER) else math.nan,
        "jvm_cpu_us": seen["cpu_ns"]["process"] / 1000 / committed,
        # below 1 the ResourceManager is late: it learns of ended containers late and handles fewer calls, so that
        # containers/s look cheaper than they are
        "heartbeats_share": heartbeats_share(seen, load.nodes, load.heartbeat_ms, window["start_ms"], window["end_ms"]),
        "heartbeat_p50_us": seen["heartbeat_wall"]["p50_ns"] / 1000,
        "heartbeat_p99_us": seen["heartbeat_wall"]["p99_ns"] / 1000,
        "decide_p50_us": shim.decide_us(P50),
        "decide_p99_us": shim.decide_us(P99),
        # the rest of a decision's time is mostly a wait for a processor
        "decide_cpu_us": sidecar_us / decided if decided else math.nan,
        "rejected": shim.since_first_container("Rejected", 0),
        "placed_by_capacity_scheduler": shim.since_first_container("PlacedByCapacityScheduler", 0),
        "least_free": _least_free(seen, load),
    }


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
            f"only {percent(free)} of {load.slots:,} slots were free: they bound the run and not the scheduler; "
            f"try more --slots-per-node than {load.slots_of_node}"
        )
    if min(each[pending] for each in inside) <= 0:
        raise BenchError(
            f"the asks ran out: they bound the run and not the scheduler; try more --tasks than {load.tasks:,}"
        )
    return free


def run_backlog(
    modes: Sequence[Mode],
    setting: Setting,
    load: BacklogLoad,
    rounds: int,
    folder: Path,
    keep: Keep,
    progress: Progress,
) -> list[Rounds]:
    """Run each mode once a round, every other round in the opposite order; the report is written after each run."""
    return run_rounds(
        [load.mode(mode) for mode in modes],
        rounds,
        setting,
        progress,
        partial(rate_of, load=load),
        folder,
        lambda found: keep(report(setting, load, rounds, found)),
        turning=True,
    )


def behind(outcome: Sequence[Rounds]) -> list[str]:
    """Return the modes that did not keep up with the heartbeats, by the median."""
    return [each.mode.name for each in outcome if each.median("heartbeats_share") < KEEPS_UP]


def best_stock(outcome: Sequence[Rounds]) -> str | None:
    """Return the stock mode that places most containers a second, None if none ran."""
    stock = {each.mode.name: each.median("containers_per_s") for each in outcome if each.mode.kind is Kind.STOCK}
    ran = {name: rate for name, rate in stock.items() if not math.isnan(rate)}
    return max(ran, key=lambda name: ran[name], default=None)


def ratio(outcome: Sequence[Rounds], part: str, whole: str | None, figure: str) -> Interval | None:
    """Return a figure of one mode over that of another, of the rounds that both came through; None if there is none."""
    by_name = {each.mode.name: each.rounds for each in outcome}
    if whole is None or part not in by_name or whole not in by_name:
        return None
    pairs = [(a, b) for a, b in zip(by_name[part], by_name[whole], strict=False) if a is not None and b is not None]
    if not pairs:
        return None
    return interval_of_ratio([a[figure] for a, _ in pairs], [b[figure] for _, b in pairs])


def _compared(best: str | None) -> dict[str, tuple[str, str | None, str]]:
    """Return for each ratio a mode, another, and the figure."""
    return {
        "rate_ratio": ("treadle", best, "containers_per_s"),
        "floor_ratio": ("treadle", "floor", "containers_per_s"),
        "floor_to_stock": ("floor", best, "containers_per_s"),
        "heartbeat_p99_ratio": ("treadle", best, "heartbeat_p99_us"),
        "scheduler_cpu_ratio": ("treadle", best, "scheduler_cpu_us"),
        "observe_rate_ratio": ("observe", "sync", "containers_per_s"),
        "observe_cpu_ratio": ("observe", "sync", "jvm_cpu_us"),
    }


def comparison(outcome: Sequence[Rounds]) -> dict[str, Any]:
    """Return what Treadle is to the best stock mode and to the floor, and what observing costs the RM."""
    best = best_stock(outcome)
    ratios = {name: ratio(outcome, *each) for name, each in _compared(best).items()}
    return {"best_stock_mode": best} | {name: value and value.as_json() for name, value in ratios.items()}


def report(setting: Setting, load: BacklogLoad, rounds: int, outcome: Sequence[Rounds]) -> dict[str, Any]:
    """Return everything that goes to the JSON file."""
    compared = comparison(outcome) | {"behind": behind(outcome)}
    return {"load": {**asdict(load), "slots": load.slots}} | measured(setting, rounds, compared, outcome)


ROWS: Final = (
    ("containers_per_s", "containers/s", ",.0f"),
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
    ("least_free", "slots free, least", ".0%"),
)
WORDS: Final = {
    "containers_per_s": "containers/s",
    "heartbeat_p99_us": "heartbeat p99",
    "scheduler_cpu_us": "scheduler CPU",
    "jvm_cpu_us": "CPU of RM and simulation",
}


def rates_table(outcome: Sequence[Rounds]) -> Table:
    """Return the figures of each mode; the ratios below."""
    best = best_stock(outcome)
    lines = [f"best stock mode: {best or 'none ran'}; in brackets 95 % intervals over the rounds, if there are several"]
    for part, whole, figure in _compared(best).values():
        value = ratio(outcome, part, whole, figure)
        if value is not None:
            lines.append(f"{WORDS[figure]}, {part} to {whole}: {value}")
    return figures_table(ROWS, outcome, "\n".join(lines))
