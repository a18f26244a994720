"""`treadle lab bench simulator`: measure how many tasks a second the simulator completes."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import OutputPaths, steps
from treadle.cli._options import KeepGoingOption, Output, OutputOption, ResultsOption
from treadle_lab.cli._experiments import chosen
from treadle_lab.cli.lab.bench.engine import end

app = typer.Typer()


@app.command()
def simulator_command(
    policy: Annotated[list[Path] | None, typer.Option(help="A treadle.yaml; the default policy if not given.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="containers, reuse or jobs; all if not given.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(help="Nodes of 40 slots; 20, 200 and 2,000 if not given.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only 20 and 200 nodes.")] = False,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    keep_going: KeepGoingOption = False,
) -> None:
    """Measure how many tasks a second the simulator completes, on clusters of growing size, and where its time goes."""
    from treadle.config.settings import default_settings
    from treadle.policy.catalogue import register_parts
    from treadle_lab.bench import simulator as simulator_run
    from treadle_lab.bench.engine import load_policies
    from treadle_lab.rows import show
    from treadle_lab.sls.run import BenchError

    if min(nodes or [1]) <= 0:
        raise BenchError("--nodes must be above 0")
    places = OutputPaths(output=output, out=out).check()
    register_parts()
    policies = load_policies(policy) if policy else {"default": default_settings()}
    sizes = nodes or (simulator_run.QUICK if quick else simulator_run.NODES)
    with steps() as step:
        loads = chosen(load, simulator_run.LOADS, option="--load")
        results = simulator_run.run_grid(policies, loads, sizes, step, keep_going=keep_going)
    document = {"slots_per_node": simulator_run.SLOTS, "tasks_s": 10, "runs": results}
    places.publish(document, partial(show, simulator_run.figures_table(results)))
    end(results)
