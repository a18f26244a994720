"""`treadle record`: show the content of a recording."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables, say
from treadle.cli._options import JsonOption

if TYPE_CHECKING:
    from treadle.record.reader import Summary

app = typer.Typer(no_args_is_help=True)

PlaceArgument = Annotated[Path, typer.Argument(metavar="REC", help="A segment, or a folder of segments.")]

EXIT_GAPS: Final = 1
"""The exit code of `treadle record show` where something is missing or damaged."""


@app.callback()
def record() -> None:
    """Look at recordings."""


@app.command()
def show(place: PlaceArgument, as_json: JsonOption = False) -> None:
    """Say what is in a recording: its time, nodes, jobs, queues, gaps, and who decided.

    The exit code is 1 if a segment is damaged or frames are missing. The last one may still be written.
    """
    from treadle.record.files import segments
    from treadle.record.reader import summarise

    found = summarise(segments(place))
    if as_json:
        typer.echo(json.dumps(found.document(), indent=2))
    else:
        _show(found)
    if not found.whole:
        raise typer.Exit(EXIT_GAPS)


def _show(found: Summary) -> None:
    from datetime import UTC, datetime

    def time(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")

    console = console_for_tables()
    table = Table(box=None, show_header=False, pad_edge=False)
    per = found.bytes_per_container
    size = f"{found.bytes / 1024:.1f} KiB in {len(found.segments)} segments"
    rows = [
        ("time", f"{time(found.begin_ms)} to {time(found.end_ms)}, {(found.end_ms - found.begin_ms) / 1000:.0f} s"),
        ("frames", f"{found.frames}, {found.proposals} proposals"),
        ("other events", ", ".join(f"{rows} {name}" for name, rows in found.beside.items()) or "nothing"),
        ("size", size + ("" if per is None else f", {per:.0f} bytes a container")),
        ("cost", "not known" if found.cost.share is None else f"{found.cost.share:.1%} of its process's CPU time"),
        ("nodes", str(found.nodes)),
        ("jobs", f"{found.jobs}, {found.jobs_ended} ended, {found.containers} containers began"),
        ("queues", ", ".join(found.queues)),
        ("policies", "; ".join(found.policies)),
        ("parts that failed", str(found.switches)),
        ("gaps", f"{found.gaps}, {found.dropped} frames dropped"),
        ("can be replayed", f"{sum(each.from_start for each in found.segments)} of {len(found.segments)} segments"),
        ("engine", _hashes(found.engine_hashes, found.own_engine_hash)),
    ]
    for name, text in rows:
        table.add_row(name, text)
    console.print(table)
    for note in found.notes:
        say(console, note, "yellow")


def _hashes(found: list[str], own: str) -> str:
    return ", ".join(f"{each} ({'this' if each == own else 'another'} one)" for each in found)
