"""`treadle bench liars`: its options, and what it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json
from treadle.lab.bench.lies import Lie

app = typer.Typer()


@app.command()
def liars_command(
    policy: Annotated[list[Path] | None, typer.Option(help="A treadle.yaml; the ready-made ones if not given.")] = None,
    seeds: Annotated[int, typer.Option(help="Draws of jobs.")] = 3,
    first_seed: Annotated[int, typer.Option(help="The first draw's.")] = 1,
    lie: Annotated[
        list[Lie] | None, typer.Option(help="What is lied about: `tasks` or `names`; both if not given.")
    ] = None,
    believed: Annotated[bool, typer.Option(help="Take claims at their word (plans.claims_part: 0).")] = False,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """What a user gains by lying about his tasks, or by calling jobs like others of his, by policy; simulated."""
    from treadle.admin.install import ready_made
    from treadle.lab.bench import engine_run, liars
    from treadle.lab.bench.sls_load import BenchError
    from treadle.policy.catalogue import register_parts

    if seeds < 1:
        raise BenchError(f"--seeds is {seeds}: at least 1 is needed")
    check_results(json_file, None)
    register_parts()
    policies = engine_run.load_policies(policy or ready_made().values())
    console = Console(stderr=True)
    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console) as shown:
        task = shown.add_task("starting", total=None)
        found = liars.run_liars(
            policies,
            range(first_seed, first_seed + seeds),
            lambda text: shown.update(task, description=text),
            lies=lie or tuple(Lie),
            believed=believed,
        )
    table = Table("policy", "lies about", "queues", "truth, s", "lies, s", "gain", "others take")
    for one in found:
        table.add_row(
            one.policy,
            one.lie,
            str(one.queues),
            f"{one.true_s:.1f}",
            f"{one.false_s:.1f}",
            f"{one.gain:.2f}",
            f"{one.others:.2f}",
        )
    console_for_tables().print(table)
    if json_file is not None:
        write_json(json_file, liars.report(found))
        console.print(f"Results: {json_file}")
