"""`treadle lab reproduce hdrf`: run the paper's tests on a real ResourceManager, its comparison in the simulator."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import ProcessesOption, ResultsOption, check_results, write_json
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    CacheOption,
    LogsOption,
    OutputPaths,
    SimulatorKind,
    play_draws,
    playing,
    publish,
    say_seeds,
    simulating,
)

if TYPE_CHECKING:
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.hdrf.facebook import Found

app = typer.Typer()

SEEDS = 10
SEEDS_ON_SLS = 2
STEP_S = 8.0
TASK_S = 0.6


class Section(StrEnum):
    """Sections of the paper."""

    TESTS = "5.1"
    COMPARISON = "5.2"
    SLOTS = "5.3"


SIMULATED = "5.2 or 5.3"


@app.command()
def hdrf(
    section: Annotated[
        Section,
        typer.Option(help="5.1: tests on simulated nodes; in the simulator 5.2: naive H-DRF, 5.3: slots."),
    ] = Section.TESTS,
    test: Annotated[list[str] | None, typer.Option(help="A, B, C or D; may be repeated. Default: all.")] = None,
    out: ResultsOption = None,
    step_s: Annotated[
        float | None, typer.Option(min=2, help=f"5.1: seconds that shares settle after each step; {STEP_S:g}.")
    ] = None,
    task_s: Annotated[
        float | None, typer.Option(min=0.1, help=f"5.1: mean duration of a task in seconds; {TASK_S:g}.")
    ] = None,
    folder: LogsOption = None,
    seeds: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help=f"{SIMULATED}: draws of jobs; {SEEDS}, on sls {SEEDS_ON_SLS}."),
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    on: Annotated[
        SimulatorKind, typer.Option("--on", help="5.2: Treadle's simulator, or Hadoop's with a real ResourceManager.")
    ] = SimulatorKind.SIMULATOR,
) -> None:
    """Run H-DRF's tests on a real ResourceManager and under the stock scheduler, or its comparison with naive H-DRF.

    5.1: tests A, B, C and D, on two nodes of Hadoop's load simulator. 5.2: Facebook's job sizes on 50 simulated nodes;
    with --on sls a real ResourceManager schedules these. 5.3: next to a scheduler of slots, on whose nodes memory is
    given out without a bound.
    """
    if on is SimulatorKind.SLS:
        if section is not Section.COMPARISON:
            raise UserError("--on sls: is of --section 5.2; leave it out, or give that section")
        _refuse("5.1", test=test, step_s=step_s, task_s=task_s)
        if processes:
            raise UserError("--processes: --on sls plays one run after the other; leave it out")
        check_results(out, None)
        _on_sls(seeds or SEEDS_ON_SLS, OutputPaths(folder, cache, out))
        return
    if section is not Section.TESTS:
        _refuse("5.1", test=test, step_s=step_s, task_s=task_s, folder=folder)
        check_results(out, None)
        from treadle_lab.harness.runs import RunSettings

        _simulate(section, out, seeds or SEEDS, RunSettings(cache, processes))
        return
    _refuse(SIMULATED, seeds=seeds, processes=processes or None)
    _run_tests(test, OutputPaths(folder, cache, out), step_s or STEP_S, task_s or TASK_S)


def _refuse(other: str, **options: object) -> None:
    """Refuse options of other sections.

    Raises:
        UserError: one is given.
    """
    for name, value in options.items():
        if value is not None:
            option = f"--{name.replace('_', '-')}"
            raise UserError(f"{option}: is of --section {other}; leave it out, or give that section")


def _simulate(section: Section, out: Path | None, seeds: int, settings: RunSettings) -> None:
    """Run section 5.2 or 5.3 in the simulator."""
    from treadle_lab.harness.runs import run_all
    from treadle_lab.papers.hdrf import facebook, slots

    console = console_for_tables(150 if section is Section.COMPARISON else 170)
    file, numbers = _sample(console), range(1, seeds + 1)
    if section is Section.COMPARISON:
        publish(facebook.results_of(_compared(file, numbers, facebook.SCHEMES, settings, console)), console, out)
    else:
        runs = [slots.SlotRun(file, scheme, seed) for seed in numbers for scheme in slots.SCHEMES]
        with simulating(console, settings.cache, [facebook.settings_of(facebook.HDRF)]) as progress:
            results = run_all(runs, slots.run_slots, settings, progress)
        by_run = {(run.scheme, run.seed): each for run, each in zip(runs, results, strict=True)}
        publish(slots.results_of(by_run), console, out)
    say_seeds(numbers, console)


def _sample(console: Console) -> Path:
    from treadle_lab.harness.data import FACEBOOK_2010, given_or_default

    return given_or_default(None, FACEBOOK_2010, partial(say, console))


def _compared(file: Path, seeds: range, schemes: Collection[str], settings: RunSettings, console: Console) -> Found:
    from treadle_lab.harness.runs import run_all
    from treadle_lab.papers.hdrf.facebook import SchemeRun, run_scheme, settings_of

    tasks = [SchemeRun(file, scheme, seed) for seed in seeds for scheme in schemes]
    with simulating(console, settings.cache, [settings_of(scheme) for scheme in schemes]) as progress:
        results = run_all(tasks, run_scheme, settings, progress)
    return {(task.scheme, task.seed): each for task, each in zip(tasks, results, strict=True)}


def _on_sls(seeds: int, places: OutputPaths) -> None:
    """Play section 5.2 on the testbed, and simulate the same draws."""
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.hdrf.sls import SIMULATED as BESIDE
    from treadle_lab.papers.hdrf.sls import results_of, run_draw

    console, numbers = console_for_tables(150), range(1, seeds + 1)
    file = _sample(console)
    simulated = _compared(file, numbers, BESIDE.values(), RunSettings(places.cache, 1), console)
    play_draws(
        "hdrf",
        numbers,
        places,
        lambda turn, seed, player: run_draw(file, seed, turn, player),
        lambda draws: results_of(draws, simulated),
        console,
    )
    say_seeds(numbers, console)


def _run_tests(test: list[str] | None, places: OutputPaths, step_s: float, task_s: float) -> None:
    """Play section 5.1."""
    from treadle_lab.papers.hdrf import paper_tests

    names = [name.upper() for name in test or paper_tests.TESTS]
    for name in names:
        if name not in paper_tests.TESTS:
            raise UserError(f"--test {name}: there is none; choose of {', '.join(paper_tests.TESTS)}")
    check_results(places.json_file, None)
    settings = paper_tests.Settings(round(1000 * task_s), round(1000 * step_s), round(1000 * step_s / 3))
    console = console_for_tables(140)
    runs: list[paper_tests.Run] = []
    with playing(console, "hdrf", places.logs, places.cache) as player:
        for one in (paper_tests.TESTS[name] for name in dict.fromkeys(names)):
            own = [paper_tests.run_test(one, each, settings, player) for each in paper_tests.SCHEDULERS]
            runs += own
            publish(paper_tests.results_of(own), console, None)
            if places.json_file is not None:
                write_json(places.json_file, paper_tests.results_of(runs).as_json())
    if any(paper_tests.missed(run) for run in runs):
        raise typer.Exit(1)
