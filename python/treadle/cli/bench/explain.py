"""`treadle bench explain`: how long `treadle explain` takes on a large cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from treadle.cli._console import console_for_tables, say, steps
from treadle.cli._results import check_results, write_json

if TYPE_CHECKING:
    from treadle.lab.bench.explain_beside import Beside
    from treadle.lab.bench.explain_run import Explained

app = typer.Typer()


@app.command()
def explain_command(
    policy: Annotated[
        list[Path] | None, typer.Option(help="A treadle.yaml, again for each; the default policy if not given.")
    ] = None,
    nodes: Annotated[int, typer.Option(help="Nodes.", min=1)] = 5_000,
    asks: Annotated[int, typer.Option(help="Request rows.", min=1)] = 10_000,
    questions: Annotated[int, typer.Option(help="Applications that are asked about.", min=1)] = 200,
    pairs: Annotated[
        int, typer.Option(help="Pairs of rows of decisions, with and without questions beside them; 0: none.", min=0)
    ] = 3,
    decides: Annotated[int, typer.Option(help="Decisions in each row of a pair.", min=10)] = 400,
    tick_ms: Annotated[int, typer.Option(help="Time between frames, milliseconds.", min=1)] = 50,
    every_ms: Annotated[
        int,
        typer.Option(help="Mean time between questions, milliseconds; the dashboard asks two a second."),
    ] = 2_000,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """How long it takes to say why an application waits, and what questions cost the decisions beside them."""
    from treadle.config.settings import default_settings
    from treadle.lab.bench import engine_run, explain_beside, explain_run
    from treadle.policy.catalogue import register_parts

    check_results(json_file, None)
    register_parts()
    policies = engine_run.load_policies(policy) if policy else {"default": default_settings()}
    console = Console(stderr=True)
    pace = explain_beside.Pace(tick_ms, every_ms, decides, pairs)
    with steps() as shown:
        results = [
            explain_run.measure(name, settings, nodes, asks, questions, shown) for name, settings in policies.items()
        ]
        beside = [
            explain_beside.measure(name, settings, nodes, asks, pace, shown)
            for name, settings in policies.items()
            if pairs
        ]
    _print_questions(results)
    if beside:
        _print_beside(beside)
    if json_file is not None:
        plain = {"questions": [each.plain() for each in results], "beside": [each.plain() for each in beside]}
        write_json(json_file, plain)
        say(console, f"Results: {json_file}")


def _print_questions(results: list[Explained]) -> None:
    from rich.table import Table

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
        times = (
            each.copy_p50_ms,
            each.copy_max_ms,
            each.explain_p50_ms,
            each.explain_p99_ms,
            each.explain_max_ms,
            each.cpu_p50_ms,
            each.cpu_max_ms,
        )
        why = ", ".join(f"{cause} {count}" for cause, count in each.verdicts.items())
        table.add_row(each.policy, str(each.nodes), str(each.asks), *(f"{value:.1f}" for value in times), why)
    console_for_tables(160).print(table, markup=False)


def _print_beside(results: list[Beside]) -> None:
    from rich.table import Table

    table = Table("policy", "pair", "questions", "decide p50, ms", "p99", "max", "late", "p99 with/without")
    for each in results:
        for pair, (without, asked, ratio) in enumerate(zip(each.without, each.asked, each.p99_ratios(), strict=True)):
            for half, said in ((without, ""), (asked, f"{ratio:.2f}")):
                times = (f"{value:.1f}" for value in (half.p50_ms, half.p99_ms, half.max_ms))
                table.add_row(each.policy, str(pair + 1), str(half.questions), *times, str(half.late), said)
    console_for_tables(160).print(table, markup=False)
