"""DAGs made of the jobs of Google's trace, as for SLearn-DAG's experiment (NSDI 2022, section 6)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from treadle.dag.dag import Dag, Stage
from treadle.workload.job import Framework, Job, JobRecord, Workload, arranged
from treadle.workload.traces.google import GoogleJob
from treadle.workload.traces.reading import wrong
from treadle_lab.papers.slearn.workload import Draw, google_record, split_trace, without_gap

STAGES: Final = (2, 5)
"""The fewest and the most that a DAG has."""


class DagTrace(NamedTuple):
    """DAGs to run, and what history there is of jobs before them."""

    history: tuple[JobRecord, ...]
    """In order of submission."""
    workload: Workload
    records: tuple[tuple[JobRecord, ...], ...]
    """The stages of each of the workload's DAGs, with their features and their true durations."""


def google_slearn_dags(
    path: Path,
    seed: int,
    dags: int = 900,
    draw: Draw = Draw(),  # noqa: B008 (frozen)
    *,
    shuffled: bool = False,
) -> DagTrace:
    """Build history and workload.

    A DAG is a chain of two to five stages, evenly drawn, each of which is a whole job; all have the same user and job
    name. The paper does not say which jobs of a name become one DAG, nor whether stages form a chain: here those of a
    name that were submitted one after another do, or with ``shuffled`` any of its jobs. A DAG comes when the first of
    its jobs was submitted. Of all DAGs that can be made ``dags`` are drawn, each with the same chance.

    Args:
        path: the folder of the extract, with both tables.
        seed: of the draw.
        dags: how many to draw.
        draw: from which jobs, and for what cluster; jobs with too many tasks are no stages.
        shuffled: whether the jobs of a name are mixed before they become stages.

    Raises:
        WorkloadError: a table is missing or wrong, an argument is out of its bounds, or there are too few jobs.
    """
    draw.check(seed, dags)
    history, later = split_trace(path, draw)
    generator = np.random.default_rng((seed, 3))
    made = _chains(later, generator, shuffled)
    if len(made) < dags:
        raise wrong(path, "", f"{dags} DAGs are to be drawn, but the jobs after the cut make only {len(made)}")
    chosen = sorted(generator.choice(len(made), dags, replace=False).tolist())
    drawn = sorted((made[at] for at in chosen), key=lambda jobs: (_submit_ms(jobs), jobs[0].id))
    first_ms = without_gap(_submit_ms(drawn[0]))
    records = tuple(tuple(google_record(job, draw.unseen) for job in jobs) for jobs in drawn)
    workload = arranged(
        _dag(jobs, stages, draw.slot, without_gap(_submit_ms(jobs)) - first_ms)
        for jobs, stages in zip(drawn, records, strict=True)
    )
    return DagTrace(history, draw.scaled(workload), records)


def _chains(jobs: list[GoogleJob], generator: np.random.Generator, shuffled: bool) -> list[list[GoogleJob]]:
    """Return the jobs of each user and name, cut into DAGs; a job that is left over alone is in none."""
    alike: dict[tuple[str, str], list[GoogleJob]] = {}
    for job in jobs:
        alike.setdefault((job.user, job.job_name), []).append(job)
    made = []
    for same in alike.values():
        left = [same[at] for at in generator.permutation(len(same))] if shuffled else same
        while len(left) >= STAGES[0]:
            count = int(generator.integers(STAGES[0], STAGES[1] + 1))
            made.append(left[:count])
            left = left[count:]
    return made


def _submit_ms(jobs: list[GoogleJob]) -> int:
    return min(job.submit_ms for job in jobs)


def _dag(jobs: list[GoogleJob], records: tuple[JobRecord, ...], slot: Mapping[str, float], arrival_ms: int) -> Job:
    stages = tuple(
        Stage(
            at,
            record.tasks,
            max(1, round(record.mean_ms)),
            slot,
            (at - 1,) if at else (),
            durations_ms=record.durations_ms,
        )
        for at, record in enumerate(records)
    )
    name = str(jobs[0].id)
    return Job(name, arrival_ms, Dag(name, stages), Framework.TEZ, jobs[0].job_name, jobs[0].user)
