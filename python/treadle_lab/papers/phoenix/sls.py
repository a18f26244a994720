"""Asks that a tenth of simulated nodes can serve, under a real ResourceManager: schedulers, jobs, runs and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from treadle.shipped import ready_made
from treadle.simulate.comparison import Interval, interval_of
from treadle.tables import empty_table
from treadle_lab.minicluster import Scheduler
from treadle_lab.papers.phoenix.blind import write_command
from treadle_lab.plots import Panel, panels, share_up_to
from treadle_lab.sls.play import SUCCEEDED, Cluster, Played, Player, Scheduling, Script, ScriptedJob, map_reduce

ALLOCATOR: Final = {
    "yarn.scheduler.app-placement-allocator.class": "io.treadle.shim.constraints.TreadlePlacementAllocator"
}
POLICY: Final = """\
policy:
  share: {kind: capacity}
  order: {kind: srpt}
  fit: {kind: packing}
  estimate: {kind: observed}
"""


@dataclass(frozen=True, slots=True)
class Scheme:
    """A scheduler; ``policy`` is a treadle.yaml, empty under the stock one."""

    name: str
    scheduler: Scheduler
    policy: str = ""


SCHEMES: Final = ("stock", "blind", "srpt", "phoenix")


def schemes() -> list[Scheme]:
    """Return the schemes; phoenix only if this version has that policy."""
    found = [
        Scheme("stock", Scheduler.CAPACITY),
        Scheme("blind", Scheduler.TREADLE, POLICY),
        Scheme("srpt", Scheduler.TREADLE, POLICY),
    ]
    file = ready_made().get("phoenix")
    return found if file is None else [*found, Scheme("phoenix", Scheduler.TREADLE, file.read_text("utf-8"))]


@dataclass(frozen=True, slots=True)
class Ended:
    """The outcome of a job."""

    name: str
    short: bool
    status: str
    completion_ms: int
    """From its submission to its end, by the ResourceManager's clock."""
    misplaced: int
    """Containers beside its master's on nodes that it does not allow."""


@dataclass(frozen=True, slots=True)
class Round:
    """The jobs of a seed under one scheduler."""

    seed: int
    scheme: str
    jobs: tuple[Ended, ...]
    proposals: int
    """Of the engine; 0 under the stock scheduler."""
    constraint_rejections: int


@dataclass(frozen=True, slots=True)
class Settings:
    """How large a round is."""

    short_jobs: int
    short_tasks: int
    gap_ms: int
    """Mean time from one short job to the next."""
    long_jobs: int
    slots: int
    """Tasks at a time in the cluster."""
    short_ms: int = 1_000
    """How long a task of a short job sleeps."""
    long_ms: int = 8_000
    """How long a task of a long job sleeps."""
    load: float = 0.7
    """Of long jobs: slots that they keep busy on average."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job and when it is submitted."""

    name: str
    at_ms: int
    tasks: int
    task_ms: int
    short: bool


def arrivals(seed: int, settings: Settings) -> list[Arrival]:
    """Draw the jobs of a round, in the order in which they are submitted.

    Long jobs come evenly; their tasks together keep ``load`` of the slots busy until the last short job comes.
    """
    chance = np.random.default_rng(seed)
    gaps = chance.exponential(settings.gap_ms, settings.short_jobs)
    times = np.cumsum(gaps)
    span = float(times[-1])
    tasks = max(1, round(settings.load * settings.slots * span / settings.long_ms / settings.long_jobs))
    drawn = [
        Arrival(f"long-{number}", round(number * span / settings.long_jobs), tasks, settings.long_ms, False)
        for number in range(settings.long_jobs)
    ]
    drawn += [
        Arrival(f"short-{number}", round(float(at)), settings.short_tasks, settings.short_ms, True)
        for number, at in enumerate(times)
    ]
    return sorted(drawn, key=lambda one: (one.at_ms, one.name))


ATTRIBUTE: Final = {"zone": "special"}
SPECIAL_SHARE: Final = 0.1
SLOTS: Final = 4
TASK_MB: Final = 1024
MASTER_MB: Final = 256
MASTERS: Final = 4
"""Application masters that a node has room for beside its tasks."""
SPREAD: Final = (0.5, 1.5)
"""Of a task's duration, as a part of the mean."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the testbed is."""

    nodes: int = 200

    @property
    def special(self) -> range:
        """The numbers of special nodes, evenly over the cluster."""
        step = round(1 / SPECIAL_SHARE)
        return range(0, self.nodes, step)

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(self.nodes, SLOTS * TASK_MB + MASTERS * MASTER_MB, SLOTS + MASTERS)


