"""`treadle policy`: check a policy, list the ready-made ones and their parts, or make a running cluster use one."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._jmx import DEFAULT_RM, JsonOption, RmOption, read_bean

if TYPE_CHECKING:
    from treadle.config.parts import Kind

app = typer.Typer(help="Check a policy, list what there is, or make a running cluster use one.", no_args_is_help=True)

Wanted = Annotated[str, typer.Argument(metavar="FILE|NAME", help="A treadle.yaml, or the name of a ready-made policy.")]


@app.callback()
def policy() -> None:
    """Check a policy, list what there is, or make a running cluster use one."""


@app.command()
def check(file: Wanted) -> None:
    """Say whether a treadle.yaml is right, and what to change if it is not; nothing is applied."""
    from treadle.config.installing import find_policy

    found = find_policy(file)
    typer.echo(f"{found}: right: {_checked(found)}")


@app.command()
def defaults() -> None:
    """Write a treadle.yaml with every setting, its default and its meaning."""
    from treadle.sidecar.live import live_defaults

    typer.echo(live_defaults(), nl=False)


@app.command("list")
def list_policies(as_json: JsonOption = False) -> None:
    """List the ready-made policies."""
    from treadle.config.installing import ready_made, summary
    from treadle.config.reader import read_settings
    from treadle.policy.catalogue import register_parts

    register_parts()
    rows = [
        {"name": name, "summary": summary(file), "parts": read_settings(file).policy.name(), "file": str(file)}
        for name, file in ready_made().items()
    ]
    _show(rows, as_json, ("name", "summary", "parts"))


@app.command()
def parts(as_json: JsonOption = False) -> None:
    """List the parts that a policy may have, and the parameters of each."""
    from treadle.config.parts import DEFAULTS, PARTS, QUESTIONS
    from treadle.policy.catalogue import register_parts

    register_parts()
    rows: list[dict[str, Any]] = []
    for part in QUESTIONS:
        for name, kind in PARTS.kinds(part).items():
            row = {"part": part, "kind": name, "default": name == DEFAULTS[part], "summary": kind.summary}
            rows.append(row | {"parameters": _parameters(kind, as_json)})
            if row["default"] and not as_json:
                rows[-1]["kind"] = f"{name} (default)"
    _show(rows, as_json, ("part", "kind", "summary", "parameters"))


@app.command()
def use(
    file: Wanted,
    config: Annotated[
        Path | None, typer.Option(help="The engine's treadle.yaml; without it the ResourceManager is asked.")
    ] = None,
    rm: RmOption = DEFAULT_RM,
    yarn: Annotated[str | None, typer.Option(help="The `yarn` command; without it the one in the PATH.")] = None,
    no_refresh: Annotated[bool, typer.Option("--no-refresh", help="Only replace the file.")] = False,
) -> None:
    """Make a running cluster use a policy: check it, replace the engine's treadle.yaml, have it read again.

    The old file is kept beside the new one, with .previous at the end of its name. If the ResourceManager or its
    engine refuses the new one, the old one is put back. Run it on the ResourceManager's host.
    """
    from treadle.cli import _take_over
    from treadle.config.installing import find_policy, replace_file
    from treadle.errors import UserError

    found = find_policy(file)
    wanted = _checked(found)
    target = config if config is not None else _take_over.configured_file(rm)
    before = target.read_text("utf-8") if target.is_file() else None
    previous = replace_file(target, _text(found))
    typer.echo(f"{target}: {wanted}" + (f"; the old one is {previous}" if previous else ""))
    command = None if no_refresh else _take_over.refresh_command(yarn)
    if command is None:
        typer.echo("run `yarn rmadmin -refreshQueues` to have it taken over")
        return
    try:
        earlier = read_bean(rm, "Treadle")
        _take_over.refresh(command)
        _take_over.wait_until_runs(rm, wanted, earlier)
    except UserError as error:
        if before is not None:
            replace_file(target, before)
            with suppress(UserError):  # so that the engine and the file agree again
                _take_over.refresh(command)
            raise UserError(f"{error}\n{target} is as it was before") from error
        raise
    typer.echo(f"the cluster runs {wanted}")


def _checked(file: Path) -> str:
    """Return the name of a policy that is right; a user's code runs in another process, and not for ever."""
    from treadle.config.reader import peek_source
    from treadle.sidecar.live import read_live_settings
    from treadle.sidecar.trial import check_apart

    source = peek_source(file)
    if source is not None and source.part_files:
        return check_apart(file)
    return read_live_settings(file).policy.name()


def _text(file: Path) -> str:
    """Return the text to put in the place of the engine's treadle.yaml."""
    from treadle.config.installing import with_absolute_paths

    # The first line differs each time: a policy that failed is tried again if an administrator says so.
    mark = "# Taken over by `treadle policy use` from "
    text = with_absolute_paths(file.read_text("utf-8"), file.parent)
    if text.startswith(mark):
        text = text.partition("\n")[2]
    return f"{mark}{file.absolute()} at {datetime.now(UTC).isoformat(timespec='microseconds')}\n{text}"


def _parameters(kind: Kind, as_json: bool) -> Any:
    """Return the parameters of a kind of part, with defaults and meanings as a mapping, else as lines."""
    fields = kind.parameters.keys().items()
    if as_json:
        return {
            key: {"default": None if field.is_required() else field.get_default(), "meaning": field.description}
            for key, field in fields
        }
    return "\n".join(key if field.is_required() else f"{key}: {field.get_default()}" for key, field in fields)


def _show(rows: list[dict[str, Any]], as_json: bool, columns: tuple[str, ...]) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(rows, indent=2, default=str))
        return
    from rich.table import Table

    table = Table(*columns)
    for row in rows:
        table.add_row(*(str(row[column]) for column in columns))
    console_for_tables().print(table, markup=False)
