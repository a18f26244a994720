"""Draws of jobs from traces: of Google's day the second half alone, of Facebook's days and TPC-H's queries all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from treadle.workload.formats import read_workload
from treadle.workload.job import Framework, Job, Workload, arranged, job_work, scaled_to_load
from treadle.workload.traces.tpch import read_tpch
from treadle_lab.harness.data import FACEBOOK, GOOGLE, TPCH, DataSet, given_or_found

HOUR_MS: Final = 3_600_000
HALF_MS: Final = 12 * HOUR_MS + HOUR_MS * 3 // 5
"""Where the second half of Google's day begins, which `gains` draws from; the first half is for tuning."""
GAP_MS: Final = 70_754_400, 75_769_200
"""The trace lacks this time: what came later comes earlier by as much."""
FIRST_SEED: Final = 51
"""The first seed of `gains`; those before it are for tuning."""
BLOCK_MS: Final = 2 * HOUR_MS
MACHINE: Final = {"memory-mb": 65_536, "vcores": 32}
QUERY_MAX_MS: Final = 20_000_000
"""Of TPC-H's queries those with at most this much task time: the others take a day of such a cluster."""

T = TypeVar("T")


@cache
def google_half() -> tuple[Job, ...]:
    """Return the jobs of the second half of Google's day, from time 0, without the gap and without priorities.

    YARN's fair ordering does not look at priorities, and an order is compared here, not who may pass whom.
    """
    begin, end = GAP_MS
    found = []
    for job in read_workload(_place(GOOGLE), "google").jobs:
        at = job.arrival_ms
        if at >= HALF_MS and not begin <= at < end:
            found.append(replace(job, arrival_ms=at - HALF_MS - (end - begin if at >= end else 0), priority=0))
    return tuple(found)


def google_window(seed: int, hours: float) -> list[Job]:
    """Return the jobs of some hours of the half day from time 0, exchanged by `exchanged`; the seed chooses which.

    Raises:
        ValueError: the seed is one for tuning.
    """
    jobs, chance = google_half(), _chance(seed)
    span = jobs[-1].arrival_ms + 1
    length = min(round(hours * HOUR_MS), span)
    begin = int(chance.integers(span - length + 1))
    inside = [
        replace(job, arrival_ms=job.arrival_ms - begin) for job in jobs if begin <= job.arrival_ms < begin + length
    ]
    return exchanged(inside, chance)


def exchanged(jobs: Sequence[Job], chance: np.random.Generator) -> list[Job]:
    """Return whole jobs exchanged among the arrival times of each two-hour block; the times themselves stay."""
    blocks: dict[int, list[Job]] = {}
    for job in jobs:
        blocks.setdefault(job.arrival_ms // BLOCK_MS, []).append(job)
    found = []
    for block in blocks.values():
        order = chance.permutation(len(block))
        found += [replace(block[at], arrival_ms=job.arrival_ms) for job, at in zip(block, order, strict=True)]
    return found


def machines_for(jobs: Iterable[Job], load: float) -> int:
    """Return how many machines jobs keep as busy as ``load`` says, in the binding resource, until the last arrival."""
    work = dict.fromkeys(MACHINE, 0.0)
    last = 0
    for job in jobs:
        last = max(last, job.arrival_ms)
        for name, amount in job_work(job).items():
            work[name] += amount
    return max(1, round(max(work[name] / (MACHINE[name] * max(last, 1) * load) for name in MACHINE)))


def facebook(seed: int, year: int, load: float, machines: int) -> Workload:
    """Return a day of Facebook's jobs: of 2009 one of two samples, of 2010 every tenth job of one, by the seed.

    Arrivals are pressed together so that the day brings the load to so many machines.

    Raises:
        ValueError: the seed is one for tuning.
    """
    chance = _chance(seed)
    part = seed % 2 if year == 2009 else 0
    jobs = _facebook_day(_place(FACEBOOK).parent / f"FB-{year}_samples_24_times_1hr_{part}.tsv.xz")
    if year == 2010:
        jobs = jobs[seed % 10 :: 10]
    workload = arranged(exchanged(jobs, chance))
    return scaled_to_load(workload, {name: machines * amount for name, amount in MACHINE.items()}, load)


@cache
def _facebook_day(file: Path) -> tuple[Job, ...]:
    return read_workload(file, "swim").jobs


@cache
def _queries() -> tuple[Job, ...]:
    jobs = read_tpch(_place(TPCH)).jobs
    return tuple(job for job in jobs if _task_ms(job) < QUERY_MAX_MS)


def queries(seed: int, jobs: int, load: float, capacity: dict[str, float], framework: Framework) -> Workload:
    """Return TPC-H queries that arrive at random; Spark and Tez get the same DAGs at the same times.

    Raises:
        ValueError: the seed is one for tuning.
    """
    chance, pool = _chance(seed), _queries()
    arrivals = np.cumsum(chance.exponential(1.0, jobs)) * 10_000
    chosen = [pool[int(at)] for at in chance.integers(len(pool), size=jobs)]
    made = [
        replace(job, id=f"{at}-{job.id}", arrival_ms=int(time), framework=framework)
        for at, (job, time) in enumerate(zip(chosen, arrivals, strict=True))
    ]
    return scaled_to_load(arranged(made), capacity, load)


def _task_ms(job: Job) -> int:
    return sum(int(stage.durations().sum()) for stage in job.dag.stages)


def _chance(seed: int) -> np.random.Generator:
    if seed < FIRST_SEED:
        raise ValueError(f"seed {seed} is one for tuning; gains draws from {FIRST_SEED} on")
    return np.random.default_rng(seed)


def _place(data: DataSet) -> Path:
    """Return where a data set of the checkout lies.

    Raises:
        UserError: it is missing.
    """
    return given_or_found(None, data, lambda _: None)
