"""The implementation of `treadle simulate`: compares policies over seeds.

Its tables have slowdowns of groups of jobs, policies pair by pair, and the figures of several engines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import typer
from rich.console import Console
from rich.progress import Progress, TaskID
from rich.table import Table

from treadle.cli import _console
from treadle.cli._console import INTERRUPTED, compiling, counted_progress, note, print_result
from treadle.cli._options import Output, make_folder, writing
from treadle.config.reader import read_settings
from treadle.config.settings import Settings, default_settings
from treadle.errors import UserError, counted, percent
from treadle.policy.catalogue import register_parts
from treadle.policy.user_parts import PolicyFailedError
from treadle.shipped import find_policy
from treadle.simulate.batch import (
    Outcome,
    Run,
    RunSpec,
    Scenario,
    check_trees,
    finished,
    group_warnings,
    run_line,
    run_lines,
    settings_of,
    with_scenario,
)
from treadle.simulate.comparison import (
    FEW,
    TRIED_AGAINST,
    TRIED_SEEDS,
    TableFormat,
    against_of,
    as_rows,
    check_parquet,
    pairs_of,
    slowdowns_of,
    tried_lines,
    write_tables,
)
from treadle.simulator.measure import EngineFigures
from treadle.simulator.results import FailedRun, Summary, as_json, without_nan
from treadle.simulator.simulation import warm_up
from treadle.tables import empty_table


def _comparison_tables(summaries: Sequence[Summary], *, details: bool) -> Iterator[Table]:
    """Yield the tables: of all jobs together, with ``details`` by class of sizes and queue too; pairs if there are."""
    table = empty_table(
        "Times of jobs over seeds; slowdown: completion time over the least possible one alone",
        ("policy", *(("jobs of",) if details else ())),
        ("jobs", "completion, mean (s)", "slowdown, mean", "P50", "P99"),
    )
    for each in slowdowns_of(summaries):
        if not details and each.by != "all":
            continue
        group = (each.group if each.by == "all" else f"{each.by} {each.group}",) if details else ()
        figures = (each.completion_mean_s, each.mean, each.p50, each.p99)
        table.add_row(each.policy, *group, str(each.jobs), *map(str, figures))
    yield table
    pairs = pairs_of(summaries)
    if not pairs:
        return
    table = empty_table(
        "Policies pair by pair, on the jobs that ended under both",
        ("policy", "over"),
        ("jobs", "mean completion, ratio", "P99, ratio", "ended sooner"),
    )
    for pair in pairs:
        table.add_row(pair.policy, pair.other, str(pair.jobs), str(pair.ratio), str(pair.p99_ratio), str(pair.sooner))
    yield table


def baseline_table(summaries: Sequence[Summary], baseline: str) -> Table:
    """Return the change of each policy against a baseline, paired by seed; below 0 it is faster."""
    table = empty_table(
        f"Changes against {baseline}, paired by seed, on the jobs that ended under both",
        ("policy", "figure"),
        ("change", "95 %", "verdict", "draws", "draws for 2 %"),
    )
    for each in against_of(summaries, baseline):
        for name, figure in each.figures.items():
            needed = "-" if figure.needed is None else str(figure.needed)
            row = (figure.change_text, figure.interval_text, figure.word, str(figure.draws), needed)
            table.add_row(each.policy, name, *row)
        table.add_row(each.policy, "jobs over 10 % later", percent(each.late.mean, ".1f"), *[""] * 4)
        table.add_row(each.policy, "worst job, times as long", f"{each.worst.mean:.3g}", *[""] * 4)
    return table


_VERDICTS: Final = {"less": "quicker", "more": "slower", "undecided": "undecided"}


def try_against_fair(file: Path, output: Output) -> None:
    """Compare a policy with `fair` on small workloads, and print a verdict (`treadle policy try`).

    Raises:
        UserError: a part of the policy failed, or jobs waited for containers that they can never get.
    """
    register_parts()
    settings = read_settings(file)
    name = file.stem if file.stem != TRIED_AGAINST else str(file)
    table = empty_table(
        f"Changes against {TRIED_AGAINST}, {TRIED_SEEDS} draws of each workload",
        ("workload", "mean completion is"),
        ("mean completion", "P99", "jobs over 10 % later"),
    )
    with compiling():
        for each in (settings, read_settings(find_policy(TRIED_AGAINST))):
            warm_up(each)
    words, document = [], []
    for title, lines in tried_lines(name, settings):
        with counted_progress("runs") as bar:
            runs = [finished(outcome) for outcome in bar.track(run_lines(lines), total=len(lines), description=title)]
        (found,) = against_of(runs, TRIED_AGAINST)
        mean, p99 = (found.figures[f"completion, {which}"] for which in ("mean", "P99"))
        words.append(_VERDICTS[mean.word])
        table.add_row(title, words[-1], str(mean), str(p99), percent(found.late.mean, ".1f"))
        document.append({"workload": title, "verdict": words[-1]} | asdict(found))
    verdict = ", ".join(f"{word} on {count} of {len(words)} workloads" for word, count in Counter(words).items())
    line = f"mean completion is {verdict}; `treadle simulate` measures it on a workload like yours"
    print_result(output, without_nan(document), table, line)


TIMES: Final = {
    "conflict_fraction": "conflict fraction",
    "wait_mean_s": "wait (s)",
    "wait_p99_s": "P99 (s)",
    "useful_s": "useful (s)",
    "wasted_s": "wasted (s)",
    "empty_s": "empty (s)",
}
COUNTS: Final = {
    "transactions": "succeeded",
    "conflicts": "conflicts",
    "empty": "empty",
    "retries": "retries",
    "given_up": "given up",
    "moved": "moved",
    "placed": "containers",
}


def engines_tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """Yield tables with a row for each policy and engine: how busy it was, and the outcomes of its transactions."""
    title = "Engines: busyness, conflicts over successes, wait to the first attempt, decision time"
    table = empty_table(title, ("policy", "engine"), ("busy", *TIMES.values()))
    for policy, engines in _engines(summaries):
        busy = percent(float(np.mean([each.busyness for each in engines])), ".1f")
        table.add_row(policy, engines[0].name, busy, *_means(engines, TIMES))
    yield table
    title = "Engines: transactions, and applications that other engines got"
    table = empty_table(title, ("policy", "engine"), COUNTS.values())
    for policy, engines in _engines(summaries):
        table.add_row(policy, engines[0].name, *_means(engines, COUNTS))
    yield table


def _engines(summaries: Sequence[Summary]) -> Iterator[tuple[str, tuple[EngineFigures, ...]]]:
    """Yield each policy and engine with its figures, one for each seed."""
    for policy in dict.fromkeys(each.policy for each in summaries):
        runs = [each.engines for each in summaries if each.policy == policy and each.engines]
        for engines in zip(*runs, strict=True):
            yield policy, engines


def _means(engines: Sequence[EngineFigures], fields: dict[str, str]) -> Iterator[str]:
    return (f"{np.mean([getattr(each, field) for each in engines]):.4g}" for field in fields)


@dataclass(frozen=True, slots=True)
class SimulateOptions:
    """The options of the runs."""

    seed: int | None
    seeds: int
    baseline: str | None
    processes: int
    check: bool
    profile: bool
    details: bool
    keep_going: bool
    allow_impossible: bool
    trust_code: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPaths(_console.OutputPaths):
    """Where the results of `treadle simulate` go; None: nowhere."""

    csv: Path | None = None
    parquet: Path | None = None


def simulate(scenario: Path, policy: list[str], places: OutputPaths, options: SimulateOptions) -> None:
    """Run `treadle.cli.simulate.simulate`."""
    read = Scenario.read(scenario, trust_code=options.trust_code)
    places.check()
    if places.parquet is not None:
        check_parquet("--parquet")
    for option, folder in (("--csv", places.csv), ("--parquet", places.parquet)):
        if folder is not None:
            make_folder(folder, option)
    work = _SimulateCommand(read, options)
    policies = _policies(read, policy)
    _check_baseline(options.baseline, [name for name, _ in policies])
    for _, settings in policies:
        check_trees(settings, read.model, read.file)
    try:
        with compiling():
            for name, settings in policies:
                try:
                    warm_up(settings)
                except PolicyFailedError as error:
                    if not options.keep_going:
                        raise UserError(_going_on(name, error)) from error
                    work.broken[name] = str(error)
        work.run(policies)
        _report(work, places)
    except KeyboardInterrupt:
        note(_stopped(work, len(policies) * options.seeds), "red")
        raise typer.Exit(INTERRUPTED) from None
    if work.stuck or any(isinstance(each, FailedRun) for each in work.results):
        raise typer.Exit(1)


def _check_baseline(baseline: str | None, names: Sequence[str]) -> None:
    if baseline is not None and baseline not in names:
        raise UserError(
            f"--baseline: {baseline!r} is not one of the policies: {', '.join(names)}; add --policy {baseline}"
        )


def _stopped(work: _SimulateCommand, runs: int) -> str:
    """Return the message after Ctrl-C."""
    wrote = (
        f"of the results only {', '.join(map(str, work.rows_written))} is whole"
        if work.rows_written
        else "nothing was written"
    )
    return (
        f"stopped; {len(work.results)} of {counted(runs, 'run')} had ended, {wrote}; "
        "`treadle sweep` keeps each run as it ends, and goes on"
    )


def _report(work: _SimulateCommand, places: OutputPaths) -> None:
    """Show the results, and write the requested files.

    Raises:
        UserError: a file cannot be written.
    """
    outcomes = [each.summary if isinstance(each, Run) else each for each in work.results]
    summaries = [each for each in outcomes if isinstance(each, Summary)]
    over_seeds = {"slowdowns": as_rows(slowdowns_of(summaries)), "pairs": as_rows(pairs_of(summaries))}
    places.publish(as_json(outcomes) | over_seeds, partial(_show, outcomes, work.options))
    _warn(outcomes)
    for text in work.notes:
        note(text, "red" if work.stuck else "yellow")
    whole = [each for each in work.results if isinstance(each, Run)]
    if places.out is not None:
        work.rows_written.append(places.out)
    formats: tuple[tuple[TableFormat, Path | None], ...] = (("csv", places.csv), ("parquet", places.parquet))
    for format_, folder in formats:
        if folder is not None:
            with writing(f"--{format_}", folder, "folder"):
                for file in write_tables(whole, folder, format=format_):
                    note(f"wrote {file}")
            work.rows_written.append(folder)
    if places.plot is not None and whole:
        places.draw(partial(_plot, outcomes, places.formats))
        work.rows_written.append(places.plot)


@dataclass
class _SimulateCommand:
    """The runs of a command, and their results."""

    scenario: Scenario
    options: SimulateOptions
    results: list[Run | FailedRun] = field(default_factory=list)
    broken: dict[str, str] = field(default_factory=dict)
    """Policies of which a part failed before anything ran, and why."""
    notes: dict[str, None] = field(default_factory=dict)
    """The notes below the tables, each once."""
    stuck: bool = False
    """Did jobs wait for containers that they can never get?"""
    rows_written: list[Path] = field(default_factory=list)
    """Results that are whole."""

    def run(self, policies: Sequence[tuple[str, Settings]]) -> None:
        """Run all policies with all seeds, seed by seed.

        Raises:
            UserError: the scenario and the jobs do not go together, or a part failed and the others are not to go on.
        """
        first = self.scenario.model.seed if self.options.seed is None else self.options.seed
        check, allowed = self.options.check, self.options.allow_impossible
        wanted = [
            RunSpec(self.scenario, name, settings, seed, check, allowed, tasks=False)
            for seed in range(first, first + self.options.seeds)
            for name, settings in policies
        ]
        outcomes = iter(self._outcomes([line for line in wanted if line.policy not in self.broken]))
        for line in wanted:
            if line.policy in self.broken:
                self.results.append(FailedRun(line.policy, line.seed, self.broken[line.policy]))
                continue
            outcome = next(outcomes)
            if isinstance(outcome.result, FailedRun) and not self.options.keep_going:
                raise UserError(_going_on(line.policy, outcome.result.failure))
            self.results.append(outcome.result)
            self.notes |= dict.fromkeys(outcome.notes)
            self.stuck |= outcome.stuck
        next(outcomes, None)  # ends the processes that run simulations

    def _outcomes(self, lines: Sequence[RunSpec]) -> Iterator[Outcome]:
        """Yield outcomes, with a bar for the jobs of each run, or one for all runs if several run at a time."""
        if self.options.processes > 1:
            with counted_progress("runs") as bar:
                task = bar.add_task("simulating", total=len(lines))
                for done, outcome in enumerate(run_lines(lines, self.options.processes), 1):
                    bar.update(task, completed=done)
                    yield outcome
            return
        for line in lines:
            with counted_progress("jobs") as bar:
                task = bar.add_task(f"{line.policy}, seed {line.seed}", total=None)
                yield run_line(line, partial(_update, bar, task))


def _update(bar: Progress, task: TaskID, finished: int, jobs: int, _now_ms: int) -> None:
    bar.update(task, completed=finished, total=jobs)


def _going_on(policy: str, failure: object) -> str:
    return f"{policy}: {failure}; --keep-going goes on with the other policies"


def _show(outcomes: Sequence[Summary | FailedRun], options: SimulateOptions, console: Console) -> None:
    """Print the tables."""
    console.print(_table(outcomes))
    _, summaries = _divided(outcomes)
    if summaries:
        console.print(_use_table(summaries))
    if any(each.engines for each in summaries):
        for table in engines_tables(summaries):
            console.print(table)
    if options.details or options.seeds > 1:
        for table in _comparison_tables(summaries, details=options.details):
            console.print(table)
        if options.seeds > 1:
            few = f"; use at least {FEW}" if options.seeds < FEW else ""
            note(f"95 % intervals over {options.seeds} seeds by Student's t{few}.")
    if options.baseline is not None and any(each.policy == options.baseline for each in summaries):
        console.print(baseline_table(summaries, options.baseline))
    if options.profile and summaries:
        console.print(_profile_table(summaries))


def _divided(outcomes: Sequence[Summary | FailedRun]) -> tuple[dict[str, str], list[Summary]]:
    """Return the failure of each policy that failed, and the summaries of the others."""
    failures = {each.policy: each.failure for each in outcomes if isinstance(each, FailedRun)}
    return failures, [each for each in outcomes if isinstance(each, Summary) and each.policy not in failures]


def _warn(outcomes: Sequence[Summary | FailedRun]) -> None:
    """Note each failure and each warning of the engine once."""
    failures, summaries = _divided(outcomes)
    for policy, failure in failures.items():
        note(f"{policy} failed: {failure}", "red")
    for policy, warning in group_warnings((each.policy, text) for each in summaries for text in (*each.warnings, "")):
        note(f"{policy}{': ' * bool(policy)}warning: {warning}", "yellow")


def _policies(scenario: Scenario, given: list[str]) -> list[tuple[str, Settings]]:
    """Return each policy, and the scenario's engines with it, with a name of its own: its file's, or the whole path."""
    register_parts()
    files = [find_policy(name) for name in given]
    files = files or [
        find_policy(name, scenario.folder, f"{scenario.file}: policies") for name in scenario.model.policies
    ]
    if not files:
        return [("default", with_scenario(default_settings(), scenario))]
    stems = [file.stem for file in files]
    names = [file.stem if stems.count(file.stem) == 1 else str(file) for file in files]
    if len(set(names)) < len(names):
        raise UserError("--policy: a file is named twice; name each once")
    trust_code = bool(given) or scenario.trust_code
    return [
        (name, settings_of(file, scenario, trust_code=trust_code)[1]) for name, file in zip(names, files, strict=True)
    ]


def _table(outcomes: Sequence[Summary | FailedRun]) -> Table:
    table = empty_table(
        "Jobs", ("policy",), ("seeds", "jobs", "not done", "mean (s)", "P50 (s)", "P90 (s)", "P99 (s)", "span (s)")
    )
    for policy in dict.fromkeys(each.policy for each in outcomes):
        group = [each for each in outcomes if each.policy == policy and isinstance(each, Summary)]
        failed = sum(each.policy == policy and isinstance(each, FailedRun) for each in outcomes)
        if failed:  # means over the other seeds would be of different jobs than the other rows
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
    table = empty_table(
        "Cluster: use of resources, fairness, simulated tasks for each second of CPU time",
        ("policy",),
        (*resources, "Jain", "share deviation", "rejected", "tasks/s"),
    )
    for policy, group in _by_policy(summaries):
        rejected = sum(sum(each.fates.values()) - each.fates.get("COMMITTED", 0) for each in group)
        table.add_row(
            policy,
            *(percent(float(np.mean([each.utilisation[name] for each in group])), ".1f") for name in resources),
            _mean([each.jain for each in group]),
            _mean([each.share_deviation for each in group]),
            str(rejected),
            f"{np.mean([each.completions_per_cpu_s for each in group]):,.0f}",
        )
    return table


def _profile_table(summaries: list[Summary]) -> Table:
    table = empty_table("CPU time (s)", ("policy",), (*summaries[0].cpu, "all", "parts from files, by the clock"))
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


def _plot(outcomes: Sequence[Summary | FailedRun], formats: tuple[str, ...], folder: Path) -> Iterable[Path]:
    from treadle.plots import plot_results

    return plot_results([run for run in as_json(outcomes)["runs"] if run["failure"] is None], folder, formats)
