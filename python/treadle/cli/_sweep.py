"""The implementation of `treadle sweep`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from treadle.cli import _console
from treadle.cli._console import (
    INTERRUPTED,
    compiling,
    counted_progress,
    note,
    progress_console,
    say,
)
from treadle.cli._options import check_writable, writing
from treadle.errors import counted
from treadle.policy.user_parts import PolicyFailedError
from treadle.simulate.comparison import FEW, Interval
from treadle.simulator.simulation import warm_up
from treadle.sweep.plan import Inputs, Plan, plan_of, read_sweep
from treadle.sweep.report import MEAN, Cell, SweepReport, report_of
from treadle.sweep.runs import Done, Line, ResultCache, Runs, run_line, run_locally
from treadle.sweep.spark import Spark, check_spark
from treadle.tables import empty_table

FAILURES_SHOWN = 10
ROWS_SHOWN = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPaths(_console.OutputPaths):
    """Where the results of `treadle sweep` go."""

    cache: Path
    best: Path | None


def sweep(
    file: Path, places: OutputPaths, processes: int, start_spark: Callable[[], Spark] | None, *, trust_code: bool
) -> None:
    """Run `treadle.cli.sweep.sweep`."""
    document = read_sweep(file)
    if start_spark is not None:
        check_spark()
    places.check()
    if places.best is not None:
        check_writable("--best", places.best)
    kept = ResultCache(places.cache)
    inputs = Inputs(kept.files)
    plan = plan_of(document, file, inputs, trust_code=trust_code)
    for text in plan.notes:
        note(text, "yellow")
    report = report_of(document, plan, _run(plan, kept, inputs, processes, start_spark))
    places.publish(report.as_json(), partial(_show, report))
    _warn(report)
    if places.best is not None:
        _write_best(report, places.best)
    places.draw(partial(_plot, report, places.formats))
    if report.failed or (places.best is not None and report.best is None):
        raise typer.Exit(1)


def _run(
    plan: Plan, kept: ResultCache, inputs: Inputs, processes: int, start_spark: Callable[[], Spark] | None
) -> list[bytes]:
    """Return the result of each run of a plan, in its order; runs with a stored result are skipped."""
    runs = Runs([each.line for each in plan.runs], kept)
    total = len(runs.missing)
    progress = progress_console()
    say(progress, f"{counted(len(plan.runs), 'run')}, {runs.kept} of them done before")
    begun_s = perf_counter()
    try:
        if runs.missing:
            with _backend(plan, runs.missing, kept, inputs, processes, start_spark) as running:
                runs.take(running)
    except KeyboardInterrupt:
        text = f"stopped; {runs.stored} of {total} runs are kept in {kept.folder}: the same command goes on"
        note(text, "red")
        raise typer.Exit(INTERRUPTED) from None
    if total:
        say(progress, f"{counted(runs.done, 'run')} in {perf_counter() - begun_s:.1f} s")
    return runs.results


@contextmanager
def _backend(
    plan: Plan,
    lines: Sequence[Line],
    kept: ResultCache,
    inputs: Inputs,
    processes: int,
    start_spark: Callable[[], Spark] | None,
) -> Iterator[Iterator[Done]]:
    """Yield an iterator over runs as they end, with a bar."""
    if start_spark is None:
        with compiling():
            _compile(plan, {line.policy for line in lines})
        with closing(run_locally(lines, partial(run_line, files=kept.files), processes)) as running:
            yield _counted(running, len(lines))
        return
    spark = start_spark()
    try:
        note(f"Spark on {spark.master}: {counted(spark.cores, 'core')}")
        with closing(spark.run(lines, kept.files, inputs.taken)) as running:
            yield _counted(running, len(lines))
    finally:
        spark.stop()


def _compile(plan: Plan, wanted: set[str]) -> None:
    """Compile each combination of parts that is to run, so that not every process compiles the same."""
    seen = set()
    for policy, settings in zip(plan.policies, plan.settings, strict=True):
        parts = settings.policy.name()
        if policy.text in wanted and parts not in seen:
            seen.add(parts)
            with suppress(PolicyFailedError):  # its runs report the failure
                warm_up(settings)


def _counted(running: Iterator[Done], total: int) -> Iterator[Done]:
    with counted_progress("runs") as bar:
        task, failed = bar.add_task("simulating", total=total), 0
        for done, each in enumerate(running, 1):
            failed += each.failed
            bar.update(task, completed=done, description=f"simulating, {failed} failed" if failed else "simulating")
            yield each


def _show(report: SweepReport, console: Console) -> None:
    for at, scenario in enumerate(report.plan.scenarios):
        cells = [cell for cell in report.cells if cell.scenario == at]
        console.print(_table(report, scenario.name, cells))
        if len(cells) > ROWS_SHOWN:
            say(console, f"... and {len(cells) - ROWS_SHOWN} more; -o json and --out have all of them")
    if report.best is None:
        say(console, _why_none(report), "red")
    else:
        first, ratio = report.plan.policies[0].name, report.best_over_first
        text = f"best: {report.plan.policies[report.best].name}"
        known = f": mean completion time {ratio:.3g} times that of {first}, over all scenarios"
        say(console, text + (known if np.isfinite(ratio) else ""))


def _warn(report: SweepReport) -> None:
    if any(1 < len(cell.seeds) < FEW for cell in report.cells):
        note(f"95 % intervals by Student's t are over fewer than {FEW} seeds: use more.")
    if not any(cell.pareto for cell in report.cells) and not all(cell.failed for cell in report.cells):
        text = f"No figure of {report.fairness} is known, so there is no Pareto front: it needs two leaves in use"
        note(f"{text} at the end of a window (report.window_s of the scenario).", "yellow")
    for text in report.warnings:
        note(f"warning: {text}", "yellow")
    failures = [(cell, seed, why) for cell in report.cells for seed, why in cell.failed]
    for cell, seed, why in failures[:FAILURES_SHOWN]:
        names = report.plan.scenarios[cell.scenario].name, report.plan.policies[cell.policy].name
        note(f"failed: {names[0]}, {names[1]}, seed {seed}: {why}", "red")
    if failures:
        note(f"{counted(len(failures), 'run')} of {len(report.runs)} failed; the same command tries them again", "red")


def _why_none(report: SweepReport) -> str:
    """Return why no setting is the best one."""
    width = len(report.plan.policies)
    whole = [at for at in range(width) if not any(cell.failed for cell in report.cells[at::width])]
    if not whole:
        return "Under every setting a run failed: there is no best one."
    if report.share_deviation_max is None:
        return "No setting that ran everywhere has a mean completion time: there is no best one."
    return (
        f"No setting that ran everywhere keeps to share_deviation_max ({report.share_deviation_max:g}), or leaves as "
        "few jobs undone as those that do: there is no best one."
    )


def _table(report: SweepReport, scenario: str, cells: Sequence[Cell]) -> Table:
    """Show policies, the quickest first, with * for those on the Pareto front; of many the first."""
    fairness = {"share_deviation": "share deviation", "jain": "Jain"}[report.fairness]
    table = empty_table(
        f"{scenario}: * is on the Pareto front of mean and {report.fairness}",
        ("policy",),
        ("seeds", "mean (s)", "over the first", fairness, "P99 (s)", "slowdown", "not done"),
    )
    known = sorted(cells, key=lambda cell: (bool(cell.failed), cell.figures[MEAN].mean if cell.figures else 0.0))
    for cell in known[:ROWS_SHOWN]:
        name = report.plan.policies[cell.policy].name + (" *" if cell.pareto else "")
        if cell.failed:
            seeds = len(cell.seeds) + len(cell.failed)
            table.add_row(name, f"{len(cell.failed)} of {seeds} failed", *["-"] * 6)
            continue
        table.add_row(
            name,
            str(len(cell.seeds)),
            *map(_shown, (cell.figures[MEAN], cell.over_first, cell.figures[report.fairness])),
            *(_shown(cell.figures[figure]).partition(" ")[0] for figure in ("completion_p99_s", "slowdown_mean")),
            str(cell.unfinished),
        )
    return table


def _shown(figure: Interval) -> str:
    return str(figure) if np.isfinite(figure.mean) else "-"


def _write_best(report: SweepReport, file: Path) -> None:
    if report.best is None:
        return
    best = report.plan.policies[report.best]
    with writing("--best", file, "file"):
        file.write_text(f"# {best.name}: the best setting of a sweep.\n{best.readable}", encoding="utf-8")
    note(f"wrote {file}: {best.name}")


def _plot(report: SweepReport, formats: tuple[str, ...], folder: Path) -> Iterable[Path]:
    from treadle.plots import plot_sweep

    return plot_sweep(report, folder, formats)
