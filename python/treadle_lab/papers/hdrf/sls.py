"""Section 5.2 on simulated nodes of a real ResourceManager, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from treadle.errors import UserError
from treadle.shipped import ready_made
from treadle_lab.papers.hdrf import facebook
from treadle_lab.papers.hdrf.paper_tests import queue_tree
from treadle_lab.rows import Results
from treadle_lab.sls.play import (
    SUCCEEDED,
    Cluster,
    Draw,
    Played,
    Player,
    Scheduling,
    Script,
    ScriptedJob,
    facts_of,
    map_reduce,
    pace_table,
)

TIMES: Final = 0.1
"""Durations in the testbed over those of the simulated comparison."""
HEARTBEAT_MS: Final = 100
NAIVE: Final = "naive"
STOCK: Final = "capacity-scheduler"
SCHEMES: Final = (facebook.HDRF, NAIVE, STOCK)
"""The paper's H-DRF, `as: paper`; naive H-DRF, with `static: true`; the stock scheduler."""
CPU: Final = "cpu"
GPU: Final = "gpu"
PLENTY_VCORES: Final = 4096
MASTER_MB: Final = 8
MASTERS: Final = 60
"""Additional application masters per node, next to its tasks; their resources fit no further task."""


@dataclass(frozen=True, slots=True)
class ShownDraw(Draw):
    """A draw of jobs under each scheme."""

    figures: dict[str, dict[str, Any]]
    """By scheme, as `facebook.SchemeRun` returns them, in uncompressed time."""


def cluster_of(nodes: int = facebook.NODES) -> Cluster:
    """Return the nodes of the comparison, and figure 10's queues."""
    groups = {group: [facebook.queue_of(leaf) for leaf in leaves] for group, leaves in facebook.GROUPS.items()}
    return Cluster(
        nodes,
        facebook.NODE["memory-mb"] + MASTERS * MASTER_MB,
        PLENTY_VCORES,
        heartbeat_ms=HEARTBEAT_MS,
        least_mb=MASTER_MB,
        resources={CPU: facebook.NODE["vcores"], GPU: facebook.NODE["gpu"]},
        tree=queue_tree(groups),
    )


def script_of(sample: Path, seed: int) -> Script:
    """Return the jobs of a seed: those that the simulator has."""
    jobs = []
    for number, job in enumerate(facebook.schedule(sample, seed).jobs):
        (stage,) = job.dag.stages
        durations_ms = np.maximum(1, np.rint(TIMES * np.asarray(stage.durations()))).astype(int).tolist()
        asked = {CPU if name == "vcores" else name: round(amount) for name, amount in stage.demand.items()}
        stages = map_reduce(durations_ms, asked)
        at_ms = round(TIMES * job.arrival_ms)
        jobs.append(ScriptedJob(f"job {number}", at_ms, stages, queue=job.queue, master_mb=MASTER_MB))
    return Script(tuple(jobs))


def scheduling(scheme: str) -> Scheduling:
    """Return who schedules."""
    if scheme == STOCK:
        return Scheduling(scheme)
    settings = yaml.safe_load(ready_made()[facebook.HDRF].read_text("utf-8"))
    settings["policy"]["share"] |= {"static": True} if scheme == NAIVE else {"as": "paper"}
    return Scheduling(scheme, yaml.safe_dump(settings))


def figures_of(script: Script, played: Played, title: str) -> dict[str, Any]:
    """Return what a run has shown, by leaf.

    Raises:
        UserError: a job did not end.
    """
    undone = [job.name for job in played.jobs if job.status != SUCCEEDED]
    if undone:
        raise UserError(f"{title}: of {', '.join(undone)} it is not known that they ended")
    submitted_ms = np.array([job.submitted_ms for job in played.jobs], np.int64)
    took_ms = np.array([job.completion_ms for job in played.jobs], np.int64)
    jobs = facebook.JobSpans([job.queue for job in script.jobs], submitted_ms, submitted_ms + took_ms)
    spans = [
        (number, job.submitted_ms + start_ms, job.submitted_ms + end_ms)
        for number, job in enumerate(played.jobs)
        for start_ms, end_ms in job.tasks_ms
        if end_ms >= 0
    ]
    tasks = np.array(spans, np.int64).reshape(-1, 3)
    medians = facebook.medians_of(jobs, tasks[:, 0], tasks[:, 1], tasks[:, 2])
    queues = np.array(jobs.queues, object)
    response_s = {
        leaf: float(took_ms[np.asarray(queues == facebook.queue_of(leaf))].mean()) / (1000 * TIMES)
        for leaf in facebook.LEAVES
    }
    return {
        "median_tasks": {leaf: value if np.isfinite(value) else None for leaf, value in medians.items()},
        "response_s": response_s,
        "end_s": played.span_ms / (1000 * TIMES),
    }


def run_draw(sample: Path, seed: int, turn: int, player: Player) -> ShownDraw:
    """Play a draw under every scheme: see `Player.draw`.

    Raises:
        UserError: a run gave no result, or a job did not end.
    """
    script = script_of(sample, seed)
    runs = player.draw(list(map(scheduling, SCHEMES)), lambda _: script, cluster_of(), seed, turn)
    found = {scheme: figures_of(script, run, f"seed {seed}, {scheme}") for scheme, run in runs.items()}
    return ShownDraw(seed, runs, found)


SIMULATED: Final[Mapping[str, str]] = {facebook.HDRF: facebook.HDRF, NAIVE: NAIVE, STOCK: "capacity"}
"""The simulator's schemes for those of the testbed. Its `capacity` orders queues only (`facebook.SHARES`)."""


def results_of(draws: Sequence[ShownDraw], simulated: facebook.Found) -> Results:
    """Return figures by scheme and leaf in uncompressed time, with the simulator's for the same draws."""
    played = {(scheme, draw.seed): each for draw in draws for scheme, each in draw.figures.items()}
    seeds = {draw.seed for draw in draws}
    own = {(scheme, seed): each for (scheme, seed), each in simulated.items() if seed in seeds}
    rows, beside = (
        facebook.rows_of(played, facebook.TITLES | {STOCK: "stock capacity scheduler"}),
        facebook.rows_of(own, beside=", in the simulator"),
    )
    rows = {name: rows[name] + beside[name] for name in facebook.LAYOUTS}
    facebook.add_papers_rows(rows, {NAIVE: facebook.PAPER_GAIN, "stock": facebook.PAPER_GAIN_STOCK})
    shown = facebook.facts_of(played) | facts_of(draws)
    facts = {"section": "5.2", "times": TIMES, "heartbeat_ms": HEARTBEAT_MS, **shown}
    return Results(facebook.LAYOUTS, rows, facts, {"testbed-pace": pace_table(draws)})
