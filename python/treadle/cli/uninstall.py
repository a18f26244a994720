"""`treadle uninstall` (Cluster 2): undo `treadle install`."""

from __future__ import annotations

import typer

from treadle.cli._console import note
from treadle.cli._options import DryRunOption, HadoopConfOption, PrefixOption
from treadle.errors import printable

app = typer.Typer()


@app.command()
def uninstall(prefix: PrefixOption = None, hadoop_conf: HadoopConfOption = None, dry_run: DryRunOption = False) -> None:
    """Restore the files that `treadle install` changed, and remove those it made. Exit code 1: a process still runs."""
    from treadle.admin.install import plan_removal, remove
    from treadle.admin.plan import found_prefix

    if prefix is None:
        prefix = found_prefix(hadoop_conf, trusted=True)
        note(f"the installation is looked for below {prefix}; --prefix names another")
    plan = plan_removal(prefix.absolute())
    for each in plan.files:
        for line in each.diff():
            typer.echo(printable(line))
        for remark in each.remarks:
            note(f"note: {remark}")
    if dry_run:
        if plan.users:
            typer.echo(f"{prefix} would stay: these run from it: {'; '.join(map(printable, plan.users))}")
        typer.echo("nothing was changed (--dry-run)")
        return
    outcome = remove(plan, note)
    if outcome.is_done:
        but = ", but for what is named above as left" if outcome.left else ""
        typer.echo(f"uninstalled{but}. A ResourceManager that is started from now on runs without Treadle")
        return
    note(
        f"{prefix} stays as long as something runs from it: {'; '.join(plan.users)}. Restart the ResourceManager (stop "
        "the sidecar's unit), and run this again"
    )
    raise typer.Exit(1)
