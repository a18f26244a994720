"""`treadle observe` (Cluster 5): compare proposals with placements (mode observe_only)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.table import Table

from treadle.cli._console import console_for_tables, note, say
from treadle.cli._options import DEFAULT_RM, CaOption, Output, OutputOption, RmOption, print_json
from treadle.errors import UserError, counted, percent, printable
from treadle.tables import empty_table
from treadle.yarn.pages import read_bean

app = typer.Typer()

PLACED: Final = {
    "same_node": "both, same node",
    "other_node": "both, other node",
    "capacity_scheduler_only": "not by Treadle",
}
"""Together these are the placements by the stock scheduler that have been compared."""
_TIMES: Final = {"earlier": "Treadle earlier", "later": "Treadle later"}


@app.command()
def observe(rm: RmOption = DEFAULT_RM, ca: CaOption = None, output: OutputOption = Output.TABLE) -> None:
    """Compare the placements that Treadle proposes with the stock scheduler's, in mode observe_only.

    Run it on the ResourceManager's host, as the sidecar's user or as root. The exit code is 2 if no sidecar answers.
    """
    mode = printable(str(read_bean(rm, ca).get("Mode", "")))[:40]
    if mode.lower() != "observe_only" and output is Output.TABLE:
        typer.echo(f"The mode is {mode or 'unknown'}: treadle observe compares only in mode observe_only.")
        return
    observation = read_observation(rm, ca)
    if output is Output.JSON:
        print_json({"mode": mode, **observation})
    else:
        _show(observation)
    for warning in observation["warnings"]:
        note(f"warning: {warning}", "yellow")


def read_observation(rm: str, ca: Path | None = None, config: Path | None = None) -> dict[str, Any]:
    """Return the figures of a sidecar in mode observe_only; docs/watch.md describes the fields.

    Raises:
        UserError: no sidecar answers, or one of another release does.
    """
    from treadle.cli.explain import ask_sidecar_of

    observation = ask_sidecar_of(rm, ca, {"observation": True}, config)
    if "same_node" not in observation.get("total", {}):
        raise UserError(f"the sidecar does not compare: {observation.get('error', 'it is of another release')}")
    return observation


def summary(observation: Mapping[str, Any]) -> str:
    """Return in a line which part of the containers Treadle would have placed too."""
    total = observation["total"]
    compared = sum(total[column] for column in PLACED)
    parts = [f"{percent(total[column] / compared)} {text}" for column, text in PLACED.items() if compared]
    return "; ".join([f"{counted(compared, 'container')} compared", *parts])


def _show(observation: Mapping[str, Any]) -> None:
    console = console_for_tables()
    if observation["interruptions"]:
        times = counted(observation["interruptions"], "interruption")
        missed = f"for {observation['interrupted_ms'] / 1000:.0f} s in {times}"
        say(console, f"The sidecar did not follow the cluster {missed}: containers placed then are not counted.")
    if not observation["stock_placements"]:
        say(console, "The CapacityScheduler has placed nothing yet.")
        return
    total: Mapping[str, int] = observation["total"]
    since = datetime.fromtimestamp(observation["since_ms"] / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    console.print(f"Since {since} the CapacityScheduler has placed {observation['stock_placements']} containers.")
    rows = {"all": total}
    rows |= {f"queue {name}": row for name, row in observation["by_queue"].items()}
    rows |= {f"type {name}": row for name, row in observation["by_framework"].items()}
    console.print(_table(rows))
    console.print(f"Proposed by Treadle now, and not placed yet: {total['waiting']}.")
    reasons = sorted(observation["would_reject"].items(), key=lambda reason: -reason[1])
    if reasons:
        reasons_text = ", ".join(f"{name.replace('_', ' ').lower()} {count}" for name, count in reasons)
        console.print(f"Would have been rejected: {reasons_text}.")
    if observation["forgotten"]:
        console.print(f"Not compared, too many at once: {observation['forgotten']}.")


def _table(rows: Mapping[str, Mapping[str, int]]) -> Table:
    """Return a table with a row a name: containers with their part of all that were compared, and mean times."""
    table = empty_table("", ("",), (*PLACED.values(), *_TIMES.values()))
    for name, row in rows.items():
        compared = sum(row[column] for column in PLACED)
        parts = [f"{row[column]} ({percent(row[column] / compared)})" if compared else "0" for column in PLACED]
        times = [f"{row[each]}, by {_mean(row, each):.1f} s" if row[each] else "0" for each in _TIMES]
        table.add_row(name, *parts, *times)
    return table


def _mean(row: Mapping[str, int], which: str) -> float:
    """Return by how many seconds Treadle was earlier or later, on average."""
    return row[f"{which}_ms"] / row[which] / 1000
