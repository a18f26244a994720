"""`treadle reproduce graphene`: Graphene's evaluation in the simulator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import check_results, write_json, writing
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    Places,
    ProcessesOption,
    SimulatorKind,
    candidates_of,
    part_range,
    play_draws,
    simulating,
    with_options,
)
from treadle_lab.papers.graphene import paper
from treadle_lab.papers.graphene.paper import Part

if TYPE_CHECKING:
    from treadle_lab.harness.runs import Asked
    from treadle_lab.papers.graphene.experiment import Outcome, Sizes
    from treadle_lab.papers.graphene.figures import Report
    from treadle_lab.papers.graphene.jobs import Variation
    from treadle_lab.papers.graphene.simulations import Offline
    from treadle_lab.papers.graphene.sls import Size
    from treadle_lab.rows import Table

app = typer.Typer()

SEEDS = 5
"""Without --quick, if none are asked for."""
DAGS = 40
QUICK_DAGS = 6
TICK_MS = 100
USAGE = "1..1"


def _variation(
    srpt_weight: Annotated[
        float | None,
        typer.Option(min=0, max=1000, help="The weight of work left for Tetris and Graphene; else theirs."),
    ] = None,
    hold_nodes: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Nodes held for large asks at the same time; else 4.")
    ] = None,
    candidates: Annotated[
        str | None, typer.Option(help="How many requests compete under Tetris and Graphene, or all; else 16.")
    ] = None,
    overbook: Annotated[
        float | None,
        typer.Option(
            min=0.01, max=1000, help="How many times Tetris and Graphene give out network; else it is counted."
        ),
    ] = None,
) -> Variation:
    """Return what is set otherwise than the paper's schemes have it."""
    from treadle_lab.papers.graphene.jobs import Variation  # only here: it imports numba

    compete = None if candidates is None else candidates_of("--candidates", candidates)
    return Variation(srpt_weight, hold_nodes, compete, overbook)


