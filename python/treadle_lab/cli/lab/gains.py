"""`treadle lab gains`: compare policies with YARN's fair ordering."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import OutputPaths
from treadle.cli._options import Output, OutputOption, PlotOption, ProcessesOption, ResultsOption
from treadle_lab.cli._experiments import ExperimentPaths, LogsOption, OnOption, SimulatorKind, play_draws, refuse

if TYPE_CHECKING:
    from treadle_lab.gains.sls import Point, PointDraw
    from treadle_lab.sls.play import Player

app = typer.Typer()


@app.command()
def gains(
    quick: Annotated[
        bool, typer.Option("--quick", help="One load, five policies, three draws of four-hour windows: ten minutes.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, max=1000, help="Draws of each point, from seed 51 on.")] = 10,
    policy: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Say of a ready-made policy whether it is one to recommend, with numbers."),
    ] = None,
    cache: Annotated[Path, typer.Option(help="A folder for the results of cells; a run goes on from it.")] = Path(
        "build/gains"
    ),
    processes: ProcessesOption = 0,
    kept: Annotated[
        Path | None,
        typer.Option("--from", help="A file of --out instead of simulations: docs/results/kept/gains.json."),
    ] = None,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    page: Annotated[Path | None, typer.Option(help="A page, docs/gains.md, whose tables are written again.")] = None,
    plot: PlotOption = None,
    on: OnOption = SimulatorKind.SIMULATOR,
    place: LogsOption = None,
) -> None:
    """Compare policies with YARN's fair ordering on the workloads that clusters run.

    With --on sls fair-finish alone plays Google's jobs, on a real ResourceManager and in the simulator.
    """
    if on is SimulatorKind.SLS:
        simulated = {"quick": quick, "policy": policy, "processes": processes, "page": page, "plot": plot}
        refuse("is of simulations, not of --on sls", from_=kept, **simulated)
        _on_sls(seeds, ExperimentPaths(output=output, out=out, logs=place, cache=cache).check())
        return
    refuse("is of --on sls", folder=place)
    from treadle_lab.gains import cell  # only here: they import numba
    from treadle_lab.gains.page import compare
    from treadle_lab.harness.runs import RunSettings

    plan = cell.quick() if quick else cell.whole(seeds, policy)
    compare(plan, RunSettings(cache, processes), kept, policy, page, OutputPaths(output=output, out=out, plot=plot))


def _on_sls(draws: int, places: ExperimentPaths) -> None:
    """Play draws on the testbed."""
    from treadle_lab.gains.sls import POINTS, results_of, run_draw
    from treadle_lab.gains.workloads import FIRST_SEED

    wanted = [(point, turn) for turn in range(draws) for point in POINTS if turn % point.every == 0]

    def play(_: int, each: tuple[Point, int], player: Player) -> PointDraw:
        point, turn = each
        return run_draw(point, turn // point.every, FIRST_SEED + turn, player)

    play_draws("gains", wanted, places, play, results_of)
