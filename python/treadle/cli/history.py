"""`treadle history` (Cluster 10): show, import or export the history of recurring jobs."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treadle.cli._console import counted_progress, note, print_result
from treadle.cli._options import CaOption, Output, OutputOption, writing
from treadle.errors import UserError, counted
from treadle.files import write_whole
from treadle.tables import empty_table

if TYPE_CHECKING:
    from treadle.config.settings import JobHistory
    from treadle.history.importing import Summary
    from treadle.history.profile import JobProfile, StageProfile
    from treadle.history.store import ProfileStore, Selection

app = typer.Typer(help="The history of recurring jobs, by user, queue, type and name.", no_args_is_help=True)

StoreOption = Annotated[
    str | None,
    typer.Option("--store", envvar="TREADLE_HISTORY", help="The store: a file, or a URL of another database."),
]
UserOption = Annotated[str | None, typer.Option(help="Only of this user.")]
QueueOption = Annotated[str | None, typer.Option(help="Only of this leaf queue.")]
TypeOption = Annotated[str | None, typer.Option("--type", help="Only of this type: MAPREDUCE, TEZ, SPARK.")]
NameOption = Annotated[
    str | None, typer.Option(help="Only jobs of this name; what changes from run to run may differ.")
]


@app.command("list")
def list_(
    store: StoreOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    type_: TypeOption = None,
    name: NameOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List recurring jobs, a line each."""
    with _opened(store, read_only=True) as opened:
        profiles = opened.profiles(_selection(user, queue, type_, name))
    table = empty_table("", ("user", "queue", "type", "name"), ("runs", "last seen", "tasks", "lasts"))
    for profile in profiles:
        table.add_row(
            *profile.key,
            str(profile.runs),
            _when(profile.last_seen_ms),
            str(profile.tasks),
            _span(profile.recent[-1][2] if profile.recent else 0),
        )
    print_result(output, [_summary(profile) for profile in profiles], table)
    if not profiles:
        note("no profile is there, or none matches")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A job's name, as it was submitted or as `list` shows it.")],
    store: StoreOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    type_: TypeOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the history of a recurring job, stage by stage."""
    from treadle.history.documents import profile_json

    with _opened(store, read_only=True) as opened:
        profiles = opened.profiles(_selection(user, queue, type_, name))
        if not profiles:
            raise UserError(f"{opened.name} knows no job {name!r}; `treadle history list` shows the names")
    shown = [each for profile in profiles for each in (_title(profile), _stages(profile))]
    print_result(output, [profile_json(profile) for profile in profiles], *shown)


@app.command()
def export(
    out: Annotated[Path | None, typer.Option(help="A file to write, a profile a line; else standard output.")] = None,
    store: StoreOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    type_: TypeOption = None,
    name: NameOption = None,
) -> None:
    """Write profiles, in the form that `import` reads."""
    from treadle.history.documents import compact, profile_json
    from treadle.history.reader import EXPORT_FORM, EXPORT_VERSION

    with _opened(store, read_only=True) as opened:
        profiles = opened.profiles(_selection(user, queue, type_, name))
    lines = [compact({EXPORT_FORM: EXPORT_VERSION}), *(compact(profile_json(profile)) for profile in profiles)]
    content = "".join(f"{line}\n" for line in lines)
    if out is None:
        sys.stdout.write(content)
        return
    with writing("--out", out, "file"):
        _write(out, content)
    note(f"wrote {out}: {counted(len(profiles), 'profile')}")


@app.command("import")
def import_(
    paths: Annotated[list[Path] | None, typer.Argument(help="Histories, exports, or folders of them.")] = None,
    store: StoreOption = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="The treadle.yaml that says how much the store keeps, and which it is without --store. Without it "
            "nothing is removed from the store, and nothing goes into one of 256 MiB."
        ),
    ] = None,
    history_server: Annotated[
        str | None, typer.Option(help="A MapReduce JobHistoryServer to ask, http://HOST:19888.")
    ] = None,
    ca: CaOption = None,
    since_days: Annotated[
        float, typer.Option(min=0, max=36_500, help="Ask it for jobs that ended in this many days.")
    ] = 7.0,
    jobs: Annotated[int, typer.Option(min=1, max=100_000, help="How many jobs to ask it for, the latest.")] = 1000,
    trust_names: Annotated[
        bool,
        typer.Option(
            "--trust-names",
            help="Believe what histories say of whose jobs they are, whosever the files: where no user writes.",
        ),
    ] = False,
    reader: Annotated[
        Path | None,
        typer.Option(
            help="A socket where processes of another user are started that read files: treadle-histories.socket of "
            "systemd. Without it a process of your own reads them."
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Take in histories of MapReduce (.jhist), Spark (event logs) and Tez, and what `export` wrote.

    A history counts for the user that it names if that user owns its files. Ends with exit code 1 if any was broken or
    refused.
    """
    if not paths and not history_server:
        raise UserError("name files or folders to import, or a --history-server")

    from treadle.config.trust import connect as connect_to
    from treadle.history.database import KEEP_ALL
    from treadle.history.importing import BYTES_WITHOUT_BOUNDS, HistoryServer, Import
    from treadle.history.reader import HistoryReader, find_sources

    retention, bytes_max = KEEP_ALL, None if config is not None else BYTES_WITHOUT_BOUNDS
    if config is not None:
        from treadle.config.reader import read_section
        from treadle.config.settings import JobHistory

        retention = read_section(config, "history", JobHistory)
        store = store or retention.store
    report = partial(note, style="red")
    now_ms = int(time.time() * 1000)
    server = None if history_server is None else HistoryServer(history_server, ca=ca)
    connect = None if reader is None else partial(connect_to, reader, "--reader", "treadle-histories.socket")
    reading = HistoryReader(connect=connect)
    with _opened(store, retention) as opened, reading, counted_progress() as bars:
        importing = Import(
            opened, now_ms, report, reader=reading, server=server, trust_names=trust_names, bytes_max=bytes_max
        )
        importing.take(bars.track(list(find_sources(paths or [])), description="importing"))
        if server is not None:
            since_ms = max(0, now_ms - int(since_days * 86_400_000))
            importing.take_server(server, bars.track(server.jobs(since_ms, jobs), description="importing"))
        opened.prune(now_ms)
    summary = importing.summary
    print_result(output, asdict(summary), _sentence(summary))
    if not summary.sources:
        note("no history is there; MapReduce's end in .jhist, Spark's are event logs")
    if summary.broken or summary.refused:
        raise typer.Exit(1)


