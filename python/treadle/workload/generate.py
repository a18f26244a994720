"""Workloads drawn by seed: Poisson arrivals, long-tailed sizes, a wanted mean load."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from treadle.workload.distributions import Exponential
from treadle.workload.job import Framework, Job, Workload, arranged
from treadle.workload.load import Capacity, scaled_to_load
from treadle.workload.shapes import Shape, bag
from treadle.workload.traces.errors import WorkloadError

JOBS_MAX: Final = 10_000_000


def poisson(
    seed: int,
    jobs: int,
    *,
    shape: Shape | None = None,
    mean_gap_ms: float = 10_000.0,
    capacity: Capacity | None = None,
    load: float | None = None,
    queues: Mapping[str, float] | None = None,
    users: int = 1,
    framework: Framework = Framework.TEZ,
) -> Workload:
    """Draw jobs whose arrivals are a Poisson process.

    Equal arguments give equal workloads.

    Args:
        seed: of all chance.
        jobs: how many.
        shape: draws a job's DAG; `treadle.workload.shapes.bag` with its defaults if None.
        mean_gap_ms: between arrivals; not used if ``load`` is given.
        capacity: of the cluster that ``load`` is meant for.
        load: the mean load of the most loaded resource until the last arrival: the gaps are drawn and then all
            multiplied, so that this load is met by the jobs that were drawn and not only expected.
        queues: names and weights: a job falls to a queue with a chance in proportion; None: no queues.
        users: how many, named user0, user1, ...; each job is anybody's with the same chance.
        framework: of all jobs.

    Raises:
        WorkloadError: an argument is out of its bounds, or only one of ``load`` and ``capacity`` is given.
    """
    if not 1 <= jobs <= JOBS_MAX:
        raise WorkloadError(f"jobs is {jobs}; it must be between 1 and {JOBS_MAX}")
    if users < 1:
        raise WorkloadError(f"users is {users}; it must be at least 1")
    if (load is None) != (capacity is None):
        raise WorkloadError("load and capacity go together: give both or none")
    # A stream each, so that another shape does not change when jobs arrive and whose they are.
    gaps, bodies, owners = (np.random.default_rng(child) for child in _seeds(seed).spawn(3))
    arrivals_ms = np.cumsum(Exponential(mean_gap_ms).draw(gaps, jobs))
    names, chances = _weights(queues)
    draw = shape or bag()
    made = []
    for number, arrival_ms in enumerate(arrivals_ms.tolist()):
        name = f"job{number}"
        queue = names[int(owners.choice(len(names), p=chances))]
        user = f"user{int(owners.integers(users))}"
        made.append(Job(name, round(arrival_ms), draw(bodies, name), framework, name, user, queue))
    workload = arranged(made)
    return workload if load is None or capacity is None else scaled_to_load(workload, capacity, load)


def _seeds(seed: int) -> np.random.SeedSequence:
    if seed < 0:
        raise WorkloadError(f"seed is {seed}; it must not be negative")
    return np.random.SeedSequence(seed)


def _weights(queues: Mapping[str, float] | None) -> tuple[list[str], npt.NDArray[np.float64]]:
    if not queues:
        return [""], np.ones(1)
    weights = np.array(list(queues.values()), np.float64)
    if not np.all(weights >= 0) or not 0 < weights.sum() < float("inf"):
        raise WorkloadError("queues: the weights must not be negative, and one must be above 0")
    return list(queues), weights / weights.sum()
