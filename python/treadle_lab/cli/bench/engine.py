"""`treadle bench engine`: its options, and what it shows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import KeepGoingOption, check_results, write_json

if TYPE_CHECKING:
    from treadle.config.settings import Settings
    from treadle_lab.bench.engine import FirstAnswer

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
    quick: Annotated[
        bool, typer.Option(help="Only five configurations, the largest that of the goal; with --constrained that one.")
    ] = False,
    batch: Annotated[int, typer.Option(help="Placements a decide, and container ends before it.")] = 1000,
    seconds: Annotated[float, typer.Option(help="How long one configuration is measured, at least.")] = 1.0,
    memory: Annotated[
        bool, typer.Option(help="Measure memory too: of a process with 20,000 nodes and 100,000 rows.")
    ] = False,
    snapshot: Annotated[
        bool, typer.Option(help="Measure the first answer too: to a snapshot of 20,000 nodes and 100,000 rows.")
    ] = False,
    constrained: Annotated[
        bool,
        typer.Option(
            help="Compare with 30 % of the rows bound to 64 classes of nodes, in three configurations; shows nothing "
            "else."
        ),
    ] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    keep_going: KeepGoingOption = False,
) -> None:
    """How many containers a second the engine places, by policy and size of the cluster, and how that grows."""
    from treadle.shipped import ready_made
    from treadle_lab.bench import engine as engine_run
    from treadle_lab.bench.engine import LARGEST, figures_table, growth_table, measure_memory, write_plots
    from treadle_lab.bench.engine_load import Load
    from treadle_lab.sls.load import BenchError

    if min(batch, seconds, *(nodes or [1]), *(rows or [1]), *(leaves or [1])) <= 0:
        raise BenchError("--batch, --seconds, --nodes, --rows and --leaves must be above 0")
    check_results(json_file, plot)
    ready = ready_made().values() if policies is None else sorted(policies.glob("*.yaml"))
    found = engine_run.load_policies(policy or ready)
    grid = engine_run.grid_of(nodes, rows, leaves, quick=quick, constrained=constrained)
    console = Console(stderr=True)
    if constrained:
        _compare(found, grid, batch, seconds, json_file)
        return
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as shown:
        task = shown.add_task("starting", total=None)
        results = engine_run.run_grid(
            found, grid, batch, seconds, lambda text: shown.update(task, description=text), keep_going=keep_going
        )
        measured = engine_run.figures(results)
        failed = {result.policy: result for result in results if isinstance(result, engine_run.Failed)}
        sound = {name: settings for name, settings in found.items() if name not in failed}
        memory_mb: dict[str, float] = {}
        for name, settings in sound.items() if memory else ():
            shown.update(task, description=f"{name}: memory")
            memory_mb[name] = round(measure_memory(settings, Load(*LARGEST, batch)), 1)
        answers = _first_answers(sound if snapshot else {}, batch, partial(shown.update, task))
    tables = console_for_tables()
    tables.print(figures_table(results))
    tables.print(growth_table(measured))
    for result in failed.values():
        say(console, f"{result.policy} failed: {result.failure}", "red")
    for name, text in dict.fromkeys((result.policy, text) for result in measured for text in result.warnings):
        say(console, f"{name}: warning: {text}", "yellow")
    for name, megabytes in memory_mb.items():
        console.print(f"{name}: {megabytes:,.0f} MB resident with 20,000 nodes and 100,000 rows")
    for answer in answers:
        console.print(str(answer))
    if json_file is not None:
        more = {"first_answers": [answer.plain() for answer in answers]}
        write_json(json_file, engine_run.report(results, memory_mb) | more)
        console.print(f"Results: {json_file}")
    if plot is not None:
        console.print("Plots: " + ", ".join(map(str, write_plots(plot, measured))))
    if failed:
        raise typer.Exit(1)


def _first_answers(found: dict[str, Settings], batch: int, update: Callable[..., None]) -> list[FirstAnswer]:
    """Measure the first answer under each policy."""
    from treadle_lab.bench.engine import LARGEST, measure_first_answer
    from treadle_lab.bench.engine_load import Load

    answers = []
    for name, settings in found.items():
        update(description=f"{name}: first answers")
        answers.append(measure_first_answer(name, settings, Load(*LARGEST, batch)))
    return answers


def _compare(
    found: dict[str, Settings], grid: list[tuple[int, int, int]], batch: int, seconds: float, json_file: Path | None
) -> None:
    """Show how much constrained rows cost."""
    from dataclasses import asdict

    from treadle_lab.bench import engine as engine_run
    from treadle_lab.bench.engine import constrained_table

    console = Console(stderr=True)
    results = engine_run.compare_constrained(found, grid, batch, seconds, partial(say, console))
    console_for_tables().print(constrained_table(results))
    if json_file is not None:
        rows = [asdict(one) | {"ratio": round(one.ratio, 4)} for one in results]
        write_json(json_file, {"benchmark": "engine", "constrained": rows})
        console.print(f"Results: {json_file}")
