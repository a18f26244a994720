"""What `treadle simulate` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from treadle.admin.install import find_policy, ready_made
from treadle.cli._console import console_for_tables, counted_progress, say
from treadle.cli._engines_table import engines_tables
from treadle.cli._results import check_results, write_json, writing
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.policy.failed import PolicyFailedError
from treadle.simulator.engines_simulation import EnginesSimulation
from treadle.simulator.impossible import check_possible, unfinished_warning
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import FailedRun, Summary, as_json, summarise
from treadle.simulator.scenario import Scenario, read_scenario
from treadle.simulator.scenario_engines import simulation_of, warm_up_all, with_engines
from treadle.simulator.simulation import Run, Simulation
from treadle.workload.job import Workload


@dataclass(frozen=True, slots=True)
class How:
    """What the options without a value say."""

    check: bool
    profile: bool
    keep_going: bool
    allow_impossible: bool


def simulate(
    scenario: Path, policy: list[str], seeds: int, json_file: Path | None, plot: Path | None, how: How
) -> None:
    """Do what `treadle.cli.simulate.simulate` says."""
    read = read_scenario(scenario)
    check_results(json_file, plot)
    work = _Work(scenario, read, how, console_for_tables())
    policies = _policies(scenario, read, policy)
    with work.console.status("compiling, once a version"):
        for name, settings in policies:
            with _failing(name, work.broken, keep_going=how.keep_going):
                warm_up_all(settings)
    for seed in range(read.seed, read.seed + seeds):
        with _naming(scenario):
            workload = jobs_of(read, scenario.parent, seed)
        for name, settings in policies:
            work.run(name, settings, workload, seed)
    _show(work.outcomes, work.console, profile=how.profile)
    for text in work.notes:
        say(work.console, text, "red" if work.stuck else "yellow")
    if json_file is not None:
        write_json(json_file, as_json(work.outcomes))
    if plot is not None and work.first_runs:
        _plot(work.first_runs, plot, work.console)
    if work.stuck or any(isinstance(each, FailedRun) for each in work.outcomes):
        raise typer.Exit(1)


@dataclass
class _Work:
    """The runs of a command, and what came of them."""

    file: Path
    scenario: Scenario
    how: How
    console: Console
    outcomes: list[Summary | FailedRun] = field(default_factory=list)
    first_runs: list[tuple[str, Run]] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Policies of which a part failed before anything ran, and why."""
    notes: dict[str, None] = field(default_factory=dict)
    """What is to be said below the tables, each once."""
    stuck: bool = False
    """Did jobs wait for what they would never get?"""

    def run(self, name: str, settings: Settings, workload: Workload, seed: int) -> None:
        """Run a policy with a seed.

        Raises:
            UserError: the scenario and the jobs do not go together, or a part failed and the others are not to go on.
        """
        with _naming(self.file):
            simulation = simulation_of(self.scenario, workload, settings, seed, check=self.how.check)
            if not self.how.allow_impossible:
                check_possible(simulation.built)
        failures = {name: self.broken[name]} if name in self.broken else {}
        if not failures:
            with _failing(name, failures, keep_going=self.how.keep_going):
                run = _with_progress(simulation, f"{name}, seed {seed}", self.console)
        if failures:
            self.outcomes.append(FailedRun(name, seed, failures[name]))
            return
        self.outcomes.append(summarise(run, name, seed))
        self._note(f"{name}, seed {seed}", run.parts.warning(settings.limits.part_timeout_ms))
        if not self.how.allow_impossible:
            self._note(f"{name}, seed {seed}", unfinished_warning(run))
            self.stuck |= run.stalled
        if seed == self.scenario.seed:
            self.first_runs.append((name, run))

    def _note(self, of: str, text: str) -> None:
        if text:
            self.notes[f"{of}: {text}"] = None


@contextmanager
def _failing(policy: str, broken: dict[str, str], *, keep_going: bool) -> Iterator[None]:
    """Note a policy of which a part fails inside.

    Raises:
        PolicyFailedError: one does, and the others are not to go on.
    """
    try:
        yield
    except PolicyFailedError as error:
        if not keep_going:
            raise UserError(f"{policy}: {error}; --keep-going goes on with the other policies") from error
        broken[policy] = str(error)


def _show(outcomes: Sequence[Summary | FailedRun], console: Console, *, profile: bool) -> None:
    """Show tables, then what went wrong and what the engine warned of, each once."""
    console.print(_table(outcomes))
    summaries = [each for each in outcomes if isinstance(each, Summary)]
    failed = {each.policy: each.failure for each in outcomes if isinstance(each, FailedRun)}
    summaries = [each for each in summaries if each.policy not in failed]
    if summaries:
        console.print(_use_table(summaries))
    if any(each.engines for each in summaries):
        for table in engines_tables(summaries):
            console.print(table)
    if profile and summaries:
        console.print(_profile_table(summaries))
    for policy, failure in failed.items():
        say(console, f"{policy} failed: {failure}", "red")
    for policy, warning in dict.fromkeys((each.policy, text) for each in summaries for text in each.warnings):
        say(console, f"{policy}: warning: {warning}", "yellow")


