"""Runs simulations of a scenario: a single one, or several policies and seeds, on several cores."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import index
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np

from treadle.compiled.array_types import F64, Records
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings, lost_queues
from treadle.config.yaml_nodes import YamlDocument, text_of
from treadle.errors import UserError, lines_of, nearest
from treadle.policy.catalogue import register_parts
from treadle.policy.shares.tree import TreeNode, TreeParameters
from treadle.policy.user_parts import PolicyFailedError
from treadle.shipped import find_policy
from treadle.simulator.engines_simulation import EnginesSimulation, with_engines
from treadle.simulator.results import (
    TASK,
    FailedRun,
    Summary,
    job_records,
    node_records,
    queue_records,
    statistic_of,
    summarise,
    task_records,
)
from treadle.simulator.scenario import ScenarioModel, jobs_of, leaves_of, parse_scenario
from treadle.simulator.simulation import (
    Progress,
    SimulatedRun,
    Simulation,
    check_possible,
    unfinished_warning,
    warm_up,
)
from treadle.workload.job import Workload

SIZES: Final = ((1, "1 to 10 tasks"), (11, "11 to 100"), (101, "101 to 1,000"), (1001, "over 1,000"))
"""Classes of jobs: minimum number of tasks, and the name of the class."""

BOUNDED_S: Final = 10.0
"""Lower bound, in seconds, of the ideal time in a bounded slowdown."""
STATISTICS: Final[Mapping[str, int | None]] = {"mean": None, "P50": 50, "P90": 90, "P99": 99}

Table = Records | Mapping[str, Any]
"""The table of jobs, or its columns by name."""


def completion_s(jobs: Table) -> F64:
    """Return each job's completion time in seconds, shape (jobs,); NaN for an unsuccessful one."""
    took = (np.asarray(jobs["end_ms"], np.float64) - np.asarray(jobs["arrival_ms"], np.float64)) / 1000.0
    return np.where(np.asarray(jobs["state"], object) == "done", took, np.nan)


def slowdown(jobs: Table) -> F64:
    """Return each job's completion time over its lower bound, shape (jobs,); NaN for an unsuccessful one.

    The bound is ``ideal_ms``; a job without work has none, and is NaN too.
    """
    ideal_s = np.asarray(jobs["ideal_ms"], np.float64) / 1000.0
    return completion_s(jobs) / np.where(ideal_s > 0, ideal_s, np.nan)


def size_of(tasks: int) -> str:
    """Return the name of the class of a job with this many tasks."""
    return str(size_classes({"tasks": [tasks]})[0])


def size_classes(jobs: Table) -> Any:
    """Return the name of each job's class by its number of tasks, shape (jobs,)."""
    at = np.searchsorted([least for least, _ in SIZES], np.asarray(jobs["tasks"]), side="right") - 1
    return np.array([name for _, name in SIZES], object)[np.maximum(at, 0)]


def figures_of(jobs: Table) -> dict[str, float]:
    """Return completion, wait (completion minus bound), slowdown and bounded slowdown of successful jobs.

    Each with `STATISTICS`, for all jobs and by size class: ``completion, mean`` and ``wait, P99, 11 to 100``.
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
        f"{what}, {statistic}{', ' * bool(name)}{name}": statistic_of(values[inside], part)
        for name, inside in groups.items()
        for what, values in quantities.items()
        for statistic, part in STATISTICS.items()
        if (inside & np.isfinite(values)).any()
    }


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """The result of one policy and seed. Tables have the same rows under every policy, so that runs can be paired.

    See docs/simulate-from-python.md for the columns.
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
        """The engine's warnings about the policy on this cluster."""
        return self.summary.warnings

    @property
    def completion_s(self) -> F64:
        """Each job's time from arrival to end in seconds, shape (jobs,); NaN for an unsuccessful one."""
        return completion_s(self.jobs)

    @property
    def slowdown(self) -> F64:
        """Each job's completion time over its lower bound ``ideal_ms``, shape (jobs,); NaN as in `completion_s`."""
        return slowdown(self.jobs)


