"""`treadle lab bench cluster`: measure how fast a simulated cluster is scheduled, by mode.

With --backlog: who places how many containers a second where nothing else bounds it.
"""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import psutil
import typer
from rich.status import Status

from treadle.cli._console import OutputPaths, note, progress_console
from treadle.cli._options import Output, OutputOption, ResultsOption
from treadle_lab.bench.backlog import BACKLOG_MODES, BACKLOG_SIZES, RATE, BacklogLoad, rate_of
from treadle_lab.bench.cluster import SPAN, Figures, behind, run_rounds, span_of
from treadle_lab.cli._experiments import FolderOption, SeedOption, chosen, isolate_if_possible, refuse, with_options
from treadle_lab.sls import run as sls
from treadle_lab.sls.run import MODES, BenchError, Run, Setting, Workload

Seen = dict[str, Any]
"""Measurements that a run has reported so far."""


def progress_of(status: Status, what: Callable[[Seen], str]) -> Callable[[str, Seen], None]:
    """Return what shows a run by its label, with its progress in words, which ``what`` returns, and its duration."""
    begun_s: dict[str, float] = {}

    def show(label: str, seen: Seen) -> None:
        since_s = begun_s.setdefault(label, time.monotonic())
        status.update(f"{label}: {what(seen)}, {time.monotonic() - since_s:.0f} s")

    return show


def _done_of_backlog(load: BacklogLoad, seen: Seen) -> str:
    commits = seen.get("commits", {}).get("total", 0)
    if commits:
        return f"{commits:,} containers placed" + (", measuring" if seen.get("window") else ", warming up")
    return f"{seen.get('nodes', 0):,} of {load.nodes:,} nodes registered"


def _done(workload: Workload, seen: Seen) -> str:
    done, nodes = seen.get("completions", {}).get("total", 0), seen.get("nodes", 0)
    if done or nodes >= workload.nodes:
        return f"{done:,} of {workload.containers:,} containers done"
    return f"{nodes:,} nodes"


app = typer.Typer()

_MODES_HELP = (
    f"One of {', '.join(MODES)}, with --backlog of {', '.join(BACKLOG_MODES)}; may be repeated; all if not given."
)
_OF_BACKLOG = "With --backlog"
_SIZES: Final = {"jobs": 20, "tasks": 240, "task_ms": 5_000}


def _of_backlog(
    queues: Annotated[int | None, typer.Option(help="Leaf queues; 3.", rich_help_panel=_OF_BACKLOG)] = None,
    preferred_nodes: Annotated[
        int | None,
        typer.Option(
            help="Nodes that each job would like best, and their racks; 0: none.", rich_help_panel=_OF_BACKLOG
        ),
    ] = None,
    slots_per_node: Annotated[
        int | None,
        typer.Option(help="Containers that fit on a node; by nodes, 100,000 in all.", rich_help_panel=_OF_BACKLOG),
    ] = None,
    heartbeat_ms: Annotated[
        int | None,
        typer.Option(
            help="From one heartbeat of a node to the next, milliseconds; 1,000.", rich_help_panel=_OF_BACKLOG
        ),
    ] = None,
    warm_s: Annotated[
        float | None,
        typer.Option(help="Warm-up after the first container, seconds; 40.", rich_help_panel=_OF_BACKLOG),
    ] = None,
    window_s: Annotated[
        float | None, typer.Option(help="How long is measured, seconds; 20.", rich_help_panel=_OF_BACKLOG)
    ] = None,
) -> dict[str, Any]:
    """Return the given sizes of those that only a backlog has."""
    sizes = dict(locals())
    return {name: value for name, value in sizes.items() if value is not None}