@contextmanager
def _naming(scenario: Path) -> Iterator[None]:
    """Let what is found wrong after a scenario was read name its file too."""
    try:
        yield
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(str(scenario)) else f"{scenario}: {text}") from error


def _policies(file: Path, scenario: Scenario, given: list[str]) -> list[tuple[str, Settings]]:
    """Return each policy, and the scenario's engines with it, with a name of its own: its file's, or the whole path."""
    register_parts()
    text = file.read_text("utf-8")
    return [
        (name, with_engines(scenario, settings, str(file), text))
        for name, settings in _without_engines(file.parent, scenario, given)
    ]


def _without_engines(folder: Path, scenario: Scenario, given: list[str]) -> list[tuple[str, Settings]]:
    files = [find_policy(name) for name in given] or [_policy_of(folder, name) for name in scenario.policies]
    if not files:
        return [("default", default_settings())]
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else str(file) for file in files]
    if len(set(names)) < len(names):
        raise UserError("--policy: a file is named twice; name each once")
    return [(name, read_settings(file)) for name, file in zip(names, files, strict=True)]


def _policy_of(folder: Path, name: str) -> Path:
    """Return the file that a scenario names, relative to its folder, or the ready-made policy."""
    file = folder / name
    return file if file.is_file() else find_policy(name) if name in ready_made() else file


def _with_progress(simulation: Simulation | EnginesSimulation, title: str, console: Console) -> Run:
    with counted_progress(console, "jobs") as bar:
        task = bar.add_task(title, total=len(simulation.built.workload.jobs))
        return simulation.run(lambda finished, jobs, _now: bar.update(task, completed=finished, total=jobs))


def _table(outcomes: Sequence[Summary | FailedRun]) -> Table:
    table = Table(title="Jobs", title_justify="left")
    table.add_column("policy")
    for name in ("seeds", "jobs", "not done", "mean (s)", "P50 (s)", "P90 (s)", "P99 (s)", "span (s)"):
        table.add_column(name, justify="right")
    for policy in dict.fromkeys(each.policy for each in outcomes):
        group = [each for each in outcomes if each.policy == policy and isinstance(each, Summary)]
        failed = sum(each.policy == policy and isinstance(each, FailedRun) for each in outcomes)
        if failed:  # means of the seeds that went well would be of other jobs than those beside them
            table.add_row(policy, f"{failed} failed", *["-"] * 7)
            continue
        table.add_row(
            policy,
            str(len(group)),
            str(sum(each.jobs for each in group)),
            str(sum(each.unfinished + each.failed for each in group)),
            *(
                _mean([float(getattr(each, field)) for each in group])
                for field in (
                    "completion_mean_s",
                    "completion_p50_s",
                    "completion_p90_s",
                    "completion_p99_s",
                    "makespan_s",
                )
            ),
        )
    return table


def _use_table(summaries: list[Summary]) -> Table:
    resources = list(summaries[0].utilisation)
    table = Table(title="Cluster: what was used, how it was shared, tasks a second of CPU time", title_justify="left")
    table.add_column("policy")
    for name in (*resources, "Jain", "share error", "rejected", "tasks/s"):
        table.add_column(name, justify="right")
    for policy, group in _by_policy(summaries):
        rejected = sum(sum(each.fates.values()) - each.fates.get("COMMITTED", 0) for each in group)
        table.add_row(
            policy,
            *(f"{np.mean([each.utilisation[name] for each in group]):.1%}" for name in resources),
            _mean([each.jain for each in group]),
            _mean([each.share_error for each in group]),
            str(rejected),
            f"{np.mean([each.completions_per_cpu_s for each in group]):,.0f}",
        )
    return table


def _profile_table(summaries: list[Summary]) -> Table:
    table = Table(title="CPU time (s)", title_justify="left")
    table.add_column("policy")
    for name in (*summaries[0].cpu, "all"):
        table.add_column(name, justify="right")
    table.add_column("parts from files, by the clock", justify="right")
    for policy, group in _by_policy(summaries):
        parts = [sum(each.cpu[name] for each in group) for name in summaries[0].cpu]
        table.add_row(
            policy,
            *(
                f"{part:.2f}"
                for part in (*parts, sum(each.cpu_s for each in group), sum(each.parts_s for each in group))
            ),
        )
    return table


def _by_policy(summaries: list[Summary]) -> list[tuple[str, list[Summary]]]:
    names = dict.fromkeys(each.policy for each in summaries)
    return [(name, [each for each in summaries if each.policy == name]) for name in names]


def _mean(values: list[float]) -> str:
    known = [value for value in values if np.isfinite(value)]
    return f"{np.mean(known):.4g}" if known else "-"


def _plot(runs: list[tuple[str, Run]], folder: Path, console: Console) -> None:
    from treadle.simulator.plot import plot_runs

    with writing("--plot", folder, "folder"):
        for file in plot_runs(runs, folder):
            console.print(f"wrote {file}", highlight=False)
