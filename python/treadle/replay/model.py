"""A recording as input of the simulator: a scenario, and jobs whose tasks last as long as their containers did.

A recorded container's time includes delays that the model adds itself: until its AM received it, and until its node
reported its end. So half a heartbeat is subtracted for each. A task that waited in its container for earlier stages
counts from their end.

MapReduce histories and Spark event logs become jobs too: their task durations are known as a distribution, with a
precision of one percent, without the order of tasks.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, median, quantiles
from typing import Any, Final

import numpy as np

from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.dag import Dag, Stage
from treadle.errors import UserError
from treadle.history.outcome import BrokenHistoryError, RefusedError, UnfinishedError
from treadle.history.profile import DurationSketch, JobRun, Measured, StageRun
from treadle.history.reader import HistoryReader, find_sources
from treadle.history.stages import Framework as Recorded
from treadle.history.stages import StageId
from treadle.replay.seen import RecordedCluster, RecordedContainer, RecordedJob, RecordedStage
from treadle.simulate import Framework, Job, Scenario, Workload, arranged
from treadle.simulate.batch import NOBODY
from treadle.simulator.cluster.advance import Put
from treadle.simulator.resource_manager import Situation, Step
from treadle.simulator.scenario import parse_scenario
from treadle.workload.generate import CONTAINER
from treadle.workload.job import dealt
from treadle.yarn.codes import application_id

AM_HEARTBEAT_MS: Final = 1000
"""Heartbeat of application masters in ms: the default of MapReduce and Tez; frames do not contain it."""

HEARD_MS: Final = AM_HEARTBEAT_MS // 2
"""Average delay in ms between a container's allocation and the AM's next heartbeat."""


def _steps(
    job: RecordedJob,
    then: RecordedJob,
    id_: str,
    of_stages: Sequence[Step],
    at_ms: int,
    seen: RecordedCluster,
    place: Mapping[str, int],
) -> Iterator[Step]:
    """Yield the steps to the state of a job when the model takes over.

    Args:
        job: the complete job
        then: the recorded part at that time
        id_: its ID
        of_stages: the steps of its stages, by stage
        at_ms: that time, from the start of the recording
        seen: the complete recording
        place: index of each node in the model, by name
    """
    created_ms, has_master = then.master_ms - seen.begin_ms, then.master_ms >= 0 and then.master_node in place
    if then.end_ms >= 0:
        end_ms = then.end_ms - seen.begin_ms
        yield Step(Put.ENDED, id_, end_ms=end_ms)
        yield from (step._replace(what=Put.USED) for step in of_stages if step.what != Put.ASKS)
        if has_master:
            yield Step(Put.USED, id_, created_ms=created_ms, end_ms=end_ms)
        return
    if then.waits:
        yield Step(Put.WAITS, id_)
        return
    yield Step(Put.ASKS_MASTER, id_)
    runs = then.before or then.first_ask_ms >= 0 or any(each.containers for each in then.stages.values())
    registers_ms = max(job.first_ask_ms, then.master_ms) - seen.begin_ms
    if has_master:
        node, end_ms = place[then.master_node], -1 if runs else registers_ms
        yield Step(Put.MASTER, id_, node=node, created_ms=created_ms, end_ms=end_ms)
    if runs:
        yield Step(Put.REGISTERED, id_, begin_ms=min(registers_ms, at_ms))
        # Completed tasks come before running ones and requests, which belong to stages that may have waited for them.
        yield from sorted(of_stages, key=lambda step: step.what)
        yield Step(Put.GOES_ON, id_)


def _started(
    container: RecordedContainer, barrier_ms: int, seen: RecordedCluster, place: Mapping[str, int], task: Step
) -> Step:
    """Return the step of a started task; it may have waited in its container for earlier stages."""
    end_ms = -1 if container.runs else container.end_ms - seen.begin_ms
    return task._replace(
        what=Put.DONE if end_ms >= 0 else Put.RUNS,
        node=place.get(container.node, 0),
        created_ms=container.created_ms - seen.begin_ms,
        begin_ms=max(container.created_ms + HEARD_MS, barrier_ms) - seen.begin_ms,
        end_ms=end_ms,
    )


SLACK_MS: Final = 2_000
"""A stage requested within this time (ms) after another one did not wait for it."""

STARTED: Final = 0.25
"""Fraction of a stage that has ended when its successors are requested (Tez: vertex-manager min-src-fraction)."""

TEZ_MAX_FRACTION: Final = 0.75
"""At this fraction Tez has requested all of them (vertex-manager max-src-fraction)."""

SPANS_MAX: Final = 5
"""A policy is cut off when its jobs take this multiple of their recorded time plus an hour."""

SLOW_START: Final = 0.05
"""MapReduce's default."""
SLOW_START_SEEN: Final = 0.25
SLOW_START_JOBS: Final = 3
SLOW_START_MAPS: Final = 20
"""Number of jobs, and of maps in each, that must agree on another slow start before it is used: frames show the
completed fraction of maps at the request of reduces with the precision of a heartbeat."""


