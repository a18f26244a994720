"""`treadle sidecar` (Cluster 11): run the engine's process, or restart it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import DEFAULT_RM, CaOption, RmOption
from treadle.errors import UserError

app = typer.Typer(help="Run the engine's process, or restart it.", no_args_is_help=True)

SidecarConfigOption = Annotated[Path | None, typer.Option("--config", help="treadle.yaml; without one, all defaults.")]


@app.command()
def run(
    managed: Annotated[bool, typer.Option("--managed", help="As the child of a ResourceManager.")] = False,
    external: Annotated[bool, typer.Option("--external", help="By itself; see --connection-file.")] = False,
    connection_file: Annotated[
        Path | None, typer.Option(help="Where an external sidecar writes its port and token, for its own user only.")
    ] = None,
    connection_group: Annotated[
        str | None,
        typer.Option(help="Who else may read it: a group of the ResourceManager's user, if that is another."),
    ] = None,
    config: SidecarConfigOption = None,
) -> None:
    """Run the engine's process: one of --managed and --external."""
    if managed == external:
        raise UserError("choose one of --managed and --external")
    if external != (connection_file is not None):
        raise UserError("--external and --connection-file FILE belong together")
    if connection_group is not None and not external:
        raise UserError("--connection-group belongs to --external")
    from treadle.live import process

    if connection_file is not None:
        raise typer.Exit(process.run_external(connection_file, config, connection_group))
    raise typer.Exit(process.run_managed(config))


@app.command()
def warm_up(config: SidecarConfigOption = None) -> None:
    """Compile the engine's kernels, so that no first start of a sidecar waits for the compiler."""
    from treadle.live import process

    raise typer.Exit(process.run_warm_up(config))


@app.command()
def restart(
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    pid: Annotated[int | None, typer.Option(help="One process, where several sidecars run on this host.")] = None,
    wait_s: Annotated[float, typer.Option(help="How long another one may take to schedule.", min=1)] = 300.0,
) -> None:
    """End this host's sidecar, and wait until another one holds the lease. The stock scheduler works meanwhile."""
    from treadle.admin.sidecars import restart_sidecars

    restart_sidecars(rm, ca, pid, wait_s, note)
