"""`treadle record`: what is in a recording, its names replaced, its expected answers renewed."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables, say
from treadle.cli._jmx import JsonOption
from treadle.cli._options import TrustOption
from treadle.errors import UserError

if TYPE_CHECKING:
    from treadle.record.summary import Summary
    from treadle.replay.rewrite import Rewritten

app = typer.Typer(no_args_is_help=True)

PlaceArgument = Annotated[Path, typer.Argument(metavar="REC", help="A segment, or a folder of segments.")]

EXIT_GAPS: Final = 1
"""The exit code of `treadle record show` where something is missing or damaged."""


@app.callback()
def record() -> None:
    """Look at recordings, replace the names in them, renew the answers that they expect."""


@app.command()
def show(place: PlaceArgument, as_json: JsonOption = False) -> None:
    """Say what is in a recording: its time, nodes, jobs, queues, gaps, and who decided.

    The exit code is 1 if a segment is damaged or frames are missing. The last one may still be written.
    """
    from treadle.record.folder import segments
    from treadle.record.summary import summarise

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
        ("beside them", ", ".join(f"{rows} {name}" for name, rows in found.beside.items()) or "nothing"),
        ("size", size + ("" if per is None else f", {per:.0f} bytes a container")),
        ("cost", "not known" if found.cost.share is None else f"{found.cost.share:.1%} of its process's CPU time"),
        ("nodes", str(found.nodes)),
        ("jobs", f"{found.jobs}, {found.jobs_ended} ended, {found.containers} containers began"),
        ("queues", ", ".join(found.queues)),
        ("policies", "; ".join(found.policies)),
        ("parts that failed", str(found.switches)),
        ("gaps", f"{found.gaps}, {found.dropped} frames dropped"),
        ("can be replayed", f"{sum(each.from_start for each in found.segments)} of {len(found.segments)} segments"),
        ("names", "pseudonyms" if found.anonymised else "as on the cluster"),
        ("engine", _hashes(found.engine_hashes, found.own_engine_hash)),
        ("wire's schema", _hashes(found.schema_hashes, found.own_schema_hash)),
    ]
    for name, text in rows:
        table.add_row(name, text)
    console.print(table)
    for note in found.notes:
        say(console, note, "yellow")


def _hashes(found: list[str], own: str) -> str:
    return ", ".join(f"{each} ({'this' if each == own else 'another'} one)" for each in found)


@app.command()
def anonymise(
    place: PlaceArgument,
    output: Annotated[Path, typer.Argument(metavar="OUT", help="A folder, which is made or empty.")],
    names: Annotated[
        Path | None,
        typer.Option(help="A file for what each name has become: read if it is there, so that names stay the same."),
    ] = None,
) -> None:
    """Replace the names of users, applications, queues, tags, hosts and racks by pseudonyms, the same everywhere.

    The policy decides again under these names, from an engine that has learned nothing. Kept are ids and times of
    applications, amounts, labels and attributes of nodes, settings of the policy but for paths and comments. The exit
    code is 1 if a segment is missing or cannot be read.
    """
    from treadle.files import write_whole
    from treadle.record.folder import segments
    from treadle.record.pseudonyms import Pseudonyms
    from treadle.record.reader import open_all
    from treadle.replay.rewrite import Names, rename
    from treadle.wire.schema import WireError

    files = segments(place)
    pseudonyms = Pseudonyms(_known(names))
    _refuse_unwritable(names)
    for recorded in open_all(files, []):
        try:
            for tick in recorded.ticks:
                pseudonyms.learn(tick.frame)
        except WireError as error:
            raise UserError(f"{recorded.path}: a frame cannot be read: {error}") from error
    done = rename(files, output, Names(pseudonyms.frame, pseudonyms.settings))
    if names is not None:
        try:
            write_whole(names, json.dumps(dict(pseudonyms.table), indent=1))
        except OSError as error:
            kept = f"the table of names is not kept. Remove {output}, and name another file"
            raise UserError(f"{names}: cannot be written: {error.strerror}; {kept}") from error
    _say_done(done, f"written to {output}: {len(pseudonyms.table)} names are replaced")
    if done.missing:
        raise typer.Exit(1)


def _refuse_unwritable(names: Path | None) -> None:
    """Refuse a table that cannot be kept before anything is replaced by what is in it."""
    if names is None:
        return
    try:
        TemporaryFile(dir=names.absolute().parent).close()
    except OSError as error:
        reason = f"the table of names cannot be written there: {error.strerror}"
        raise UserError(f"{names}: {reason}; name another file") from error


def _known(names: Path | None) -> dict[str, str]:
    if names is None or not names.exists():
        return {}
    try:
        found = json.loads(names.read_text("utf-8"))
        return {str(name): str(pseudonym) for name, pseudonym in found.items()}
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{names}: is no table of names: {error}; name another file") from error


@app.command()
def update(place: PlaceArgument, trust_code: TrustOption = False) -> None:
    """Let this engine decide again, and expect its answers from now on: after a change that was meant."""
    from treadle.record.folder import segments
    from treadle.replay.rewrite import renew

    _say_done(renew(segments(place), trust_code=trust_code), "renewed")


def _say_done(done: Rewritten, what: str) -> None:
    console = console_for_tables()
    say(console, f"{done.segments} segments, {done.ticks} answers, {done.different} of them not as before; {what}")
    for note in done.notes:
        say(console, note, "yellow")
