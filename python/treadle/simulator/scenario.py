"""A scenario: a cluster, its queues, failures, the duration of decisions, and its jobs.

docs/scenarios.md has the format with examples. Every field has bounds; `parse_scenario` reports all errors at once with
file, line, field and remedy. Jobs are listed, generated, or read from a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from treadle.compiled.array_types import I64
from treadle.config.trust import untrusted
from treadle.config.yaml_nodes import YamlDocument, parse_model
from treadle.constraints import ExpressionError, parse
from treadle.dag import Stage as DagStage
from treadle.dag import ordered
from treadle.errors import ConfigError, UserError, unknown
from treadle.workload import generate
from treadle.workload.formats import GENERATORS, function_of_file, made, offered_function, place_of, read_workload
from treadle.workload.generate import poisson
from treadle.workload.job import Framework, Job, Workload, arranged, dealt, scaled_to_load

NAMES: Final = ("fifo", "fair", "fifo-with-partitions", "fifo-for-pending-apps", "utilization", "priority-utilization")
"""YARN's names, for leaves and for parents."""


def _known(value: str) -> str:
    if "." not in value and value not in NAMES:
        raise ValueError(f"{unknown(value, NAMES)}; write one of these, or a class with its package")
    return value


OrderingPolicy = Annotated[str, AfterValidator(_known)]
"""One of YARN's names, or the name of a class."""


Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
Amounts = dict[str, Amount]
Fraction = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]
Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class Model(BaseModel):
    """Base of all sections: unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Resource(Model):
    """A resource type."""

    name: str = Field(min_length=1)
    scale: float = Field(default=1, gt=0, le=1e9, description="Amounts are multiplied by it and rounded up to whole.")
    counted: bool = Field(default=True, description="False: it is not checked, so it may be overbooked.")
    usage: tuple[Fraction, Fraction] = Field(
        default=(1.0, 1.0),
        description="The fraction of its request that a task uses, drawn evenly for each stage; for contention.",
    )
    thrashing: float = Field(
        default=1.0,
        ge=1,
        le=10,
        allow_inf_nan=False,
        description="Under contention tasks slow down by demand over capacity, to this power.",
    )

    @field_validator("usage")
    @classmethod
    def _rising(cls, usage: tuple[float, float]) -> tuple[float, float]:
        if usage[0] > usage[1] or usage[0] <= 0.0:
            raise ValueError(f"{usage[0]:g} to {usage[1]:g}; give two parts above 0, the lesser first")
        return usage


class NodeGroup(Model):
    """A group of identical nodes."""

    count: int = Field(ge=1, le=1_000_000)
    resources: Amounts
    racks: int = Field(default=1, ge=1, le=100_000)
    name: str = Field(default="node", min_length=1)
    attributes: dict[str, str] = Field(default={}, description="By prefix/name; without a prefix it is rm.yarn.io/.")


class Cluster(Model):
    """Machines."""

    resources: tuple[Resource, ...] = (Resource(name="memory-mb"), Resource(name="vcores"))
    nodes: tuple[NodeGroup, ...] = Field(min_length=1)
    heartbeat_ms: int = Field(default=1000, ge=0, le=600_000, description="0: the RM hears of everything at once.")
    contention: bool = Field(
        default=False,
        description="Tasks slow each other down where they want more of an uncounted resource than there is.",
    )
    relaxed_slowdown: float = Field(
        default=1.0,
        ge=1,
        le=1000,
        allow_inf_nan=False,
        description="A task runs this many times as long on a node that is not all that its stage prefers.",
    )


class Queue(Model):
    """A queue, as in capacity-scheduler.xml."""

    capacity: Percent | None = Field(
        default=None, description="Percent of the parent; siblings without share the rest."
    )
    maximum_capacity: Percent = 100.0
    maximum_am_resource_percent: Percent = 10.0
    ordering_policy: OrderingPolicy = "fifo"
    size_based_weight: bool = False
    priority: int = 0
    children: dict[str, Queue] = {}


class Frameworks(Model):
    """Behaviour of application masters."""

    master: Amounts = Field(default={}, description="What an application master's container has; empty: it needs none.")
    master_start_ms: int = Field(default=0, ge=0, le=3_600_000)
    heartbeat_ms: int = Field(default=1000, ge=0, le=600_000, description="Heartbeat interval of application masters.")
    launch_ms: int = Field(default=0, ge=0, le=3_600_000, description="From container to its task's first instant.")
    slow_start: Fraction = 0.05
    ramp_up_limit: Fraction = 0.5
    reduce_preemption_limit: Fraction = 0.5
    tez_min_fraction: Fraction = 0.25
    tez_max_fraction: Fraction = 0.75
    tez_preemption: Fraction = 0.1
    tez_reuse: bool = True
    tez_order: Literal["natural", "critical_path", "plan"] = "natural"
    """Which vertices have the better priorities: Tez's own order, or another."""
    spark_tasks_per_executor: int = Field(default=4, ge=1, le=1024)
    spark_dynamic: bool = True
    spark_initial_executors: int = Field(default=1, ge=0, le=1_000_000)
    spark_max_executors: int = Field(default=1_000_000, ge=1, le=1_000_000_000)
    spark_idle_ms: int = Field(default=60_000, ge=0, le=86_400_000)

    @model_validator(mode="after")
    def _fractions_in_order(self) -> Frameworks:
        if self.tez_min_fraction > self.tez_max_fraction:
            raise ValueError("tez_min_fraction is above tez_max_fraction; lower it")
        return self