@dataclass(frozen=True, slots=True)
class Compared:
    """A job with known arrival and end."""

    id: str
    queue: str
    user: str
    type: str
    tasks: int
    submit_ms: int
    end_ms: int


@dataclass(slots=True)
class Reduced:
    """A recording, or histories, as input of the simulator."""

    scenario: Scenario
    jobs: list[Job]
    begun: dict[tuple[str, int], int] = field(default_factory=dict)
    """Number of a stage's first tasks that had started when the model takes over, by job and stage."""
    situation: Situation | None = None
    """The state at that time; None: it starts with the recording."""
    extra_ms: dict[str, int] = field(default_factory=dict)
    """By ID of the compared jobs: additional time in ms after the last container, relative to the model."""
    compared: list[Compared] = field(default_factory=list)
    """Jobs that arrived and ended within the recording."""
    notes: list[str] = field(default_factory=list)
    begin_ms: int = 0
    """Clock value at the simulation's time 0, in ms."""

    def workload(self, seed: int) -> Workload:
        """Return the jobs: as recorded for seed 1, with task durations permuted for other seeds.

        Another policy assigns a stage's tasks to other containers.
        """
        if seed == 1:
            return arranged(self.jobs)
        return arranged(dealt(self.jobs, seed, self.begun))


def reduce(seen: RecordedCluster, then: RecordedCluster | None = None) -> Reduced:
    """Return the cluster and the jobs of a recording.

    Args:
        seen: the complete recording
        then: the recording up to the time when the model takes over; None: the model starts with it

    Raises:
        UserError: it has no running job.
    """
    jobs: list[Job] = []
    extra_ms: dict[str, int] = {}
    compared = []
    begun: Counter[tuple[str, int]] = Counter()
    steps: list[Step] = []
    at_ms = -1 if then is None else then.end_ms - seen.begin_ms
    place = {name: at for at, name in enumerate(name for names in node_groups(seen).values() for name in names)}
    for one in seen.jobs.values():
        stages = {at: stage for at, stage in one.stages.items() if stage.containers}
        if not stages:
            continue
        earlier = None if then is None else then.jobs.get(one.id)
        made, started = _job(one, stages, seen, earlier, place)
        jobs.append(made)
        if earlier is not None:
            steps += _steps(one, earlier, made.id, started, at_ms, seen, place)
            begun.update((made.id, step.stage) for step in started if step.what != Put.ASKS)
        if one.end_ms >= 0 and not one.before:
            tasks = sum(len(stage.containers) + stage.asked for stage in one.stages.values())
            compared.append(Compared(made.id, one.queue, one.user, one.type, tasks, one.submit_ms, one.end_ms))
            extra_ms[made.id] = _extra_ms(one, seen)
    if not jobs or not seen.nodes:
        raise UserError("no container ended well within the recording: there is nothing to replay")
    scenario, notes = Scenario.of(_scenario(seen)), _notes(seen, len(jobs))
    situation = None if then is None else Situation(at_ms, tuple(steps))
    return Reduced(scenario, jobs, begun, situation, extra_ms, compared, notes, seen.begin_ms)


