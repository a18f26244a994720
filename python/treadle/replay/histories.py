"""Histories of MapReduce and event logs of Spark as jobs for the simulator: nothing of Treadle had to be there.

How long tasks ran is known by their distribution, to one percent; which task was first is not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.config.yaml_nodes import BYTES_MAX, YamlDocument
from treadle.dag.dag import Dag, Stage
from treadle.errors import UserError
from treadle.history.importers.outcome import BrokenHistoryError, RefusedError, UnfinishedError
from treadle.history.importers.reader import HistoryReader
from treadle.history.importers.sources import find_sources
from treadle.history.run import JobRun, Measured, StageRun
from treadle.history.sketch import DurationSketch
from treadle.replay.model import Compared, Reduced
from treadle.simulate import Framework, Job, Scenario
from treadle.simulate.scenario import NOBODY
from treadle.simulator.scenario import parse_scenario
from treadle.workload.generate import CONTAINER

TASKS_MAX: Final = 100_000
"""A job that says that it has more is left out."""

BROKEN_MAX: Final = 20
"""Unusable histories that are reported with the reason; the others are counted."""

_FRAMEWORKS: Final = {"MAPREDUCE": Framework.MAPREDUCE, "SPARK": Framework.SPARK}


def cluster_of(file: Path, *, trust_code: bool) -> Scenario:
    """Return a scenario whose own workload may be missing, for it is not used.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong.
        UserError: the same.
    """
    try:
        with file.open("rb") as stream:
            text = stream.read(BYTES_MAX).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read: {error}") from error
    value = YamlDocument(str(file), text).value
    if isinstance(value, dict) and "workload" not in value:
        text += f"\nworkload: {json.dumps(NOBODY)}\n"
    model = parse_scenario(str(file), text, trust_code=trust_code)
    return Scenario(model, file.parent, str(file), text, trust_code=trust_code)


class Histories:
    """What files and folders of histories have."""

    def __init__(self) -> None:
        self.runs: dict[str, JobRun] = {}
        self.left_out = 0
        self.others = 0
        self.broken: list[str] = []

    def read(self, paths: Sequence[Path]) -> None:
        """Read them, in another process.

        Raises:
            UserError: a path is not there, there is no history in any, or a library is missing.
        """
        sources = 0
        with HistoryReader() as reader:
            for source in find_sources(paths):
                sources += 1
                try:
                    found = reader.read(source)
                except UnfinishedError:
                    self.left_out += 1
                    continue
                except (BrokenHistoryError, RefusedError, OSError) as error:
                    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                    self.broken.append(f"{source.name}: {text.removeprefix(f'{source.name}: ')}")
                    continue
                self.left_out += len(found.left_out)
                for run in found.runs:
                    self._take(run)
        if not sources:
            names = ", ".join(map(str, paths))
            remedy = "MapReduce's end in .jhist, Spark's are event logs"
            raise UserError(f"--history {names}: no history is there; {remedy}")

    def _take(self, run: JobRun) -> None:
        if run.key.type not in _FRAMEWORKS:
            self.others += 1
        elif not 0 < sum(stage.durations.count for stage in run.stages) <= TASKS_MAX or run.ended_ms < run.started_ms:
            self.broken.append(f"{run.id}: no tasks with times, or too many")
        else:
            self.runs.setdefault(run.id, run)

    def notes(self) -> Iterator[str]:
        """Yield what is not in the jobs."""
        yield from self.broken[:BROKEN_MAX]
        if len(self.broken) > BROKEN_MAX:
            yield f"{len(self.broken) - BROKEN_MAX} more histories cannot be used"
        if self.left_out:
            yield f"{self.left_out} jobs that did not end well are left out"
        if self.others:
            yield f"{self.others} jobs that are neither MapReduce's nor Spark's are left out"


def reduce_histories(found: Histories, cluster: Scenario) -> Reduced:
    """Return the jobs of histories, on the cluster of a scenario.

    Raises:
        UserError: there is no job in them.
    """
    if not found.runs:
        raise UserError(
            "\n".join(["there is no job of MapReduce or Spark that ended well in the histories", *found.notes()])
        )
    runs = sorted(found.runs.values(), key=lambda run: (run.started_ms, run.id))
    first_ms, notes = runs[0].started_ms, list(found.notes())
    jobs = [_job(run, first_ms, np.random.default_rng([0, at])) for at, run in enumerate(runs)]
    silent = sum(any(not _demand(run, stage) for stage in _stages(run)) for run in runs)
    if silent:
        amounts = ", ".join(f"{amount:g} {name}" for name, amount in CONTAINER.items())
        notes.append(f"{silent} jobs do not say what their tasks ask for: {amounts} is taken")
    if any(run.key.type == "SPARK" for run in runs):
        slots = cluster.model.frameworks.spark_tasks_per_executor
        chosen = "spark_tasks_per_executor" in cluster.model.frameworks.model_fields_set
        source = "as the scenario says" if chosen else "unless the scenario says otherwise"
        notes.append(f"executors of Spark run {slots} tasks at a time, {source} (frameworks.spark_tasks_per_executor)")
    compared = [
        Compared(job.id, job.queue, job.user, run.key.type, job.dag.tasks, run.started_ms, run.ended_ms)
        for job, run in zip(jobs, runs, strict=True)
    ]
    return Reduced(cluster, jobs, extra_ms={job.id: 0 for job in jobs}, compared=compared, notes=notes)


def _stages(run: JobRun) -> list[StageRun]:
    """Return the stages of which tasks are known."""
    return [stage for stage in run.stages if stage.measured is Measured.TASKS and stage.durations.count]


def _job(run: JobRun, first_ms: int, generator: np.random.Generator) -> Job:
    known = _stages(run)
    number = {stage.name: at for at, stage in enumerate(known)}
    stages = []
    for at, stage in enumerate(known):
        durations = generator.permutation(_times(stage.durations if stage.alone is None else stage.alone))
        parents = tuple(sorted({number[name] for name in stage.parents if number.get(name, at) < at}))
        demand = _demand(run, stage) or CONTAINER
        mean_ms = round(float(durations.mean()))
        stages.append(Stage(at, len(durations), mean_ms, demand, parents, durations_ms=durations, name=stage.name))
    key = run.key
    dag = Dag(key.name, tuple(stages))
    return Job(run.id, run.started_ms - first_ms, dag, _FRAMEWORKS[key.type], key.name, key.user, key.queue)


def _demand(run: JobRun, stage: StageRun) -> Mapping[str, float]:
    """Return what a task takes: of Spark's, its part of an executor."""
    if run.key.type != "SPARK":
        return {name: float(amount) for name, amount in stage.demand.items()}
    asked: Mapping[str, Any] = next((each.demand for each in run.stages if each.measured is Measured.CONTAINERS), {})
    cores = max(asked.get("vcores", 1), 1)
    return {name: amount / cores for name, amount in asked.items()}


def _times(sketch: DurationSketch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the durations of a sketch in ascending order, with its mean."""
    last = max(sketch.count - 1, 1)
    times = np.array([sketch.quantile_ms(at / last) for at in range(sketch.count)])
    mean_ms = float(times.mean())
    scaled = times * (sketch.mean_ms / mean_ms) if mean_ms > 0 else times
    return np.maximum(np.rint(scaled), 1).astype(np.int64)
