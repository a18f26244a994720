"""What `treadle simulate` does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from treadle.cli._console import console_for_tables, counted_progress
from treadle.cli._results import check_results, write_json, writing
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle.simulator.jobs import jobs_of
from treadle.simulator.results import Summary, as_json, summarise
from treadle.simulator.scenario import Scenario, read_scenario
from treadle.simulator.simulation import Run, Simulation, warm_up


def simulate(
    scenario: Path,
    policy: list[Path],
    seeds: int,
    json_file: Path | None,
    plot: Path | None,
    *,
    check: bool,
    profile: bool,
) -> None:
    """Do what `treadle.cli.simulate.simulate` says."""
    read = read_scenario(scenario)
    check_results(json_file, plot)
    policies = _policies(scenario.parent, read, policy)
    console = console_for_tables()
    summaries: list[Summary] = []
    first_runs: list[tuple[str, Run]] = []
    with console.status("compiling, once a version"):
        for _, settings in policies:
            warm_up(settings)
    for seed in range(read.seed, read.seed + seeds):
        with _naming(scenario):
            workload = jobs_of(read, scenario.parent, seed)
        for name, settings in policies:
            with _naming(scenario):
                simulation = Simulation(read, workload, settings, seed, check=check)
            run = _with_progress(simulation, f"{name}, seed {seed}", console)
            summaries.append(summarise(run, name, seed))
            if seed == read.seed:
                first_runs.append((name, run))
    console.print(_table(summaries))
    console.print(_use_table(summaries))
    if profile:
        console.print(_profile_table(summaries))
    if json_file is not None:
        write_json(json_file, as_json(summaries))
    if plot is not None:
        _plot(first_runs, plot, console)


@contextmanager
def _naming(scenario: Path) -> Iterator[None]:
    """Let what is found wrong after a scenario was read name its file too."""
    try:
        yield
    except UserError as error:
        text = str(error)
        raise UserError(text if text.startswith(str(scenario)) else f"{scenario}: {text}") from error


def _policies(folder: Path, scenario: Scenario, given: list[Path]) -> list[tuple[str, Settings]]:
    """Return each policy with a name of its own: its file's, and its folder's where that is not enough."""
    register_parts()
    files = given or [folder / name for name in scenario.policies]
    if not files:
        return [("default", default_settings())]
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else str(file) for file in files]
    if len(set(names)) < len(names):
        raise UserError("--policy: a file is named twice; name each once")
    return [(name, read_settings(file)) for name, file in zip(names, files, strict=True)]


def _with_progress(simulation: Simulation, title: str, console: Console) -> Run:
    with counted_progress(console, "jobs") as bar:
        task = bar.add_task(title, total=len(simulation.built.workload.jobs))
        return simulation.run(lambda finished, jobs, _now: bar.update(task, completed=finished, total=jobs))


def _table(summaries: list[Summary]) -> Table:
    table = Table(title="Jobs", title_justify="left")
    table.add_column("policy")
    for name in ("seeds", "jobs", "not done", "mean (s)", "P50 (s)", "P90 (s)", "P99 (s)", "span (s)"):
        table.add_column(name, justify="right")
    for policy, group in _by_policy(summaries):
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
    for policy, group in _by_policy(summaries):
        parts = [sum(each.cpu[name] for each in group) for name in summaries[0].cpu]
        table.add_row(policy, *(f"{part:.2f}" for part in (*parts, sum(each.cpu_s for each in group))))
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
