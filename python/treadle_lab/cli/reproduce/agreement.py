"""`treadle reproduce agreement`: the same jobs on a mini cluster and in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json
from treadle.errors import UserError
from treadle_lab.cli._isolation import isolate_if_possible
from treadle_lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def agreement(
    policy: Annotated[list[str] | None, typer.Option(help="capacity or hdrf; may be repeated. Default: both.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for a plot over time.")] = None,
    folder: Annotated[Path | None, typer.Option(help="The clusters' folder; default: build/agreement.")] = None,
) -> None:
    """The same jobs on a mini cluster and in the simulator: shares over time and completion times side by side."""
    from treadle_lab.agreement.experiment import POLICIES, document, misses, run_both, table
    from treadle_lab.minicluster.processes import terminable
    from treadle_lab.minicluster.progress import saying

    names = list(dict.fromkeys(policy or POLICIES))
    for name in names:
        if name not in POLICIES:
            raise UserError(f"--policy {name}: there is none; choose of {', '.join(POLICIES)}")
    check_results(json_file, plot)
    isolate_if_possible()
    place = (folder or build_folder() / "agreement").resolve()
    console = console_for_tables(140)
    with terminable(), saying(console) as say:
        runs = [run_both(name, place, say) for name in names]
    console.print(table(runs))
    if plot is not None:
        from treadle_lab.agreement.experiment import plot_agreement  # only here: matplotlib is an extra

        plot_agreement(runs, plot / "agreement.png")
    if json_file is not None:
        write_json(json_file, document(runs))
    missed = [text for both in runs for text in misses(both)]
    for text in missed:
        console.print(f"The two do not agree: {text}", style="red", soft_wrap=True)
    if missed:
        raise typer.Exit(1)