class Failures(Model):
    """Failures of nodes and tasks."""

    task_probability: Fraction = Field(default=0.0, lt=1, description="That an attempt at a task fails by itself.")
    attempts_max: int = Field(default=4, ge=1, le=1000, description="Failures of a task that fail its job.")
    node_mtbf_s: Seconds = Field(default=0.0, description="Mean time from a node's start to its failure; 0: never.")
    node_repair_s: Seconds = 300.0
    node_detection_s: Seconds = Field(default=600.0, description="Silence after which the RM gives a node up.")


class Stragglers(Model):
    """Attempts that take longer than the workload says."""

    probability: Fraction = 0.0
    factor_min: float = Field(default=2.0, ge=1, le=1000)
    factor_max: float = Field(default=5.0, ge=1, le=1000)

    @model_validator(mode="after")
    def _factors_in_order(self) -> Stragglers:
        if self.factor_min > self.factor_max:
            raise ValueError(f"factor_min, {self.factor_min:g}, is above factor_max, {self.factor_max:g}; lower it")
        return self


class Decision(Model):
    """When the engine decides, and what simulated time that takes."""

    tick_ms: int = Field(default=100, ge=1, le=60_000)
    idle_ms: int = Field(
        default=1000, ge=1, le=2**40, description="While asks wait and nothing happens, a decision is made this often."
    )
    limit: int = Field(default=1000, ge=1, le=1_000_000, description="Proposals in an answer.")
    cost_us: float = Field(default=0.0, ge=0, le=1e9, description="Time that a decide takes; 0 and 0: frozen.")
    cost_per_proposal_us: float = Field(default=0.0, ge=0, le=1e9)
    node_locality_delay: int = Field(default=40, ge=-1, le=1_000_000)
    rack_locality_additional_delay: int = Field(default=-1, ge=-1, le=1_000_000)


class Stage(Model):
    """Identical tasks."""

    tasks: int = Field(ge=0, le=10_000_000)
    duration_s: Seconds
    demand: Amounts = {}
    parents: tuple[int, ...] = Field(default=(), description="Positions of earlier stages, from 0.")
    one_to_one: tuple[int, ...] = ()
    require: str = Field(default="", description="What its nodes must be (docs/phoenix.md); empty: anything.")
    prefer: str = Field(default="", description="What its nodes should be, the most important condition first.")

    @field_validator("require", "prefer")
    @classmethod
    def _readable(cls, text: str) -> str:
        if text:
            try:
                parse(text)
            except ExpressionError as error:
                raise ValueError(str(error)) from error
        return text


class InlineJob(Model):
    """A job written out."""

    stages: tuple[Stage, ...]
    arrival_s: Seconds = 0.0
    queue: str = ""
    user: str = ""
    framework: Literal["mapreduce", "tez", "spark"] = "tez"
    name: str = ""
    tags: tuple[str, ...] = ()
    priority: int = Field(default=0, ge=0, le=2**31 - 1, description="YARN's, of the application: the highest first.")
    count: int = Field(default=1, ge=1, le=1_000_000)
    gap_s: Seconds = Field(default=0.0, description="Between the arrivals of those that `count` makes.")


