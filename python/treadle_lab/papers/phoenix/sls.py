"""Asks that a tenth of simulated nodes can serve, under a real ResourceManager: schedulers, jobs, runs and report.

As a program it is a sidecar whose engine does not know node constraints: it receives none, and tries any free node.
The ResourceManager rejects its proposals for other nodes.
"""

from __future__ import annotations

import runpy
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np

from treadle.engine.engine import Engine
from treadle.events import Event, Names
from treadle.shipped import ready_made
from treadle_lab.rows import Layout, Results, Row
from treadle_lab.sls.play import Cluster, Draw, Played, Player, Scheduling, Script, ScriptedJob, facts_of, map_reduce

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


SCHEMES: Final = ("stock", "blind", "srpt", "phoenix")
"""The stock scheduler, Treadle's engine that does not know which nodes asks may use, one that does, and Phoenix."""
STOCK: Final = "stock"
SHORT: Final = "short"
"""Prefix of the names of short jobs."""


ATTRIBUTE: Final = {"zone": "special"}
SPECIAL_SHARE: Final = 0.1
SLOTS: Final = 4
TASK: Final = {"memory-mb": 1024, "vcores": 1}
MASTER_MB: Final = 256
MASTERS: Final = 4
"""Additional application masters per node, next to its tasks."""
SPREAD: Final = (0.5, 1.5)
"""Bounds of a task's duration, as fractions of the mean."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a round."""

    nodes: int = 200
    short_jobs: int = 60
    short_tasks: int = 20
    gap_ms: int = 1_000
    """Mean time from one short job to the next."""
    long_jobs: int = 3
    short_ms: int = 1_000
    """Sleep time of a task of a short job, in ms."""
    long_ms: int = 8_000
    """Sleep time of a task of a long job, in ms."""
    load: float = 0.7
    """Average share of the slots used by long jobs."""

    @property
    def special(self) -> range:
        """The numbers of special nodes, evenly over the cluster."""
        return range(0, self.nodes, round(1 / SPECIAL_SHARE))

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        return Cluster(self.nodes, SLOTS * TASK["memory-mb"] + MASTERS * MASTER_MB, SLOTS + MASTERS)


def script_of(seed: int, size: Size) -> Script:
    """Return the jobs of a seed as the testbed plays them; short ones require a special node.

    Long jobs come evenly; their tasks together keep ``load`` of the slots busy until the last short job comes.
    """
    times_ms = np.cumsum(np.random.default_rng(seed).exponential(size.gap_ms, size.short_jobs))
    span_ms = float(times_ms[-1])
    tasks = max(1, round(size.load * size.nodes * SLOTS * span_ms / size.long_ms / size.long_jobs))
    jobs = [(round(at * span_ms / size.long_jobs), f"long-{at}", tasks, size.long_ms) for at in range(size.long_jobs)]
    jobs += [
        (round(float(at_ms)), f"{SHORT}-{number}", size.short_tasks, size.short_ms)
        for number, at_ms in enumerate(times_ms)
    ]
    chance = np.random.default_rng((seed, 7))
    played = tuple(_job(*job, chance) for job in sorted(jobs))
    return Script(played, {size.cluster.host(number): ATTRIBUTE for number in size.special})


def _job(at_ms: int, name: str, tasks: int, task_ms: int, chance: np.random.Generator) -> ScriptedJob:
    durations = np.rint(task_ms * chance.uniform(*SPREAD, tasks)).astype(int).tolist()
    requires = ATTRIBUTE if name.startswith(SHORT) else {}
    return ScriptedJob(name, at_ms, map_reduce(durations, TASK), master_mb=MASTER_MB, requires=requires)


def scheduling(scheme: str, folder: Path) -> Scheduling:
    """Return a scheme as the testbed runs it."""
    if scheme == STOCK:
        return Scheduling(scheme, settings=ALLOCATOR)
    policy = ready_made()[scheme].read_text("utf-8") if scheme == OURS else POLICY
    blind = write_command(folder.with_name(f"{folder.name}-blind")) if scheme == "blind" else None
    return Scheduling(scheme, policy, settings=ALLOCATOR, sidecar=blind)


def run_draw(seed: int, size: Size, turn: int, player: Player) -> Draw:
    """Play the jobs of a seed under all schemes: see `Player.draw`.

    Raises:
        BenchError: a run gave no result.
    """
    script = script_of(seed, size)
    schemes = [scheduling(scheme, player.folder / f"{seed}-{scheme}") for scheme in SCHEMES]
    return Draw(seed, player.draw(schemes, lambda _: script, size.cluster, seed, turn))


