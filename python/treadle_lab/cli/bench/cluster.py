"""`treadle bench cluster`: how fast a simulated cluster is scheduled, by mode."""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import psutil
import typer
from rich.console import Console

from treadle.cli._console import console_for_tables
from treadle.cli._options import with_options
from treadle.cli._results import plot_folder
from treadle_lab.bench import cluster
from treadle_lab.bench.backlog import BACKLOG_MODES, BACKLOG_SIZES, BacklogLoad
from treadle_lab.bench.backlog import chosen as modes_of_backlog
from treadle_lab.bench.plots import write_plots
from treadle_lab.bench.table import results_table
from treadle_lab.cli._isolation import isolate_if_possible
from treadle_lab.cli.bench._backlog import measure_backlog
from treadle_lab.cli.bench._progress import RunProgress, Seen
from treadle_lab.sls import load as jars
from treadle_lab.sls import load as modes
from treadle_lab.sls.load import BenchError, Workload
from treadle_lab.sls.results import ModeResult, comparison
from treadle_lab.sls.run import Setting, jfr_command

app = typer.Typer()

_MODES_HELP = (
    f"One of {', '.join(modes.MODES)}, with --backlog of {', '.join(BACKLOG_MODES)}; may be repeated; all if not given."
)
_OF_BACKLOG = "With --backlog"
_SIZES: Final = {"jobs": 20, "tasks": 240, "task_ms": 5_000}


def _of_backlog(
    queues: Annotated[int | None, typer.Option(help="Leaf queues; 3.", rich_help_panel=_OF_BACKLOG)] = None,
    users: Annotated[int | None, typer.Option(help="Users of the jobs, drawn; 1.", rich_help_panel=_OF_BACKLOG)] = None,
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
    profile: Annotated[
        Path | None,
        typer.Option(
            help="A folder for profiles: where each thread's time went while it was measured.",
            rich_help_panel=_OF_BACKLOG,
        ),
    ] = None,
    heartbeat_ms: Annotated[
        int | None,
        typer.Option(
            help="From one heartbeat of a node to the next, milliseconds; 1,000.", rich_help_panel=_OF_BACKLOG
        ),
    ] = None,
    warm_s: Annotated[
        float | None,
        typer.Option(help="From the first container to what is measured, seconds; 15.", rich_help_panel=_OF_BACKLOG),
    ] = None,
    window_s: Annotated[
        float | None, typer.Option(help="How long is measured, seconds; 20.", rich_help_panel=_OF_BACKLOG)
    ] = None,
) -> dict[str, Any]:
    """Return what is given of what a backlog alone has: its sizes, and a folder for profiles."""
    sizes = {
        "queues": queues,
        "users": users,
        "preferred_nodes": preferred_nodes,
        "slots_per_node": slots_per_node,
        "profile": profile,
        "heartbeat_ms": heartbeat_ms,
        "warm_s": warm_s,
        "window_s": window_s,
    }
    return {name: value for name, value in sizes.items() if value is not None}