class Distribution(Model):
    """Numbers by chance, by the families of `treadle.workload.generate`."""

    kind: Literal["constant", "exponential", "lognormal", "pareto"]
    mean: float = Field(default=1.0, gt=0, le=1e12)
    variation: float = Field(default=1.0, ge=0, le=1000)
    tail: float = Field(default=1.5, gt=0, le=100)
    low: float = Field(default=1.0, gt=0, le=1e12)
    high: float = Field(default=1000.0, gt=0, le=1e12)

    @model_validator(mode="after")
    def _bounds_in_order(self) -> Distribution:
        if self.kind == "pareto" and self.low >= self.high:
            raise ValueError(f"low, {self.low:g}, is not below high, {self.high:g}; lower low or raise high")
        return self

    def family(self, unit: float = 1.0) -> generate.Distribution:
        """Return it as the jobs' generator takes it, with each number multiplied by a unit."""
        if self.kind == "constant":
            return generate.Constant(unit * self.mean)
        if self.kind == "exponential":
            return generate.Exponential(unit * self.mean)
        if self.kind == "lognormal":
            return generate.Lognormal(unit * self.mean, self.variation)
        return generate.BoundedPareto(self.tail, unit * self.low, unit * self.high)


class Generator(Model):
    """Jobs by chance, with Poisson arrivals."""

    shape: Literal["bag", "map_reduce", "wide", "narrow"] = "bag"
    jobs: int = Field(ge=1, le=10_000_000)
    mean_gap_s: float = Field(default=10.0, gt=0, le=1e9)
    load: float | None = Field(
        default=None, gt=0, le=100, description="That of the most loaded resource; sets the gaps."
    )
    tasks: Distribution = Distribution(kind="pareto", tail=1.1, low=1, high=1000)
    duration_s: Distribution = Distribution(kind="lognormal", mean=20, variation=1)
    demand: Amounts = {"memory-mb": 1024, "vcores": 1}
    users: int = Field(default=1, ge=1, le=1_000_000)
    queues: dict[str, Amount] = Field(default={}, description="Weights; empty: all leaves have the same.")
    tags: dict[str, Amount] = Field(default={}, description="Weights: each job has one of them; '' is none.")
    priorities: dict[int, Amount] = Field(default={}, description="Weights of applications' priorities; empty: all 0.")
    framework: Literal["mapreduce", "tez", "spark"] = "tez"

    @field_validator("queues", "tags", "priorities")
    @classmethod
    def _one_possible(cls, weights: dict[Any, float]) -> dict[Any, float]:
        if weights and not any(weights.values()):
            raise ValueError("all weights are 0; let one be above 0")
        return weights

    @model_validator(mode="after")
    def _one_rate(self) -> Generator:
        if self.load is not None and "mean_gap_s" in self.model_fields_set:
            raise ValueError("mean_gap_s and load both set how often jobs arrive; write one of them")
        return self


class OwnGenerator(Model):
    """A function of the user's that makes jobs from a seed (docs/workloads.md)."""

    file: str = Field(default="", description="The Python file that it is in.")
    function: str = Field(default="jobs", min_length=1, description="Its name in the file.")
    entry_point: str = Field(default="", description="Or what an installed package offers as treadle.generators.")
    parameters: dict[str, Any] = Field(default={}, description="Its arguments by name, without the seed.")

    @model_validator(mode="after")
    def _one_place(self) -> OwnGenerator:
        if bool(self.file) == bool(self.entry_point):
            raise ValueError("write exactly one of file and entry_point")
        return self


