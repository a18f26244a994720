"""`treadle reproduce graphene-factorial`: what each setting of Graphene and each trait of its jobs is worth."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import check_results, write_json
from treadle.errors import UserError
from treadle_lab.cli._experiments import (
    CacheOption,
    ProcessesOption,
    candidates_of,
    levels_of,
    number_of,
    part_range,
    simulating,
    whole_of,
    with_options,
)

if TYPE_CHECKING:
    from treadle_lab.papers.graphene.factorial import Levels, Size

app = typer.Typer()

SCHEMES = "bfs-cores,tetris,tetris-all,graphene"
COUNTED = "counted"


def _levels(
    workload: Annotated[
        str, typer.Option(help="generated, tpch, production (four resources, edges mostly one to one); several.")
    ] = "generated",
    size: Annotated[str, typer.Option(help="JOBSxMACHINES; several.")] = "16x4,64x16",
    load: Annotated[str, typer.Option(help="Work that arrives over what the cluster can do; several.")] = "0.6",
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
) -> Levels:
    """Return what is combined: every level of one setting with every level of the others."""
    from treadle_lab.papers.graphene.factorial import Levels  # only here: it imports numba

    return Levels(
        workloads=levels_of("--workload", workload, _workload),
        sizes=levels_of("--size", size, _size),
        loads=levels_of("--load", load, partial(number_of, least=0.01, most=100.0)),
        ticks_ms=levels_of("--tick-ms", tick_ms, partial(whole_of, least=1, most=60_000)),
        wrong=levels_of("--wrong", wrong, partial(number_of, least=1.0, most=1000.0)),
        usages=levels_of("--usage", usage, part_range),
        candidates=levels_of("--candidates", candidates, candidates_of),
        srpt_weights=levels_of("--srpt-weight", srpt_weight, partial(number_of, least=0.0, most=1000.0)),
        overbook=levels_of("--overbook", overbook, _overbook),
    )


@app.command()
@with_options(levels=_levels)
def graphene_factorial(
    *,
    levels: Levels,
    scheme: Annotated[
        str, typer.Option(help="Of those of treadle reproduce graphene; several. bfs always runs.")
    ] = SCHEMES,
    hold_nodes: Annotated[
        int | None, typer.Option(min=0, max=1000, help="Nodes held for large asks at the same time; else 4.")
    ] = None,
    part: Annotated[
        str, typer.Option(help="online (Poisson arrivals), batch (all at once: throughput); several.")
    ] = "online,batch",
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="How many draws.")] = 3,
    first_seed: Annotated[int, typer.Option(min=0, max=2**20, help="The first draw's; the next ones follow.")] = 1,
    tpch: Annotated[
        Path | None, typer.Option(help="The folder of TPC-H's measured DAGs; default: the checkout's.")
    ] = None,
    cache: CacheOption = None,
    processes: ProcessesOption = 0,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the figures.")] = None,
) -> None:
    """Graphene by tick, weight of work left, candidates, size, load, overbooking: every combination, run by run."""
    from treadle.planner.graphene import warm_up as warm_up_planner
    from treadle_lab.docs.tables import show_tables
    from treadle_lab.harness.data import TPCH, given_or_found
    from treadle_lab.harness.runs import Asked
    from treadle_lab.papers.graphene.factorial import (  # only here: it imports numba
        Wanted,
        as_json,
        rows_of,
        run_factorial,
    )
    from treadle_lab.papers.graphene.jobs import GRAPHENE

    console = console_for_tables(160)
    check_results(json_file, None)
    parts = levels_of("--part", part, _part)
    wanted = Wanted(
        levels,
        schemes=levels_of("--scheme", scheme, _scheme),
        seeds=tuple(range(first_seed, first_seed + seeds)),
        online="online" in parts,
        batch="batch" in parts,
        tpch=given_or_found(tpch, TPCH, partial(say, console)) if "tpch" in levels.workloads else None,
        hold_nodes=hold_nodes,
    )
    with simulating(console, cache, [GRAPHENE.settings(0)]) as progress:
        warm_up_planner()
        rows = rows_of(run_factorial(wanted, Asked(cache, processes), progress))
    figures = as_json(wanted, rows)
    show_tables(figures, ("graphene-rows", "graphene-effects"), console)
    console.print(f"seeds {first_seed} to {first_seed + seeds - 1}; 95 % intervals over seeds", highlight=False)
    if json_file is not None:
        write_json(json_file, figures)


def _workload(option: str, text: str) -> str:
    from treadle_lab.papers.graphene.factorial import WORKLOADS

    if text not in WORKLOADS:
        raise UserError(f"{option}: {text} is none; give some of {', '.join(WORKLOADS)}")
    return text


def _size(option: str, text: str) -> Size:
    from treadle_lab.papers.graphene.factorial import Size

    jobs, _, machines = text.partition("x")
    return Size(whole_of(f"{option} (JOBSxMACHINES)", jobs, 2, 10_000), whole_of(option, machines, 1, 10_000))


def _overbook(option: str, text: str) -> float | None:
    return None if text == COUNTED else number_of(f"{option} (or {COUNTED})", text, 0.01, 1000.0)


def _part(option: str, text: str) -> str:
    if text not in ("online", "batch"):
        raise UserError(f"{option}: {text} is none; give online, batch, or both")
    return text


def _scheme(option: str, text: str) -> str:
    from treadle_lab.papers.graphene.factorial import NAMED

    if text not in NAMED:
        raise UserError(f"{option}: {text} is none; give some of {', '.join(NAMED)}")
    return text
