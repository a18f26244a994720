"""The jobs of a scenario: written out, drawn by chance, or read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from treadle.dag.dag import Stage as DagStage
from treadle.dag.dag import ordered
from treadle.simulator.scenario import Distribution, Generator, InlineJob, OwnGenerator, Scenario
from treadle.workload import generate as distributions
from treadle.workload import generate as shapes
from treadle.workload.formats import GENERATORS, function_of_file, made, offered_function, place_of, read_workload
from treadle.workload.generate import poisson
from treadle.workload.job import Framework, Job, Workload, arranged, dealt, scaled_to_load


def capacity_of(scenario: Scenario) -> dict[str, float]:
    """Return what the nodes have together, by resource, in the scenario's own units."""
    total: dict[str, float] = {}
    for group in scenario.cluster.nodes:
        for name, amount in group.resources.items():
            total[name] = total.get(name, 0.0) + group.count * amount
    return total


def jobs_of(scenario: Scenario, folder: Path, seed: int) -> Workload:
    """Return the jobs of a scenario; paths in it are relative to ``folder``.

    Raises:
        UserError: a file cannot be read, or a generator refuses its parameters.
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
    return replace(workload, jobs=tuple(_in_queue(job, chosen.queues) for job in jobs))


def _own(chosen: OwnGenerator, folder: Path, seed: int) -> Workload:
    field = "workload.own"
    if chosen.file:
        function = function_of_file(folder / chosen.file, chosen.function, field)
    else:
        function = offered_function(GENERATORS, chosen.entry_point, field)
    return made(function, field, seed, **chosen.parameters)


def _in_queue(job: Job, queues: Mapping[str, str]) -> Job:
    name = queues.get(job.queue, queues.get("*", job.queue))
    return job if name == job.queue else replace(job, queue=name)


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
            made = Job(one, arrival_ms, dag, framework, name, job.user, job.queue, job.tags, priority=job.priority)
            jobs.append(replace(made, requires=requires, prefers=prefers))
    return arranged(jobs)


def _drawn(generator: Generator, scenario: Scenario, seed: int) -> Workload:
    tasks, seconds = _distribution(generator.tasks), generator.duration_s
    milliseconds = _distribution(
        seconds.model_copy(update={"mean": 1000 * seconds.mean, "low": 1000 * seconds.low, "high": 1000 * seconds.high})
    )
    demand = dict(generator.demand)
    shape = {
        "bag": lambda: shapes.bag(tasks, milliseconds, demand=demand),
        "map_reduce": lambda: shapes.map_reduce(tasks, 0.1, milliseconds, milliseconds, demand=demand),
        "wide": lambda: shapes.wide(demand),
        "narrow": lambda: shapes.narrow(demand),
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


def _distribution(chosen: Distribution) -> distributions.Distribution:
    if chosen.kind == "constant":
        return distributions.Constant(chosen.mean)
    if chosen.kind == "exponential":
        return distributions.Exponential(chosen.mean)
    if chosen.kind == "lognormal":
        return distributions.Lognormal(chosen.mean, chosen.variation)
    return distributions.BoundedPareto(chosen.tail, chosen.low, chosen.high)


def leaves_of(scenario: Scenario) -> list[str]:
    """Return the paths of the leaf queues, ``root`` left out, in the scenario's order."""
    found: list[str] = []
    stack = [(name, queue) for name, queue in reversed(list(scenario.queues.items()))]
    while stack:
        path, queue = stack.pop()
        if not queue.children:
            found.append(path)
        stack.extend((f"{path}.{name}", child) for name, child in reversed(list(queue.children.items())))
    return found