class WorkloadChoice(Model):
    """Where jobs come from: exactly one of the four."""

    jobs: tuple[InlineJob, ...] = Field(default=(), min_length=1)
    generator: Generator | None = None
    own: OwnGenerator | None = None
    file: str = ""
    format: str | None = Field(
        default=None, description="The file's format (docs/workloads.md); else recognised by its content."
    )
    load: float | None = Field(
        default=None, gt=0, le=100, description="Arrivals of a file, or of an own generator, are stretched to it."
    )
    jobs_max: int | None = Field(default=None, ge=1, description="How many jobs of them, the first ones.")
    deal: bool = Field(
        default=False,
        description="Seeds other than the scenario's own draw again which task of a "
        "stage takes which of its times: it is not known before.",
    )
    queues: dict[str, str] = Field(default={}, description="The workload's queue to the scenario's; '*': others.")

    @model_validator(mode="after")
    def _one_source(self) -> WorkloadChoice:
        given = [name for name in ("jobs", "generator", "own", "file") if getattr(self, name)]
        if len(given) != 1:
            what = f"; {' and '.join(given)} are there" if given else ""
            raise ValueError(f"write exactly one of jobs, generator, own and file{what}")
        return self


class EngineDecision(Model):
    """Simulated duration of a decision of one of several engines: t_job_s + t_task_s x tasks for each job."""

    t_job_s: Seconds = 0.0
    t_task_s: Seconds = 0.0
    jobs_max: int = Field(
        default=0, ge=0, le=1_000_000, description="Jobs that a decision is about, those that came first; 0: all."
    )


class Outage(Model):
    """A time for which an engine is dead."""

    at_s: Seconds
    for_s: Seconds = Field(gt=0, description="Then it begins again, with an empty model.")
    copy_number: int = Field(default=1, ge=1, le=8, alias="copy", description="Which copy, from 1.")


class ScenarioEngine(Model):
    """An entry of `engines:`: what docs/several-engines.md says, and what only a simulation has."""

    model_config = ConfigDict(extra="allow", frozen=True)

    decision: EngineDecision = EngineDecision()
    outages: tuple[Outage, ...] = ()


class Report(Model):
    """Resolution of measurements."""

    window_s: float = Field(default=60.0, gt=0, le=1e6, description="Shares are compared over windows of this length.")
    windows_max: int = Field(default=2000, ge=1, le=100_000)


class ScenarioModel(Model):
    """All of a scenario's file."""

    cluster: Cluster
    queues: dict[str, Queue] = {"default": Queue()}
    workload: WorkloadChoice
    frameworks: Frameworks = Frameworks()
    failures: Failures = Failures()
    stragglers: Stragglers = Stragglers()
    decision: Decision = Decision()
    report: Report = Report()
    engines: dict[str, ScenarioEngine] = Field(default={}, description="Several engines (docs/several-engines.md).")
    policies: tuple[str, ...] = ()
    seed: int = Field(default=1, ge=0, le=2**31)
    start_s: float = Field(
        default=1_000_000, ge=0, le=1e11, description="What clocks show when it starts: seconds since 1970, UTC."
    )
    duration_limit_s: float = Field(default=1e7, gt=0, le=1e9)


def parse_scenario(file: str, text: str, *, trust_code: bool = False) -> ScenarioModel:
    """Return the scenario in a text; Python files for its jobs are allowed only with ``trust_code``.

    Raises:
        ConfigError: something in it is wrong; ``file`` is its name in the error.
    """
    document = YamlDocument(file, text)
    scenario = parse_model(document, ScenarioModel, "docs/scenarios.md", "cluster:, queues:, workload:")
    if not trust_code:
        _refuse_code(scenario.workload, document)
    return scenario


def _refuse_code(workload: WorkloadChoice, document: YamlDocument) -> None:
    """Reject Python files that make or read jobs; those of policies are rejected where policies are read."""
    own, reader = workload.own and workload.own.file, place_of(workload.format or "") and workload.format
    for path, name in ((("own", "file"), own), (("format",), reader)):
        if name:
            raise ConfigError(document.file, [document.problem(("workload", *path), untrusted(name))])


