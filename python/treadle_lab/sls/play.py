"""Scripted jobs on simulated nodes of a real ResourceManager: cluster, script, pace, runs, and what of them is kept."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from pydantic import TypeAdapter

from treadle.dag import Dag, Stage
from treadle.errors import UserError, percent
from treadle.sources import digest
from treadle.sweep.runs import ResultCache, result_bytes
from treadle.yarn.codes import MAP, REDUCE
from treadle_lab.harness.runs import digest_of
from treadle_lab.minicluster.processes import Say
from treadle_lab.minicluster.site import CS, queue_entries
from treadle_lab.rows import Table
from treadle_lab.sls import run as sls

MEMORY: Final = "memory-mb"
VCORES: Final = "vcores"


def vertex_name(stage: Stage) -> str:
    """Return the name of a stage's vertex."""
    return stage.name or f"v{stage.id}"


QUEUE: Final = "default"
SCRIPT: Final = "script.json"
_SLS: Final = "yarn.sls."
LEASE_MS: Final = 20_000
"""Two cores run all nodes and masters next to the engine: it must not lose its lease for that."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Identical nodes."""

    nodes: int
    memory_mb: int
    vcores: int
    heartbeat_ms: int = 250
    """Heartbeat of nodes and of application masters: real ones' second, compressed as durations are."""
    least_mb: int = 256
    """Granularity of memory in MB."""
    masters_share: float = 0.5
    """Maximum fraction of the cluster for application masters."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """Resources of a node besides memory and virtual cores, by resource type."""
    tree: Mapping[str, str] = field(default_factory=dict)
    """Queues in capacity-scheduler.xml; empty: one queue without user limits."""

    def host(self, number: int) -> str:
        """Return the host of a node, numbered from 0."""
        return str(sls.FIRST_ADDRESS + number)

    @property
    def settings(self) -> dict[str, str]:
        """Return what yarn-site.xml and sls-runner.xml have of it."""
        return {
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": str(self.heartbeat_ms),
            "yarn.scheduler.minimum-allocation-mb": str(self.least_mb),
            "yarn.scheduler.maximum-allocation-mb": str(self.memory_mb),
            "yarn.scheduler.maximum-allocation-vcores": str(self.vcores),
            "yarn.resourcemanager.max-completed-applications": "10000",
            _SLS + "nm.memory.mb": str(self.memory_mb),
            _SLS + "nm.vcores": str(self.vcores),
            _SLS + "nm.heartbeat.interval.ms": str(self.heartbeat_ms),
            _SLS + "am.heartbeat.interval.ms": str(self.heartbeat_ms),
            _SLS + "am.type.mapreduce": "io.treadle.sls.ScriptedMaster",
            "treadle.testbed.script": SCRIPT,  # in the folder in which the simulator runs
            **({"yarn.resource-types": ",".join(self.resources)} if self.resources else {}),
            **{f"{_SLS}nm.{name}": str(amount) for name, amount in self.resources.items()},
        }

    def queues(self, ordering: str) -> dict[str, str]:
        """Return capacity-scheduler.xml; ``ordering`` is that of the one queue, where there is no tree."""
        common = {
            f"{CS}maximum-am-resource-percent": str(self.masters_share),
            f"{CS}resource-calculator": "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
        }
        if self.tree:
            return common | dict(self.tree)
        return common | queue_entries({QUEUE: 100}, 100) | {f"{CS}root.{QUEUE}.ordering-policy": ordering}


@dataclass(frozen=True, slots=True)
class Scheduling:
    """The scheduler: the stock one, or Treadle under a treadle.yaml."""

    name: str
    policy: str | None = None
    """The text of treadle.yaml; None: the stock scheduler."""
    ordering: str = "fifo"
    """Ordering policy of the stock scheduler's queue: fifo or fair."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Further ones of yarn-site.xml."""
    sidecar: Path | None = None
    """The program that the shim starts in place of `treadle`."""
    observed: bool = False
    """Treadle places nothing and answers application masters all the same; the stock scheduler places."""

    def mode(self, cluster: Cluster, file: Path) -> sls.Mode:
        """Return it as SLS runs it; its treadle.yaml is ``file``, which is written."""
        settings = {**cluster.settings, **self.settings}
        if self.policy is None:
            stock = sls.MODES["sync"]
            capacity = {**stock.capacity_settings, **cluster.queues(self.ordering)}
            return sls.Mode(self.name, sls.Kind.STOCK, stock.scheduler_class, capacity, settings)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.policy, encoding="utf-8")
        settings = {"yarn.scheduler.treadle.lease-ms": str(LEASE_MS), **settings}
        queues = cluster.queues(self.ordering)
        if not self.observed:
            return sls.treadle_under(self.name, file.resolve(), settings, queues)
        beside = sls.MODES["observe"]
        capacity = {**beside.capacity_settings, **queues}
        return sls.treadle_under(self.name, file.resolve(), settings, capacity, beside)


