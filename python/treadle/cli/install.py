"""`treadle install` (Cluster 1): put Treadle on a ResourceManager's host, all or nothing."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import DryRunOption
from treadle.errors import printable

app = typer.Typer()


@app.command()
def install(
    hadoop_conf: Annotated[
        Path,
        typer.Option(
            "--hadoop-conf", envvar="HADOOP_CONF_DIR", help="The folder with the ResourceManager's yarn-site.xml."
        ),
    ],
    user: Annotated[
        str,
        typer.Option(
            help="The user who runs the sidecar: the ResourceManager's, such as yarn, unless it has a user of its own."
        ),
    ],
    prefix: Annotated[
        Path | None,
        typer.Option(
            help="The folder for releases, each in a folder of its own; default: where one of this ResourceManager is "
            "installed, else /opt/treadle."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(help="Where treadle.yaml goes if there is none: /etc/treadle, or etc below another prefix."),
    ] = None,
    systemd_dir: Annotated[
        Path | None,
        typer.Option(
            help="The folder for the unit of an external sidecar, which is never enabled; default: /etc/systemd/system "
            "with the usual prefix, else none."
        ),
    ] = None,
    dry_run: DryRunOption = False,
) -> None:
    """Show what changes, and put Treadle in place: the ResourceManager takes it over when it is started again."""
    from treadle.admin.install import Signals, Stopped, carry_out, plan_of
    from treadle.admin.plan import DEFAULT_PREFIX, DEFAULT_SYSTEMD, Options, prefix_for

    prefix = prefix or prefix_for(hadoop_conf)
    if systemd_dir is None and prefix == DEFAULT_PREFIX and DEFAULT_SYSTEMD.is_dir():
        systemd_dir = DEFAULT_SYSTEMD
    options = Options(hadoop_conf.absolute(), user, prefix, config, systemd_dir)
    plan = plan_of(options)
    if plan.is_empty:
        _remarks(plan.remarks)
        typer.echo(f"nothing to do: {prefix / 'current'} and {hadoop_conf} are as `treadle install` leaves them")
        return
    for change in plan.changes:
        for line in change.diff():
            typer.echo(printable(line))
    if plan.makes_environment:
        typer.echo(f"new: {options.target}, {len(plan.contents.files)} files")
    if plan.makes_kernels:
        typer.echo(f"new: {options.kernels}, compiled code for {options.user}")
    if plan.makes_state:
        typer.echo(f"new: a folder next to {plan.config} for the engine's state, of {options.user}")
    if plan.links:
        typer.echo(f"new: {prefix / 'current'} -> {options.target.name}")
    if dry_run:
        _remarks(plan.remarks)
        typer.echo("nothing was changed (--dry-run)")
        return
    try:
        with Signals() as signals:
            now = datetime.now()  # for names that their reader's clock shows
            carry_out(plan, now, note, signals=signals)
    except Stopped as stopped:
        note(f"{stopped}; everything is as it was", "red")
        raise typer.Exit(128 + stopped.number) from None
    _remarks(plan.remarks)
    typer.echo(
        "installed. Next: look whether all is well (treadle doctor --pre), restart the ResourceManager, and see "
        "`treadle status`. With several ResourceManagers do the same on each of their hosts"
    )


def _remarks(remarks: list[str]) -> None:
    for line in remarks:
        note(f"note: {line}")
