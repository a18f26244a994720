"""`treadle reproduce hdrf`: the paper's tests on real ResourceManagers, and its comparison in the simulator."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import compiling_task, console_for_tables, counted_progress, say
from treadle.cli._results import check_results, write_json
from treadle.cli._runs import CacheOption, ProcessesOption, going_on
from treadle.errors import UserError
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()

SEEDS = 10
STEP_S = 36.0
TASK_S = 6.0


class Section(StrEnum):
    """Sections of the paper."""

    TESTS = "5.1"
    COMPARISON = "5.2"


@app.command()
def hdrf(
    section: Annotated[
        Section, typer.Option(help="5.1: tests on real clusters; 5.2: the Facebook workload in the simulator.")
    ] = Section.TESTS,
    test: Annotated[list[str] | None, typer.Option(help="A, B or C; may be repeated. Default: all.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
    plot: Annotated[Path | None, typer.Option(help="5.1: a folder for plots over time.")] = None,
    step_s: Annotated[
        float | None, typer.Option(min=6, help=f"5.1: seconds that shares settle after each step; {STEP_S:g}.")
    ] = None,
    task_s: Annotated[
        float | None, typer.Option(min=0.2, help=f"5.1: mean duration of a sleeping task in seconds; {TASK_S:g}.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="5.1: the clusters' folder; default: build/reproduce-hdrf.")
    ] = None,
    seeds: Annotated[int | None, typer.Option(min=1, max=1000, help=f"5.2: how many draws of jobs; {SEEDS}.")] = None,
    sample: Annotated[
        Path | None, typer.Option(help="5.2: SWIM's sample of Facebook's cluster of 2010; default: the checkout's.")
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
) -> None:
    """H-DRF's tests on a real ResourceManager beside the stock scheduler, or its comparison with naive H-DRF.

    5.1: tests A, B and C. 5.2: Facebook's job sizes on 50 simulated nodes.
    """
    if section is Section.COMPARISON:
        _refuse(section, test=test, plot=plot, step_s=step_s, task_s=task_s, folder=folder)
        _compare(json_file, seeds or SEEDS, sample, cache, processes)
        return
    _refuse(section, seeds=seeds, sample=sample, cache=cache, processes=processes or None)
    _run_tests(test, json_file, plot, step_s or STEP_S, task_s or TASK_S, folder)


def _refuse(section: Section, **options: object) -> None:
    """Refuse options of another section.

    Raises:
        UserError: one is given.
    """
    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            other = next(each for each in Section if each is not section)
            raise UserError(f"{option}: is of --section {other}; leave it out, or give that section")


def _compare(json_file: Path | None, seeds: int, sample: Path | None, cache: Path | None, processes: int) -> None:
    """Run section 5.2."""
    from treadle.lab.harness.data import FACEBOOK_2010, given_or_found
    from treadle.lab.harness.runs import Asked, run_all
    from treadle.lab.reproduce.hdrf.comparison import SCHEMES, SchemeRun, run_scheme, settings_of
    from treadle.lab.reproduce.hdrf.comparison_report import Comparison
    from treadle.simulate.statistics import FEW
    from treadle.simulator.simulation import warm_up

    check_results(json_file, None)
    console = console_for_tables(150)
    file = given_or_found(sample, FACEBOOK_2010, partial(say, console))
    tasks = [SchemeRun(file, scheme, seed) for seed in range(1, seeds + 1) for scheme in SCHEMES]
    with going_on(console, cache), counted_progress(console, "runs") as bar:
        shown = compiling_task(console, bar)
        for scheme in SCHEMES:
            warm_up(settings_of(scheme))

        def show_progress(done: float, total: int) -> None:
            bar.update(shown, description="simulating", completed=int(done), total=total)

        found = Comparison(tasks, run_all(tasks, run_scheme, Asked(cache, processes), show_progress))
    for table in found.tables():
        console.print(table)
    narrow = f"; of fewer than {FEW} seeds they are too narrow" if seeds < FEW else ""
    say(console, f"seeds 1 to {seeds}; 95 % intervals over seeds by the bootstrap{narrow}")
    if json_file is not None:
        write_json(json_file, found.as_json())


def _run_tests(
    test: list[str] | None,
    json_file: Path | None,
    plot: Path | None,
    step_s: float,
    task_s: float,
    folder: Path | None,
) -> None:
    """Run section 5.1."""
    from treadle.lab.minicluster import Scheduler
    from treadle.lab.minicluster.progress import saying
    from treadle.lab.minicluster.readiness import terminable
    from treadle.lab.reproduce.hdrf.experiment import Run, Settings, run_test
    from treadle.lab.reproduce.hdrf.paper_tests import TESTS
    from treadle.lab.reproduce.hdrf.report import document, off, table

    names = [name.upper() for name in test or TESTS]
    for name in names:
        if name not in TESTS:
            raise UserError(f"--test {name}: there is none; choose of {', '.join(TESTS)}")
    check_results(json_file, plot)
    chosen = [TESTS[name] for name in dict.fromkeys(names)]
    settings = Settings(task_s=task_s, step_s=step_s, window_s=step_s / 3)
    place = (folder or build_folder() / "reproduce-hdrf").resolve()
    console = console_for_tables(140)
    runs: list[Run] = []
    missed = []
    with terminable(), saying(console) as say:
        for one in chosen:
            own = [run_test(one, kind, settings, place, say) for kind in (Scheduler.TREADLE, Scheduler.CAPACITY)]
            runs += own
            console.print(table(one, own))
            missed += [
                f"test {one.name}, step {number}: {leaf} has {amount:+g} containers"
                for number, (step, tasks) in enumerate(zip(own[0].steps, one.shares("hdrf"), strict=True), 1)
                for leaf, amount in off(step, tasks).items()
            ]
            if plot is not None:
                from treadle.lab.reproduce.hdrf.report import plot_test  # only here: matplotlib is an extra

                plot_test(one, own, plot / f"hdrf-test-{one.name.lower()}.png")
            if json_file is not None:
                write_json(json_file, document(chosen[: chosen.index(one) + 1], runs))
    for text in missed:
        console.print(f"Treadle is not within one container of the paper: {text}", style="red", soft_wrap=True)
    if missed:
        raise typer.Exit(1)