def run_of(simulated: SimulatedRun, policy: str, seed: int, *, tasks: bool = True) -> Run:
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
    """A cluster, its queues, its failures, and the jobs (docs/scenarios.md)."""

    model: ScenarioModel
    """Every field of the file; see `treadle.simulator.scenario`."""
    folder: Path = Path()
    """The folder of relative paths."""
    file: str = "scenario"
    """Its name in errors."""
    text: str | None = None
    """Content of the file; None if it was created in Python."""
    source: Workload | Callable[[int], Workload] | None = None
    """The caller's jobs, or a function that makes them from a seed; None: the scenario's own."""
    trust_code: bool = False
    """Whether Python files that it names may be executed."""

    @classmethod
    def read(cls, file: str | Path, *, trust_code: bool = False) -> Scenario:
        """Read a file.

        Args:
            file: its path
            trust_code: whether Python files that it names, for jobs or in policies, may be executed

        Raises:
            ConfigError: it cannot be read, or it has errors: the message names line, field and remedy.
        """
        path = Path(file)
        text = text_of(path)
        model = parse_scenario(str(path), text, trust_code=trust_code)
        return cls(model, path.parent, str(path), text, trust_code=trust_code)

    @classmethod
    def of(cls, document: Mapping[str, Any], folder: str | Path = ".", *, trust_code: bool = False) -> Scenario:
        """Return the scenario in a mapping, equivalent to a YAML file in ``folder`` (see `read`).

        ``workload`` may be omitted if `with_jobs` follows.

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
            UserError: a file cannot be read, a generator rejects its parameters, or a function returns no workload.
        """
        if self.source is None:
            return jobs_of(self.model, self.folder, seed)
        return _check_jobs(self.source if isinstance(self.source, Workload) else self.source(seed))


def _check_jobs(workload: object) -> Workload:
    if not isinstance(workload, Workload):
        raise UserError(
            f"with_jobs: {type(workload).__name__} is not a treadle.simulate.Workload, nor a function of a seed that "
            "gives one; arranged(jobs) makes one of a list of jobs"
        )
    return workload


SHOWN_MAX = 20


def check_trees(settings: Settings, scenario: ScenarioModel, file: str) -> None:
    """Check that each configured tree of a policy names at least one leaf of the scenario.

    Raises:
        UserError: one names none: it would share nothing, and all queues would share the rest.
    """
    leaves = leaf_paths(scenario)
    for where, names in named_queues(settings):
        if names and not set(names) & set(leaves):
            raise UserError(
                f"{where}: the tree names no leaf queue of {file}, which are {_shown(leaves)}; "
                f"it names {_shown(names)}; write the leaves' paths"
            )


def queue_problems(settings: Settings, scenario: ScenarioModel) -> tuple[list[str], list[str]]:
    """Return the errors in a policy's settings for a scenario's queues, and other warnings."""
    leaves = leaf_paths(scenario)
    wrong, warnings = [], []
    for where, names in named_queues(settings):
        for name in names:
            if name not in leaves:
                hint = nearest(name, leaves) or f"; they are {_shown(leaves)}"
                wrong.append(f"{where}: {name} is not a leaf queue of the scenario{hint}")
        if names:
            warnings += [
                f"{where}: the tree does not name {leaf}, which gets only what the others leave"
                for leaf in leaves
                if leaf not in names
            ]
    return [*wrong, *_lost(settings, scenario, leaves)], warnings


def _lost(settings: Settings, scenario: ScenarioModel, leaves: list[str]) -> list[str]:
    """Return the queues in engines' selectors that the scenario lacks."""
    known = {leaf[: at + 1].removesuffix(".") for leaf in leaves for at in range(len(leaf)) if leaf[at] == "."}
    queues = list(lost_queues(settings.engines, {*leaves, *known}))
    if settings.source is None or scenario.engines:
        return [f"{'.'.join(path)}: {text}" for path, text in queues]
    document = YamlDocument(settings.source.file, settings.source.text)
    return lines_of(document.file, [document.problem(path, text) for path, text in queues])