@dataclass(frozen=True)
class ScriptedLoad(sls.Workload):
    """A script as a load of SLS: the trace has as many jobs, and each takes the next one of the script."""

    script: Script = field(kw_only=True)

    def trace(self) -> dict[str, Any]:
        """Return the SYNTH trace; what its one class of jobs says of tasks and its queue are not used."""
        trace = super().trace()
        of_queue = trace["workloads"][0] | {"queue_name": self.script.jobs[0].queue, "workload_weight": 1}
        return trace | {"workloads": [of_queue]}

    def write(self, folder: Path) -> sls.Files:
        """Write the simulator's input files into ``folder``."""
        self.script.write(folder / SCRIPT)
        return super().write(folder)


REQUIRE: Final = "treadle:require="
LEAST_MS: Final = 1


@dataclass(frozen=True, slots=True)
class TaskStage:
    """Tasks that ask for the same, with one priority."""

    priority: int
    resources: Mapping[str, int]
    durations_ms: tuple[int, ...]
    after: tuple[int, ...] = ()
    """Which stages must have ended before it asks, by their places in the job."""
    name: str = ""
    """Its name at the plan listener; empty without plans."""


@dataclass(frozen=True, slots=True)
class ScriptedJob:
    """A job."""

    name: str
    at_ms: int
    stages: tuple[TaskStage, ...]
    type: str = "MAPREDUCE"
    user: str = "ann"
    queue: str = "default"
    master_mb: int = 1024
    tags: tuple[str, ...] = ()
    requires: Mapping[str, str] = field(default_factory=dict)
    """Required attributes of its tasks' nodes, with values. The ResourceManager receives them in a tag."""
    until_ms: int = 0
    """When it leaves, whatever of it is undone; 0: when its tasks have ended."""

    @property
    def work_ms(self) -> int:
        """The time that its tasks take together."""
        return sum(sum(stage.durations_ms) for stage in self.stages)

    @property
    def all_tags(self) -> tuple[str, ...]:
        """Its tags, with that of its requirement."""
        required = ";".join(f"{name}={value}" for name, value in self.requires.items())
        return (*self.tags, f"{REQUIRE}{required}") if required else self.tags


@dataclass(frozen=True, slots=True)
class Script:
    """Jobs, and the attributes of nodes that have any, by host."""

    jobs: tuple[ScriptedJob, ...]
    attributes: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [job.name for job in self.jobs]
        if not names or len(set(names)) != len(names):
            raise UserError("a script needs jobs, and no two of one name")
        for job in self.jobs:
            _check(job)

    def as_json(self) -> dict[str, Any]:
        """Return the fields of the file that the simulated application masters read."""
        return {"attributes": self.attributes, "jobs": [asdict(job) | {"tags": job.all_tags} for job in self.jobs]}

    def write(self, file: Path) -> None:
        """Write that file."""
        file.write_text(json.dumps(self.as_json()))


def _check(job: ScriptedJob) -> None:
    asked: dict[int, Mapping[str, int]] = {}
    if job.at_ms < 0 or not job.stages:
        raise UserError(f"job {job.name}: at_ms must not be negative, and there must be a stage")
    for number, stage in enumerate(job.stages):
        if not stage.durations_ms or min(stage.durations_ms) < LEAST_MS:
            raise UserError(f"job {job.name}: stage {number} needs tasks, of {LEAST_MS} ms or more")
        if any(not 0 <= before < number for before in stage.after):
            raise UserError(f"job {job.name}: stage {number} comes after {stage.after}; these must come before it")
        if asked.setdefault(stage.priority, stage.resources) != stage.resources:
            raise UserError(
                f"job {job.name}: two stages of priority {stage.priority} ask for different resources; "
                "a ResourceManager keeps one ask for each priority"
            )


def map_reduce(
    maps_ms: Iterable[int], resources: Mapping[str, int], reduces_ms: Iterable[int] = ()
) -> tuple[TaskStage, ...]:
    """Return the stages of a MapReduce job: maps, and reduces after them, with its application master's priorities."""
    stages = [TaskStage(MAP, resources, tuple(maps_ms))]
    if reduces := tuple(reduces_ms):
        stages.append(TaskStage(REDUCE, resources, reduces, (0,)))
    return tuple(stages)


