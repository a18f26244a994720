"""What `treadle reproduce slearn-cluster` found: completion times by scheduler and by type of job, and a plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean, median
from typing import Any, Final

from rich.box import SIMPLE
from rich.table import Table

from treadle.lab.harness.statistics import Interval, interval_of
from treadle.lab.harness.tables import empty_table
from treadle.lab.reproduce.slearn_cluster.experiment import SCHEMES, Ended, Round, Settings

__all__ = ["TITLES", "TYPES", "document", "ratio", "shortfalls", "table", "types_of"]

OURS: Final = "slearn"
GOAL: Final = 1.5
"""The stock schedulers' mean completion time over ours."""
LONGER_MAX: Final = 1.2
"""No type of job may take longer than under a stock scheduler by more than this factor."""
THIN_LIMIT: Final = 3
TITLES: Final = {"slearn": "Treadle, slearn", "fifo": "stock, FIFO", "fair": "stock, fair"}
SIZES: Final = ("thin", "wide, small", "wide, large")
KINDS: Final = ("sleep", "count words")
TYPES: Final = (*SIZES, *KINDS)
"""Of jobs: each is of one size and of one kind."""
LARGE_MS: Final = 60_000
"""Of task time: wide jobs with more are large."""


def types_of(job: Ended) -> tuple[str, str]:
    """Return which of `SIZES` and of `KINDS` a job is: thin ones have fewer than three maps."""
    wide = "wide, large" if job.work_ms > LARGE_MS else "wide, small"
    return "thin" if job.maps < THIN_LIMIT else wide, KINDS[job.words]


def completions(rounds: Sequence[Round], scheme: str, kind: str = "", seed: int | None = None) -> list[int]:
    """Return the completion times under a scheduler, of a type, of a draw."""
    return [
        job.completion_ms
        for one in rounds
        if one.scheme == scheme and seed in (None, one.seed)
        for job in one.jobs
        if kind in ("", *types_of(job))
    ]


def ratio(rounds: Sequence[Round], scheme: str) -> Interval:
    """Return the mean completion time under a stock scheduler over that under ours, one value a draw."""
    seeds = sorted({one.seed for one in rounds})
    pairs = [(completions(rounds, scheme, seed=seed), completions(rounds, OURS, seed=seed)) for seed in seeds]
    return interval_of([mean(theirs) / mean(ours) for theirs, ours in pairs if theirs and ours])


def table(rounds: Sequence[Round]) -> Table:
    """Return mean completion times in seconds, and how many times longer the stock schedulers take."""
    shown = empty_table(
        "Completion times (s), and over slearn's",
        ("jobs",),
        ("how many", *(TITLES[scheme.name] for scheme in SCHEMES)),
        box=SIMPLE,
    )
    for kind, title in (("", "all, mean"), *((kind, f"{kind}, mean") for kind in TYPES)):
        if completions(rounds, OURS, kind):
            shown.add_row(title, str(len(completions(rounds, OURS, kind))), *_cells(rounds, kind))
    middles = [median(completions(rounds, scheme.name)) / 1000 for scheme in SCHEMES]
    shown.add_row("all, median", "", *(f"{middle:.1f}" for middle in middles))
    return shown


def _cells(rounds: Sequence[Round], kind: str) -> list[str]:
    ours = mean(completions(rounds, OURS, kind))
    cells = []
    for scheme in SCHEMES:
        theirs = mean(completions(rounds, scheme.name, kind))
        over = f"{ratio(rounds, scheme.name)}" if not kind else f"{theirs / ours:.2f}"
        cells.append(f"{theirs / 1000:.1f}" + (f" ({over})" if scheme.name != OURS else ""))
    return cells


def shortfalls(rounds: Sequence[Round]) -> list[str]:
    """Say what is not as it should be: jobs that failed, goals that are missed, reduces that their AMs killed."""
    found = [
        f"seed {one.seed}, {one.scheme}: {job.name} of {job.user} ended as {job.status}"
        for one in rounds
        for job in one.jobs
        if job.status != "SUCCEEDED"
    ]
    found += [
        f"seed {one.seed}: the master of {job.name} killed reduces of its own"
        for one in rounds
        if one.scheme == OURS
        for job in one.jobs
        if job.preempted_reduces
    ]
    for scheme in SCHEMES[1:]:
        reached = ratio(rounds, scheme.name).mean
        if reached < GOAL:
            found.append(f"jobs take {reached:.2f} times as long under {TITLES[scheme.name]}; the goal is {GOAL}")
        for kind in TYPES:
            ours, theirs = completions(rounds, OURS, kind), completions(rounds, scheme.name, kind)
            if ours and mean(ours) > LONGER_MAX * mean(theirs):
                longer = mean(ours) / mean(theirs)
                found.append(f"{kind} jobs take {longer:.2f} times as long as under {TITLES[scheme.name]}")
    return found


def document(rounds: Sequence[Round], settings: Settings, sample: Path) -> dict[str, Any]:
    """Return everything for ``--json``."""
    return {
        "sample": sample.name,
        "settings": asdict(settings),
        "goal": GOAL,
        "speedup_mean": {scheme.name: ratio(rounds, scheme.name).as_json() for scheme in SCHEMES[1:]},
        "mean_ms": {
            kind or "all": {scheme.name: mean(completions(rounds, scheme.name, kind)) for scheme in SCHEMES}
            for kind in ("", *TYPES)
            if completions(rounds, OURS, kind)
        },
        "shortfalls": shortfalls(rounds),
        "rounds": [
            {**asdict(one), "jobs": [{**asdict(job), "types": types_of(job)} for job in one.jobs]} for one in rounds
        ],
    }


def plot_completions(rounds: Sequence[Round], target: Path) -> None:
    """Write one chart: for all jobs and for each type the share that has ended within a time."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    kinds = [kind for kind in ("", *TYPES) if completions(rounds, SCHEMES[0].name, kind)]
    figure = Figure(figsize=(3.2 * len(kinds), 3.2), layout="constrained")
    panels = figure.subplots(1, len(kinds), sharey=True, squeeze=False)[0]
    for panel, kind in zip(panels, kinds, strict=True):
        for scheme in SCHEMES:
            seconds = sorted(time_ms / 1000 for time_ms in completions(rounds, scheme.name, kind))
            shares = [(place + 1) / len(seconds) for place in range(len(seconds))]
            panel.step([0.0, *seconds], [0.0, *shares], where="post", label=TITLES[scheme.name], linewidth=1.2)
        panel.set_title(kind or "all jobs", fontsize=10, loc="left")
        panel.set_xlabel("completion time (s)")
        panel.set_xlim(left=0)
    panels[0].set_ylabel("share of jobs")
    panels[-1].legend(fontsize=8, loc="lower right")
    figure.savefig(target, dpi=150)