def leaf_paths(scenario: ScenarioModel) -> list[str]:
    """Return the paths of a scenario's leaves, starting with ``root``."""
    return [f"root.{leaf}" for leaf in leaves_of(scenario)]


def named_queues(settings: Settings) -> Iterator[tuple[str, list[str]]]:
    """Yield for each tree of a policy, or of its engines' policies, its location and its leaves."""
    file = f"{settings.source.file}: " if settings.source else ""
    entries: Mapping[str, Settings] = settings.entries or {"": settings}
    for name, each in entries.items():
        parameters = each.policy.share.parameters
        if isinstance(parameters, TreeParameters):
            at = f"engines.{name}.policy.share.tree" if name else "policy.share.tree"
            yield f"{file}{at}", list(_leaves(parameters.tree))


def _leaves(tree: Mapping[str, TreeNode]) -> Iterator[str]:
    for name, node in tree.items():
        if node.children:
            yield from _leaves(node.children)
        else:
            yield node.queue or name


def _shown(names: list[str]) -> str:
    more = ", ..." if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more


DIED: Final = "look whether the machine ran out of memory, and use fewer --processes"
"""The remedy if a process has ended without a result."""

_SAFE_PATH: Final = "PYTHONSAFEPATH"

R = TypeVar("R")


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """Yield a pool of at most ``count`` processes for `submitted`; an exception such as Ctrl-C terminates them."""
    before = set(multiprocessing.active_children())
    safe_before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"  # each starts by importing modules: none from the current folder
    # a fork of a process with threads may hang
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), register_parts)
    whole = False
    try:
        yield pool
        whole = True
    finally:
        os.environ.pop(_SAFE_PATH)
        os.environ.update({} if safe_before is None else {_SAFE_PATH: safe_before})
        if not whole:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
        # waits for the pool's thread too: at the end of this process it would race with the pool's own clean-up
        pool.shutdown(cancel_futures=True)


def submitted(pool: ProcessPoolExecutor, call: Callable[..., R], *given: Any) -> Future[R]:
    """Call a function in a process.

    A process started for that ignores Ctrl-C, even while it starts: the terminal sends it to all processes, and the
    waiting process terminates the others.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return pool.submit(call, *given)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def group_warnings(warnings: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return distinct warnings with their policies; one of all policies belongs to the scenario (empty name).

    Args:
        warnings: policy and warning of each run, an empty warning if there is none
    """
    policies: dict[str, None] = {}
    policies_by_text: dict[str, dict[str, None]] = {}
    for policy, text in warnings:
        policies[policy] = None
        if text:
            policies_by_text.setdefault(text, {})[policy] = None
    every = len(policies) if len(policies) > 1 else -1
    return [
        (policy, text)
        for text, whose in policies_by_text.items()
        for policy in ([""] if len(whose) == every else whose)
    ]


SEED_MAX: Final = 2**31

Policy = str | Path | Settings
"""A treadle.yaml, the name of a ready-made policy, or settings."""


@dataclass(frozen=True)
class RunSpec:
    """All inputs of a run."""

    scenario: Scenario
    policy: str
    """Its name in the results."""
    settings: Settings
    seed: int
    check: bool = True
    allow_impossible: bool = False
    tasks: bool = True
    """Whether to keep the table of tasks, which is large for large workloads."""


@dataclass(frozen=True)
class Outcome:
    """The result of a line: a run, or why its policy failed; and notes for the user."""

    result: Run | FailedRun
    notes: tuple[str, ...] = ()
    stuck: bool = False
    """Whether jobs waited for unavailable resources although that was not allowed."""