def settings_of(size: Size) -> Settings:
    """Return how many jobs come, and how fast."""
    return Settings(short_jobs=60, short_tasks=20, gap_ms=1_000, long_jobs=3, slots=size.nodes * SLOTS)


def script_of(seed: int, settings: Settings, size: Size) -> Script:
    """Return the jobs of a seed as the testbed plays them."""
    chance = np.random.default_rng((seed, 7))
    jobs = tuple(_job(arrival, chance) for arrival in arrivals(seed, settings))
    return Script(jobs, {size.cluster.host(number): ATTRIBUTE for number in size.special})


def _job(arrival: Arrival, chance: np.random.Generator) -> ScriptedJob:
    durations = np.rint(arrival.task_ms * chance.uniform(*SPREAD, arrival.tasks)).astype(int).tolist()
    stages = map_reduce(durations, {"memory-mb": TASK_MB, "vcores": 1})
    requires = ATTRIBUTE if arrival.short else {}
    return ScriptedJob(arrival.name, arrival.at_ms, stages, master_mb=MASTER_MB, requires=requires)


def scheduling(scheme: Scheme, folder: Path) -> Scheduling:
    """Return a scheme as the testbed runs it."""
    if scheme.scheduler is not Scheduler.TREADLE:
        return Scheduling(scheme.name, settings=ALLOCATOR)
    blind = write_command(folder.with_name(f"{folder.name}-blind")) if scheme.name == "blind" else None
    return Scheduling(scheme.name, scheme.policy, settings=ALLOCATOR, sidecar=blind)


def run_scheme(scheme: Scheme, seed: int, settings: Settings, size: Size, player: Player) -> Round:
    """Play the jobs of a seed under a scheme, unless that is kept.

    Raises:
        BenchError: the run gave no result.
    """
    script = script_of(seed, settings, size)
    chosen = scheduling(scheme, player.folder / f"{seed}-{scheme.name}")
    run = partial(player.play, chosen, script, size.cluster, seed)
    return round_of(scheme.name, seed, script, player.kept.get_or_play(run, asdict(scheme), seed))


def round_of(scheme: str, seed: int, script: Script, played: Played) -> Round:
    """Return a run as the report takes it."""
    ended = tuple(
        Ended(job.name, bool(job.requires), found.status, found.completion_ms, found.misplaced)
        for job, found in zip(script.jobs, played.jobs, strict=True)
    )
    proposals, rejected = (int(played.shim.get(key, 0)) for key in ("Proposals", "RejectedConstraint"))
    return Round(seed, scheme, ended, proposals, rejected)


OURS: Final = "phoenix"
GOALS: Final = {("stock", "short_p90"): 0.7, ("srpt", "short_p90"): 1.05, ("srpt", "long_mean"): 1.05}
"""Ours over another's at most: the 90th percentile of short jobs, and the mean of long ones."""
REJECTIONS_MAX: Final = 0.01
"""Proposals for nodes that asks may not use, of all; an engine that knows makes next to none."""
SHORT_JOBS: Final = 200
"""How many each scheduler must have had for an answer."""
FIGURES: Final = ("short_p90", "short_p99", "long_mean")
WORDS: Final = {"short_p90": "short jobs' P90", "short_p99": "short jobs' P99", "long_mean": "long jobs' mean"}


def schemes_of(rounds: Sequence[Round]) -> list[str]:
    """Return the schedulers that ran, in the order of `SCHEMES`."""
    ran = {one.scheme for one in rounds}
    return [name for name in SCHEMES if name in ran]


def times(rounds: Sequence[Round], scheme: str, *, short: bool, seed: int | None = None) -> list[int]:
    """Return the completion times of short or long jobs under a scheduler."""
    return [
        job.completion_ms
        for one in rounds
        if one.scheme == scheme and seed in (None, one.seed)
        for job in one.jobs
        if job.short == short
    ]


def figure(rounds: Sequence[Round], scheme: str, name: str, seed: int | None = None) -> float:
    """Return one of `FIGURES` in milliseconds; NaN if there are no such jobs."""
    found = times(rounds, scheme, short=name.startswith("short"), seed=seed)
    if not found:
        return float("nan")
    return float(np.mean(found)) if name.endswith("mean") else float(np.percentile(found, float(name[-2:])))


