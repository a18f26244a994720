"""`treadle bench replay`: how wrong `treadle replay --policy` is, on simulated clusters."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from treadle.cli._console import console_for_tables, steps
from treadle.cli._results import check_results, write_json

if TYPE_CHECKING:
    from treadle.lab.bench.replay_run import Error

app = typer.Typer()

TITLES = (
    "",
    "framework",
    "A",
    "B",
    "jobs",
    "containers",
    "B differs at, s",
    "B over A",
    "model of A",
    "model of B",
    "with other chance",
    "A again",
)

MEDIANS = {
    "own": "model of A",
    "error": "model of B",
    "error_by_chance": "with other chance",
    "again": "A again",
}


@app.command()
def replay_command(
    workloads: Annotated[
        int, typer.Option(min=1, max=1000, help="How many; every fourth and fifth is no MapReduce.")
    ] = 10,
    jobs: Annotated[int, typer.Option(min=2, max=10_000, help="Of each workload.")] = 60,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """Record simulated clusters under a policy A, replay them under B, and compare with what B does there.

    Pairs of figures are makespan and mean completion time, as parts of what there was.
    """
    from treadle.lab.bench.replay_run import measure
    from treadle.policy.catalogue import register_parts

    check_results(json_file, None)
    register_parts()
    table = Table(box=None)
    for at, title in enumerate(TITLES):
        table.add_column(title, justify="left" if 1 <= at <= 3 else "right")
    with steps(Console(stderr=True)) as shown:
        found = list(measure(workloads, jobs, shown))
    for each in found:
        after = "never" if each.after_s is None else f"{each.after_s:.0f}"
        texts = (each.framework, each.recorded, each.replayed, str(each.jobs), f"{each.containers:,}", after)
        table.add_row(
            str(each.workload),
            *texts,
            *map(_pair, (each.effect, each.own, each.error, each.error_by_chance, each.again)),
        )
    console = console_for_tables(160)
    console.print(table)
    for name in MEDIANS:
        own = [getattr(each, name) for each in found if getattr(each, name) is not None]
        if own:
            makespan = median(abs(each.makespan) for each in own)
            completion = median(abs(each.completion_mean) for each in own)
            text = f"off by {makespan:.1%} of the makespan, {completion:.1%} of the mean completion time, median"
            console.print(f"{MEDIANS[name]}: {text}")
    if json_file is not None:
        write_json(json_file, {"replay": [asdict(each) for each in found]})


def _pair(error: Error | None) -> str:
    return "-" if error is None else f"{error.makespan:+.1%} {error.completion_mean:+.1%}"
