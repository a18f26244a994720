"""`treadle observe`: what Treadle would have done in mode observe_only."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import typer

from treadle.cli._console import console_for_tables
from treadle.cli._options import DEFAULT_RM, CaOption, JsonOption, RmOption
from treadle.errors import UserError
from treadle.yarn.pages import read_bean

app = typer.Typer()

_PLACED: Final = {
    "same_node": "both, same node",
    "other_node": "both, other node",
    "stock_only": "not by Treadle",
}
"""Together these are the placements by the stock scheduler that have been compared."""
_TIMES: Final = {"earlier": "Treadle earlier", "later": "Treadle later"}


@app.command()
def observe(rm: RmOption = DEFAULT_RM, ca: CaOption = None, as_json: JsonOption = False) -> None:
    """Compare what Treadle would have done with what the stock scheduler did, in mode observe_only."""
    mode = str(read_bean(rm, ca).get("Mode", ""))
    observation = read_bean(rm, ca, "Observation")
    if as_json:
        typer.echo(json.dumps({"mode": mode, **observation}, indent=2))
    elif mode.lower() != "observe_only":
        typer.echo(f"The mode is {mode or 'unknown'}: treadle observe compares only in mode observe_only.")
    elif not observation.get("stock_placements"):
        typer.echo("The CapacityScheduler has placed nothing yet.")
    elif "same_node" not in observation.get("total", {}):
        raise UserError(f"{rm}: the Observation of the bean Treadle is of another version; use the jar of this version")
    else:
        _show(observation)


def _show(observation: Mapping[str, Any]) -> None:
    total: Mapping[str, int] = observation["total"]
    since = datetime.fromtimestamp(observation["since_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    console = console_for_tables()
    console.print(
        f"Since {since} the CapacityScheduler has placed {observation['stock_placements']} containers.", markup=False
    )
    rows = {"all": total}
    rows |= {f"queue {name}": row for name, row in observation["by_queue"].items()}
    rows |= {f"type {name}": row for name, row in observation["by_framework"].items()}
    console.print(_table(rows), markup=False)
    console.print(f"Proposed by Treadle now, and not placed yet: {total['waiting']}.", markup=False)
    reasons = sorted(observation["would_reject"].items(), key=lambda reason: -reason[1])
    if reasons:
        said = ", ".join(f"{name.replace('_', ' ').lower()} {count}" for name, count in reasons)
        console.print(f"Would have been rejected: {said}.", markup=False)
    if observation["forgotten"]:
        console.print(f"Not compared, too many at once: {observation['forgotten']}.", markup=False)


def _table(rows: Mapping[str, Mapping[str, int]]) -> Any:
    """Return a table with a row a name: containers with their part of all that were compared, and mean times."""
    from rich.table import Table

    table = Table()
    for column in ("", *_PLACED.values(), *_TIMES.values()):
        table.add_column(column, justify="right" if column else "left")
    for name, row in rows.items():
        compared = sum(row[column] for column in _PLACED)
        parts = [f"{row[column]} ({row[column] / compared:.0%})" if compared else "0" for column in _PLACED]
        times = [f"{row[each]}, by {_mean(row, each):.1f} s" if row[each] else "0" for each in _TIMES]
        table.add_row(name, *(part.replace("%", " %") for part in parts), *times)
    return table


def _mean(row: Mapping[str, int], which: str) -> float:
    """Return by how many seconds Treadle was earlier or later, in the mean."""
    return row[f"{which}_ms"] / row[which] / 1000