def stages_of(dag: Dag, order: Sequence[int] | None = None) -> tuple[TaskStage, ...]:
    """Return the stages of a Tez job with the priorities of its application master, which gives each vertex a band.

    Args:
        dag: its stages, parents first.
        order: ids of all stages, the first to run first; None for Tez's own order, by distance from the roots.
    """
    place = {stage.id: number for number, stage in enumerate(dag.stages)}
    depth: dict[int, int] = {}
    for stage in dag.stages:
        depth[stage.id] = max((depth[parent] + 1 for parent in stage.parents), default=0)
    band = {id_: (depth[id_] + 1) * len(place) + number for id_, number in place.items()}
    if order is not None:
        band = {id_: number + 1 for number, id_ in enumerate(order)}
    return tuple(
        TaskStage(
            3 * band[stage.id] - 1,
            {name: max(1, round(amount)) for name, amount in stage.demand.items()},
            tuple(max(LEAST_MS, each) for each in np.asarray(stage.durations()).tolist()),
            tuple(place[parent] for parent in stage.parents),
            vertex_name(stage),
        )
        for stage in dag.stages
    )


LEAST_HEARTBEATS: Final = 0.9
MOST_LATE: Final = 10
"""Heartbeats of application masters by which a submission may be late."""


@dataclass(frozen=True, slots=True)
class Pace:
    """Accuracy of a run relative to its script."""

    heartbeats_share: float
    """Nodes' heartbeats that the ResourceManager handled, of those that were due while containers ran."""
    late_ms: float
    """By how much the latest submission was behind the script, measured from the one that was least behind."""
    late_most_ms: float
    """Maximum delay that counts as in time."""
    held_over_work: float
    """Container time of tasks, by their masters' clocks, over their scripted time."""
    decide_p50_ms: float | None = None
    """Median decision time of the engine; None without decisions."""
    decide_p99_ms: float | None = None

    @property
    def kept_up(self) -> bool:
        """Did the ResourceManager handle nearly all heartbeats, and did jobs come when they should?"""
        return self.heartbeats_share >= LEAST_HEARTBEATS and self.late_ms <= self.late_most_ms

    def __str__(self) -> str:
        """Return a line about it."""
        decide = ""
        if self.decide_p50_ms is not None and self.decide_p99_ms is not None:
            decide = f", decide P50 {self.decide_p50_ms:.1f} ms and P99 {self.decide_p99_ms:.1f} ms"
        verdict = "the machine kept up" if self.kept_up else "the machine did NOT keep up"
        return (
            f"{verdict}: {percent(self.heartbeats_share)} of heartbeats handled, submissions up to "
            f"{self.late_ms:.0f} ms late, containers held {self.held_over_work:.2f} times as long as "
            f"their tasks run{decide}"
        )


def pace_of(script: Script, cluster: Cluster, seen: Mapping[str, Any]) -> Pace:
    """Return how close a run was to its script, by its measurements at the end."""
    commits, completions = seen["commits"], seen["completions"]
    shim = seen.get("shim") or {}
    share = sls.heartbeats_share(seen, cluster.nodes, cluster.heartbeat_ms, commits["first_ms"], completions["last_ms"])
    columns, rows = seen["job_columns"], seen["jobs"]
    at = {name: columns.index(name) for name in ("name", "submitted_ms", "tasks_ms")}
    submitted_ms = {row[at["name"]]: row[at["submitted_ms"]] for row in rows}
    ended = [job for job in script.jobs if job.name in submitted_ms]
    offsets_ms = np.array([submitted_ms[job.name] - job.at_ms for job in ended])
    held_ms = sum(_held_ms(row[at["tasks_ms"]]) for row in rows)
    work_ms = sum(job.work_ms for job in ended)
    return Pace(
        share,
        float(np.ptp(offsets_ms)) if len(offsets_ms) else 0.0,
        float(MOST_LATE * cluster.heartbeat_ms),
        held_ms / max(1, work_ms),
        _decide_ms(shim, sls.P50),
        _decide_ms(shim, sls.P99),
    )


def _decide_ms(shim: Mapping[str, Any], name: str) -> float | None:
    """Return a quantile of decide times, by a reading of the bean; None if nothing was decided."""
    found_us = sls.decide_us(shim, name)
    return None if math.isnan(found_us) else found_us / 1000


def _held_ms(spans_ms: Sequence[Sequence[int]]) -> int:
    return sum(end_ms - start_ms for start_ms, end_ms in spans_ms if end_ms >= 0)


SUCCEEDED: Final = "SUCCEEDED"
UNKNOWN: Final = "UNKNOWN"
"""State of a job whose simulated application master did not report its end."""