@dataclass(frozen=True, slots=True)
class QueueTree:
    """All queues; index 0 is root. Amounts have the shape (queues, R)."""

    paths: tuple[str, ...]
    parents: tuple[int, ...]
    leaves: tuple[int, ...]
    configured: tuple[Queue, ...]
    shares: tuple[float, ...]
    """Guaranteed fractions of the cluster."""
    guaranteed: I64
    maximum: I64
    am_limit: I64

    def leaf(self, name: str) -> int:
        """Return the leaf with this path, with or without ``root.``, or with this last name if it is unique.

        Raises:
            UserError: there is none.
        """
        for path in (name, f"root.{name}"):
            if path in self.paths and self.paths.index(path) in self.leaves:
                return self.paths.index(path)
        same = [leaf for leaf in self.leaves if self.paths[leaf].rpartition(".")[2] == name]
        if len(same) == 1:
            return same[0]
        if not name and len(self.leaves) == 1:
            return self.leaves[0]
        known = ", ".join(self.paths[leaf].removeprefix("root.") for leaf in self.leaves[:20])
        raise UserError(f"workload: a job's queue {name!r} is not a leaf of queues: ({known}); see `queues`")


def queue_tree(scenario: ScenarioModel, total: I64) -> QueueTree:
    """Return the tree for a cluster of capacity ``total``, shape (R,).

    Raises:
        UserError: capacities of siblings sum up to more than 100.
    """
    root = Queue(capacity=100, children=scenario.queues)
    paths, parents, configured, shares, ceilings = ["root"], [-1], [root], [1.0], [1.0]
    at = 0
    while at < len(paths):
        children = configured[at].children
        capacities = _capacities(paths[at], children)
        for name, child in children.items():
            if not name or "." in name:
                raise UserError(f"queues: {name!r} is not a name of a queue; write one without dots")
            paths.append(f"{paths[at]}.{name}")
            parents.append(at)
            configured.append(child)
            shares.append(shares[at] * capacities[name] / 100.0)
            ceilings.append(ceilings[at] * child.maximum_capacity / 100.0)
        at += 1
    inner = set(parents)
    leaves = tuple(at for at in range(len(paths)) if at not in inner)
    share = np.array(shares)[:, None]
    am = np.array([queue.maximum_am_resource_percent for queue in configured])[:, None] / 100.0
    maximum = np.floor(np.array(ceilings)[:, None] * total + 1e-6).astype(np.int64)
    return QueueTree(
        tuple(paths),
        tuple(parents),
        leaves,
        tuple(configured),
        tuple(shares),
        np.floor(share * total + 1e-6).astype(np.int64),
        maximum,
        np.floor(am * maximum + 1e-6).astype(np.int64),
    )


def _capacities(path: str, children: dict[str, Queue]) -> dict[str, float]:
    given = {name: queue.capacity for name, queue in children.items() if queue.capacity is not None}
    left = 100.0 - sum(given.values())
    if left < -1e-6:
        raise UserError(f"queues: the capacities below {path} are {100 - left:g} together; lower them to 100")
    silent = len(children) - len(given)
    return {name: given.get(name, max(left, 0.0) / max(silent, 1)) for name in children}


WITHIN: Final = 0.05
"""Tolerance of a sum in percent, as in Hadoop."""


def queue_warnings(queues: Mapping[str, Queue], path: str = "root") -> list[str]:
    """Return a line for each queue setting that a CapacityScheduler would treat differently.

    Its legacy queue mode, the default, rejects percentages of siblings that sum up to neither 100 nor 0, within
    `WITHIN` (``AbstractParentQueue.setChildQueues``). It accepts a capacity above the maximum, which then applies.
    """
    lines = []
    given = [queue.capacity for queue in queues.values() if queue.capacity is not None]
    if len(given) == len(queues) and WITHIN < sum(given) < 100 - WITHIN:
        lines.append(
            f"queues: the capacities below {path} are {sum(given):g} together, and the rest is guaranteed to no queue; "
            "YARN's CapacityScheduler refuses that in its legacy queue mode, the default: let them be 100"
        )
    for name, queue in queues.items():
        below = f"{path}.{name}"
        if queue.capacity is not None and queue.capacity > queue.maximum_capacity:
            lines.append(
                f"queues: {below} has capacity {queue.capacity:g} and maximum_capacity {queue.maximum_capacity:g}: it "
                "never gets its guarantee; raise the maximum"
            )
        lines += queue_warnings(queue.children, below)
    return lines


def capacity_of(scenario: ScenarioModel) -> dict[str, float]:
    """Return the total capacity of the nodes by resource, in the scenario's units."""
    total: dict[str, float] = {}
    for group in scenario.cluster.nodes:
        for name, amount in group.resources.items():
            total[name] = total.get(name, 0.0) + group.count * amount
    return total


