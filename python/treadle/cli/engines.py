"""`treadle engines` (Cluster 7): show engines, whom they serve, and how well."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.table import Table

from treadle.cli._console import print_result
from treadle.cli._options import DEFAULT_RM, CaOption, Output, OutputOption, RmOption, exit_if_silent
from treadle.errors import UserError, percent
from treadle.tables import empty_table
from treadle.yarn.treadle_beans import application_in, engines_in, why_not

app = typer.Typer()

_TEXTS: Final = ("engine", "serves", "policy")
_FIGURES: Final = ("busy", "conflicts", "wait", "P99", "retries", "given up", "moved")


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
        print_result(output, served, _sentence(served, idle))
        return
    print_result(output, {"engines": shown}, _table(shown) if shown else f"{_of_one(idle)}; see `treadle status`")
    exit_if_silent(bean)


def _of_one(idle: str) -> str:
    """Return the applications that the only engine of a cluster serves, in words."""
    return f"the one engine serves no application now: {idle}" if idle else "one engine serves all applications"


def _table(shown: list[dict[str, Any]]) -> Table:
    table = empty_table("", _TEXTS, _FIGURES, ("last error",))
    for row in shown:
        own = row["served_by"] in ("", row["engine"])
        fraction = "-" if row["conflict_fraction"] is None else f"{row['conflict_fraction']:.3f}"
        table.add_row(
            row["engine"],
            _serves(row) if own else f"nothing: {row['served_by']} stands in",
            row["policy"],
            percent(row["busy"], ".1f"),
            fraction,
            f"{row['wait_mean_ms'] / 1000:.2f} s",
            f"{row['wait_p99_ms'] / 1000:.2f} s",
            str(row["retries"]),
            str(row["given_up"]),
            str(row["moved"]),
            row["last_error"],
        )
    return table


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

    answer = ask_sidecar(state_places(configured_file(rm, ca, has_config=False)), {"engines": True})
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
