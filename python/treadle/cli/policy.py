"""`treadle policy` (Cluster 9): list, check, try or use policies, and undo it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from treadle.cli._console import INTERRUPTED, note, print_result
from treadle.cli._options import (
    DEFAULT_RM,
    CaOption,
    ConfigOption,
    Output,
    OutputOption,
    RmOption,
    TrustOption,
    YarnOption,
    print_json,
)
from treadle.errors import UserError, counted
from treadle.tables import empty_table

if TYPE_CHECKING:
    from treadle.admin.policy_use import Change

app = typer.Typer(help="List, check, try or use policies, and undo it.", no_args_is_help=True)

_WANTED: Final = typer.Argument(
    metavar="FILE|NAME", help="The name of a ready-made policy, or a treadle.yaml; ./NAME is a file."
)
Wanted = Annotated[str, _WANTED]

NoRefreshOption = Annotated[bool, typer.Option("--no-refresh", help="Only replace the file.")]


@app.command()
def check(
    file: Wanted,
    scenario: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A scenario, to check that it has the queues of the policy.")
    ] = None,
    trust_code: TrustOption = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Check a treadle.yaml, and say what to change if it is wrong; nothing is applied."""
    from treadle.admin import policy_use
    from treadle.shipped import find_policy

    path = find_policy(file)
    name = policy_use.checked(path)
    policy_use.refuse_missing(path)
    _warn([*policy_use.unused(path), *policy_use.unrecorded(path)])
    if scenario is not None:
        _warn(policy_use.unnamed_queues(path, scenario, trust_code=trust_code))
    engines = policy_use.policies_of_engines(path)
    lines = (f"engine {engine}: {own}" for engine, own in engines.items())
    document = {"file": str(path), "policy": None if engines else name, "engines": engines}
    print_result(output, document, f"{path}: OK ({counted(len(engines), 'engine') if engines else name})", *lines)


@app.command("try")
def try_policy(file: Wanted, output: OutputOption = Output.TABLE) -> None:
    """Check a policy, and simulate it against `fair` on two small workloads: is it quicker? About half a minute."""
    from treadle.admin import policy_use
    from treadle.cli._simulate import try_against_fair  # only here: it imports numba
    from treadle.shipped import find_policy

    found = find_policy(file)
    note(f"{found}: OK ({policy_use.checked(found)})")
    policy_use.refuse_missing(found)
    _warn(policy_use.unused(found))
    try_against_fair(found, output)


def _warn(lines: list[str]) -> None:
    for line in lines:
        note(f"warning: {line}", "yellow")


@app.command("list")
def list_policies(output: OutputOption = Output.TABLE) -> None:
    """List the ready-made policies, in the order in which to try them."""
    from treadle.config.reader import read_settings
    from treadle.policy.catalogue import register_parts
    from treadle.shipped import TRY_ORDER, about, ready_made

    register_parts()
    files = ready_made()
    policies = {name: read_settings(files[name]).policy for name in TRY_ORDER}
    rows = [
        {"name": name, "recommended": name == TRY_ORDER[0]}
        | {key.replace(" ", "_"): text for key, text in about(files[name]).items()}
        | {"parts": policy.name(), "file": str(files[name])}
        for name, policy in policies.items()
    ]
    _show(rows, output, ("name", "title", "use_when", "requires"))
    if output is Output.TABLE:
        typer.echo(f"recommended: {TRY_ORDER[0]}")
    preempted = ", ".join(name for name, policy in policies.items() if policy.overrides_guarantees())
    note(f"{preempted}: the ResourceManager's preemption monitor must be off, or it takes back what they give")


@app.command()
def show(
    policy: Annotated[str | None, _WANTED] = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Show a treadle.yaml with every setting, its default and its meaning.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the file of a policy, or every setting that one may have."""
    if defaults == (policy is not None):
        raise UserError("give either a policy or --defaults")
    from treadle.config.text import default_yaml
    from treadle.config.yaml_nodes import YamlDocument, text_of
    from treadle.policy.catalogue import register_parts
    from treadle.shipped import find_policy

    register_parts()
    text = default_yaml() if policy is None else text_of(find_policy(policy))
    if output is Output.JSON:
        print_json(YamlDocument(str(policy), text).value)
    else:
        typer.echo(text, nl=False)


@app.command()
def use(
    file: Wanted,
    config: ConfigOption = None,
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    yarn: YarnOption = None,
    no_refresh: NoRefreshOption = False,
    also: Annotated[
        list[str] | None, typer.Option(help="A section of the file that is taken over besides `policy:`, as `plans`.")
    ] = None,
) -> None:
    """Make a running cluster use a policy: check it, write it to the engine's treadle.yaml, have that read again.

    Other sections stay, unless `--also` names them. The earlier version is saved (`treadle policy history`), and
    restored if the ResourceManager or its engine rejects the new one. Run it on the ResourceManager's host.
    """
    from treadle.admin import policy_use
    from treadle.shipped import find_policy

    path = find_policy(file)
    wanted = policy_use.checked(path)
    _warn(policy_use.unused(path))
    target = policy_use.target_of(config, rm, ca, reads=not no_refresh)
    change = policy_use.change_of(path, target, also or [])
    wanted = policy_use.shown_after(change, wanted)
    _take_over(change, wanted, rm, ca, yarn, no_refresh=no_refresh)


@app.command()
def history(
    config: ConfigOption = None, rm: RmOption = DEFAULT_RM, ca: CaOption = None, output: OutputOption = Output.TABLE
) -> None:
    """List the saved versions of the engine's treadle.yaml, one from each `use` and `rollback`, the latest last."""
    from dataclasses import asdict

    from treadle.admin import policy_use
    from treadle.cli.explain import check_config
    from treadle.config.text import History

    check_config(config)
    target = policy_use.target_of(config, rm, ca)
    rows = [asdict(version) for version in History(target.resolve()).versions()]
    _show(rows, output, ("number", "until", "policy", "replaced_by"))


@app.command()
def rollback(
    number: Annotated[int | None, typer.Argument(help="Which version of `history`; without it the latest.")] = None,
    config: ConfigOption = None,
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    yarn: YarnOption = None,
    no_refresh: NoRefreshOption = False,
) -> None:
    """Restore a saved version of the engine's treadle.yaml as a whole, and have it read again.

    The current version is saved too, so that a second `rollback` undoes the first.
    """
    from treadle.admin import policy_use
    from treadle.cli.explain import check_config

    check_config(config)
    target = policy_use.target_of(config, rm, ca, reads=not no_refresh)
    change = policy_use.change_back(target, number)
    _take_over(change, policy_use.checked_text(change), rm, ca, yarn, no_refresh=no_refresh)


def _take_over(change: Change, wanted: str, rm: str, ca: Path | None, yarn: str | None, *, no_refresh: bool) -> None:
    from treadle.admin import policy_use

    try:
        command = None if no_refresh else policy_use.refresh_command(yarn)
        policy_use.take_over(change, wanted, rm, ca, command, typer.echo)
    except policy_use.StoppedError as error:
        note(str(error))
        raise typer.Exit(INTERRUPTED) from None


def _show(rows: list[dict[str, Any]], output: Output, columns: tuple[str, ...]) -> None:
    table = empty_table("", (column.replace("_", " ") for column in columns))
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    print_result(output, rows, table)