@dataclass(frozen=True, slots=True)
class PlayedJob:
    """The outcome of a job."""

    name: str
    status: str
    completion_ms: int = 0
    """From its submission until its application master unregisters."""
    containers: int = 0
    misplaced: int = 0
    """Containers on nodes that its requirements do not allow."""
    planned: bool = False
    """Had its stages the priorities of a plan?"""
    submitted_ms: int = 0
    """After the run's first submission."""
    tasks_ms: tuple[tuple[int, int], ...] = ()
    """When a task got each container and when its master knew of its end, after the submission; -1: never."""


@dataclass(frozen=True, slots=True)
class Played:
    """Results of a run."""

    jobs: tuple[PlayedJob, ...]
    """In the script's order."""
    span_ms: int
    """From the first submission to the last end."""
    shim: dict[str, Any]
    """Treadle's bean at the end; empty under the stock scheduler."""
    pace: Pace | None = None
    """Whether the machine kept up; None: it was not measured."""

    @property
    def placed_by_capacity_scheduler(self) -> int:
        """Containers that the stock scheduler placed in Treadle's stead."""
        return int(self.shim.get("PlacedByCapacityScheduler", 0))

    def as_json(self) -> dict[str, Any]:
        """Return what a results file says of it."""
        return {
            "span_ms": self.span_ms,
            "placed_by_capacity_scheduler": self.placed_by_capacity_scheduler,
            "completion_ms": [job.completion_ms for job in self.jobs],
            "pace": None if self.pace is None else asdict(self.pace),
        }


@dataclass(frozen=True, slots=True)
class Draw:
    """The jobs of a seed under each scheme."""

    seed: int
    runs: dict[str, Played]


def facts_of(draws: Sequence[Draw]) -> dict[str, Any]:
    """Return what results say of all draws: seeds, ``shortfalls``, and each run.

    Shortfalls are jobs that did not end, placements by the CapacityScheduler, a machine that was too slow.
    """
    runs = [(f"seed {draw.seed}, {name}", run) for draw in draws for name, run in draw.runs.items()]
    shown = [{"seed": draw.seed, "runs": {name: run.as_json() for name, run in draw.runs.items()}} for draw in draws]
    shortfalls = [f"{title}: {fault}" for title, run in runs for fault in _faults(run)]
    return {"seeds": [draw.seed for draw in draws], "shortfalls": shortfalls, "draws": shown}


def _faults(run: Played) -> Iterator[str]:
    yield from (f"{job.name} ended as {job.status}" for job in run.jobs if job.status != SUCCEEDED)
    if run.placed_by_capacity_scheduler:
        yield f"the stock scheduler placed {run.placed_by_capacity_scheduler} containers in Treadle's stead"
    if run.pace is not None and not run.pace.kept_up:
        yield str(run.pace)


def pace_table(draws: Sequence[Draw]) -> Table:
    """Return whether the machine kept up with each run, as far as that was measured."""
    paces = [(draw.seed, name, run.pace) for draw in draws for name, run in draw.runs.items() if run.pace is not None]
    rows = [
        (
            str(seed),
            scheme,
            f"{100 * pace.heartbeats_share:.1f}",
            f"{pace.late_ms:.0f}",
            f"{pace.held_over_work:.2f}",
            *("" if each is None else each for each in (pace.decide_p50_ms, pace.decide_p99_ms)),
        )
        for seed, scheme, pace in paces
    ]
    heading = ("seed", "scheme", "heartbeats handled (%)", "latest submission (ms)", "containers held over tasks' time")
    return Table("Whether the machine kept up with each run", (*heading, "decide P50 (ms)", "P99 (ms)"), rows, 2)


def played(script: Script, seen: dict[str, Any]) -> Played:
    """Return what measurements say of a script's jobs."""
    rows = {row[0]: dict(zip(seen["job_columns"], row, strict=True)) for row in seen["jobs"]}
    began_ms = min((row["submitted_ms"] for row in rows.values()), default=0)
    jobs = tuple(_job(job.name, rows.get(job.name), began_ms) for job in script.jobs)
    span_ms = max((row["ended_ms"] for row in rows.values()), default=0) - began_ms
    return Played(jobs, span_ms, seen.get("shim") or {})


def _job(name: str, row: dict[str, Any] | None, began_ms: int) -> PlayedJob:
    if row is None:
        return PlayedJob(name, UNKNOWN)
    return PlayedJob(
        name,
        SUCCEEDED,
        row["ended_ms"] - row["submitted_ms"],
        row["containers"],
        row["misplaced"],
        bool(row["planned"]),
        row["submitted_ms"] - began_ms,
        tuple((start_ms, end_ms) for start_ms, end_ms in row["tasks_ms"]),
    )