def jobs_of(scenario: ScenarioModel, folder: Path, seed: int) -> Workload:
    """Return the jobs of a scenario; relative paths start at ``folder``.

    Raises:
        UserError: a file cannot be read, or a generator rejects its parameters.
    """
    chosen = scenario.workload
    if chosen.jobs:
        return _inline(chosen.jobs)
    if chosen.generator is not None:
        return _drawn(chosen.generator, scenario, seed)
    if chosen.own is not None:
        workload = _own(chosen.own, folder, seed)
    else:
        place = place_of(chosen.format or "")
        of_file = chosen.format if place is None else f"{folder / place[0]}:{place[1]}"
        workload = read_workload(folder / chosen.file, of_file, seed=seed)
    if chosen.jobs_max is not None:
        workload = replace(workload, jobs=workload.jobs[: chosen.jobs_max])
    if chosen.load is not None:
        workload = scaled_to_load(workload, capacity_of(scenario), chosen.load)
    jobs = dealt(workload.jobs, seed) if chosen.deal and seed != scenario.seed else workload.jobs
    queues = chosen.queues
    placed = (replace(job, queue=queues.get(job.queue, queues.get("*", job.queue))) for job in jobs)
    return replace(workload, jobs=tuple(placed))


def _own(chosen: OwnGenerator, folder: Path, seed: int) -> Workload:
    field = "workload.own"
    if chosen.file:
        function = function_of_file(folder / chosen.file, chosen.function, field)
    else:
        function = offered_function(GENERATORS, chosen.entry_point, field)
    return made(function, field, seed, **chosen.parameters)


def _inline(written: tuple[InlineJob, ...]) -> Workload:
    jobs = []
    for number, job in enumerate(written):
        name = job.name or f"job{number}"
        dag = ordered(
            name,
            tuple(
                DagStage(
                    at,
                    stage.tasks,
                    round(1000 * stage.duration_s),
                    stage.demand,
                    stage.parents,
                    frozenset(stage.one_to_one),
                )
                for at, stage in enumerate(job.stages)
            ),
        )
        requires = {at: stage.require for at, stage in enumerate(job.stages) if stage.require}
        prefers = {at: stage.prefer for at, stage in enumerate(job.stages) if stage.prefer}
        for turn in range(job.count):
            arrival_ms = round(1000 * (job.arrival_s + turn * job.gap_s))
            one = name if job.count == 1 else f"{name}-{turn}"
            framework = Framework(job.framework)
            owner = (name, job.user, job.queue, job.tags)
            jobs.append(Job(one, arrival_ms, dag, framework, *owner, {}, job.priority, requires, prefers))
    return arranged(jobs)


def _drawn(generator: Generator, scenario: ScenarioModel, seed: int) -> Workload:
    tasks, milliseconds = generator.tasks.family(), generator.duration_s.family(1000)
    demand = dict(generator.demand)
    shape = {
        "bag": lambda: generate.bag(tasks, milliseconds, demand=demand),
        "map_reduce": lambda: generate.map_reduce(tasks, 0.1, milliseconds, milliseconds, demand=demand),
        "wide": lambda: generate.wide(demand),
        "narrow": lambda: generate.narrow(demand),
    }[generator.shape]()
    capacity = {name: amount for name, amount in capacity_of(scenario).items() if amount > 0}
    return poisson(
        seed,
        generator.jobs,
        shape=shape,
        mean_gap_ms=1000 * generator.mean_gap_s,
        capacity=capacity if generator.load is not None else None,
        load=generator.load,
        queues=generator.queues or dict.fromkeys(leaves_of(scenario), 1.0),
        users=generator.users,
        tags=generator.tags,
        priorities=generator.priorities,
        framework=Framework(generator.framework),
    )


def leaves_of(scenario: ScenarioModel) -> list[str]:
    """Return the paths of the leaf queues without ``root``, in the scenario's order."""
    return list(_leaves(scenario.queues, ""))


def _leaves(queues: Mapping[str, Queue], above: str) -> Iterator[str]:
    for name, queue in queues.items():
        if queue.children:
            yield from _leaves(queue.children, f"{above}{name}.")
        else:
            yield f"{above}{name}"