@app.command()
@with_options(variation=_variation)
def graphene(
    *,
    tpch: Annotated[
        Path | None,
        typer.Option(help="The folder of TPC-H's measured DAGs (edges.csv, profiles.csv); default: the checkout's."),
    ] = None,
    generated: Annotated[bool, typer.Option("--generated", help="Generated DAGs alone, none of TPC-H's.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer jobs, no range of parameters online.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, max=1000, help="How many draws; 5, or 1 with --quick and on sls.")
    ] = None,
    first_seed: Annotated[int, typer.Option(min=0, max=2**20, help="The first draw's; the next ones follow.")] = 1,
    jobs: Annotated[
        int | None, typer.Option(min=2, max=10_000, help="Of a draw; 40, or 12 with --quick; on sls 48, at most 500.")
    ] = None,
    load: Annotated[
        float | None,
        typer.Option(min=0.01, max=100, help="Work that arrives over what the cluster can do; 0.6, on sls 0.8."),
    ] = None,
    tick_ms: Annotated[
        int, typer.Option(min=1, max=60_000, help="How often the engine decides; a longer one is faster to simulate.")
    ] = TICK_MS,
    part: Annotated[
        list[Part] | None, typer.Option(help="Run this part alone; may be given several times (docs/graphene.md).")
    ] = None,
    scheme: Annotated[
        list[str] | None,
        typer.Option(help="Of the schemes of online, batch, range and on sls, this one and bfs; several times."),
    ] = None,
    variation: Variation,
    usage: Annotated[
        str, typer.Option(help="What part of the network that they ask for tasks use, by stage: LEAST..GREATEST.")
    ] = USAGE,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", "--keep", help="A folder in which results are kept; those there do not run again."),
    ] = None,
    processes: ProcessesOption = 0,
    on: Annotated[
        SimulatorKind, typer.Option("--on", help="Treadle's simulator, or Hadoop's with a real ResourceManager.")
    ] = SimulatorKind.SIMULATOR,
    nodes: Annotated[int | None, typer.Option(min=1, max=1000, help="Of the cluster of --on sls; 16.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    place: Annotated[
        Path | None, typer.Option("--folder", help="Logs of --on sls; default: build/reproduce-graphene-sls.")
    ] = None,
) -> None:
    """Graphene against breadth first, critical path and Tetris: single DAGs, Poisson arrivals, batches, queues."""
    from treadle_lab.harness.runs import Asked
    from treadle_lab.papers.graphene.experiment import Sizes  # only here: it imports numba
    from treadle_lab.papers.graphene.figures import report_of

    console = console_for_tables()
    check_results(json_file, plot)
    count = seeds or (1 if quick or on is SimulatorKind.SLS else SEEDS)
    if on is SimulatorKind.SLS:
        others = (tpch, part, *astuple(variation), plot)
        if any(each is not None for each in others) or processes or tick_ms != TICK_MS or usage != USAGE:
            raise UserError(
                "--on sls plays generated DAGs under five schemes, one run after the other, without plots: "
                "leave out what is for simulations; it takes --quick, --seeds, --first-seed, --jobs, --load, --nodes, "
                "--scheme, --cache, --json and --folder"
            )
        draws = range(first_seed, first_seed + count)
        places = Places(place, cache, json_file)
        _on_sls(_size_on_sls(jobs, nodes, load, quick), draws, scheme, places, console)
        return
    if place is not None or nodes is not None:
        raise UserError("--folder and --nodes are for --on sls; leave them out")
    load = 0.6 if load is None else load
    folder = _tpch(tpch, generated, console)
    parts = frozenset(part or (set(Part) - {Part.RANGE} if quick else Part))
    jobs = jobs or (12 if quick else 40)
    alone, sweep_jobs = 5 if quick else 20, max(2, jobs // 2)
    used = part_range("--usage", usage)
    sizes = Sizes(jobs, load, tick_ms, alone, sweep_jobs, parts, _schemes(scheme), variation, used)
    draws = range(first_seed, first_seed + count)
    outcomes, offline, swept = _run(folder, sizes, draws, quick, Asked(cache, processes), console)
    report = report_of(outcomes, offline, swept)
    _print(report, console)
    if json_file is not None:
        write_json(json_file, report.as_json())
    if plot is not None:
        from treadle_lab.papers.graphene.figures import plot_graphene

        with writing("--plot", plot, "folder"):
            for file in plot_graphene(outcomes, offline, report, plot):
                console.print(f"wrote {file}", highlight=False)


def _size_on_sls(jobs: int | None, nodes: int | None, load: float | None, quick: bool) -> Size:
    from treadle_lab.papers.graphene.sls import JOBS_MAX, QUICK, Size

    if jobs is not None and jobs > JOBS_MAX:
        raise UserError(f"--jobs: {jobs}; with --on sls at most {JOBS_MAX}")
    usual = QUICK if quick else Size()
    return Size(jobs or usual.jobs, nodes or usual.nodes, load or usual.load)


def _on_sls(size: Size, seeds: range, wanted: list[str] | None, places: Places, console: Console) -> None:
    """Play draws on the testbed."""
    from treadle_lab.papers.graphene.sls import SCHEMES, STOCK, document, run_draw

    names = _known(wanted, [scheme.name for scheme in SCHEMES]) | {STOCK}
    play_draws(
        "graphene",
        seeds,
        places,
        lambda turn, seed, player: run_draw(seed, size, names, turn, player),
        lambda draws: document(draws, size),
        ("graphene-testbed",),
        console,
    )


def _tpch(given: Path | None, generated: bool, console: Console) -> Path | None:
    """Return the folder of measured DAGs; None: generated ones alone, because the user wants it so or there is none."""
    from treadle_lab.harness.data import TPCH, found, given_or_found

    if generated:
        if given is not None:
            raise UserError("--generated: leaves TPC-H's DAGs out, but --tpch names them; give one of the two")
        return None
    if given is None and found(TPCH) is None:
        text = "data: generated DAGs alone; this installation does not have TPC-H's, which --tpch can name"
        say(console, text, "yellow")
        return None
    return given_or_found(given, TPCH, partial(say, console))


def _schemes(wanted: list[str] | None) -> frozenset[str]:
    from treadle_lab.papers.graphene.jobs import SCHEMES

    return _known(wanted, sorted(scheme.name for scheme in SCHEMES))


def _known(wanted: list[str] | None, names: Sequence[str]) -> frozenset[str]:
    for name in wanted or ():
        if name not in names:
            raise UserError(f"--scheme: {name} is none; give one of {', '.join(names)}")
    return frozenset(wanted or names)


def _run(
    tpch: Path | None, sizes: Sizes, seeds: range, quick: bool, asked: Asked, console: Console
) -> tuple[list[Outcome], Offline | None, dict[tuple[float, float], Offline]]:
    """Run the online parts of each seed, then the offline one."""
    from treadle.planner.graphene import warm_up as warm_up_planner
    from treadle_lab.papers.graphene.experiment import run_seeds
    from treadle_lab.papers.graphene.jobs import GRAPHENE
    from treadle_lab.papers.graphene.simulations import compare_offline, sweep_offline

    with simulating(console, asked.cache, [GRAPHENE.settings(0)]) as progress:
        warm_up_planner()
        outcomes = run_seeds(tpch, sizes, seeds, asked, progress)
        if Part.OFFLINE not in sizes.parts:
            return outcomes, None, {}
        first = seeds[0]
        dags = range(first, first + (QUICK_DAGS if quick else DAGS))
        offline = compare_offline(dags, schedules=100 if quick else 400, progress=progress)
        swept = sweep_offline(range(first, first + (1 if quick else 5)), 50 if quick else 200, progress)
    return outcomes, offline, swept


def _print(report: Report, console: Console) -> None:
    from treadle_lab.docs.tables import show_tables
    from treadle_lab.rows import show

    seeds = ", ".join(str(seed) for seed in report.seeds)
    console.print(f"seeds {seeds}; 95 % intervals over seeds; {report.wall_s:.0f} s of simulation", highlight=False)
    console.print(
        f"Paper, Graphene against breadth first: median {paper.MEDIAN_SHORTER_PERCENT:g} % shorter, median gap of jobs "
        f"{paper.HALF_SHORTER_PERCENT:g} %, throughput {paper.THROUGHPUT_HIGHER_PERCENT:g} % higher; its "
        f"figures of {'; '.join(paper.LOST)} are not known: the text at hand has lost their digits.",
        highlight=False,
    )
    show_tables(report.as_json(), ("graphene-online", "graphene-batch"), console)
    for table in _single_tables(report):
        show(table, console)


def _single_tables(report: Report) -> Iterator[Table]:
    """Yield the tables of queues, of wrong estimates, and of DAGs one by one, as far as these were run."""
    from treadle_lab.rows import Table

    if report.jain:
        title = "Two queues: median longer than with one (%), Jain's index by window"
        windows = (f"{seconds} s" for seconds in next(iter(report.jain.values())))
        rows = [
            (scheme, *map(str, (report.two_queues_longer[scheme], *indices.values())))
            for scheme, indices in report.jain.items()
        ]
        yield Table(title, ("scheme", "longer (%)", *windows), rows)
    if report.wrong_shorter:
        rows = [(name, str(figure)) for name, figure in report.wrong_shorter.items()]
        yield Table("Durations off by up to a factor", ("", "median shorter than breadth first (%)"), rows)
    for title, found in (
        ("One DAG alone, makespan over that without a plan", report.alone),
        ("Offline: executed makespan over the lower bound", report.offline_over_bound),
        ("Offline: shorter than breadth first (%)", report.offline_shorter),
    ):
        if found:
            rows = [(name, *(f"{value:.3g}" for value in spread.values())) for name, spread in found.items()]
            yield Table(title, ("", *next(iter(found.values()))), rows)
    if report.offline_sweep or report.sweep_shorter:
        yield _gains(report)


def _gains(report: Report) -> Table:
    from treadle_lab.rows import Table

    online, rows = report.sweep_shorter, []
    for point in dict.fromkeys((*report.offline_sweep, *online.get("bfs", {}))):
        alone = report.offline_sweep.get(point)
        medians = (str(table[point]["graphene"]) if point in table else "" for table in online.values())
        rows.append((point, "" if alone is None else f"{alone:.3g}", *medians))
    heading = ("stages", "one DAG, offline", *(f"jobs, median, {base}" for base in online))
    return Table("Over the generator's range: shorter than breadth first (%)", heading, rows)
