"""`treadle bench record`: what recording costs beside the decisions, and how large recordings are."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json

app = typer.Typer()


@app.command()
def record_command(
    policy: Annotated[list[Path] | None, typer.Option(help="A treadle.yaml; the default policy if not given.")] = None,
    nodes: Annotated[list[int] | None, typer.Option(min=1, help="Nodes of 10 slots; 5,000 if not given.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often the jobs' tasks fill the cluster.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """CPU time of decoding, deciding and answering, and of recording that, on a simulated cluster behind the wire."""
    from treadle.config.settings import default_settings
    from treadle.lab.bench import engine_run
    from treadle.lab.bench.record_run import measure
    from treadle.policy.catalogue import register_parts
    from treadle.simulator.simulation import warm_up

    check_results(json_file, None)
    register_parts()
    policies = engine_run.load_policies(policy) if policy else {"default": default_settings()}
    table = Table(box=None)
    for title in (
        "policy",
        "nodes",
        "frames",
        "containers",
        "session, CPU s",
        "recording, CPU s",
        "share",
        "B/container",
    ):
        table.add_column(title, justify="left" if title == "policy" else "right")
    found = []
    for name, settings in policies.items():
        warm_up(settings)
        measure(name, settings, 10, 1)  # so that nothing is compiled while it is measured
        for count in nodes or [5_000]:
            each = measure(name, settings, count, rounds)
            found.append(asdict(each) | {"share": each.share, "bytes_per_container": each.bytes_per_container})
            table.add_row(
                name,
                f"{count:,}",
                f"{each.frames:,}",
                f"{each.containers:,}",
                f"{each.deciding_s - each.beside_s:.2f}",
                f"{each.beside_s + each.writing_s:.3f}",
                f"{each.share:.1%}",
                f"{each.bytes_per_container:.1f}",
            )
    console_for_tables().print(table)
    if json_file is not None:
        write_json(json_file, {"record": found})
