"""200 simulated nodes of a real ResourceManager, where JVM starts do not drown a difference.

A tenth of the nodes is special, by attribute. Short jobs say what they require in a tag, as users of MapReduce do.
Task durations vary around their mean, by seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from treadle_lab.minicluster import Scheduler
from treadle_lab.papers.phoenix.blind import write_command
from treadle_lab.papers.phoenix.sls_jobs import Arrival, Settings, arrivals
from treadle_lab.papers.phoenix.sls_schemes import ALLOCATOR, Ended, Round, Scheme
from treadle_lab.sls.cluster import Cluster, Scheduling
from treadle_lab.sls.play import Played, play
from treadle_lab.sls.run import Setting
from treadle_lab.sls.script import Script, ScriptedJob, map_reduce

__all__ = ["SETTINGS", "Size", "run_scheme", "script_of", "settings_of"]

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


SETTINGS: Final = settings_of(Size())


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


def run_scheme(
    scheme: Scheme,
    seed: int,
    settings: Settings,
    size: Size,
    setting: Setting,
    folder: Path,
    say: Callable[[str], None],
) -> Round:
    """Play the jobs of a seed under a scheme.

    Raises:
        BenchError: the run gave no result.
    """
    script = script_of(seed, settings, size)
    played = play(
        scheduling(scheme, folder),
        script,
        size.cluster,
        setting,
        seed,
        folder,
        lambda text: say(f"seed {seed}, {text}"),
    )
    return round_of(scheme.name, seed, script, played)


def round_of(scheme: str, seed: int, script: Script, played: Played) -> Round:
    """Return a run as the report takes it."""
    ended = tuple(
        Ended(job.name, bool(job.requires), found.status, found.completion_ms, found.misplaced)
        for job, found in zip(script.jobs, played.jobs, strict=True)
    )
    proposals, rejected = (int(played.shim.get(key, 0)) for key in ("Proposals", "RejectedConstraint"))
    return Round(seed, scheme, ended, proposals, rejected)
