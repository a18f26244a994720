"""`treadle sidecar`: run the engine's process, or restart it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._options import DEFAULT_RM, CaOption, RmOption
from treadle.errors import UserError

app = typer.Typer()


@app.callback(invoke_without_command=True)
def sidecar(
    context: typer.Context,
    managed: Annotated[bool, typer.Option("--managed", help="As the child of a ResourceManager.")] = False,
    external: Annotated[bool, typer.Option("--external", help="By itself; see --connection-file.")] = False,
    connection_file: Annotated[
        Path | None, typer.Option(help="Where an external sidecar writes its port and token, for its own user only.")
    ] = None,
    connection_group: Annotated[
        str | None,
        typer.Option(help="Who else may read it: a group of the ResourceManager's user, if that is another."),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="treadle.yaml; without one, all defaults.")] = None,
    warm_up: Annotated[bool, typer.Option("--warm-up", help="Compile the engine's kernels and exit.")] = False,
) -> None:
    """Run the engine's process: one of --managed, --external and --warm-up."""
    if context.invoked_subcommand is not None:
        return
    if managed + external + warm_up != 1:
        raise UserError("choose one of --managed, --external and --warm-up")
    if external != (connection_file is not None):
        raise UserError("--external and --connection-file FILE belong together")
    if connection_group is not None and not external:
        raise UserError("--connection-group belongs to --external")
    if config is not None and not str(config):
        config = None
    from treadle.live import process

    if managed:
        code = process.run_managed(config)
    elif connection_file is not None:
        code = process.run_external(connection_file, config, connection_group)
    else:
        code = process.run_warm_up(config)
    raise typer.Exit(code)


@app.command()
def restart(
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    pid: Annotated[int | None, typer.Option(help="One process, where several sidecars run on this host.")] = None,
    wait_s: Annotated[float, typer.Option(help="How long another one may take to schedule.", min=1)] = 300.0,
) -> None:
    """End this host's sidecar, and wait until another one holds the lease. The stock scheduler works meanwhile."""
    from treadle.admin.sidecars import restart_sidecars

    restart_sidecars(rm, ca, pid, wait_s, typer.echo)
