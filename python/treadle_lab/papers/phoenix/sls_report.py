"""What `treadle reproduce phoenix-cluster` found: completion times by scheduler, the goals, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.harness.outcomes import failed
from treadle_lab.harness.statistics import Interval, interval_of
from treadle_lab.papers.phoenix.sls_jobs import Settings
from treadle_lab.papers.phoenix.sls_schemes import SCHEMES, Round

__all__ = ["GOALS", "document", "plot_completions", "ratio", "shortfalls", "table"]

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
    found = failed(rounds)
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
    """Write one chart: of short and of long jobs the share that has ended within a time."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    drawing = Figure(figsize=(7.0, 3.2), layout="constrained")
    panels = drawing.subplots(1, 2, sharey=True)
    for panel, short in zip(panels, (True, False), strict=True):
        for scheme in schemes_of(rounds):
            seconds = sorted(time_ms / 1000 for time_ms in times(rounds, scheme, short=short))
            shares = [(place + 1) / len(seconds) for place in range(len(seconds))]
            panel.step([0.0, *seconds], [0.0, *shares], where="post", label=scheme, linewidth=1.2)
        panel.set_title("short jobs" if short else "long jobs", fontsize=10, loc="left")
        panel.set_xlabel("completion time (s)")
        panel.set_xlim(left=0)
    panels[0].set_ylabel("share of jobs")
    panels[1].legend(fontsize=8, loc="lower right")
    drawing.savefig(target, dpi=150)
