"""`treadle workload` (Evaluate 5): show or convert the jobs of a trace."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer
from rich.table import Table

from treadle.cli._console import note, print_result, steps
from treadle.cli._options import Output, OutputOption, PlotOption, check_plotting, writing
from treadle.errors import UserError, counted
from treadle.tables import empty_table, facts_table
from treadle.workload.formats import FORMATS, read_workload, recognised
from treadle.workload.job import QUANTILES, Summary, Workload, loads, summarise

app = typer.Typer(no_args_is_help=True)

LABELS: Final = {
    "job_tasks": "tasks of a job",
    "job_stages": "stages of a job",
    "stage_tasks": "tasks of a stage",
    "task_ms": "task (s)",
    "job_ms": "all its tasks (s)",
    "gap_ms": "gap (s)",
}
FORMATS_HELP: Final = (
    f"One of {', '.join(FORMATS)}, a package's own, or a reader as FILE.py:FUNCTION; else recognised by the content."
)
Format = Annotated[str | None, typer.Option(help=FORMATS_HELP)]
Seed = Annotated[int | None, typer.Option(min=0, help="For formats that say how jobs are drawn.")]


@app.callback()
def workload() -> None:
    """Look at workloads (docs/workloads.md)."""


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A file, plain or packed by xz or gzip, or a folder of them.")],
    format: Format = None,  # noqa: A002 (its name is the option's)
    seed: Seed = None,
    capacity: Annotated[
        list[str] | None, typer.Option(help="What a cluster has, as vcores=150, for its load; may be repeated.")
    ] = None,
    output: OutputOption = Output.TABLE,
    plot: PlotOption = None,
) -> None:
    """Show numbers of jobs, stages and tasks, their arrivals, resources and durations."""
    amounts = _amounts(capacity or [])
    known = format or recognised(file)
    jobs = _read(file, known, seed)
    summary = summarise(jobs)
    _check_names(amounts, jobs)
    load = loads(jobs, amounts)
    if plot is not None:
        _plot(jobs, summary, file, plot / f"{file.name.partition('.')[0]}-workload.png")
    tables = _counts(known, summary), _resources(summary, load), _distributions(summary)
    print_result(output, {"format": known, **summary.as_json(), "loads": load}, *tables)
    for text in summary.notes:
        note(f"Note: {text}.", "yellow")


@app.command()
def convert(
    file: Annotated[Path, typer.Argument(help="A file of any format, plain or packed by xz or gzip, or a folder.")],
    output: Annotated[Path, typer.Argument(help="The file to write; .xz and .gz are packed.")],
    format: Format = None,  # noqa: A002 (its name is the option's)
    seed: Seed = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="How many jobs, the first ones.")] = None,
) -> None:
    """Write a workload of any format in Treadle's own: a job a line, to read, to change and to simulate."""
    from treadle.workload.formats import write_own

    with writing("OUTPUT", output, "file"), _opened(output) as stream:
        read = _read(file, format, seed)
        if jobs is not None:
            read = replace(read, jobs=read.jobs[:jobs])
        write_own(read, stream)
    note(f"wrote {output}: {counted(len(read.jobs), 'job')}, {counted(read.tasks, 'task')}")
    for text in read.notes:
        note(f"Note: {text}.", "yellow")


def _read(file: Path, known: str | None, seed: int | None) -> Workload:
    """Return a file's workload; a terminal shows meanwhile that it is read."""
    with steps(f"reading {file.name}"):
        return read_workload(file, known, seed=seed)


@contextmanager
def _opened(output: Path) -> Iterator[TextIO]:
    """Open a temporary file, which replaces the output on success; compressed according to the output's suffix."""
    opens: dict[str, Callable[..., Any]] = {".xz": lzma.open, ".gz": gzip.open}
    beside = output.with_name(f".{output.name}.part")
    try:
        with opens.get(output.suffix, open)(beside, "wt", encoding="utf-8") as stream:
            yield stream
        beside.replace(output)
    finally:
        beside.unlink(missing_ok=True)


def _counts(known: str, summary: Summary) -> Table:
    facts = {
        "format": f"{known}: {FORMATS[known].summary if known in FORMATS else 'a reader of your own'}",
        "jobs": f"{summary.jobs:,}",
        "stages": f"{summary.stages:,}",
        "tasks": f"{summary.tasks:,}",
        "first arrival": f"{summary.first_arrival_ms / 1000:,.1f} s",
        "last arrival": f"{summary.last_arrival_ms / 1000:,.1f} s",
        "frameworks": ", ".join(f"{name} {count:,}" for name, count in sorted(summary.frameworks.items())),
        "queues": ", ".join(f"{name} {count:,}" for name, count in sorted(summary.queues.items())),
        "users": f"{summary.users:,}" if summary.users else "",
    }
    return facts_table((name, text) for name, text in facts.items() if text)


def _resources(summary: Summary, load: dict[str, float]) -> Table:
    table = empty_table("Resources, until the last arrival", ("resource",), ("amount x hours", "held on average"))
    if load:
        table.add_column("load", justify="right")
    for name, work in summary.work.items():
        row = [name, _short(work / 3_600_000), _short(summary.mean_held(name))]
        table.add_row(*row, *([f"{load[name]:.3f}" if name in load else ""] if load else []))
    return table


def _distributions(summary: Summary) -> Table:
    quantiles = [{0.0: "least", 1.0: "most"}.get(share, f"P{100 * share:g}") for share in QUANTILES]
    table = empty_table("Distributions", ("",), (*quantiles, "mean"))
    for name, weighted in summary.distributions.items():
        unit = 1000 if name.endswith("_ms") else 1
        table.add_row(
            LABELS[name],
            *(_short(weighted.quantile(share) / unit) for share in QUANTILES),
            _short(weighted.mean / unit),
        )
    return table


def _short(value: float) -> str:
    """Return a number in at most seven characters: 0.125, 12.5, 1,250, 1.25M."""
    for suffix, unit in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if value >= unit:
            return f"{value / unit:.3g}{suffix}"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _amounts(texts: list[str]) -> dict[str, float]:
    amounts = {}
    for text in texts:
        name, _, amount = text.partition("=")
        try:
            amounts[name] = float(amount)
        except ValueError:
            raise UserError(f"--capacity: {text!r} is not like vcores=150") from None
    return amounts


def _check_names(amounts: dict[str, float], jobs: Workload) -> None:
    """Refuse resources that no task asks for: their load is not shown.

    Raises:
        UserError: there is one.
    """
    for name in amounts:
        if name not in jobs.resources:
            raise UserError(f"--capacity: {name!r} is none of the resources, {', '.join(jobs.resources)}; name one")


def _plot(jobs: Workload, summary: Summary, file: Path, target: Path) -> None:
    check_plotting()
    from treadle.plots import plot_workload

    with writing("--plot", target, "folder"):
        target.parent.mkdir(parents=True, exist_ok=True)
        plot_workload(jobs, summary, file.name, target)