def ratio(rounds: Sequence[Round], scheme: str, over: str, name: str) -> Interval:
    """Return a figure under a scheduler over that under another: the mean of the rounds' ratios, each round a pair."""
    seeds = sorted({one.seed for one in rounds})
    pairs = [(figure(rounds, scheme, name, seed), figure(rounds, over, name, seed)) for seed in seeds]
    return interval_of([mine / theirs for mine, theirs in pairs if theirs > 0 and mine == mine])


def table(rounds: Sequence[Round]) -> Table:
    """Return each scheduler's times in seconds, what went to other nodes, and what was turned down for it."""
    shown = empty_table(
        "Completion times (s)",
        ("scheduler",),
        ("short jobs", *WORDS.values(), "on other nodes", "turned down"),
        box=SIMPLE,
    )
    for scheme in schemes_of(rounds):
        own = [one for one in rounds if one.scheme == scheme]
        shown.add_row(
            scheme,
            str(len(times(rounds, scheme, short=True))),
            *(f"{figure(rounds, scheme, name) / 1000:.1f}" for name in FIGURES),
            str(sum(job.misplaced for one in own for job in one.jobs)),
            f"{sum(one.constraint_rejections for one in own)} of {sum(one.proposals for one in own)}",
        )
    return shown


def reached(rounds: Sequence[Round]) -> dict[str, Interval]:
    """Return ours over others' for each goal whose schedulers ran."""
    ran = schemes_of(rounds)
    return {
        f"{WORDS[name]}, {OURS} over {over}": ratio(rounds, OURS, over, name)
        for over, name in GOALS
        if OURS in ran and over in ran
    }


def shortfalls(rounds: Sequence[Round]) -> list[str]:
    """Say what is not as it should be: jobs that failed, containers on other nodes, goals that are missed."""
    found = [
        f"seed {one.seed}, {one.scheme}: {job.name} ended as {job.status}"
        for one in rounds
        for job in one.jobs
        if job.status != SUCCEEDED
    ]
    found += [
        f"seed {one.seed}, {one.scheme}: {job.misplaced} containers of {job.name} ran on nodes that it does not allow"
        for one in rounds
        for job in one.jobs
        if job.misplaced
    ]
    for scheme in ("srpt", OURS):
        proposals = sum(one.proposals for one in rounds if one.scheme == scheme)
        rejected = sum(one.constraint_rejections for one in rounds if one.scheme == scheme)
        if rejected > REJECTIONS_MAX * proposals:
            found.append(f"{scheme}: {rejected} of {proposals} proposals were for nodes that asks may not use")
    ran = schemes_of(rounds)
    if OURS not in ran:
        found.append("phoenix did not run: this version has no policy of that name")
    for (over, name), goal in GOALS.items():
        if OURS in ran and over in ran and (got := ratio(rounds, OURS, over, name)).mean > goal:
            found.append(f"{WORDS[name]}: {got} of {over}'s; the goal is {goal}")
    fewest = min(len(times(rounds, scheme, short=True)) for scheme in ran)
    if fewest < SHORT_JOBS:
        found.append(f"{fewest} short jobs a scheduler: {SHORT_JOBS} are needed for an answer; raise --rounds")
    return found


def document(rounds: Sequence[Round], settings: Settings) -> dict[str, Any]:
    """Return everything for ``--json``."""
    return {
        "settings": asdict(settings),
        "goals": {f"{OURS} over {over}, {name}": goal for (over, name), goal in GOALS.items()},
        "reached": {text: got.as_json() for text, got in reached(rounds).items()},
        "figures_ms": {
            scheme: {name: figure(rounds, scheme, name) for name in FIGURES} for scheme in schemes_of(rounds)
        },
        "shortfalls": shortfalls(rounds),
        "rounds": [asdict(one) for one in rounds],
    }


def plot_completions(rounds: Sequence[Round], target: Path) -> None:
    """Draw the share of short and of long jobs that has ended within a time."""
    shown = []
    for short in (True, False):
        ended = {
            scheme: share_up_to(np.array(times(rounds, scheme, short=short)) / 1000) for scheme in schemes_of(rounds)
        }
        shown.append(Panel(ended, "completion time (s)", "share of jobs", "short jobs" if short else "long jobs"))
    panels(shown, target)
