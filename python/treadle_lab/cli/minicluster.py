"""`treadle minicluster` (In a checkout 1): start a real YARN cluster on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import console_for_tables, note, steps
from treadle.cli._options import Output, OutputOption, print_json
from treadle.config.reader import read_settings
from treadle.tables import empty_table
from treadle_lab.cli._experiments import isolate, warn, with_options
from treadle_lab.harness import namespaces
from treadle_lab.minicluster import (
    ClusterError,
    ClusterSettings,
    MiniCluster,
    NodeAttribute,
    NodeLabel,
    Scheduler,
    processes,
)
from treadle_lab.minicluster.cluster import client_environment, missing, sleep_job
from treadle_lab.minicluster.processes import terminable, uninterrupted
from treadle_lab.minicluster.settings import build_folder, parse_assignments, parse_resources
from treadle_lab.minicluster.site import Layout

app = typer.Typer(
    help="A real YARN cluster on this machine: one ResourceManager and some NodeManagers on loopback.",
    no_args_is_help=True,
)

Folder = Annotated[
    Path | None,
    typer.Option(
        "--folder", envvar="TREADLE_MINICLUSTER_FOLDER", help="The folder of the cluster; default: build/minicluster."
    ),
]

Isolated = Annotated[
    bool,
    typer.Option(
        "--isolated", help="In a separate network namespace: other users cannot reach the cluster, nor can a browser."
    ),
]


def _settings(
    nodes: Annotated[int, typer.Option(help="NodeManagers.")] = 3,
    memory: Annotated[int, typer.Option("--memory-mb", help="Memory that each NodeManager offers, MB.")] = 8192,
    vcores: Annotated[int, typer.Option(help="Virtual cores that each NodeManager offers.")] = 8,
    resource: Annotated[
        list[str] | None,
        typer.Option(help="NAME=AMOUNT: a further resource type that each node offers."),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="NAME=NODE[,NODE...]: a partition; NAME:shared=... lends its idle nodes to others."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="NAME=VALUE:NODE[,NODE...]: a node attribute; nodes are then node1, node2, ..."),
    ] = None,
    queues: Annotated[Path | None, typer.Option(help="A capacity-scheduler.xml; default: one queue `default`.")] = None,
    scheduler: Annotated[Scheduler, typer.Option(help="Who schedules.")] = Scheduler.TREADLE,
    mode: Annotated[str, typer.Option(help="Treadle's mode: enforce, observe_only or off.")] = "enforce",
    policy: Annotated[Path | None, typer.Option(help="A treadle.yaml.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="KEY=VALUE: an entry of yarn-site.xml.")] = None,
    recovery: Annotated[
        bool, typer.Option("--recovery", help="Keep the RM's state, so that it survives a restart.")
    ] = False,
) -> ClusterSettings:
    if policy is not None:
        from treadle.policy.catalogue import register_parts  # only here: it imports numba

        register_parts()
        # better refused now than by a cluster that does not get ready
        read_settings(policy)
    return ClusterSettings(
        nodes=nodes,
        memory_mb=memory,
        vcores=vcores,
        resources=parse_resources(resource or []),
        labels=tuple(NodeLabel.parse(text) for text in label or []),
        attributes=tuple(NodeAttribute.parse(text) for text in attribute or []),
        queues=queues,
        scheduler=scheduler,
        mode=mode,
        policy=policy,
        overrides=parse_assignments(set_ or [], "--set"),
        recovery=recovery,
    )


@app.callback()
def minicluster() -> None:
    """Manage a real YARN cluster on this machine."""


@app.command()
@with_options(settings=_settings)
def start(*, folder: Folder = None, isolated: Isolated = False, settings: ClusterSettings) -> None:
    """Start a cluster and leave it running."""
    cluster = _start(settings, folder, isolated)
    typer.echo(_how_to_use(cluster), err=isolated)


@app.command()
def status(folder: Folder = None, output: OutputOption = Output.TABLE) -> None:
    """Show what runs."""
    cluster = _attached(folder)
    layout = cluster.layout
    entries = [(entry, processes.find(entry)) for entry in layout.processes]
    running = {entry.name: process.pid for entry, process in entries if process is not None}
    awaited = missing(cluster)
    if output is Output.JSON:
        facts = {
            "folder": str(layout.folder),
            "conf": str(layout.conf),
            "rm": layout.rm_url,
            "scheduler": layout.scheduler,
            "ready": awaited is None,
            "pids": running,
            "sidecars": cluster.sidecar_pids(),
        }
        print_json(facts)
        return
    table = empty_table("", ("process",), ("pid",), ("address",))
    addresses = {"rm": layout.rm_url} | {
        f"nm{number}": layout.node_id(number) for number in range(1, len(layout.nm_ports) + 1)
    }
    for entry, _ in entries:
        table.add_row(entry.name, str(running.get(entry.name, "ended")), addresses[entry.name])
    for pid in cluster.sidecar_pids():
        table.add_row("sidecar", str(pid), "")
    console = console_for_tables()
    console.print(table)
    if "rm" not in running:
        awaited = "the ResourceManager has ended; start it: treadle minicluster restart-rm"
    console.print(f"scheduler {layout.scheduler}; {awaited or 'ready'}", soft_wrap=True)
    console.print(_how_to_use(cluster), soft_wrap=True)


@app.command()
def stop(folder: Folder = None) -> None:
    """Stop a cluster and all that it runs; its logs stay."""
    layout = Layout.load(_folder(folder))
    if layout is None:
        note(f"no cluster is running in {_folder(folder)}")
        return
    with steps() as say, uninterrupted():
        say("stopping")
        processes.end(layout)
        layout.state_file.unlink(missing_ok=True)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
@with_options(settings=_settings)
def run(
    *,
    command: Annotated[list[str], typer.Argument(help="A command, after --, with its arguments.", metavar="CMD...")],
    folder: Folder = None,
    isolated: Isolated = False,
    settings: ClusterSettings,
) -> None:
    """Start a cluster, run CMD with its HADOOP_CONF_DIR, stop the cluster and exit as CMD did."""
    with terminable():
        cluster = _start(settings, folder, isolated)
        try:
            code = _run(command, client_environment(cluster))
        finally:
            cluster.stop()
    sys.exit(code)


@app.command("exec", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def execute(
    command: Annotated[list[str], typer.Argument(help="A command, after --, with its arguments.", metavar="CMD...")],
    folder: Folder = None,
) -> None:
    """Run CMD with the environment of a cluster that runs, a `yarn` among it, and exit as CMD did.

    So `treadle minicluster exec -- yarn rmadmin -refreshQueues`, or `exec -- treadle policy use FILE`.
    """
    cluster = _attached(folder)
    sys.exit(_run(command, client_environment(cluster)))


@app.command()
def job(
    folder: Folder = None,
    maps: Annotated[int, typer.Option(min=1, help="Map tasks.")] = 4,
    reduces: Annotated[int, typer.Option(min=0, help="Reduce tasks.")] = 0,
    task_ms: Annotated[int, typer.Option(min=1, help="How long each task sleeps, ms.")] = 1000,
    queue: Annotated[str, typer.Option(help="The queue it goes to.")] = "default",
    memory_mb: Annotated[int, typer.Option(min=1, help="Memory that each task asks for, MiB.")] = 256,
    tag: Annotated[
        list[str] | None, typer.Option(help="A tag, such as treadle:require=gpu=yes; may be given several times.")
    ] = None,
) -> None:
    """Run a MapReduce job whose tasks sleep on a cluster that runs, wait for its end and exit as it did."""
    cluster = _attached(folder)
    sys.exit(_run(sleep_job(cluster, queue, maps, reduces, task_ms, memory_mb, tag or ()), cluster.environment()))


@app.command()
def restart_rm(
    folder: Folder = None,
    kill: Annotated[bool, typer.Option("--kill", help="By SIGKILL instead of SIGTERM.")] = False,
) -> None:
    """Restart the ResourceManager of a cluster that runs, or start the one that has ended, and wait until it is ready.

    What ran goes on only in a cluster that was started with --recovery.
    """
    cluster = _attached(folder)
    with steps() as say, uninterrupted():
        say("restarting the ResourceManager")
        cluster.restart_rm(kill)


def _folder(folder: Path | None) -> Path:
    return (folder or build_folder() / "minicluster").resolve()


def _start(settings: ClusterSettings, folder: Path | None, isolated: bool) -> MiniCluster:
    if not isolated:
        warn("start it with --isolated to keep them out")
    elif failure := isolate():
        raise ClusterError(f"--isolated: a separate network namespace is not possible here: {failure}; leave it out")
    with steps() as say, terminable():
        cluster = MiniCluster(settings, _folder(folder), say)
        cluster.start()
    note(f"ready: {settings.nodes} NodeManagers, {cluster.layout.rm_url}")
    return cluster


def _attached(folder: Path | None) -> MiniCluster:
    cluster = MiniCluster.attach(_folder(folder))
    if cluster is None:
        raise ClusterError(f"no cluster is running in {_folder(folder)}; start one: treadle minicluster start")
    running = next(filter(None, map(processes.find, cluster.layout.processes)), None)
    if running is not None and (failure := namespaces.enter(running.pid)):
        raise ClusterError(
            f"the cluster's network cannot be entered: {failure}; be the user who started {_folder(folder)}"
        )
    return cluster


def _how_to_use(cluster: MiniCluster) -> str:
    if namespaces.was_moved():
        return "in a separate network namespace; reach it with: treadle minicluster exec -- COMMAND"
    return f"export HADOOP_CONF_DIR={cluster.layout.conf}"


def _run(command: list[str], environment: dict[str, str]) -> int:
    """Run a user's command in the foreground; an interrupt reaches it too, and it has a moment to end."""
    try:
        child = subprocess.Popen(command, env=environment)
    except OSError as error:
        raise ClusterError(f"{command[0]}: {error.strerror}") from error
    try:
        return child.wait()
    except KeyboardInterrupt:
        for end in (child.terminate, child.kill):
            try:
                child.wait(timeout=5)
            except subprocess.TimeoutExpired:
                end()
        child.wait()
        raise
