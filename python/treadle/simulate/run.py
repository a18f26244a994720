"""A scenario, perhaps with jobs of the caller's own, and the result of one simulation.

The result has jobs, tasks, nodes and queues as tables of numpy, and figures.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.config.yaml_nodes import text_of
from treadle.errors import UserError
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import TASK, Summary, job_records, node_records, queue_records, summarise, task_records
from treadle.simulator.scenario import Scenario as Model
from treadle.simulator.scenario import parse_scenario
from treadle.simulator.simulation import Run as Simulated
from treadle.workload.job import Workload

SIZES: Final = ((1, "1 to 10 tasks"), (11, "11 to 100"), (101, "101 to 1,000"), (1001, "over 1,000"))
"""Classes of jobs: the least number of tasks, and what a class is called."""

BOUNDED_S: Final = 10.0
"""A bounded slowdown counts a job as if nothing could end it sooner than this."""
STATISTICS: Final[Mapping[str, int | None]] = {"mean": None, "P50": 50, "P90": 90, "P99": 99}

Table = Records | Mapping[str, Any]
"""The table of jobs, or its columns by name."""


def completion_s(jobs: Table) -> F64:
    """Return how long each job took in seconds, shape (jobs,); NaN for one that did not end well."""
    took = (np.asarray(jobs["end_ms"], np.float64) - np.asarray(jobs["arrival_ms"], np.float64)) / 1000.0
    return np.where(np.asarray(jobs["state"], object) == "done", took, np.nan)


def slowdown(jobs: Table) -> F64:
    """Return how many times as long as its bound each job took, shape (jobs,); NaN for one that did not end well.

    The bound is ``ideal_ms``; a job without work has none, and is NaN too.
    """
    ideal_s = np.asarray(jobs["ideal_ms"], np.float64) / 1000.0
    return completion_s(jobs) / np.where(ideal_s > 0, ideal_s, np.nan)


def size_of(tasks: int) -> str:
    """Return the name of the class of a job with this many tasks."""
    return next((name for least, name in reversed(SIZES) if tasks >= least), SIZES[0][1])


def size_classes(jobs: Table) -> Any:
    """Return the name of each job's class by its number of tasks, shape (jobs,)."""
    at = np.searchsorted([least for least, _ in SIZES], np.asarray(jobs["tasks"]), side="right") - 1
    return np.array([name for _, name in SIZES], object)[np.maximum(at, 0)]


def figures_of(jobs: Table) -> dict[str, float]:
    """Return completion, wait (completion less bound), slowdown and bounded slowdown of jobs that ended well.

    Each by `STATISTICS`, of all jobs and by class of their sizes: ``completion, mean`` and ``wait, P99, 11 to 100``.
    """
    took, ideal = completion_s(jobs), np.asarray(jobs["ideal_ms"], np.float64) / 1000.0
    quantities = {
        "completion": took,
        "wait": took - ideal,
        "slowdown": slowdown(jobs),
        "bounded slowdown": np.maximum(took / np.maximum(ideal, BOUNDED_S), 1.0),
    }
    classes = size_classes(jobs)
    groups = {"": np.ones(len(took), bool)} | {name: classes == name for _, name in SIZES}
    return {
        f"{what}, {statistic}{', ' * bool(name)}{name}": _statistic(values[inside & np.isfinite(values)], part)
        for name, inside in groups.items()
        for what, values in quantities.items()
        for statistic, part in STATISTICS.items()
        if (inside & np.isfinite(values)).any()
    }


