"""`treadle engines`: show engines, whom they serve, and how well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._options import DEFAULT_RM, CaOption, Output, OutputOption, RmOption, exit_if_silent, print_json
from treadle.errors import UserError
from treadle.yarn.treadle_beans import application_in, engines_in, why_not

app = typer.Typer()

_WHO: Final = ("engine", "serves", "policy", "busy", "conflicts", "wait", "p99")
_TITLES: Final = (*_WHO, "retries", "given up", "moved", "last error")


@app.command()
def engines(
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    output: OutputOption = Output.TABLE,
    application: Annotated[str | None, typer.Option("--app", help="Who serves this application, and why.")] = None,
) -> None:
    """Show the engines of a cluster: who serves what, how busy they are, and how often they conflict.

    Exit code 1: no engine answers.
    """
    from treadle.yarn.pages import read_bean

    bean = read_bean(rm, ca)
    shown = engines_in(bean)
    # without several engines the bean shows whether the one serves applications
    idle = "" if shown else why_not(bean)
    if application is not None:
        served = _served(application, _owners(rm, ca) if shown else {})
        typer.echo(json.dumps(served) if output is Output.JSON else _sentence(served, idle))
        return
    if output is Output.JSON:
        print_json({"engines": shown})
    elif not shown:
        typer.echo(f"{_of_one(idle)}; see `treadle status`")
    else:
        _print(shown)
    exit_if_silent(bean)


def _of_one(idle: str) -> str:
    """Return the applications that the only engine of a cluster serves, in words."""
    return f"the one engine serves no application now: {idle}" if idle else "one engine serves all applications"


def _print(shown: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table()
    for title in _TITLES:
        table.add_column(title)
    for row in shown:
        own = row["served_by"] in ("", row["engine"])
        fraction = "-" if row["conflict_fraction"] is None else f"{row['conflict_fraction']:.3f}"
        table.add_row(
            row["engine"],
            _serves(row) if own else f"nothing: {row['served_by']} stands in",
            row["policy"],
            f"{100 * row['busy']:.1f} %",
            fraction,
            f"{row['wait_mean_ms'] / 1000:.2f} s",
            f"{row['wait_p99_ms'] / 1000:.2f} s",
            str(row["retries"]),
            str(row["given_up"]),
            str(row["moved"]),
            row["last_error"],
        )
    console_for_tables(width=160).print(table, markup=False)


def _serves(row: Mapping[str, Any]) -> str:
    """Return an engine's applications, in words; it may be dead while no other engine stands in for it."""
    state = "is dead" if row["has_answered"] else "has not answered yet"
    return f"{row['applications']} applications" + ("" if row["lives"] else f", but {state}")


def _owners(rm: str, ca: Path | None) -> dict[str, Any]:
    """Return home and owner of each application, as the sidecar reports them.

    Raises:
        UserError: it does not report them.
    """
    from treadle.admin.policy_use import configured_file
    from treadle.cli.explain import ask_sidecar, state_places

    answer = ask_sidecar(state_places(configured_file(rm, ca)), {"engines": True})
    if "applications" not in answer:
        raise UserError(f"the sidecar does not say who serves what: {answer.get('error', 'it answers something else')}")
    return dict(answer["applications"])


def _served(application: str, owners: Mapping[str, Any]) -> dict[str, Any]:
    """Return an application's home and owner; None for the only engine.

    Raises:
        UserError: no engine serves it.
    """
    if not owners:
        return {"application": application, "home": None, "owner": None, "given_up": False}
    name = application_in(owners, application)
    if not name or not owners[name][1]:
        raise UserError(f"{application} is not served by any engine: it has ended, or there is none of this id")
    home, owner, why = owners[name]
    return {"application": name, "home": home, "owner": owner, "given_up": why == "given up"}


def _sentence(served: Mapping[str, Any], idle: str) -> str:
    application, home, owner = served["application"], served["home"], served["owner"]
    if home is None:
        return _of_one(idle)
    if served["given_up"]:
        return f"{application} is served by {owner}, because {home}, whose it is, has given it up after its conflicts"
    if home == owner:
        return f"{application} is served by {owner}, whose selector is the first that matches"
    return f"{application} is served by {owner}, because {home}, whose it is, is dead or has not lived for 10 s again"