class KeptPlays:
    """A folder as `treadle sweep` has one; a run is found by all that it depends on, code and jars among it."""

    def __init__(self, folder: Path | None, module: str) -> None:
        """Use a folder; None keeps nothing.

        Args:
            folder: is made if it is not there
            module: the name of the module that plays

        Raises:
            UserError: the folder cannot be made or written.
            BenchError: the jars cannot be built.
        """
        self._kept = None if folder is None else ResultCache(folder)
        self._module = module
        self._about = _programs() if folder is not None else []

    def get_or_play(self, play: Callable[[], Played], *about: object) -> Played:
        """Return a run that is kept, else that which ``play`` returns; ``about`` says which one it is.

        A run of which a job did not succeed is not kept for the next time.

        Raises:
            UserError: it cannot be written, or ``play`` does not come to an end.
        """
        if self._kept is None:
            return play()
        key = digest_of(self._module, *self._about, *about)
        found = self._kept.get(key)
        if found is not None:
            return TypeAdapter(Played).validate_python(json.loads(found)["played"])
        played = play()
        failed = any(job.status != SUCCEEDED for job in played.jobs)
        self._kept.put(key, result_bytes({"key": key, "played": asdict(played)}), failed=failed)
        return played


def _programs() -> list[str]:
    code = digest("treadle.cli.sidecar")
    return [code, *(hashlib.sha256(jar.read_bytes()).hexdigest() for jar in sls.own_jars())]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Player:
    """Plays draws on simulated nodes of a real ResourceManager, one run after the other."""

    setting: sls.Setting
    """Class path and heap; its workload is not used."""
    folder: Path
    """Folder of the experiment; each run has a folder in it."""
    kept: KeptPlays
    """Runs that need not be played again."""
    say: Say
    """Called now and then with a line about progress."""

    def play(self, scheduling: Scheduling, script: Script, cluster: Cluster, seed: int) -> Played:
        """Play the script of a draw to its end; of an earlier run's files none remain, logs stay.

        Raises:
            BenchError: the run gave no result; the text has its known state and the location of the logs.
        """
        folder = self.folder / f"{seed}-{scheduling.name}"
        mode = scheduling.mode(cluster, folder.with_name(f"{folder.name}-treadle.yaml"))
        load = ScriptedLoad(cluster.nodes, len(script.jobs), 1, 1, seed, script=script)
        shutil.rmtree(folder, ignore_errors=True)

        def show(seen: dict[str, Any]) -> None:
            tenths = 10 * seen.get("attempts_ended", 0) // len(script.jobs)
            self.say(f"seed {seed}, {scheduling.name}: {10 * tenths} % of {len(script.jobs)} jobs ended")

        run = sls.simulate(mode, replace(self.setting, workload=load, sidecar=scheduling.sidecar), folder, show)
        if run.failure is not None:
            raise sls.BenchError(f"{scheduling.name}: {run.failure}")
        if broken := int(run.measurements.get("attempts_not_finished", 0)):
            raise sls.BenchError(f"{scheduling.name}: {broken} application masters did not end well; logs: {folder}")
        result = replace(played(script, run.measurements), pace=pace_of(script, cluster, run.measurements))
        self.say(f"seed {seed}, {scheduling.name}: {result.pace}")
        return result

    def draw(
        self,
        schemes: Sequence[Scheduling],
        script_of: Callable[[Scheduling], Script],
        cluster: Cluster,
        seed: int,
        turn: int = 0,
    ) -> dict[str, Played]:
        """Return the run of a draw under each scheme; those not kept are played, first another one in each turn.

        Raises:
            BenchError: a run gave no result.
        """
        runs = {}
        for scheme in in_turn(schemes, turn):
            script = script_of(scheme)
            policy = (scheme.policy or "").replace(str(self.folder.resolve()), "")
            how = scheme.name, policy, scheme.ordering, sorted(scheme.settings.items()), scheme.observed
            play = partial(self.play, scheme, script, cluster, seed)
            runs[scheme.name] = self.kept.get_or_play(play, *how, script.as_json(), asdict(cluster), seed)
        return {scheme.name: runs[scheme.name] for scheme in schemes}


def in_turn(schemes: Sequence[T], turn: int) -> tuple[T, ...]:
    """Return schemes, beginning with another one in each turn: the first one finds the machine's caches cold."""
    first = turn % len(schemes)
    return (*schemes[first:], *schemes[:first])