def _notes(seen: RecordedCluster, jobs: int) -> list[str]:
    notes = list(seen.notes)
    stages = [stage for job in seen.jobs.values() for stage in job.stages.values()]
    left = sum(each.runs for stage in stages for each in stage.containers)
    frameworks = {job.framework for job in seen.jobs.values()}
    before = sum(job.before for job in seen.jobs.values())
    said = {
        f"{len(seen.jobs) - jobs} jobs of which no container ended well are left out": len(seen.jobs) > jobs,
        f"{left} containers had not ended: they last as others of their stage did, or as they had by then": left,
        f"{seen.lost} containers failed, were preempted, lost or given back: they are left out": seen.lost,
        f"{before} jobs were there when the recording began: what they had done is not known": before,
        "executors of Spark last as long as they did, however many there are": Recorded.SPARK in frameworks,
        "containers of Tez last as long as they did, whatever tasks they would get": Recorded.TEZ in frameworks,
        "nodes have labels: the model has none": seen.labels,
        "limits of users are left out": seen.user_limits,
        "settings were read again within the recording: the model follows the first": seen.settings_changed,
    }
    return notes + [text for text, holds in said.items() if holds]


def _job(
    one: RecordedJob,
    stages: Mapping[StageId, RecordedStage],
    seen: RecordedCluster,
    earlier: RecordedJob | None,
    place: Mapping[str, int],
) -> tuple[Job, list[Step]]:
    """Return a job, and the steps to the state of its stages ``earlier``; tasks that had started then come first."""
    parents = parents_of(stages, one.framework)
    number = {at: position for position, at in enumerate(parents)}
    id_, made, started = application_id(*one.id), [], list[Step]()
    for at in parents:
        stage = stages[at]
        barrier_ms = max((stages[parent].last_end_ms for parent in parents[at]), default=-1)
        barrier_ms -= seen.node_heartbeat_ms // 2
        before = RecordedStage() if earlier is None else earlier.stages.get(at, RecordedStage())
        ended = {each[:2]: each for each in stage.containers}
        begun = {each[:2]: each for each in sorted(before.containers) if each[:2] in ended}
        later = sorted(each for each in stage.containers if each[:2] not in begun)
        durations = _durations(stage, [*map(ended.__getitem__, begun), *later], barrier_ms, seen)
        for task, each in enumerate(begun.values()):
            started.append(_started(each, barrier_ms, seen, place, Step(Put.RUNS, id_, number[at], task)))
        if before.asked:
            started.append(Step(Put.ASKS, id_, number[at], asks=before.asked))
        demand = {name: float(amount) for name, amount in zip(seen.resources, stage.demand, strict=False) if amount}
        above = tuple(number[parent] for parent in parents[at])
        made.append(Stage.measured(number[at], durations, demand, above, at.name))
    framework = Framework.MAPREDUCE if one.framework is Recorded.MAPREDUCE else Framework.TEZ
    arrival_ms = one.submit_ms - seen.begin_ms
    dag = Dag(one.name, tuple(made))
    job = Job(id_, arrival_ms, dag, framework, one.name, one.user, one.queue, priority=one.priority)
    return job, started


