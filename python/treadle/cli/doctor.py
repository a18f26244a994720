"""`treadle doctor` (Cluster 3): check a host, and name a remedy for each problem."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treadle.cli._console import note
from treadle.cli._options import CaOption, HadoopConfOption, Output, OutputOption, PrefixOption, YarnOption, print_json
from treadle.errors import printable

if TYPE_CHECKING:
    from treadle.admin.doctor import Result

app = typer.Typer()


@app.command()
def doctor(
    hadoop_conf: HadoopConfOption = None,
    rm: Annotated[
        list[str] | None,
        typer.Option(
            "--rm",
            envvar="TREADLE_RM",
            metavar="ADDRESS",
            help="The address of a ResourceManager's web pages, once for each; else those in yarn-site.xml.",
        ),
    ] = None,
    pre: Annotated[bool, typer.Option("--pre", help="Before Treadle runs: ask no ResourceManager.")] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="Run this check alone; may be given several times.")
    ] = None,
    output: OutputOption = Output.TABLE,
    prefix: PrefixOption = None,
    user: Annotated[
        str, typer.Option(help="The sidecar's user, if neither settings nor `treadle install` name it.")
    ] = "",
    yarn: YarnOption = None,
    java: Annotated[
        Path | None,
        typer.Option(help="The ResourceManager's Java; else by yarn-env.sh, hadoop-env.sh, JAVA_HOME or the path."),
    ] = None,
    bundle: Annotated[
        Path | None,
        typer.Option(
            help="Write an archive (tar.gz) for support: findings, logs, beans, settings; texts that may be "
            "confidential are left out."
        ),
    ] = None,
    ca: CaOption = None,
) -> None:
    """Look at the host, Hadoop's settings, files and ResourceManagers. Exit code 1: a check has failed."""
    from treadle.admin.doctor import chosen_checks, examine
    from treadle.admin.hadoop import Facts
    from treadle.admin.plan import found_prefix, installed_conf
    from treadle.admin.policy_use import refresh_command

    checks = chosen_checks(only or (), pre=pre)
    prefix = prefix or found_prefix(hadoop_conf, trusted=False)
    conf = installed_conf(prefix) if hadoop_conf is None else hadoop_conf.absolute()
    facts = Facts(conf, tuple(rm or ()), prefix, ca, user, refresh_command(yarn), java)
    results: list[Result] = []
    for result in examine(facts, checks):
        if output is Output.TABLE:
            _show(result, results[-1] if results else None)
        results.append(result)
    if output is Output.JSON:
        print_json([each.plain() for each in results])
    failed = sum(each.finding.status == "fail" for each in results)
    if output is Output.TABLE:
        warned = sum(each.finding.status == "warn" for each in results)
        typer.echo(f"\n{failed} failed, {warned} to look at, of {len(results)} findings")
    if bundle is not None:
        from treadle.admin.bundle import write_bundle

        names = write_bundle(bundle, facts, results)
        note(f"wrote {bundle} ({', '.join(names)}); read it before you send it")
    raise typer.Exit(1 if failed else 0)


def _show(result: Result, before: Result | None) -> None:
    check, finding = result
    if before is None or before.check.group != check.group:
        typer.echo(f"{'' if before is None else chr(10)}{check.group}")
    typer.echo(f"  {finding.status:<7}  {check.name:<12}  {printable(finding.text)}")
    if finding.remedy and finding.status != "ok":
        typer.echo(f"{'':25}{printable(finding.remedy)}")
