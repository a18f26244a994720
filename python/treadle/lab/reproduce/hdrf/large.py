"""Section 5.3.2 (SoCC 2013) in the simulator: H-DRF beside slots on 1,200 servers, with 25 users a leaf.

The paper has the servers, figure 10's tree, the users, first in first out in a leaf, a run that is stopped, and slots
of 10, 12 and 14 a server. Its trace is not public: what is made up is said beside each constant, and
docs/results/hdrf.md lists it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64
from treadle.lab.harness.runs import digest_of
from treadle.lab.reproduce.hdrf.comparison import HDRF, SchemeRun, content_of, settings_of
from treadle.lab.reproduce.hdrf.facebook import (
    DEMAND_MB,
    GPU_LEAF,
    LARGE_DEMAND_MB,
    LEAVES,
    MEAN_S,
    MEMORY_DOMINANT,
    bag_of_tasks,
    job_sizes,
    queues_of,
    with_demands,
)
from treadle.simulate import Run, Scenario, simulate
from treadle.workload.job import Job, Workload, arranged
from treadle.workload.traces.swim import swim_jobs

SERVERS: Final = 1_200
GPU_SERVERS: Final = 200
CPUS: Final = 16
GPUS: Final = 16
MEMORY_MB: Final = 32_768
USERS: Final = 25
"""Of a leaf."""
SLOT: Final = "slot"
SLOTS: Final = {"slots-10": 10, "slots-12": 12, "slots-14": 14}
SCHEMES: Final = (HDRF, *SLOTS)
LENGTH_S: Final = 1_800.0
"""Ours: the run is stopped then. In the paper it is a week, of jobs whose tasks take as long as they did."""
LOADS: Final = (0.6, 0.7)
"""Ours: the cores that tasks want at a time over those that there are, in the mean; the paper says "high"."""
DEMANDING: Final = 0.1
"""Ours: so many jobs have tasks that want more, up to what the paper has as the most."""
DEMAND_MAX_MB: Final = 9_216
CORES_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class LargeRun(SchemeRun):
    """A scheme with a seed at a load."""

    load: float

    @property
    def title(self) -> str:
        """What it is called when it fails."""
        return f"{self.scheme}, load {self.load:g}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        return digest_of(__name__, "large", content_of(self.sample), self.scheme, self.seed, self.load)


def scenario_of(scheme: str) -> Scenario:
    """Return the cluster and figure 10's queues, siblings of equal weight; of slots where the scheme has some.

    A scheduler of slots looks at no demand, and tasks do not slow each other down. Only a server with GPUs can run
    a task that wants one.
    """
    plain = {SLOT: SLOTS[scheme]} if scheme in SLOTS else {"memory-mb": MEMORY_MB, "vcores": CPUS}
    with_gpus = plain | {"gpu": GPUS}
    nodes = [
        {"count": SERVERS - GPU_SERVERS, "resources": plain, "name": "plain"},
        {"count": GPU_SERVERS, "resources": with_gpus, "name": "gpu"},
    ]
    cluster = {"resources": [{"name": name} for name in with_gpus], "nodes": nodes}
    return Scenario.of({"cluster": cluster, "queues": queues_of(), "duration_limit_s": LENGTH_S})


@lru_cache(maxsize=2)
def _gaps_s(sample: Path) -> F64:
    """Return the times between the trace's jobs."""
    return np.diff([job.submit_ms for job in swim_jobs(sample)]) / 1000.0


@lru_cache(maxsize=1)
def schedule(sample: Path, seed: int, load: float) -> Workload:
    """Return the jobs of a seed: bags of tasks, of 25 users for each leaf, each with gaps of the trace.

    Gaps are stretched by one factor, so that the load is the one that is asked for in the mean over seeds.

    Raises:
        UserError: the sample has too few jobs.
        WorkloadError: a line of it is wrong.
    """
    sizes, gaps_s = np.array(job_sizes(sample)), _gaps_s(sample)
    chance = np.random.default_rng((seed, 532))
    wanted = (len(LEAVES) - 1) * USERS * float(sizes.mean()) * MEAN_S * _mean_cores()
    mean_gap_s = wanted / (load * SERVERS * CPUS)
    jobs: list[Job] = []
    for leaf in LEAVES:
        for user in range(USERS):
            for at_s in _arrivals_s(chance, gaps_s * (mean_gap_s / float(gaps_s.mean()))):
                name = f"{leaf}-{user}-{at_s:.3f}-{len(jobs)}"
                tasks, demand = int(chance.choice(sizes)), _demand(chance, leaf)
                jobs.append(bag_of_tasks(chance, name, int(1000 * at_s), leaf, tasks, demand))
    return arranged(jobs)


def _arrivals_s(chance: np.random.Generator, gaps_s: F64) -> Iterator[float]:
    """Yield when a user's jobs come. The run begins at any instant of the trace, so mostly within a long gap."""
    at_s = float(chance.choice(gaps_s, p=gaps_s / gaps_s.sum())) * float(chance.random())
    while at_s < LENGTH_S:
        yield at_s
        at_s += float(chance.choice(gaps_s))


def _mean_cores() -> float:
    return 1.0 + DEMANDING * ((1 + CORES_MAX) / 2 - 1)


def _demand(chance: np.random.Generator, leaf: str) -> Mapping[str, float]:
    """Return what a job's tasks want: as in section 5.2, but for one job in ten, which wants more."""
    memory_mb = LARGE_DEMAND_MB if chance.random() < MEMORY_DOMINANT else DEMAND_MB
    cores = 1
    if chance.random() < DEMANDING:
        memory_mb = round(float(np.exp(chance.uniform(np.log(LARGE_DEMAND_MB), np.log(DEMAND_MAX_MB)))))
        cores = int(chance.integers(1, CORES_MAX, endpoint=True))
    return {"memory-mb": memory_mb, "gpu": 1} if leaf == GPU_LEAF else {"memory-mb": memory_mb, "vcores": cores}


def _in_slots(demand: Mapping[str, float]) -> Mapping[str, float]:
    return {SLOT: 1.0} | ({"gpu": 1.0} if "gpu" in demand else {})


def run_large(wanted: LargeRun) -> dict[str, Any]:
    """Run a scheme with a seed; return each job's tasks and response time, and how many tasks ran at a time.

    The response time of a job that had not ended when the run was stopped is None.

    Raises:
        UserError: the sample is wrong.
    """
    jobs = schedule(wanted.sample, wanted.seed, wanted.load)
    if wanted.scheme in SLOTS:
        jobs = with_demands(jobs, _in_slots)
    run: Run = simulate(scenario_of(wanted.scheme).with_jobs(jobs), settings_of(HDRF), wanted.seed, check=False)
    response_s = [round(each, 3) if np.isfinite(each) else None for each in run.completion_s.tolist()]
    return {
        "tasks": [job.dag.tasks for job in jobs.jobs],
        "response_s": response_s,
        "at_a_time": float(run.nodes["ran_ms"].sum()) / (1000 * LENGTH_S),
    }
