"""`treadle bench replay`: how wrong `treadle replay --policy` is, on simulated clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables, steps
from treadle.cli._results import check_results, write_json
from treadle.errors import UserError

if TYPE_CHECKING:
    from treadle.lab.bench.replay_run import Error
    from treadle.lab.bench.replay_sls import UnequalLoad
    from treadle.lab.bench.sls import Setting

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

STALL_S = 90.0
"""A run on SLS in which nothing happens for so long is given up."""

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
    sls: Annotated[
        bool, typer.Option("--sls", help="On real ResourceManagers, below Hadoop's load simulator, in real time.")
    ] = False,
    keep: Annotated[
        Path | None,
        typer.Option(help="With --sls: keep recordings and logs in this folder; what ran there does not run again."),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Where the results go, as JSON.")] = None,
) -> None:
    """Record simulated clusters under a policy A, replay them under B, and compare with what B does there.

    With --sls each workload runs under A, under B and under A again, at the same time, on a real ResourceManager each.
    Pairs of figures are makespan and mean completion time, as parts of what there was.
    """
    from treadle.lab.bench.replay_run import measure
    from treadle.lab.bench.replay_sls import measure_sls
    from treadle.policy.catalogue import register_parts

    check_results(json_file, None)
    register_parts()
    table = Table(box=None)
    for at, title in enumerate(TITLES):
        table.add_column(title, justify="left" if 1 <= at <= 3 else "right")
    if keep is not None and not sls:
        raise UserError("--keep goes with --sls: of the simulator's own clusters nothing is kept")
    with steps() as shown, _folder(keep) as folder:
        measured = (
            measure_sls(workloads, jobs, _sls_setting(), folder, shown) if sls else measure(workloads, jobs, shown)
        )
        found = list(measured)
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


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Yield where recordings go: a folder that stays, or one that is gone afterwards."""
    if keep is not None:
        yield keep.absolute()
        return
    with TemporaryDirectory(prefix="treadle-bench-") as place:
        yield Path(place)


def _sls_setting() -> Callable[[UnequalLoad], Setting]:
    from treadle.cli.bench.cluster import heap_mb_for, sidecar_command
    from treadle.lab.bench import jars
    from treadle.lab.bench.sls import Setting

    class_path, java, command = jars.class_path(None), jars.java_command(), str(sidecar_command(None))

    def setting(load: UnequalLoad) -> Setting:
        return Setting(load, class_path, java, heap_mb_for(load, 0), command, STALL_S)

    return setting


def _pair(error: Error | None) -> str:
    return "-" if error is None else f"{error.makespan:+.1%} {error.completion_mean:+.1%}"
