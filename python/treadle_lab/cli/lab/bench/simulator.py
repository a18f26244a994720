"""`treadle lab bench simulator`: measure how many tasks a second the simulator completes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, steps
from treadle.cli._options import KeepGoingOption, ResultsOption, check_results, write_json
from treadle_lab.cli.lab.bench.engine import show_trouble

app = typer.Typer()


@app.command()
def simulator_command(
    policy: Annotated[list[Path] | None, typer.Option(help="A treadle.yaml; the default policy if not given.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="containers, reuse or jobs; all if not given.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(help="Nodes of 40 slots; 20, 200 and 2,000 if not given.")] = None,
    quick: Annotated[bool, typer.Option(help="Only 20 and 200 nodes.")] = False,
    out: ResultsOption = None,
    keep_going: KeepGoingOption = False,
) -> None:
    """Measure how many tasks a second the simulator completes, on clusters of growing size, and where its time goes."""
    from treadle.config.settings import default_settings
    from treadle.policy.catalogue import register_parts
    from treadle_lab.bench import engine as engine_run
    from treadle_lab.bench import simulator as simulator_run
    from treadle_lab.bench.simulator import figures_table
    from treadle_lab.rows import show
    from treadle_lab.sls.load import BenchError

    if min(nodes or [1]) <= 0:
        raise BenchError("--nodes must be above 0")
    check_results(out, None)
    register_parts()
    policies = engine_run.load_policies(policy) if policy else {"default": default_settings()}
    sizes = nodes or (simulator_run.QUICK if quick else simulator_run.NODES)
    with steps() as step:
        loads = load or list(simulator_run.LOADS)
        results = simulator_run.run_grid(policies, loads, sizes, step, keep_going=keep_going)
    console = Console(stderr=True)
    show(figures_table(results), console_for_tables(160))
    show_trouble(results, console)
    if out is not None:
        write_json(out, simulator_run.report(results))
        console.print(f"Results: {out}")
    if any(isinstance(result, engine_run.Failed) for result in results):
        raise typer.Exit(1)
