"""`treadle engines`: which engines a cluster has, who serves what, and how well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._jmx import DEFAULT_RM, CaOption, JsonOption, RmOption, read_bean, read_beans
from treadle.errors import UserError

app = typer.Typer()

_PREFIX: Final = "TreadleEngine-"
CONFLICTS: Final = ("NodeFull", "NodeReserved", "QueueMaximum", "UserLimit", "StaleState", "Changed", "Transaction")
"""What others have caused since the engine looked: as in the reason of a rejection."""


@app.command()
def engines(
    rm: RmOption = DEFAULT_RM,
    ca: CaOption = None,
    as_json: JsonOption = False,
    application: Annotated[str | None, typer.Option("--app", help="Who serves this application, and why.")] = None,
) -> None:
    """Show the engines of a cluster: who serves what, how busy they are, and how often they conflict."""
    beans = {_name(bean): bean for bean in read_beans(rm, f"{_PREFIX}*", ca)}
    roster = _roster(rm, ca) if beans else {"engines": {}, "applications": {}}
    if application is not None:
        found = _served(application, roster)
        typer.echo(json.dumps(found) if as_json else _sentence(application, found))
        return
    # without several engines the bean of the one says whether there is Treadle at all
    shown = [figures(name, roster["engines"].get(name, {}), bean) for name, bean in beans.items()]
    if not shown:
        read_bean(rm, "Treadle", ca)
    if as_json:
        typer.echo(json.dumps({"engines": shown}, indent=2))
        return
    if not shown:
        typer.echo("one engine serves all applications; see `treadle status`")
        return
    _print(shown)


def figures(name: str, life: Mapping[str, Any], bean: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of an engine: its part of the roster's bean, and of its own."""
    useful, wasted, empty = (int(bean.get(f"Decision{kind}Ms", 0)) for kind in ("Useful", "Wasted", "Empty"))
    committed = int(bean.get("Committed", 0))
    conflicts = sum(int(bean.get(f"Rejected{reason}", 0)) for reason in CONFLICTS)
    return {
        "engine": name,
        "entry": life.get("entry", ""),
        "lives": bool(life.get("lives", False)),
        "served_by": life.get("served_by", ""),
        "applications": int(life.get("applications", 0)),
        "policy": bean.get("tag.Policy", ""),
        "busy": round((useful + wasted + empty) / max(1, int(bean.get("SinceMs", 0))), 4),
        "useful_ms": useful,
        "wasted_ms": wasted,
        "empty_ms": empty,
        "committed": committed,
        "conflicts": conflicts,
        "conflict_fraction": round(conflicts / committed, 4) if committed else None,
        "not_owner": int(bean.get("RejectedNotOwner", 0)),
        "lease_flips": int(bean.get("LeaseFlips", 0)),
        "last_error": bean.get("tag.LastError", ""),
    }


def _print(shown: list[dict[str, Any]]) -> None:
    from rich.table import Table

    table = Table()
    for title in ("engine", "lives", "serves", "policy", "busy", "committed", "conflicts", "last error"):
        table.add_column(title)
    for row in shown:
        own = row["served_by"] in ("", row["engine"])
        fraction = "-" if row["conflict_fraction"] is None else f"{row['conflict_fraction']:.3f}"
        table.add_row(
            row["engine"],
            "yes" if row["lives"] else "no",
            f"{row['applications']} applications" if own else f"nothing: {row['served_by']} stands in",
            row["policy"],
            f"{100 * row['busy']:.1f} %",
            str(row["committed"]),
            fraction,
            row["last_error"],
        )
    console_for_tables().print(table, markup=False)


def _name(bean: Mapping[str, Any]) -> str:
    return str(bean.get("name", "")).rpartition(_PREFIX)[2]


def _roster(rm: str, ca: Path | None) -> dict[str, Any]:
    bean = read_bean(rm, "TreadleEngines", ca)
    try:
        roster = json.loads(bean["Engines"])
        return {"engines": dict(roster["engines"]), "applications": dict(roster["applications"])}
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{rm}: the bean TreadleEngines holds no JSON; use the jar of this version") from error


def _served(application: str, roster: Mapping[str, Any]) -> dict[str, Any]:
    """Return the engine whose an application is, and who serves it.

    Raises:
        UserError: no engine serves it.
    """
    if not roster["engines"]:
        return {"application": application, "home": None, "owner": None}
    if application not in roster["applications"]:
        raise UserError(f"{application} is not served by any engine: it has ended, or there is none of this id")
    home, owner = roster["applications"][application]
    return {"application": application, "home": home, "owner": owner}


def _sentence(application: str, found: Mapping[str, Any]) -> str:
    home, owner = found["home"], found["owner"]
    if home is None:
        return "one engine serves all applications"
    if home == owner:
        return f"{application} is served by {owner}, whose selector is the first that matches"
    return f"{application} is served by {owner}, because {home}, whose it is, is dead or has not lived for 10 s again"