OURS: Final = "phoenix"
P90: Final = "short jobs' P90"
LONG: Final = "long jobs' mean"
GOALS: Final = {("stock", P90): 0.7, ("srpt", P90): 1.05, ("srpt", LONG): 1.05}
"""Ours over another's at most: the 90th percentile of short jobs, and the mean of long ones."""
REJECTIONS_MAX: Final = 0.01
"""Proposals for nodes that asks may not use, of all; an engine that knows makes next to none."""
SHORT_JOBS: Final = 200
"""Minimum number of short jobs of each scheduler for a result."""
LAYOUTS: Final = {
    "phoenix-testbed": Layout("Completion times, containers on other nodes, and what was turned down", ("scheduler",)),
    "phoenix-testbed-goals": Layout("Ours over others', round by round"),
}


def results_of(draws: Sequence[Draw], size: Size) -> Results:
    """Return everything; a draw is a pair of every two schedulers."""
    rows = {
        "phoenix-testbed": [row for draw in draws for scheme in draw.runs for row in _rows(draw, scheme)],
        "phoenix-testbed-goals": [
            Row(figure, f"{OURS} over {over}", "", draw.seed, ours / theirs, "1", GOALS.get((over, figure)))
            for draw in draws
            for over in SCHEMES[:-1]
            for figure, ours in figures_s(draw.runs[OURS]).items()
            if (theirs := figures_s(draw.runs[over]).get(figure))
        ],
    }
    results = Results(LAYOUTS, rows, facts_of(draws) | {"size": asdict(size)})
    results.facts["shortfalls"] += [*_misplaced(draws), *_rejected(draws), *_missed(results)]
    short = sum(job.name.startswith(SHORT) for draw in draws for job in draw.runs[OURS].jobs)
    if short < SHORT_JOBS:
        text = f"{short} short jobs a scheduler: {SHORT_JOBS} are needed for an answer; raise --seeds"
        results.facts["shortfalls"].append(text)
    return results


def times_s(run: Played, *, short: bool) -> list[float]:
    """Return the completion times of short or long jobs."""
    return [job.completion_ms / 1000 for job in run.jobs if job.name.startswith(SHORT) == short]


def figures_s(run: Played) -> dict[str, float]:
    """Return the figures of a run's jobs in seconds."""
    p90, p99 = np.percentile(times_s(run, short=True), (90, 99)).tolist()
    return {P90: p90, "short jobs' P99": p99, LONG: float(np.mean(times_s(run, short=False)))}


def _rows(draw: Draw, scheme: str) -> Iterator[Row]:
    run = draw.runs[scheme]
    for figure, value in figures_s(run).items():
        yield Row(f"{figure} (s)", scheme, "", draw.seed, value, "s")
    yield Row("on other nodes", scheme, "", draw.seed, sum(job.misplaced for job in run.jobs), "1")
    for figure, key in (("turned down", "RejectedConstraint"), ("of proposals", "Proposals")):
        yield Row(figure, scheme, "", draw.seed, float(run.shim.get(key, 0)), "1")


def _misplaced(draws: Sequence[Draw]) -> Iterator[str]:
    for draw, scheme in product(draws, SCHEMES):
        for job in (job for job in draw.runs[scheme].jobs if job.misplaced):
            ran = f"{job.misplaced} containers of {job.name} ran on nodes that it does not allow"
            yield f"seed {draw.seed}, {scheme}: {ran}"


def _rejected(draws: Sequence[Draw]) -> Iterator[str]:
    for scheme in ("srpt", OURS):
        shims = [draw.runs[scheme].shim for draw in draws]
        rejected, made = (sum(int(shim.get(key, 0)) for shim in shims) for key in ("RejectedConstraint", "Proposals"))
        if rejected > REJECTIONS_MAX * made:
            yield f"{scheme}: {rejected} of {made} proposals were for nodes that asks may not use"


def _missed(results: Results) -> Iterator[str]:
    for (over, figure), goal in GOALS.items():
        reached = results.figure("phoenix-testbed-goals", figure, f"{OURS} over {over}")
        if reached.mean > goal:
            yield f"{figure}: {reached} of {over}'s; expected: {goal}"


REQUIREMENT: Final = ("treadle:require=", "treadle:prefer=")
CONSTRAINT: Final = '{"and":['


def hidden(events: Sequence[Event]) -> list[Event]:
    """Return an engine's events with requirements and constraints in an unknown form."""
    return [
        replace(event, texts=tuple(map(_hidden, event.texts))) if isinstance(event, Names) else event
        for event in events
    ]


def _hidden(text: str) -> str:
    return f"hidden: {text}" if text.startswith((*REQUIREMENT, CONSTRAINT)) else text


def write_command(file: Path) -> Path:
    """Write the executable that a ResourceManager starts in place of `treadle`; returns its path."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m {__name__} "$@"\n')
    file.chmod(0o700)
    return file


def main() -> None:
    """Run the command line with an engine that is blind."""
    sighted = Engine.apply

    def apply(self: Engine, events: Sequence[Event]) -> None:
        sighted(self, hidden(events))

    Engine.apply = apply  # type: ignore[method-assign]
    runpy.run_module("treadle", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
