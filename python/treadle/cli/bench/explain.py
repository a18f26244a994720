"""`treadle bench explain`: how long `treadle explain` takes on a large cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say, steps
from treadle.cli._results import check_results, write_json

app = typer.Typer()


@app.command()
def explain_command(
    policy: Annotated[
        list[Path] | None, typer.Option(help="A treadle.yaml, again for each; the default policy if not given.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Nodes.", min=1)] = 5_000,
    asks: Annotated[int, typer.Option(help="Request rows.", min=1)] = 10_000,
    questions: Annotated[int, typer.Option(help="Applications that are asked about.", min=1)] = 200,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """How long it takes to say why an application waits, and how long a decision waits for the copy of the model."""
    from rich.table import Table

    from treadle.config.settings import default_settings
    from treadle.lab.bench import engine_run, explain_run
    from treadle.policy.catalogue import register_parts

    check_results(json_file, None)
    register_parts()
    policies = engine_run.load_policies(policy) if policy else {"default": default_settings()}
    console = Console(stderr=True)
    with steps(console) as shown:
        results = [
            explain_run.measure(name, settings, nodes, asks, questions, shown) for name, settings in policies.items()
        ]
    table = Table(
        "policy",
        "nodes",
        "asks",
        "copy p50, ms",
        "max",
        "explain p50, ms",
        "p99",
        "max",
        "CPU p50",
        "max",
        "what decided",
    )
    for each in results:
        copied = (each.copy_p50_ms, each.copy_max_ms)
        times = (
            *copied,
            each.explain_p50_ms,
            each.explain_p99_ms,
            each.explain_max_ms,
            each.cpu_p50_ms,
            each.cpu_max_ms,
        )
        why = ", ".join(f"{cause} {count}" for cause, count in each.verdicts.items())
        table.add_row(each.policy, str(each.nodes), str(each.asks), *(f"{value:.1f}" for value in times), why)
    console_for_tables(160).print(table, markup=False)
    if json_file is not None:
        write_json(json_file, [each.plain() for each in results])
        say(console, f"Results: {json_file}")