def _statistic(values: F64, part: int | None) -> float:
    return float(values.mean() if part is None else np.percentile(values, part))


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One policy with one seed. Every table has the same rows under every policy, so that runs can be paired.

    docs/simulate-from-python.md has the columns.
    """

    policy: str
    seed: int
    summary: Summary
    """The figures that `treadle simulate` shows."""
    jobs: Records
    tasks: Records
    nodes: Records
    queues: Records

    @property
    def warnings(self) -> list[str]:
        """What the engine said of the policy on this cluster."""
        return self.summary.warnings

    @property
    def completion_s(self) -> F64:
        """How long each job took from its arrival to its end, shape (jobs,); NaN for one that did not end well."""
        return completion_s(self.jobs)

    @property
    def slowdown(self) -> F64:
        """How many times as long as the bound ``ideal_ms`` each job took, shape (jobs,); NaN as `completion_s`."""
        return slowdown(self.jobs)


def run_of(simulated: Simulated, policy: str, seed: int, *, tasks: bool = True) -> Run:
    """Return the result of a simulation; without ``tasks`` their table is empty."""
    return Run(
        policy,
        seed,
        summarise(simulated, policy, seed),
        job_records(simulated),
        task_records(simulated) if tasks else np.zeros(0, TASK),
        node_records(simulated),
        queue_records(simulated),
    )


NOBODY: Final[dict[str, Any]] = {"jobs": [{"stages": []}]}
"""Placeholder for the workload of a scenario whose jobs the caller has."""


@dataclass(frozen=True)
class Scenario:
    """A cluster, its queues, what goes wrong, and the jobs (docs/scenarios.md)."""

    model: Model
    """Every field of the file, as `treadle.simulator.scenario` has them."""
    folder: Path = Path()
    """Where paths in it begin."""
    file: str = "scenario"
    """What errors call it."""
    text: str | None = None
    """What is in the file; None: it was made in Python."""
    source: Workload | Callable[[int], Workload] | None = None
    """The caller's jobs, or what makes them from a seed; None: the scenario's own."""
    trust_code: bool = False
    """May Python files be run that it names?"""

    @classmethod
    def read(cls, file: str | Path, *, trust_code: bool = False) -> Scenario:
        """Read a file.

        Args:
            file: its path
            trust_code: whether Python files may be run that it names, for jobs or in policies

        Raises:
            ConfigError: it cannot be read, or it has errors: the message names line, field and remedy.
        """
        path = Path(file)
        text = text_of(path)
        model = parse_scenario(str(path), text, trust_code=trust_code)
        return cls(model, path.parent, str(path), text, trust_code=trust_code)

    @classmethod
    def of(cls, document: Mapping[str, Any], folder: str | Path = ".", *, trust_code: bool = False) -> Scenario:
        """Return the scenario that a mapping is, as if it stood in a YAML file in ``folder`` (see `read`).

        ``workload`` may be left out where `with_jobs` follows.

        Raises:
            ConfigError: something in it is wrong.
        """
        text = json.dumps({"workload": NOBODY} | dict(document), indent=1, default=float)
        model = parse_scenario("scenario", text, trust_code=trust_code)
        return cls(model, Path(folder), text=text, trust_code=trust_code)

    def with_jobs(self, source: Workload | Callable[[int], Workload]) -> Scenario:
        """Return the same scenario with other jobs: a workload, or a function that makes one from a seed.

        A function must give equal jobs for equal seeds. To run on several cores it must be importable from a module.

        Raises:
            UserError: it is neither.
        """
        if not callable(source):
            _check_jobs(source)
        return replace(self, source=source)

    def jobs(self, seed: int) -> Workload:
        """Return the jobs of a seed.

        Raises:
            UserError: a file cannot be read, a generator refuses its parameters, or a function gives something else.
        """
        if self.source is None:
            return jobs_of(self.model, self.folder, seed)
        return _check_jobs(self.source if isinstance(self.source, Workload) else self.source(seed))


def _check_jobs(found: object) -> Workload:
    if not isinstance(found, Workload):
        raise UserError(
            f"with_jobs: {type(found).__name__} is no treadle.simulate.Workload, nor a function of a seed that gives "
            "one; arranged(jobs) makes one of a list of jobs"
        )
    return found
