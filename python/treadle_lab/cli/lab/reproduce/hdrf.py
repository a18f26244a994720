"""`treadle lab reproduce hdrf`: run the paper's tests on a real ResourceManager, its comparison in the simulator."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import Output, OutputOption, ProcessesOption, ResultsOption
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    CacheOption,
    ExperimentPaths,
    LogsOption,
    SimulatorKind,
    chosen,
    note_seeds,
    play_draws,
    playing,
    publish,
    refuse,
    seeds_option,
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


OF_TESTS = "is of --section 5.1"


@app.command()
def hdrf(
    section: Annotated[
        Section,
        typer.Option(help="5.1: tests on simulated nodes; in the simulator 5.2: naive H-DRF, 5.3: slots."),
    ] = Section.TESTS,
    test: Annotated[list[str] | None, typer.Option(help="A, B, C or D; may be repeated. Default: all.")] = None,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    step_s: Annotated[
        float | None, typer.Option(min=2, help=f"5.1: seconds that shares settle after each step; {STEP_S:g}.")
    ] = None,
    task_s: Annotated[
        float | None, typer.Option(min=0.1, help=f"5.1: mean duration of a task in seconds; {TASK_S:g}.")
    ] = None,
    folder: LogsOption = None,
    seeds: Annotated[int | None, seeds_option("10, or 2 on sls; not for 5.1")] = None,
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
    places = ExperimentPaths(output=output, out=out, logs=folder, cache=cache).check()
    if on is SimulatorKind.SLS:
        if section is not Section.COMPARISON:
            raise UserError("--on sls: is of --section 5.2; leave it out, or give that section")
        refuse(OF_TESTS, test=test, step_s=step_s, task_s=task_s)
        refuse("--on sls plays one run after the other", processes=processes)
        _on_sls(seeds or SEEDS_ON_SLS, places)
        return
    if section is not Section.TESTS:
        refuse(OF_TESTS, test=test, step_s=step_s, task_s=task_s, folder=folder)
        from treadle_lab.harness.runs import RunSettings

        _simulate(section, places, seeds or SEEDS, RunSettings(cache, processes))
        return
    refuse("is of --section 5.2 or 5.3", seeds=seeds, processes=processes)
    _run_tests(test, places, step_s or STEP_S, task_s or TASK_S)


def _simulate(section: Section, places: ExperimentPaths, seeds: int, settings: RunSettings) -> None:
    """Run section 5.2 or 5.3 in the simulator."""
    from treadle_lab.harness.runs import run_all
    from treadle_lab.papers.hdrf import facebook, slots

    file, numbers = _sample(), range(1, seeds + 1)
    if section is Section.COMPARISON:
        publish(facebook.results_of(_compared(file, numbers, facebook.SCHEMES, settings)), places)
    else:
        runs = [slots.SlotRun(file, scheme, seed) for seed in numbers for scheme in slots.SCHEMES]
        with simulating(settings.cache, [facebook.settings_of(facebook.HDRF)]) as progress:
            results = run_all(runs, settings, progress)
        by_run = {(run.scheme, run.seed): each for run, each in zip(runs, results, strict=True)}
        publish(slots.results_of(by_run), places)
    note_seeds(numbers)


def _sample() -> Path:
    from treadle_lab.harness.data import FACEBOOK_2010, given_or_default

    return given_or_default(None, FACEBOOK_2010, note)


def _compared(file: Path, seeds: range, schemes: Collection[str], settings: RunSettings) -> Found:
    from treadle_lab.harness.runs import run_all
    from treadle_lab.papers.hdrf.facebook import SchemeRun, settings_of

    tasks = [SchemeRun(file, scheme, seed) for seed in seeds for scheme in schemes]
    with simulating(settings.cache, [settings_of(scheme) for scheme in schemes]) as progress:
        results = run_all(tasks, settings, progress)
    return {(task.scheme, task.seed): each for task, each in zip(tasks, results, strict=True)}


def _on_sls(seeds: int, places: ExperimentPaths) -> None:
    """Play section 5.2 on the testbed, and simulate the same draws."""
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.hdrf.sls import SIMULATED as BESIDE
    from treadle_lab.papers.hdrf.sls import results_of, run_draw

    file, numbers = _sample(), range(1, seeds + 1)
    simulated = _compared(file, numbers, BESIDE.values(), RunSettings(places.cache, 1))
    play_draws(
        "papers.hdrf",
        numbers,
        places,
        lambda turn, seed, player: run_draw(file, seed, turn, player),
        lambda draws: results_of(draws, simulated),
    )
    note_seeds(numbers)


def _run_tests(test: list[str] | None, places: ExperimentPaths, step_s: float, task_s: float) -> None:
    """Play section 5.1."""
    from treadle_lab.papers.hdrf import paper_tests

    names = chosen([name.upper() for name in test or ()], paper_tests.TESTS, option="--test")
    settings = paper_tests.Settings(round(1000 * task_s), round(1000 * step_s), round(1000 * step_s / 3))
    runs: list[paper_tests.Run] = []
    with playing("papers.hdrf", places.logs, places.cache) as player:
        for one in (paper_tests.TESTS[name] for name in names):
            own = [paper_tests.run_test(one, each, settings, player) for each in paper_tests.SCHEDULERS]
            runs += own
            places.write(paper_tests.results_of(runs).as_json())
    publish(paper_tests.results_of(runs), places)
    if any(paper_tests.missed(run) for run in runs):
        raise typer.Exit(1)
