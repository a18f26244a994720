"""`treadle reproduce slearn`: SLearn's evaluation on Google's trace of 2011."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import check_results, write_json, writing
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    CacheOption,
    Places,
    ProcessesOption,
    SimulatorKind,
    levels_of,
    number_of,
    play_draws,
    simulating,
    with_options,
)
from treadle_lab.papers.slearn.paper import DAGS, JOBS, LOAD, NODES, OF_DAGS, OF_JOBS

if TYPE_CHECKING:
    from treadle_lab.harness.runs import Asked
    from treadle_lab.papers.slearn.experiment import Draws, Outcome
    from treadle_lab.papers.slearn.figures import Report
    from treadle_lab.papers.slearn.schemes import Scheme
    from treadle_lab.papers.slearn.trace import Choices, Source, Unseen
    from treadle_lab.sls.play import Player

app = typer.Typer()

SEEDS = 3
OURS = "slearn"
TABLES = (
    "slearn-times",
    "slearn-errors",
    "slearn-bins",
    "slearn-waiting",
    "slearn-variation",
    "slearn-settings",
)


def _choices(
    cut: Annotated[float, typer.Option(min=0.05, max=0.95, help="Where in the trace history ends.")] = 0.5,
    seen_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Of a job's tasks that must have been seen to finish.")
    ] = 0.0,
    only_seen: Annotated[
        bool,
        typer.Option("--only-seen", help="Leave tasks out that were not seen to finish; else they end with their job."),
    ] = False,
    train_once: Annotated[
        bool, typer.Option("--train-once", help="History learns from the first part of the trace alone.")
    ] = False,
    load: Annotated[
        str, typer.Option(help="Mean load of the windows; several, each compared by itself.")
    ] = f"{LOAD:g}",
    dags: Annotated[
        bool, typer.Option("--dags", help="SLearn-DAG: jobs are chains of two to five stages, each a job of the trace.")
    ] = False,
    shuffled: Annotated[
        bool, typer.Option("--shuffled", help="Any jobs of a name make a DAG, not those submitted one after another.")
    ] = False,
) -> dict[float, Choices]:
    """Return how the workload is built, by its load."""
    from treadle_lab.papers.slearn.trace import Choices  # only here: it imports numba

    loads = levels_of("--load", load, partial(number_of, least=0.1, most=5.0))
    unseen: Unseen = "left_out" if only_seen else "job_end"
    return {each: Choices(cut, seen_share, unseen, train_once, dags, shuffled, each) for each in loads}


@app.command()
@with_options(choices=_choices)
def slearn(
    *,
    trace: Annotated[
        Path | None,
        typer.Option(help="The folder of the extract of Google's trace of 2011; default: the checkout's data folder."),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One seed, no other thin limits and ratios; with --on sls 200 jobs.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many draws of jobs.")] = SEEDS,
    first_seed: Annotated[int, typer.Option(min=0, help="The first draw's seed; the next ones follow.")] = 1,
    jobs: Annotated[
        int | None,
        typer.Option(min=2, max=100_000, help=f"Of a draw; default: {JOBS}, with --dags {DAGS}."),
    ] = None,
    nodes: Annotated[
        int, typer.Option(min=1, max=100_000, help="Of the cluster, each runs one task at a time.")
    ] = NODES,
    choices: Mapping[float, Choices],
    model: Annotated[
        bool, typer.Option("--model", help="A plain model of the paper's scheduler in place of the engine: far faster.")
    ] = False,
    scheme: Annotated[
        list[str] | None, typer.Option(help="This scheme and slearn alone; may be given several times.")
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    on: Annotated[
        SimulatorKind, typer.Option("--on", help="Treadle's simulator, or Hadoop's with a real ResourceManager.")
    ] = SimulatorKind.SIMULATOR,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    place: Annotated[
        Path | None, typer.Option("--folder", help="Logs of --on sls; default: build/reproduce-slearn-sls.")
    ] = None,
) -> None:
    """SLearn on Google's jobs of 2011: against 3Sigma and Point-Est, by the paper's letter too, LAS, FIFO, Oracle."""
    from treadle_lab.harness.data import GOOGLE, given_or_found
    from treadle_lab.harness.runs import Asked
    from treadle_lab.papers.slearn.experiment import Draws  # only here: it imports numba
    from treadle_lab.papers.slearn.figures import report_of

    check_results(json_file, plot)
    seeds = 1 if quick else seeds
    console = console_for_tables()
    wanted, first = range(first_seed, first_seed + seeds), next(iter(choices.values()))
    if on is SimulatorKind.SLS:
        if first.dags or first.shuffled or model or plot is not None or processes:
            raise UserError(
                "--on sls plays jobs of one stage, one run after the other, without plots: "
                "leave out --dags, --shuffled, --model, --plot and --processes"
            )
        if len(choices) > 1:
            raise UserError("--on sls plays one --load at a time")
        source = _source_on_sls(given_or_found(trace, GOOGLE, partial(say, console)), jobs, nodes, first, quick)
        _on_sls(source, wanted, nodes, scheme, Places(place, cache, json_file))
        return
    if place is not None:
        raise UserError("--folder is for --on sls, whose logs go there; leave it out")
    schemes = _schemes(scheme, dags=first.dags, model=model, quick=quick)
    folder = given_or_found(trace, GOOGLE, partial(say, console))
    jobs = jobs or (DAGS if first.dags else JOBS)
    draws = {load: Draws(folder, jobs, nodes, own) for load, own in choices.items()}
    # a draw takes longer than the model: one process makes it once
    found = _simulated(draws, wanted, schemes, model, Asked(cache, processes or int(model)), console)
    reports = {each: report_of(outcomes, OF_DAGS if first.dags else OF_JOBS) for each, outcomes in found.items()}
    _show(reports, found, json_file, plot, console)


def _source_on_sls(folder: Path, jobs: int | None, nodes: int, choices: Choices, quick: bool) -> Source:
    from treadle_lab.papers.slearn.sls import QUICK_JOBS
    from treadle_lab.papers.slearn.trace import Source

    return Source(folder, jobs or (QUICK_JOBS if quick else JOBS), nodes, choices)


def _schemes(wanted: list[str] | None, *, dags: bool, model: bool, quick: bool) -> tuple[Scheme, ...]:
    """Return what is compared: the paper's schemes, its other settings, and the policies that come with Treadle.

    What makes those up is compared if it is wanted.
    """
    from treadle_lab.papers.slearn.experiment import variants
    from treadle_lab.papers.slearn.schemes import DAG_SCHEMES, SCHEMES, shipped, shipped_apart

    schemes = DAG_SCHEMES if dags else SCHEMES if quick else (*SCHEMES, *variants().values())
    if not dags and not model:
        schemes = (*schemes, *shipped(), *(shipped_apart() if wanted else ()))
    return _chosen(schemes, wanted)


def _chosen(schemes: Sequence[Scheme], wanted: list[str] | None) -> tuple[Scheme, ...]:
    names = _names([each.name for each in schemes], wanted)
    return tuple(each for each in schemes if each.name in names)


def _names(known: Sequence[str], wanted: list[str] | None) -> list[str]:
    """Return the schemes that are wanted, and SLearn, which all others are compared with."""
    for name in wanted or ():
        if name not in known:
            raise UserError(f"--scheme {name}: there is none here; give one of {', '.join(known)}")
    return [name for name in known if not wanted or name in (OURS, *wanted)]


def _simulated(
    draws: Mapping[float, Draws],
    seeds: range,
    schemes: Sequence[Scheme],
    model: bool,
    asked: Asked,
    console: Console,
) -> dict[float, list[Outcome]]:
    """Run the draws of each load."""
    from treadle_lab.papers.slearn.experiment import run_draws

    found, compiled = {}, [] if model else [schemes[0].settings(0)]
    for load, own in draws.items():
        doing = f"load {load:g}" if len(draws) > 1 else "reading the trace, simulating"
        with simulating(console, asked.cache, compiled, doing) as progress:
            found[load] = run_draws(own, seeds, schemes, model=model, asked=asked, progress=progress)
    return found


def _show(
    reports: dict[float, Report],
    found: dict[float, list[Outcome]],
    json_file: Path | None,
    plot: Path | None,
    console: Console,
) -> None:
    from treadle_lab.papers.slearn.figures import sweep_json

    several = len(reports) > 1
    for load, report in reports.items():
        if several:
            console.rule(f"mean load {load:g}")
        _print(report, console)
        if plot is not None:
            _plot(found[load], report, plot / f"load-{load:g}" if several else plot, console)
    if json_file is not None:
        write_json(json_file, sweep_json(reports) if several else next(iter(reports.values())).as_json())


def _on_sls(source: Source, seeds: range, nodes: int, schemes: list[str] | None, places: Places) -> None:
    """Play draws on the testbed."""
    from treadle_lab.papers.slearn.sls import NAMES, Draw, document, run_draw

    wanted = _names(NAMES, schemes)

    def play(turn: int, seed: int, player: Player) -> Draw:
        player.say(f"seed {seed}: reading the trace")
        return run_draw(source.draw(seed), nodes, wanted, turn, player)

    console = console_for_tables(140)
    play_draws("slearn", seeds, places, play, lambda draws: document(draws, nodes), ("slearn-testbed",), console)


def _print(report: Report, console: Console) -> None:
    from treadle_lab.docs.tables import show_tables

    seeds = ", ".join(str(seed) for seed in report.seeds)
    console.print(
        f"{report.jobs} jobs a draw, {report.wide_jobs} of them wide; seeds {seeds}; 95 % intervals over seeds; "
        f"{report.wall_s:.0f} s of simulation; SLearn's mean completion time is {report.mean_s[OURS].mean:,.0f} s",
        highlight=False,
    )
    show_tables(report.as_json(), TABLES, console)
    if report.gap_percent is not None and report.gap_closed is not None:
        gap = f"Oracle's mean is {report.gap_percent} % shorter than SLearn's"
        is_gap = report.gap_percent.mean > 0
        closed = f"ours closes {report.gap_closed} of that" if is_gap else "there is no gap to close"
        console.print(f"{gap}; {closed}", highlight=False)
    console.print(
        f"thin jobs of over 1,000 s of task time: {report.thin_large_jobs} % of jobs, "
        f"{report.thin_large_work} % of all task time",
        highlight=False,
    )


def _plot(outcomes: list[Outcome], report: Report, folder: Path, console: Console) -> None:
    from treadle_lab.papers.slearn.figures import plot_slearn

    with writing("--plot", folder, "folder"):
        for file in plot_slearn(outcomes, report, folder):
            console.print(f"wrote {file}", highlight=False)