def _durations(
    stage: RecordedStage, ordered: Sequence[RecordedContainer], barrier_ms: int, seen: RecordedCluster
) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the task durations of a stage in ms, in order of container allocation."""
    known = []
    for each in ordered:
        begin_ms = max(each.created_ms + HEARD_MS, barrier_ms)
        heartbeat_ms = AM_HEARTBEAT_MS if each.with_job else seen.node_heartbeat_ms
        known.append(max(each.end_ms - heartbeat_ms // 2 - begin_ms, 1))
    ended = [lasts for lasts, each in zip(known, ordered, strict=True) if not each.runs]
    usual = round(mean(ended)) if ended else 1
    lasts = [max(own, usual) if each.runs else own for own, each in zip(known, ordered, strict=True)]
    return np.array(lasts + [usual] * stage.asked, np.int64)


def _extra_ms(job: RecordedJob, seen: RecordedCluster) -> int:
    """Return how much longer (ms) a job lasted after its last task than the model's AM takes to finish."""
    last = max((each for stage in job.stages.values() for each in stage.containers), key=lambda each: each.end_ms)
    if last.with_job:
        return 0
    return max(job.end_ms - (last.end_ms - seen.node_heartbeat_ms // 2) - AM_HEARTBEAT_MS // 2, 0)


def parents_of(stages: Mapping[StageId, RecordedStage], framework: Recorded) -> dict[StageId, list[StageId]]:
    """Return the predecessors of each stage: for MapReduce by kind, for others by request times.

    Predecessors come first.
    """
    parents: dict[StageId, list[StageId]] = {}
    by_time = framework not in (Recorded.MAPREDUCE, Recorded.TEZ)  # their priorities define the order
    for at, stage in sorted(stages.items(), key=lambda item: (item[1].first_ask_ms if by_time else 0, item[0])):
        above = [(other, stages[other]) for other in parents]
        if framework is Recorded.MAPREDUCE:
            parents[at] = [other for other, _ in above if other.position < at.position]
        else:
            parents[at] = [other for other, earlier in above if _waited(stage, earlier)]
    return parents


def _waited(stage: RecordedStage, earlier: RecordedStage) -> bool:
    """Return whether a stage may have waited for another: requested later, after a part of it, and ended later."""
    ends = [each.end_ms for each in earlier.containers if not each.runs]
    if len(ends) < len(earlier.containers) or earlier.first_ask_ms + SLACK_MS > stage.first_ask_ms:
        return False
    done = sum(end_ms <= stage.first_ask_ms for end_ms in ends) / len(ends)
    own = min(each.end_ms for each in stage.containers)
    return done >= STARTED and own >= max(ends)


def _scenario(seen: RecordedCluster) -> dict[str, Any]:
    """Return the cluster of a recording as a scenario without jobs."""
    masters = [job.master for job in seen.jobs.values() if job.master]
    master = [median(column) for column in zip(*masters, strict=True)]
    nodes = [
        {
            "count": len(names),
            "resources": dict(zip(seen.resources, total, strict=True)),
            "racks": len({seen.nodes[name][0] for name in names}),
            "name": f"group-{at}-node",
        }
        for at, (total, names) in enumerate(node_groups(seen).items())
    ]
    resources = [{"name": name, "counted": counted} for name, counted in zip(seen.resources, seen.counted, strict=True)]
    tick_ms = round(quantiles(seen.gaps_ms, n=4)[0]) if len(seen.gaps_ms) > 1 else 100
    root = next((at for at, queue in seen.queues.items() if queue.parent < 0), None)
    children: dict[int, list[int]] = {}
    for at, queue in seen.queues.items():
        children.setdefault(queue.parent, []).append(at)
    starts = [
        job.first_ask_ms - job.master_ms for job in seen.jobs.values() if min(job.first_ask_ms, job.master_ms) >= 0
    ]
    return {
        "cluster": {"resources": resources, "nodes": nodes, "heartbeat_ms": seen.node_heartbeat_ms},
        "queues": {} if root is None else _queues(seen, children, root),
        "decision": {
            "tick_ms": min(max(tick_ms, 1), 60_000),
            "idle_ms": max(tick_ms, 1000),
            "limit": max(round(median(seen.limits)), 1),
        },
        "frameworks": {
            "master": dict(zip(seen.resources, master, strict=False)),
            "master_start_ms": max(round(median(starts)), 0) if starts else 0,
            "heartbeat_ms": AM_HEARTBEAT_MS,
            "slow_start": _slow_start(seen),
            "tez_reuse": False,
            **_early(seen),
        },
        "start_s": seen.begin_ms / 1000,
        "duration_limit_s": 3600 + SPANS_MAX * (seen.end_ms - seen.begin_ms) / 1000,
    }


def node_groups(seen: RecordedCluster) -> dict[tuple[int, ...], list[str]]:
    """Return the names of nodes by capacity, in the order of the model's nodes."""
    groups: dict[tuple[int, ...], list[str]] = {}
    for name, (_, total) in seen.nodes.items():
        groups.setdefault(total, []).append(name)
    return dict(sorted(groups.items()))


def _slow_start(seen: RecordedCluster) -> float:
    """Return the completed fraction of the maps when reduces are requested."""
    fractions = []
    for job in seen.jobs.values():
        by_name = {at.name: stage for at, stage in job.stages.items()}
        maps, reduces = by_name.get("map"), by_name.get("reduce")
        if job.framework is Recorded.MAPREDUCE and maps and reduces and reduces.first_ask_ms >= 0 and not job.before:
            ends = [each.end_ms for each in maps.containers]
            if len(ends) >= SLOW_START_MAPS:
                fractions.append(sum(end_ms <= reduces.first_ask_ms for end_ms in ends) / len(ends))
    least = min(fractions, default=SLOW_START)
    return least if len(fractions) >= SLOW_START_JOBS and least >= SLOW_START_SEEN else SLOW_START


def _early(seen: RecordedCluster) -> dict[str, float]:
    """Return the completed fraction of predecessors when stages of jobs other than MapReduce are requested.

    Tez requests them from a quarter on; others, such as Hadoop's load simulator, at the end.
    """
    fractions = []
    for job in seen.jobs.values():
        stages = {at: stage for at, stage in job.stages.items() if stage.containers}
        if job.framework is Recorded.MAPREDUCE or job.before:
            continue
        for at, parents in parents_of(stages, job.framework).items():
            if parents:
                ask_ms = stages[at].first_ask_ms
                ends = [[each.end_ms <= ask_ms and not each.runs for each in stages[one].containers] for one in parents]
                fractions.append(min(sum(ended) / len(ended) for ended in ends))
    least = min(fractions, default=STARTED)
    if len(fractions) < SLOW_START_JOBS or least <= TEZ_MAX_FRACTION:
        return {}
    return {"tez_min_fraction": least, "tez_max_fraction": least}


def _queues(seen: RecordedCluster, children: Mapping[int, Sequence[int]], parent: int) -> dict[str, Any]:
    """Return the child queues of a queue, with guarantees as fractions of the parent's."""
    own = [(at, seen.queues[at]) for at in children.get(parent, ())]
    whole = sum(queue.guaranteed[0] for _, queue in own if queue.guaranteed)
    most, documents = seen.queues[parent].maximum, {}
    for at, queue in own:
        share = 100 * queue.guaranteed[0] / whole if queue.guaranteed and whole else 100 / len(own)
        maximum = _percent(queue.maximum, most)
        documents[queue.path.rpartition(".")[2]] = {
            "capacity": math.floor(share * 1e6) / 1e6,
            "maximum_capacity": min(max(maximum, share), 100.0),
            "maximum_am_resource_percent": _percent(queue.am_limit, queue.maximum),
            "ordering_policy": "fair" if queue.ordering_policy == "fair" else "fifo",
            "priority": queue.priority,
            "children": _queues(seen, children, at),
        }
    return documents


def _percent(part: tuple[int, ...], whole: tuple[int, ...]) -> float:
    return min(100 * part[0] / whole[0], 100.0) if part and whole and whole[0] else 100.0


TASKS_MAX: Final = 100_000
"""Jobs with more tasks are skipped."""

BROKEN_MAX: Final = 20
"""Maximum number of unusable histories reported with a reason; the others are counted."""

_FRAMEWORKS: Final = {"MAPREDUCE": Framework.MAPREDUCE, "SPARK": Framework.SPARK}


def cluster_of(file: Path, *, trust_code: bool) -> Scenario:
    """Return a scenario whose own workload may be missing, since it is not used.

    Raises:
        ConfigError: it cannot be read, or something in it is wrong.
    """
    text = text_of(file)
    value = YamlDocument(str(file), text).value
    if isinstance(value, dict) and "workload" not in value:
        text += f"\nworkload: {json.dumps(NOBODY)}\n"
    model = parse_scenario(str(file), text, trust_code=trust_code)
    return Scenario(model, file.parent, str(file), text, trust_code=trust_code)


class Histories:
    """The content of history files and folders."""

    def __init__(self) -> None:
        self.runs: dict[str, JobRun] = {}
        self.left_out = 0
        self.others = 0
        self.broken: list[str] = []

    def read(self, paths: Sequence[Path]) -> None:
        """Read files and folders, in another process.

        Raises:
            UserError: a path is missing, no history is found, or a library is missing.
        """
        sources = 0
        with HistoryReader() as reader:
            for source in find_sources(paths):
                sources += 1
                try:
                    content = reader.read(source)
                except UnfinishedError:
                    self.left_out += 1
                    continue
                except (BrokenHistoryError, RefusedError, OSError) as error:
                    text = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                    self.broken.append(f"{source.name}: {text.removeprefix(f'{source.name}: ')}")
                    continue
                self.left_out += len(content.left_out)
                for run in content.runs:
                    tasks = sum(stage.durations.count for stage in run.stages)
                    if run.key.type not in _FRAMEWORKS:
                        self.others += 1
                    elif not 0 < tasks <= TASKS_MAX or run.ended_ms < run.started_ms:
                        self.broken.append(f"{run.id}: no tasks with times, or too many")
                    else:
                        self.runs.setdefault(run.id, run)
        if not sources:
            names = ", ".join(map(str, paths))
            remedy = "MapReduce's end in .jhist, Spark's are event logs"
            raise UserError(f"--history {names}: no history is there; {remedy}")

    def notes(self) -> Iterator[str]:
        """Yield notes about histories that are not among the jobs."""
        yield from self.broken[:BROKEN_MAX]
        if len(self.broken) > BROKEN_MAX:
            yield f"{len(self.broken) - BROKEN_MAX} more histories cannot be used"
        if self.left_out:
            yield f"{self.left_out} jobs that did not end well are left out"
        if self.others:
            yield f"{self.others} jobs that are neither MapReduce's nor Spark's are left out"


def reduce_histories(histories: Histories, cluster: Scenario) -> Reduced:
    """Return the jobs of histories, on the cluster of a scenario.

    Raises:
        UserError: they contain no job.
    """
    if not histories.runs:
        raise UserError(
            "\n".join(["there is no job of MapReduce or Spark that ended well in the histories", *histories.notes()])
        )
    runs = sorted(histories.runs.values(), key=lambda run: (run.started_ms, run.id))
    first_ms, notes = runs[0].started_ms, list(histories.notes())
    jobs = [_job_of_history(run, first_ms, np.random.default_rng([0, at])) for at, run in enumerate(runs)]
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
    """Return the stages with known tasks."""
    return [stage for stage in run.stages if stage.measured is Measured.TASKS and stage.durations.count]


def _job_of_history(run: JobRun, first_ms: int, generator: np.random.Generator) -> Job:
    known = _stages(run)
    number = {stage.name: at for at, stage in enumerate(known)}
    stages = []
    for at, stage in enumerate(known):
        durations = generator.permutation(_times(stage.durations if stage.alone is None else stage.alone))
        parents = tuple(sorted({number[name] for name in stage.parents if number.get(name, at) < at}))
        demand = _demand(run, stage) or CONTAINER
        stages.append(Stage.measured(at, durations, demand, parents, stage.name))
    key = run.key
    dag = Dag(key.name, tuple(stages))
    return Job(run.id, run.started_ms - first_ms, dag, _FRAMEWORKS[key.type], key.name, key.user, key.queue)


def _demand(run: JobRun, stage: StageRun) -> Mapping[str, float]:
    """Return the resources of a task: for Spark its fraction of an executor."""
    if run.key.type != "SPARK":
        return {name: float(amount) for name, amount in stage.demand.items()}
    container_demand: Mapping[str, Any] = next(
        (each.demand for each in run.stages if each.measured is Measured.CONTAINERS), {}
    )
    cores = max(container_demand.get("vcores", 1), 1)
    return {name: amount / cores for name, amount in container_demand.items()}


def _times(sketch: DurationSketch) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return durations with a sketch's distribution, ascending, with the same mean."""
    last = max(sketch.count - 1, 1)
    times = np.array([sketch.quantile_ms(at / last) for at in range(sketch.count)])
    mean_ms = float(times.mean())
    scaled = times * (sketch.mean_ms / mean_ms) if mean_ms > 0 else times
    return np.maximum(np.rint(scaled), 1).astype(np.int64)
