"""`treadle observe`: what Treadle would have done in mode observe_only."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._jmx import DEFAULT_RM, CaOption, JsonOption, RmOption, read_bean
from treadle.errors import UserError

app = typer.Typer()

_WORDS: Final = {
    "since_ms": "counted since",
    "window_ms": "time that the stock scheduler has for a placement that was proposed, ms",
    "proposals": "proposals judged",
    "would_commit": "would have been committed",
    "would_reject": "would have been rejected",
    "stock_placements": "placed by the stock scheduler",
    "forgotten": "not compared, too much at once",
    "total": "placements",
    "by_framework": "by type of application",
    "agreed": "on a node that Treadle proposed",
    "other_node": "on another node",
    "stock_only": "by the stock scheduler only",
    "treadle_only": "by Treadle only",
}
_PLACED: Final = ("agreed", "other_node", "stock_only")
"""Together these are the placements by the stock scheduler."""
_JUDGED: Final = ("would_commit",)
_FIRST_MS: Final = 1_000_000_000_000
"""September 2001: what is before it is no time of a ResourceManager's."""
_BY_NAME: Final = {"by_queue", "by_framework"}
"""Parts whose rows are names that others gave."""


@app.command()
def observe(rm: RmOption = DEFAULT_RM, ca: CaOption = None, as_json: JsonOption = False) -> None:
    """Compare what Treadle would have done with what the stock scheduler did, in mode observe_only."""
    mode = str(read_bean(rm, "Treadle", ca).get("Mode", ""))
    bean = read_bean(rm, "TreadleObservation", ca)
    try:
        observation = json.loads(bean.get("Observation") or "{}")
    except ValueError as error:
        raise UserError(f"{rm}: the bean TreadleObservation holds no JSON; use the jar of this version") from error
    if as_json:
        typer.echo(json.dumps({"mode": mode, **observation}, indent=2))
        return
    if mode.lower() != "observe_only":
        typer.echo(f"the mode is {mode or 'unknown'}, not observe_only: nothing is being compared now", err=True)
    if not observation:
        typer.echo("nothing has been compared yet")
        return

    console = console_for_tables()
    single = {key: value for key, value in observation.items() if not isinstance(value, dict)}
    for title, part in {"observed": single, **observation}.items():
        if isinstance(part, dict) and part:
            console.print(_table(title, part, int(observation.get("proposals", 0))), markup=False)


def _table(title: str, value: dict[str, Any], proposals: int) -> Any:
    """Return a table of one part of the observation: a row a key, and a column a field where rows are mappings.

    Placements have their part of all that the stock scheduler made (`stock_only` among them, `treadle_only` not), fates
    their part of all proposals.
    """
    from rich.table import Table

    table = Table(title=_words(title), title_justify="left")
    nested = {key: row for key, row in value.items() if isinstance(row, dict)}
    columns = list(dict.fromkeys(column for row in nested.values() for column in row))
    table.add_column("")
    for column in columns or [""]:
        table.add_column(_words(column), justify="right")
    for key, row in value.items():
        if isinstance(row, dict):
            made = sum(int(row.get(column, 0)) for column in _PLACED)
            shown = [_of(row.get(column, ""), made if column in _PLACED else 0) for column in columns]
        elif key == "since_ms":
            shown = [_time(row)]
        else:
            whole = sum(int(value.get(column, 0)) for column in _PLACED) if key in _PLACED else 0
            shown = [_of(row, proposals if key in _JUDGED or title == "would_reject" else whole)]
        table.add_row(key if title in _BY_NAME else _words(key), *shown)
    return table


def _of(number: Any, whole: int) -> str:
    """Return a number, with its part of a whole if there is one."""
    return f"{number} ({number / whole:.0%})".replace("%", " %") if whole else str(number)


def _time(since_ms: Any) -> str:
    if since_ms < _FIRST_MS:
        return "not known: the jar is of an older version"  # which tells an uptime
    return datetime.fromtimestamp(since_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _words(name: str) -> str:
    return _WORDS.get(name, name.replace("_", " ").lower())