def _sentence(summary: Summary) -> str:
    return (
        f"{counted(summary.sources, 'history', 'histories')}: {counted(summary.runs, 'new run')}, "
        f"{counted(summary.profiles, 'profile')}, "
        f"{summary.known} known already, {len(summary.left_out)} of jobs that did not succeed, "
        f"{len(summary.broken)} broken, {len(summary.refused)} refused"
    )


@app.command()
def delete(
    store: StoreOption = None,
    user: UserOption = None,
    queue: QueueOption = None,
    type_: TypeOption = None,
    name: NameOption = None,
    everything: Annotated[bool, typer.Option("--all", help="All profiles.")] = False,
) -> None:
    """Delete profiles of jobs."""
    selection = _selection(user, queue, type_, name)
    if everything == any((user, queue, type_, name)):
        raise UserError("say which profiles: --user, --queue, --type or --name, or --all alone")
    with _opened(store, read_only=True):
        pass  # refuses a store that does not exist, which would be made
    with _opened(store) as opened:
        typer.echo(f"{counted(opened.forget(selection), 'profile')} deleted")


def _write(file: Path, content: str) -> None:
    """Write a file, all of it or nothing, for this user alone as the store is; into a pipe or a link as it is."""
    if file.is_symlink() or (file.exists() and not file.is_file()):
        file.write_text(content, encoding="utf-8")
        return
    write_whole(file, content)


@contextmanager
def _opened(
    location: str | None, retention: JobHistory | None = None, *, read_only: bool = False
) -> Iterator[ProfileStore]:
    if not location:
        raise UserError("which store? --store FILE, or TREADLE_HISTORY in the environment")
    from treadle.history.store import open_store

    with open_store(location, retention, read_only=read_only) as store:
        yield store


def _selection(user: str | None, queue: str | None, type_: str | None, name: str | None) -> Selection:
    from treadle.history.store import Selection

    return Selection(user, queue, type_, name)


def _summary(profile: JobProfile) -> dict[str, Any]:
    return {
        **profile.key._asdict(),
        "runs": profile.runs,
        "first_seen_ms": profile.first_seen_ms,
        "last_seen_ms": profile.last_seen_ms,
        "stages": len(profile.stages),
        "tasks": profile.tasks,
    }


def _title(profile: JobProfile) -> str:
    key = profile.key
    title = f"{key.name or '(no name)'}: {key.type} of {key.user} in {key.queue}, {counted(profile.runs, 'run')}"
    return f"{title}, {_when(profile.first_seen_ms)} to {_when(profile.last_seen_ms)}"


def _stages(profile: JobProfile) -> Any:
    figures = ("width", "mean", "median", "90 %", "last", "hint for last")
    table = empty_table("", ("#", "stage", "after", "asks for"), figures)
    places = {stage.name: place for place, stage in enumerate(profile.stages, 1)}
    for place, stage in enumerate(profile.stages, 1):
        after = ", ".join(str(places.get(parent, "?")) for parent in stage.parents)
        demands = (
            f"{amount} MB" if name == "memory-mb" else f"{amount} {name}" for name, amount in stage.demand.items()
        )
        table.add_row(str(place), stage.name, after, ", ".join(demands), str(stage.width), *_times(stage))
    return table


def _times(stage: StageProfile) -> list[str]:
    durations = stage.durations
    times = (durations.mean_ms, durations.quantile_ms(0.5), durations.quantile_ms(0.9))
    latest = stage.recent[-1] if stage.recent else None
    last = () if latest is None else (latest.mean_ms, latest.hint_ms)
    return [
        *(_span(time_ms) if durations.count else "" for time_ms in times),
        *(_span(time_ms) if time_ms >= 0 else "" for time_ms in last),
    ]


def _when(time_ms: int) -> str:
    return datetime.fromtimestamp(min(time_ms, 253_402_300_799_000) / 1000, UTC).strftime("%Y-%m-%d %H:%M")


def _span(time_ms: float) -> str:
    if time_ms < 1000:
        return f"{time_ms:.0f} ms"
    seconds = time_ms / 1000
    if seconds < 600:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 36_000 else f"{seconds / 3600:.1f} h"
