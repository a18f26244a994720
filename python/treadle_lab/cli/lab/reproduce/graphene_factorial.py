"""`treadle lab reproduce graphene-factorial`: measure what settings of Graphene and traits of its jobs are worth."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import OutputPaths, note
from treadle.cli._options import Output, OutputOption, ProcessesOption, ResultsOption
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    CacheOption,
    SeedOption,
    levels_of,
    note_seeds,
    number_of,
    one_of,
    publish,
    seeds_option,
    simulating,
    whole_of,
)

if TYPE_CHECKING:
    from treadle_lab.papers.graphene.factorial import Size

app = typer.Typer()

SEEDS = 3
COUNTED = "counted"
CANDIDATES_MAX = 1024
"""As `TetrisParameters.candidates`."""


@app.command()
def graphene_factorial(
    *,
    workload: Annotated[
        str, typer.Option(help="generated, tpch, production (four resources, edges mostly one to one); several.")
    ] = "generated",
    size: Annotated[str, typer.Option(help="JOBSxMACHINES; several.")] = "16x4,64x16",
    load: Annotated[str, typer.Option(help="Offered load, as a fraction of the cluster; several.")] = "0.6",
    tick_ms: Annotated[str, typer.Option(help="How often the engine decides; several.")] = "100,500",
    wrong: Annotated[str, typer.Option(help="Durations believed are off by up to this factor; several.")] = "1",
    candidates: Annotated[str, typer.Option(help="How many requests compete, or all; several.")] = "16,256,all",
    srpt_weight: Annotated[str, typer.Option(help="The weight of the work left in perfScore; several.")] = "0,0.2,1",
    overbook: Annotated[
        str, typer.Option(help="How many times network and disk may be given out, or counted: as they are; several.")
    ] = "counted,1.5",
    usage: Annotated[
        str,
        typer.Option(help="What part of the network and disk that they ask for tasks use: LEAST..GREATEST; several."),
    ] = "0.5..0.7",
    scheme: Annotated[
        str, typer.Option(help="Schemes of `treadle lab reproduce graphene`; several. bfs always runs.")
    ] = "bfs-cores,tetris,tetris-all,graphene",
    part: Annotated[
        str, typer.Option(help="online (Poisson arrivals), batch (all at once: throughput); several.")
    ] = "online,batch",
    seeds: Annotated[int | None, seeds_option("3")] = None,
    seed: SeedOption = 1,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
) -> None:
    """Run Graphene with every combination of tick, weight of work left, candidates, size, load and overbooking."""
    from treadle.planner.graphene import warm_up as warm_up_planner
    from treadle_lab.harness.data import TPCH, given_or_default
    from treadle_lab.harness.runs import RunSettings
    from treadle_lab.papers.graphene import factorial  # only here: it imports numba
    from treadle_lab.papers.graphene.jobs import GRAPHENE

    places = OutputPaths(output=output, out=out)
    places.check()
    levels = factorial.Levels(
        workloads=levels_of("--workload", workload, partial(one_of, factorial.WORKLOADS)),
        sizes=levels_of("--size", size, _size),
        loads=levels_of("--load", load, partial(number_of, least=0.01, most=100.0)),
        ticks_ms=levels_of("--tick-ms", tick_ms, partial(whole_of, least=1, most=60_000)),
        wrong=levels_of("--wrong", wrong, partial(number_of, least=1.0, most=1000.0)),
        usages=levels_of("--usage", usage, _usage),
        candidates=levels_of("--candidates", candidates, _candidates),
        srpt_weights=levels_of("--srpt-weight", srpt_weight, partial(number_of, least=0.0, most=1000.0)),
        overbook=levels_of("--overbook", overbook, _overbook),
    )
    parts = levels_of("--part", part, partial(one_of, ("online", "batch")))
    draws = range(seed, seed + (seeds or SEEDS))
    wanted = factorial.Selection(
        levels,
        schemes=levels_of("--scheme", scheme, partial(one_of, tuple(factorial.NAMED))),
        seeds=tuple(draws),
        online="online" in parts,
        batch="batch" in parts,
        tpch=given_or_default(None, TPCH, note) if "tpch" in levels.workloads else None,
    )
    with simulating(cache, [GRAPHENE.settings(0)]) as progress:
        warm_up_planner()
        rows = factorial.run_factorial(wanted, RunSettings(cache, processes), progress)
    publish(factorial.results_of(wanted, rows), places)
    note_seeds(draws)


def _size(option: str, text: str) -> Size:
    from treadle_lab.papers.graphene.factorial import Size

    jobs, _, machines = text.partition("x")
    return Size(whole_of(f"{option} (JOBSxMACHINES)", jobs, 2, 10_000), whole_of(option, machines, 1, 10_000))


def _overbook(option: str, text: str) -> float | None:
    return None if text == COUNTED else number_of(f"{option} (or {COUNTED})", text, 0.01, 1000.0)


def _candidates(option: str, text: str) -> int:
    return 0 if text == "all" else whole_of(f"{option} (or all)", text, 1, CANDIDATES_MAX)


def _usage(option: str, text: str) -> tuple[float, float]:
    least, dots, greatest = text.partition("..")
    if not dots:
        raise UserError(f"{option}: {text!r}; give the least and the greatest part, as 0.5..0.7")
    usage = number_of(option, least, 0.0, 1.0), number_of(option, greatest, 0.0, 1.0)
    if not 0.0 < usage[0] <= usage[1]:
        raise UserError(f"{option}: {text!r}; give two parts above 0, the lesser first")
    return usage
