"""`treadle reproduce hdrf`: the paper's tests on real ResourceManagers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._results import check_results, write_json
from treadle.errors import UserError
from treadle.lab.minicluster.runtime import build_folder

app = typer.Typer()


@app.command()
def hdrf(
    test: Annotated[list[str] | None, typer.Option(help="A, B or C; may be repeated. Default: all.")] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="A file for the results.")] = None,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots over time.")] = None,
    step_s: Annotated[float, typer.Option(min=6, help="Seconds that shares settle after each step.")] = 36.0,
    task_s: Annotated[float, typer.Option(min=0.2, help="Mean duration of a sleeping task in seconds.")] = 6.0,
    folder: Annotated[Path | None, typer.Option(help="The clusters' folder; default: build/reproduce-hdrf.")] = None,
) -> None:
    """H-DRF's tests A, B and C on a real ResourceManager, under Treadle and under the stock scheduler."""
    from treadle.lab.minicluster import Scheduler
    from treadle.lab.minicluster.progress import saying
    from treadle.lab.minicluster.readiness import terminable
    from treadle.lab.reproduce.hdrf.experiment import Run, Settings, run_test
    from treadle.lab.reproduce.hdrf.paper_tests import TESTS
    from treadle.lab.reproduce.hdrf.report import document, off, table

    names = [name.upper() for name in test or TESTS]
    for name in names:
        if name not in TESTS:
            raise UserError(f"--test {name}: there is none; choose of {', '.join(TESTS)}")
    check_results(json_file, plot)
    chosen = [TESTS[name] for name in dict.fromkeys(names)]
    settings = Settings(task_s=task_s, step_s=step_s, window_s=step_s / 3)
    place = (folder or build_folder() / "reproduce-hdrf").resolve()
    console = console_for_tables(140)
    runs: list[Run] = []
    missed = []
    with terminable(), saying(console) as say:
        for one in chosen:
            own = [run_test(one, kind, settings, place, say) for kind in (Scheduler.TREADLE, Scheduler.CAPACITY)]
            runs += own
            console.print(table(one, own))
            missed += [
                f"test {one.name}, step {number}: {leaf} has {amount:+g} containers"
                for number, (step, tasks) in enumerate(zip(own[0].steps, one.shares("hdrf"), strict=True), 1)
                for leaf, amount in off(step, tasks).items()
            ]
            if plot is not None:
                from treadle.lab.reproduce.hdrf.report import plot_test  # only here: matplotlib is an extra

                plot_test(one, own, plot / f"hdrf-test-{one.name.lower()}.png")
            if json_file is not None:
                write_json(json_file, document(chosen[: chosen.index(one) + 1], runs))
    for text in missed:
        console.print(f"Treadle is not within one container of the paper: {text}", style="red", soft_wrap=True)
    if missed:
        raise typer.Exit(1)
