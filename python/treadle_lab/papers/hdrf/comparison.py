"""Section 5.2 (SoCC 2013) in the simulator: who runs how many tasks under H-DRF, naive H-DRF and the stock order."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, I64
from treadle.config.settings import Settings, default_settings, with_parts
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulate import Run, Scenario, simulate
from treadle_lab.harness.runs import digest_of
from treadle_lab.papers.hdrf.facebook import LARGE_LEAVES, LEAVES, queue_of, queues_of, schedule

NODES: Final = 50
NODE: Final = {"memory-mb": 6144, "vcores": 4, "gpu": 1}
HDRF: Final = "hdrf"
SHARES: Final[Mapping[str, Any]] = {
    "naive": ("hdrf", {"static": True}),
    HDRF: ("hdrf", {"as": "paper"}),
    "repaired": "hdrf",
    "capacity": "capacity",
}
"""By scheme. `naive` is the paper's Pareto-efficient capacity scheduler, which it calls exactly naive H-DRF.
`hdrf` is the paper's algorithm, `repaired` the one that a policy gets unless it says otherwise.
`capacity` is the order of the stock scheduler, without the headroom that it keeps back."""
HEADROOM: Final[Mapping[str, str]] = {"naive-headroom": "naive", "hdrf-headroom": HDRF}
"""Shares whose servers keep room for the largest task, as both of the paper's do (section 5)."""
SCHEMES: Final = (*SHARES, *HEADROOM)
TITLES: Final = {
    "naive": "naive H-DRF (Pareto CS)",
    HDRF: "H-DRF (as: paper)",
    "repaired": "H-DRF, repaired",
    "capacity": "capacity share",
    "naive-headroom": "naive H-DRF, headroom",
    "hdrf-headroom": "H-DRF (as: paper), headroom",
}


@dataclass(frozen=True, slots=True)
class SchemeRun:
    """A scheme with a seed: all that a run depends on."""

    sample: Path
    scheme: str
    seed: int

    @property
    def title(self) -> str:
        """What it is called when it fails."""
        return f"{self.scheme}, seed {self.seed}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        return digest_of(__name__, content_of(self.sample), self.scheme, self.seed)


@cache
def content_of(sample: Path) -> str:
    """Return the digest of SWIM's sample.

    Raises:
        UserError: it cannot be read.
    """
    try:
        return hashlib.sha256(sample.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"--sample: {sample}: {error.strerror}; check the path") from error


def scenario() -> Scenario:
    """Return the cluster and figure 10's queues: siblings have equal weights."""
    resources = [{"name": name} for name in NODE]
    return Scenario.of(
        {"cluster": {"resources": resources, "nodes": [{"count": NODES, "resources": NODE}]}, "queues": queues_of()}
    )


def settings_of(scheme: str) -> Settings:
    """Return the engine's settings: they differ in the share and the headroom; in a leaf jobs come in order."""
    register_parts()
    share = SHARES[HEADROOM.get(scheme, scheme)]
    settings = with_parts(default_settings(), {"share": share, "order": "fifo", "fit": "packing"})
    if scheme not in HEADROOM:
        return settings
    return replace(settings, hold=settings.hold.model_copy(update={"headroom": True}))


def run_scheme(wanted: SchemeRun) -> dict[str, Any]:
    """Run a scheme with a seed; return its figures by leaf.

    Raises:
        UserError: the sample is wrong, or a job did not end.
    """
    jobs = schedule(wanted.sample, wanted.seed)
    run = simulate(scenario().with_jobs(jobs), settings_of(wanted.scheme), wanted.seed, check=False)
    if not bool((run.jobs["state"] == "done").all()):
        raise UserError(f"{wanted.title}: jobs are left undone")
    response_s = {leaf: float(run.completion_s[_of(run, leaf)].mean()) for leaf in LEAVES}
    end_s = float(run.jobs["end_ms"].max()) / 1000
    tasks = {leaf: value if np.isfinite(value) else None for leaf, value in medians(run).items()}
    return {"median_tasks": tasks, "response_s": response_s, "end_s": end_s}


def _of(run: Run, leaf: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return which jobs are a leaf's."""
    queues = np.array([str(queue).rpartition(".")[2] for queue in run.jobs["queue"]], object)
    return np.asarray(queues == queue_of(leaf))


def medians(run: Run) -> dict[str, float]:
    """Return how many tasks run at a time in each leaf, by `medians_of`."""
    queues = [str(queue).rpartition(".")[2] for queue in run.jobs["queue"]]
    jobs = JobSpans(queues, run.jobs["arrival_ms"], run.jobs["end_ms"])
    return medians_of(jobs, run.tasks["job"], run.tasks["start_ms"], run.tasks["end_ms"])


@dataclass(frozen=True, slots=True)
class JobSpans:
    """From when to when jobs are there, and in which queues."""

    queues: Sequence[str]
    """By `queue_of`."""
    arrival_ms: I64
    end_ms: I64


def medians_of(jobs: JobSpans, job: I64, start_ms: I64, end_ms: I64) -> dict[str, float]:
    """Return how many tasks run at a time in each leaf: the median over the time that counts.

    That is the time in which the leaf has jobs and so have all leaves with large jobs: there is always somebody else
    who wants what it has not.

    Args:
        jobs: all jobs
        job: of each task, its place among them
        start_ms: of each task
        end_ms: of each task
    """
    times_ms = np.unique(np.concatenate([jobs.arrival_ms, jobs.end_ms, start_ms, end_ms]))
    length_ms = np.diff(times_ms)
    queues = np.array(jobs.queues, object)
    own = {leaf: np.asarray(queues == queue_of(leaf)) for leaf in LEAVES}
    has_jobs = {
        leaf: _at_a_time(times_ms, jobs.arrival_ms[which], jobs.end_ms[which]) > 0 for leaf, which in own.items()
    }
    contended = np.logical_and.reduce([has_jobs[leaf] for leaf in LARGE_LEAVES])
    found = {}
    for leaf, which in own.items():
        tasks = which[job]
        running = _at_a_time(times_ms, start_ms[tasks], end_ms[tasks])
        found[leaf] = _median(running, np.where(contended & has_jobs[leaf], length_ms, 0))
    return found


def _at_a_time(times_ms: Any, begin_ms: Any, end_ms: Any) -> Any:
    """Return how many of the spans cover each of the intervals between ``times_ms``."""
    change = np.bincount(np.searchsorted(times_ms, begin_ms), minlength=len(times_ms))
    change = change - np.bincount(np.searchsorted(times_ms, end_ms), minlength=len(times_ms))
    return np.cumsum(change)[:-1]


def _median(values: Any, weights: Any) -> float:
    """Return the median of weighted values; NaN if nothing has weight."""
    if not weights.sum():
        return float("nan")
    order = np.argsort(values, kind="stable")
    reached: F64 = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
