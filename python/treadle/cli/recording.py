"""`treadle recording` (Evaluate 4): show the content of a recording."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from treadle.cli._console import note, print_result
from treadle.cli._options import Output, OutputOption
from treadle.errors import percent
from treadle.tables import facts_table

if TYPE_CHECKING:
    from treadle.record.reader import Summary

app = typer.Typer(no_args_is_help=True)

PlaceArgument = Annotated[Path, typer.Argument(metavar="REC", help="A segment, or a folder of segments.")]

EXIT_GAPS: Final = 1
"""The exit code of `treadle recording show` if frames are missing or damaged."""


@app.callback()
def recording() -> None:
    """Look at recordings."""


@app.command()
def show(place: PlaceArgument, output: OutputOption = Output.TABLE) -> None:
    """Show a recording's contents: its time, nodes, jobs, queues and gaps, and the scheduler that decided.

    The exit code is 1 if a segment is damaged or frames are missing. The last one may still be written.
    """
    from treadle.record.files import segments
    from treadle.record.reader import summarise

    summary = summarise(segments(place))
    print_result(output, summary.document(), facts_table(_facts(summary)))
    for text in summary.notes:
        note(text, "yellow")
    if not summary.whole:
        raise typer.Exit(EXIT_GAPS)


def _facts(summary: Summary) -> list[tuple[str, str]]:
    from datetime import UTC, datetime

    def time(ms: int) -> str:
        return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")

    per, own = summary.bytes_per_container, summary.own_engine_hash
    size = f"{summary.bytes / 1024:.1f} KiB in {len(summary.segments)} segments"
    return [
        (
            "time",
            f"{time(summary.begin_ms)} to {time(summary.end_ms)}, {(summary.end_ms - summary.begin_ms) / 1000:.0f} s",
        ),
        ("frames", f"{summary.frames}, {summary.proposals} proposals"),
        ("other events", ", ".join(f"{rows} {name}" for name, rows in summary.offline_events.items()) or "nothing"),
        ("size", size + ("" if per is None else f", {per:.0f} bytes a container")),
        (
            "cost",
            "not known"
            if summary.cost.share is None
            else f"{percent(summary.cost.share, '.1f')} of its process's CPU time",
        ),
        ("nodes", str(summary.nodes)),
        ("jobs", f"{summary.jobs}, {summary.jobs_ended} ended, {summary.containers} containers began"),
        ("queues", ", ".join(summary.queues)),
        ("policies", "; ".join(summary.policies)),
        ("parts that failed", str(summary.switches)),
        ("gaps", f"{summary.gaps}, {summary.dropped} frames dropped"),
        ("can be replayed", f"{sum(each.from_start for each in summary.segments)} of {len(summary.segments)} segments"),
        ("engine", ", ".join(f"{each} ({'this' if each == own else 'another'} one)" for each in summary.engine_hashes)),
    ]
