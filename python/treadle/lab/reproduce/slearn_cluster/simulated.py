"""The jobs of `treadle reproduce slearn-cluster` in the simulator: many draws, without a cluster.

It shows the effect of scheduling alone. Processors are not in it: AMs and tasks take as long to start however many
do at once, and who counts words takes as long as who sleeps, but for the skew of its files.
"""

from __future__ import annotations

from typing import Final

from treadle.dag.dag import Dag, Stage
from treadle.lab.harness.simulated import run_to_the_end
from treadle.lab.reproduce.slearn.schemes import Scheme
from treadle.lab.reproduce.slearn_cluster.experiment import MASTER_MB, TASK_MB, Arrival, Ended, Round, Settings
from treadle.simulator.scenario import Scenario
from treadle.simulator.simulation import Simulation
from treadle.workload.job import Framework, Job, arranged

__all__ = ["MASTER_START_MS", "TASK_START_MS", "run_simulated"]

MASTER_START_MS: Final = 10_000
"""From an application master's container to its first ask, on two cores with little else to do."""
TASK_START_MS: Final = 4_000
"""From a task's container to its first instant."""
HEARTBEAT_MS: Final = 1_000


def run_simulated(scheme: str, jobs: list[Arrival], seed: int, settings: Settings) -> Round:
    """Run the jobs under a scheduler, by its name in `treadle.lab.reproduce.slearn_cluster.experiment.SCHEMES`."""
    workload = arranged(_job(str(number), arrival) for number, arrival in enumerate(jobs))
    policy = _policy(scheme, settings.threshold_ms).settings(seed)
    simulation = Simulation(_scenario(settings), workload, policy, seed, check=False)
    _, took_ms = run_to_the_end(simulation, scheme)
    ended = tuple(
        Ended(
            jobs[int(job.id)].job.name,
            jobs[int(job.id)].job.user,
            jobs[int(job.id)].job.maps,
            jobs[int(job.id)].work_ms,
            bool(jobs[int(job.id)].files),
            "SUCCEEDED",
            round(took),
            False,
        )
        for job, took in zip(workload.jobs, took_ms.tolist(), strict=True)
    )
    return Round(seed, scheme, ended, {})


def _policy(scheme: str, threshold_ms: int) -> Scheme:
    if scheme != "slearn":
        return Scheme(scheme, scheme, {"order": scheme})
    levels = ("mlfq", {"size": "whole", "first_threshold_ms": threshold_ms})
    return Scheme(scheme, scheme, {"gate": "pilots", "order": levels, "estimate": "combined"})


def _scenario(settings: Settings) -> Scenario:
    node = {"memory-mb": settings.slots * TASK_MB + 4 * MASTER_MB, "vcores": 64}
    return Scenario.model_validate(
        {
            "cluster": {"nodes": [{"count": settings.nodes, "resources": node}], "heartbeat_ms": HEARTBEAT_MS},
            "frameworks": {
                "master": {"memory-mb": MASTER_MB, "vcores": 1},
                "master_start_ms": MASTER_START_MS,
                "launch_ms": TASK_START_MS,
                "heartbeat_ms": HEARTBEAT_MS,
            },
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
        }
    )


def _job(id_: str, arrival: Arrival) -> Job:
    job, demand = arrival.job, {"memory-mb": float(TASK_MB), "vcores": 1.0}
    stages = [Stage(0, job.maps, job.map_ms, demand)]
    if job.reduces:
        stages.append(Stage(1, job.reduces, job.reduce_ms, demand, (0,)))
    return Job(id_, arrival.at_ms, Dag(id_, tuple(stages)), Framework.MAPREDUCE, job.name, job.user)
