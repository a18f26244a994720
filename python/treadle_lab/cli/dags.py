"""`treadle dags`: generate, import or predict DAGs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import writing
from treadle.dag import MACHINES_MAX
from treadle.errors import UserError
from treadle_lab.dags import Instance, Shape, generate, write_instances

app = typer.Typer(no_args_is_help=True)
_DEFAULT = Shape()

CAPACITY = "memory-mb=8192,vcores=8"
"""A NodeManager's by YARN's defaults."""
DEMAND = "memory-mb=1024,vcores=1"
"""A container's by YARN's defaults."""

MachinesOption = Annotated[int, typer.Option(min=1, max=MACHINES_MAX, help="Machines that the plan is for.")]
CapacityOption = Annotated[str, typer.Option(help="What each of them has.")]
DemandOption = Annotated[str, typer.Option(help="What a task asks for where that is not known.")]
UserOption = Annotated[str | None, typer.Option(help="Only earlier runs of this user.")]
QueueOption = Annotated[str | None, typer.Option(help="Only earlier runs in this leaf queue.")]
OutputOption = Annotated[Path | None, typer.Option(help="A file instead of standard output.")]


@app.callback()
def dags() -> None:
    """Generate DAGs, import them from histories, or predict them from earlier runs."""


@app.command("generate")
def generate_dags(
    seed: Annotated[str, typer.Option(help="One seed, or a range such as 1..100: a DAG each.")] = "1",
    machines: Annotated[int, typer.Option(help="Machines, with 1.0 of each resource.")] = _DEFAULT.machines,
    stages: Annotated[str, typer.Option(help="Stages of a DAG: a number or a range.")] = "20..50",
    tasks: Annotated[str, typer.Option(help="Tasks of a DAG, about: a number or a range.")] = "1000..3000",
    depth: Annotated[str, typer.Option(help="Layers of a DAG: a number or a range.")] = "5..9",
    output: OutputOption = None,
) -> None:
    """Write generated DAGs in the `dag` format, one a line; the same seed gives the same DAG."""
    shape = replace(
        _DEFAULT,
        machines=machines,
        stages=_range("--stages", stages),
        tasks=_range("--tasks", tasks),
        depth=_range("--depth", depth),
    )
    first, last = _range("--seed", seed, low=0)
    _write((generate(at, shape) for at in range(first, last + 1)), output)


@app.command("import")
def import_dags(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Histories of MapReduce, Spark or Tez, exports of profiles, tez-dag.pb; folders."),
    ],
    machines: MachinesOption = _DEFAULT.machines,
    capacity: CapacityOption = CAPACITY,
    demand: DemandOption = DEMAND,
    duration_ms: Annotated[
        int | None, typer.Option(min=0, help="Of a task of a tez-dag.pb's vertex that the store does not know.")
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(envvar="TREADLE_PROFILES", help="Earlier runs, for the durations of a tez-dag.pb."),
    ] = None,
    user: UserOption = None,
    queue: QueueOption = None,
    output: OutputOption = None,
) -> None:
    """Write the DAGs of jobs that have ended, or of a tez-dag.pb, in the `dag` format, one a line."""
    from treadle_lab.cli import _dags  # only here: it imports the store

    cluster = _dags.Cluster(machines, amounts("--capacity", capacity), amounts("--demand", demand))
    importing = _dags.Importing(cluster, duration_ms, store, user, queue)
    found = list(importing.take(paths))
    if found:
        _write(found, output)
    importing.tell()
    if not found:
        raise typer.Exit(1)


@app.command("predict")
def predict_dags(
    name: Annotated[str, typer.Argument(help="A job's name, as it was submitted or as `treadle profiles` shows it.")],
    store: Annotated[
        str | None, typer.Option(envvar="TREADLE_PROFILES", help="Earlier runs: a file, or a URL of another database.")
    ] = None,
    user: UserOption = None,
    queue: QueueOption = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only of this type: MAPREDUCE, TEZ, SPARK.")] = None,
    input_bytes: Annotated[
        int | None, typer.Option(min=0, max=2**60, help="What the next run will read; default: as much as usual.")
    ] = None,
    machines: MachinesOption = _DEFAULT.machines,
    capacity: CapacityOption = CAPACITY,
    demand: DemandOption = DEMAND,
    output: OutputOption = None,
) -> None:
    """Write the DAG that a recurring job's next run is expected to have, in the `dag` format."""
    from treadle_lab.cli import _dags  # only here: it imports the store

    cluster = _dags.Cluster(machines, amounts("--capacity", capacity), amounts("--demand", demand))
    profiles = _dags.profiles_of(store, user, queue, type_, name)
    _write([_dags.predicted(profile, cluster, input_bytes) for profile in profiles], output)


def amounts(option: str, text: str) -> dict[str, float]:
    """Return the amounts of an option's text such as ``memory-mb=8192,vcores=8``.

    Raises:
        UserError: the text is none.
    """
    found: dict[str, float] = {}
    for part in text.split(","):
        resource, _, amount = part.strip().partition("=")
        try:
            found[resource.strip()] = float(amount)
        except ValueError:
            amount = ""
        if not (amount and resource.strip()) or not 0.0 <= found[resource.strip()] < float("inf"):
            raise UserError(f"{option}: {part.strip()!r}; give RESOURCE=AMOUNT with commas between, such as {CAPACITY}")
    return found


def _write(found: Iterable[Instance], output: Path | None) -> None:
    if output is None:
        write_instances(found, sys.stdout)
        return
    with writing("--output", output, "file"), output.open("w", encoding="utf-8") as stream:
        write_instances(found, stream)


def _range(option: str, text: str, low: int = 1) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", text)
    if match is None:
        raise UserError(f"{option}: {text!r}; give a number, or a range such as 1..100")
    first = int(match[1])
    last = int(match[2]) if match[2] is not None else first
    if not low <= first <= last:
        raise UserError(f"{option}: {text!r}; give numbers from {low} on, the lesser first")
    return first, last