@app.command()
@with_options(of_backlog=_of_backlog)
def cluster_command(
    *,
    output: OutputOption = Output.TABLE,
    out: ResultsOption = None,
    nodes: Annotated[int, typer.Option(help="Nodes of 10 GB and 10 cores.")] = 100,
    jobs: Annotated[
        int | None, typer.Option(help="Jobs, all submitted at once; 20, with --backlog 400.", show_default=False)
    ] = None,
    tasks: Annotated[
        int | None,
        typer.Option(help="Tasks of each job, of 1 GB and one core; 240, with --backlog 100.", show_default=False),
    ] = None,
    task_ms: Annotated[
        int | None,
        typer.Option(help="How long a task runs, milliseconds; 5,000, with --backlog 1.", show_default=False),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each mode runs, in turn.")] = 1,
    mode: Annotated[list[str] | None, typer.Option(help=_MODES_HELP)] = None,
    seed: SeedOption = 1,
    stall_s: Annotated[
        float, typer.Option(help="Give a run up when nothing has happened for so long, seconds.")
    ] = 120.0,
    java_option: Annotated[
        list[str] | None, typer.Option(help="A further option for the JVM, such as a profiler.")
    ] = None,
    folder: FolderOption = None,
    backlog: Annotated[
        bool,
        typer.Option(
            "--backlog", help="Asks that never run out and slots that are always free: who places how many a second."
        ),
    ] = False,
    of_backlog: dict[str, Any],
) -> None:
    """Measure the stock scheduler in its modes, Treadle, and the least that it could cost, with Hadoop's simulator."""
    if rounds < 1:
        raise BenchError(f"--rounds is {rounds}: at least 1 is needed")
    common = {"jobs": jobs, "tasks": tasks, "task_ms": task_ms}
    given = {name: value for name, value in common.items() if value is not None}
    judge: Callable[[Run], Figures]
    if backlog:
        workload: Workload = (load := BacklogLoad(nodes=nodes, seed=seed, **{**BACKLOG_SIZES, **given, **of_backlog}))
        modes = [load.mode(BACKLOG_MODES[name]) for name in chosen(mode, BACKLOG_MODES, option="--mode")]
        judge, sheet, done = partial(rate_of, load=load), RATE, partial(_done_of_backlog, load)
    else:
        refuse("goes with --backlog only", **dict.fromkeys(of_backlog, True))
        workload = Workload(nodes=nodes, seed=seed, **{**_SIZES, **given})
        modes = [MODES[name] for name in chosen(mode, MODES, option="--mode")]
        judge, sheet, done = partial(span_of, workload=workload), SPAN, partial(_done, workload)
    setting = Setting(
        workload=workload,
        class_path=[],
        heap_mb=heap_mb_for(workload),
        stall_s=stall_allowed_s(stall_s, workload),
        jvm_options=tuple(java_option or ()),
    )
    places = OutputPaths(output=output, out=out).check()
    # last, since it may build for a minute
    setting = replace(setting, class_path=sls.class_path())
    isolate_if_possible()
    work = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if folder is None else folder.absolute()
    with progress_console().status("starting") as status:
        outcome = run_rounds(
            modes,
            rounds,
            setting,
            progress_of(status, done),
            judge,
            work,
            lambda found: places.write(sheet.report(setting, rounds, found)),
        )
    for each in outcome:
        for failure in each.failures:
            note(f"{each.mode.name}: {failure}", "red")
    if late := behind(outcome):
        note(
            f"{', '.join(late)}: fewer than half of the heartbeats due were handled, so that nodes were silent for "
            f"long and ends of containers came late: no result of {nodes:,} nodes; with --backlog try a longer "
            "--heartbeat-ms or --warm-s",
            "yellow",
        )
    places.publish(sheet.report(setting, rounds, outcome), lambda console: console.print(sheet.table(outcome)))
    if any(each.failures for each in outcome):
        raise typer.Exit(1)
    if folder is None:
        shutil.rmtree(work)


def heap_mb_for(workload: Workload) -> int:
    """Return the heap size, MB: by nodes and containers, at most half of the memory."""
    by_load_mb = 1024 + workload.nodes // 4 + workload.containers // 50
    if isinstance(workload, BacklogLoad):
        by_load_mb = 2048 + workload.nodes // 4 + workload.slots // 100
    return min(psutil.virtual_memory().total // 2**20 // 2, by_load_mb)


def stall_allowed_s(asked_s: float, workload: Workload) -> float:
    """Return the time without any event that ends a run: never less than a few tasks take."""
    if not (math.isfinite(asked_s) and asked_s > 0):
        raise BenchError(f"--stall-s is {asked_s}: it must be above 0")
    return max(asked_s, 3 * workload.task_ms / 1000)