def run_line(line: RunSpec, progress: Progress | None = None) -> Outcome:
    """Run a line.

    Raises:
        UserError: the scenario, the policy and the jobs do not fit together, or a job can never run.
    """
    check_trees(line.settings, line.scenario.model, line.scenario.file)
    try:
        workload = _jobs(line.scenario, line.seed)
        kind = EnginesSimulation if line.settings.engines else Simulation
        simulation = kind(line.scenario.model, workload, line.settings, line.seed, check=line.check)
        if not line.allow_impossible:
            check_possible(simulation.built)
        run = simulation.run(progress)
    except PolicyFailedError as error:
        return Outcome(FailedRun(line.policy, line.seed, str(error)))
    except UserError as error:
        text, file = str(error), line.scenario.file
        raise UserError(text if text.startswith(file) else f"{file}: {text}") from error
    slow = run.parts.warning(line.settings.limits.part_timeout_ms)
    unfinished = "" if line.allow_impossible else unfinished_warning(run)
    notes = tuple(f"{line.policy}, seed {line.seed}: {text}" for text in (slow, unfinished) if text)
    result = run_of(run, line.policy, line.seed, tasks=line.tasks)
    return Outcome(result, notes, run.stalled and not line.allow_impossible)


_latest: list[tuple[Scenario, int, Workload]] = []
"""The latest jobs: the lines of a seed are adjacent, so a large file is read once."""


def _jobs(scenario: Scenario, seed: int) -> Workload:
    if not _latest or _latest[0][:2] != (scenario, seed):
        _latest[:] = [(scenario, seed, scenario.jobs(seed))]
    return _latest[0][2]


def run_lines(lines: Sequence[RunSpec], jobs: int = 1) -> Iterator[Outcome]:
    """Yield the outcomes of lines in order; with ``jobs`` above 1 in that many processes.

    Raises:
        UserError: see `run_line`, or a process died; unfinished lines are cancelled.
    """
    if jobs <= 1 or len(lines) <= 1:
        for line in lines:
            yield run_line(line)
        return
    try:
        with processes(min(jobs, len(lines))) as pool:
            for each in [submitted(pool, _in_worker, line) for line in lines]:
                outcome = each.result()
                if isinstance(outcome, str):
                    raise UserError(outcome)
                yield outcome
    except BrokenProcessPool as error:
        raise UserError(f"a process that ran a simulation ended without an answer; {DIED}") from error


def _in_worker(line: RunSpec) -> Outcome | str:
    """Run a line; return the text of an error, since an exception may not be picklable."""
    try:
        return run_line(line)
    except UserError as error:
        return str(error)


def settings_of(policy: Policy, scenario: Scenario, *, trust_code: bool = True) -> tuple[str, Settings]:
    """Return the name and the settings of a policy, with the scenario's engines.

    Args:
        policy: the policy
        scenario: the scenario
        trust_code: whether Python files that the policy's file names may be executed; False unless the caller named it

    Raises:
        ConfigError: its file is wrong.
        UserError: there is no such file or name.
    """
    register_parts()
    if isinstance(policy, Settings):
        name, settings = policy.policy.name(), policy
    else:
        file = find_policy(policy) if isinstance(policy, str) else policy
        name, settings = file.stem, read_settings(file, trust_code=trust_code)
    return name, with_scenario(settings, scenario)


def with_scenario(settings: Settings, scenario: Scenario) -> Settings:
    """Return settings with the engines of a scenario, if it has any."""
    model, file, text = scenario.model, scenario.file, scenario.text
    return with_engines(model, settings, file, text, trust_code=scenario.trust_code)


