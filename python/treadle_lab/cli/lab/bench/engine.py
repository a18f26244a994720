"""`treadle lab bench engine`: measure how many containers a second the engine places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.cli._console import OutputPaths, note, steps
from treadle.cli._options import KeepGoingOption, Output, OutputOption, ResultsOption

app = typer.Typer()


@app.command()
def engine_command(
    policy: Annotated[
        list[Path] | None, typer.Option(help="A treadle.yaml to measure; without any all of --policies.")
    ] = None,
    policies: Annotated[Path | None, typer.Option(help="A folder of policies; without it the ready-made ones.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(help="Nodes; 100, 1,000, 5,000 and 20,000 if not given.")] = None,
    rows: Annotated[list[int] | None, typer.Option(help="Request rows; 100, 1,000 and 10,000 if not given.")] = None,
    leaves: Annotated[list[int] | None, typer.Option(help="Leaf queues; 1 and 1,000 if not given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only five configurations.")] = False,
    batch: Annotated[int, typer.Option(help="Placements a decide, and container ends before it.")] = 1000,
    seconds: Annotated[float, typer.Option(help="How long one configuration is measured, at least.")] = 1.0,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    keep_going: KeepGoingOption = False,
) -> None:
    """Measure how many containers a second the engine places, by policy and size of the cluster."""
    from treadle.shipped import ready_made
    from treadle_lab.bench import engine as engine_run
    from treadle_lab.rows import show
    from treadle_lab.sls.run import BenchError

    if min(batch, seconds, *(nodes or [1]), *(rows or [1]), *(leaves or [1])) <= 0:
        raise BenchError("--batch, --seconds, --nodes, --rows and --leaves must be above 0")
    places = OutputPaths(output=output, out=out).check()
    ready = ready_made().values() if policies is None else sorted(policies.glob("*.yaml"))
    found = engine_run.load_policies(policy or ready)
    grid = engine_run.grid_of(nodes, rows, leaves, quick=quick)
    with steps() as step:
        results = engine_run.run_grid(found, grid, batch, seconds, step, keep_going=keep_going)
    document = {"benchmark": "engine", "results": results}
    places.publish(document, partial(show, engine_run.figures_table(results)))
    end(results)


def end(results: Sequence[dict[str, Any]]) -> None:
    """Note the failures and the engine's warnings; exit with code 1 if there are failures."""
    failed = [each for each in results if each["failure"] is not None]
    for each in failed:
        where = ", ".join(f"{name} {size}" for name, size in list(each.items())[2:])
        note(f"{each['policy']}, {where}, failed: {each['failure']}", "red")
    warnings = (f"{each['policy']}: warning: {text}" for each in results for text in each.get("warnings", ()))
    for text in dict.fromkeys(warnings):
        note(text, "yellow")
    if failed:
        raise typer.Exit(1)