@app.command()
@with_options(of_backlog=_of_backlog)
def cluster_command(
    *,
    json_file: Annotated[Path, typer.Option("--json", help="Where the results go, as JSON.")],
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
    heap_mb: Annotated[int, typer.Option(help="Heap of the JVM, MB; 0: by the size of the load.")] = 0,
    plot: Annotated[Path | None, typer.Option(help="A folder for plots.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the load.")] = 1,
    stall_s: Annotated[
        float, typer.Option(help="Give a run up when nothing has happened for so long, seconds.")
    ] = 120.0,
    runtime: Annotated[Path | None, typer.Option(help="A folder of Hadoop's jars, SLS included.")] = None,
    sidecar: Annotated[Path | None, typer.Option(help="The treadle command that the shim starts.")] = None,
    java_option: Annotated[
        list[str] | None, typer.Option(help="A further option for the JVM, such as a profiler.")
    ] = None,
    keep: Annotated[Path | None, typer.Option(help="Keep configuration, logs and measurements in this folder.")] = None,
    backlog: Annotated[
        bool,
        typer.Option(
            "--backlog", help="Asks that never run out and slots that are always free: who places how many a second."
        ),
    ] = False,
    of_backlog: dict[str, Any],
) -> None:
    """Hadoop's load simulator: the stock scheduler in its modes, Treadle, and the least that Treadle could cost."""
    if rounds < 1:
        raise BenchError(f"--rounds is {rounds}: at least 1 is needed")
    profile = of_backlog.get("profile")
    sizes = {name: value for name, value in of_backlog.items() if name != "profile"}
    common = {"jobs": jobs, "tasks": tasks, "task_ms": task_ms}
    given = {name: value for name, value in common.items() if value is not None}
    workload: Workload
    if backlog:
        if plot is not None:
            raise BenchError("--plot does not go with --backlog, which has no end to wait for; leave one out")
        workload = BacklogLoad(nodes=nodes, seed=seed, **{**BACKLOG_SIZES, **given, **sizes})
        chosen = modes_of_backlog(mode or [])
    else:
        if of_backlog:
            option = min(of_backlog).replace("_", "-")
            raise BenchError(f"--{option} goes with --backlog only; add it, or leave this out")
        workload = Workload(nodes=nodes, seed=seed, **{**_SIZES, **given})
        chosen = modes.chosen(mode or [])
    setting = Setting(
        workload=workload,
        class_path=[],
        java=jars.java_command(),
        heap_mb=heap_mb_for(workload, heap_mb),
        sidecar_command=str(sidecar_command(sidecar)),
        stall_s=stall_allowed_s(stall_s, workload),
        jvm_options=tuple(java_option or ()),
        profile=profile is not None,
    )
    if plot is not None:
        plot_folder(plot)
    if profile is not None:
        jfr_command(setting.java)
    cluster.write_report(json_file, cluster.report(setting, rounds, []))
    # last, since it may build for a minute
    setting = replace(setting, class_path=jars.class_path(runtime))
    isolate_if_possible()
    if isinstance(workload, BacklogLoad):
        if not measure_backlog(chosen, setting, workload, rounds, json_file, keep, profile):
            raise typer.Exit(1)
        return
    outcome = _run(setting, chosen, rounds, json_file, plot, keep, Console(stderr=True))
    if any(result.failures for result in outcome):
        raise typer.Exit(1)


def heap_mb_for(workload: Workload, asked_mb: int) -> int:
    """Return the heap to give: what was asked for, else by nodes and containers, at most half of the memory."""
    machine_mb = psutil.virtual_memory().total // 2**20
    if asked_mb == 0 and isinstance(workload, BacklogLoad):
        return min(machine_mb // 2, 2048 + workload.nodes // 4 + workload.slots // 100)
    if asked_mb == 0:
        return min(machine_mb // 2, 1024 + workload.nodes // 4 + workload.containers // 50)
    if not 256 <= asked_mb <= machine_mb:
        raise BenchError(f"--heap-mb is {asked_mb}: between 256 and the machine's {machine_mb} MB are possible")
    return asked_mb


def stall_allowed_s(asked_s: float, workload: Workload) -> float:
    """Return the time without any event that ends a run: never less than a few tasks take."""
    if not (math.isfinite(asked_s) and asked_s > 0):
        raise BenchError(f"--stall-s is {asked_s}: it must be above 0")
    return max(asked_s, 3 * workload.task_ms / 1000)


def sidecar_command(asked: Path | None) -> Path:
    """Return the treadle executable that the shim starts: what was asked for, else the one beside this Python."""
    beside = Path(sys.executable).with_name("treadle")
    found = asked or (beside if beside.exists() else Path(shutil.which("treadle") or beside))
    if not (found.is_file() and os.access(found, os.X_OK)):
        raise BenchError(f"--sidecar {found}: there is no such command; install the package into this Python")
    return found.absolute()


def _run(
    setting: Setting,
    chosen: list[modes.Mode],
    rounds: int,
    json_file: Path,
    plot: Path | None,
    keep: Path | None,
    console: Console,
) -> list[ModeResult]:
    folder = Path(tempfile.mkdtemp(prefix="treadle-bench-")) if keep is None else keep.absolute()
    with console.status("starting") as status:
        progress = RunProgress(status, partial(_done, setting.workload)).show
        outcome, runs = cluster.run_benchmark(chosen, setting, rounds, folder, json_file, progress)
    for result in outcome:
        for failure in result.failures:
            console.print(f"[red]{result.mode.name}[/]: {failure}", highlight=False)
    console_for_tables().print(results_table(outcome, comparison(outcome)))
    console.print(f"Results: {json_file}")
    if plot is not None:
        console.print("Plots: " + ", ".join(map(str, write_plots(plot, runs))))
    if keep is None and not any(result.failures for result in outcome):
        shutil.rmtree(folder)
    return outcome


def _done(workload: Workload, seen: Seen) -> str:
    done, nodes = seen.get("completions", {}).get("total", 0), seen.get("nodes", 0)
    if done or nodes >= workload.nodes:
        return f"{done:,} of {workload.containers:,} containers done"
    return f"{nodes:,} nodes"