def simulate(
    scenario: Scenario,
    policy: Policy | None = None,
    seed: int | None = None,
    *,
    check: bool = True,
    allow_impossible: bool = False,
    progress: Callable[[int, int, int], None] | None = None,
) -> Run:
    """Run a scenario under one policy.

    Args:
        scenario: cluster and jobs.
        policy: a treadle.yaml, the name of a ready-made policy, or settings; None: the defaults.
        seed: of all random draws; None: the scenario's.
        check: check the simulator's invariants at every step; without it is faster.
        allow_impossible: continue with jobs that can never run.
        progress: called at intervals with (finished jobs, all jobs, time in ms).

    Raises:
        UserError: the scenario, its jobs and the policy do not fit together; a part of the policy failed; or jobs
            waited for unavailable resources.
    """
    _check_scenario(scenario)
    name, settings = settings_of(default_settings() if policy is None else policy, scenario)
    at = scenario.model.seed if seed is None else _checked_seed(seed)
    outcome = run_line(RunSpec(scenario, name, settings, at, check, allow_impossible), progress)
    return finished(outcome)


def simulate_all(
    scenario: Scenario,
    policies: Iterable[Policy],
    seeds: int | Iterable[int] = 1,
    *,
    jobs: int | None = 1,
    check: bool = True,
    allow_impossible: bool = False,
) -> list[Run]:
    """Run a scenario under several policies with several seeds: seed by seed, policy by policy.

    Args:
        scenario: cluster and jobs.
        policies: see `simulate`; names must be distinct.
        seeds: the seeds, or their number, starting with the scenario's.
        jobs: processes; None: one per core. A script that uses several must guard its own work by ``if __name__ ==
            "__main__":``, because of `multiprocessing`.
        check: see `simulate`.
        allow_impossible: see `simulate`.

    Raises:
        UserError: see `simulate`.
    """
    _check_scenario(scenario)
    chosen = [settings_of(policy, scenario) for policy in policies]
    names = [name for name, _ in chosen]
    if len(set(names)) < len(names):
        raise UserError(f"policies: two are called {next(name for name in names if names.count(name) > 1)!r}")
    chosen_seeds = _wanted_seeds(seeds, scenario.model.seed)
    lines = [
        RunSpec(scenario, name, own, seed, check, allow_impossible) for seed in chosen_seeds for name, own in chosen
    ]
    cores = (os.cpu_count() or 1) if jobs is None else jobs
    if cores > 1:
        for _, settings in chosen:  # so that not every process compiles the same
            warm_up(settings)
    return [finished(outcome) for outcome in run_lines(lines, cores)]


def _check_scenario(scenario: object) -> None:
    if not isinstance(scenario, Scenario):
        raise UserError(
            f"scenario: {scenario!r} is not a treadle.simulate.Scenario; make one: Scenario.read(file) or Scenario.of"
        )


def _wanted_seeds(seeds: int | Iterable[int], first: int) -> list[int]:
    """Return the seeds; for a number, as many from ``first`` on.

    Raises:
        UserError: there is none, or one is not a valid seed.
    """
    if not isinstance(seeds, Iterable):
        count = _whole("seeds", seeds)
        if count < 1:
            raise UserError(f"seeds: {seeds}; write how many seeds, at least 1, or which")
        return [_checked_seed(first + at) for at in range(count)]
    checked = [_checked_seed(seed) for seed in seeds]
    if not checked:
        raise UserError("seeds: there is none; write at least one")
    return checked


def _checked_seed(seed: int) -> int:
    number = _whole("seed", seed)
    if not 0 <= number <= SEED_MAX:
        raise UserError(f"seed: {seed}; write a whole number from 0 to {SEED_MAX}")
    return number


def _whole(what: str, number: object) -> int:
    try:
        return index(number)  # type: ignore[arg-type]
    except TypeError:
        raise UserError(f"{what}: {number!r} is not a whole number") from None


def finished(outcome: Outcome) -> Run:
    """Return the run of a complete outcome.

    Raises:
        UserError: a part failed, or jobs waited for unavailable resources.
    """
    if isinstance(outcome.result, FailedRun):
        raise UserError(f"{outcome.result.policy}: {outcome.result.failure}")
    if outcome.stuck:
        raise UserError("\n".join(outcome.notes))
    return outcome.result
