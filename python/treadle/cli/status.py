"""`treadle status` (Cluster 4): show whether Treadle schedules a cluster, and how well."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import typer

from treadle.cli._console import print_result
from treadle.cli._options import DEFAULT_RM, CaOption, Output, OutputOption, RmOption, exit_if_silent
from treadle.errors import UserError
from treadle.tables import facts_table
from treadle.yarn.treadle_beans import why_not

app = typer.Typer()

_TEXTS: Final = {
    "Mode": "mode",
    "Policy": "policy",
    "Learned": "known",
    "WaitsFor": "waits for",
    "Refusal": "refused",
    "LastError": "last error",
    "LastErrorTime": "time of the last error",
    "Warnings": "warnings",
    "IgnoredSettings": "settings without effect",
}
_REASONS: Final = ("refused", "last error")
_NUMBERS: Final = {
    "LeaseHeld": "lease held",
    "LeaseFlips": "lease flips",
    "Frames": "frames",
    "Proposals": "proposals",
    "Committed": "committed",
    "Rejected": "rejected",
    "PlacedForNeglected": "placed for neglected requests",
    "PlacedByCapacityScheduler": "placed by the CapacityScheduler",
    "DecideP50Us": "decide P50, µs",
    "DecideP99Us": "decide P99, µs",
    "SidecarStarts": "starts of the sidecar",
    "LinkFailures": "failures of the link",
    "CaughtExceptions": "exceptions caught in overrides",
}


@app.command()
def status(rm: RmOption = DEFAULT_RM, ca: CaOption = None, output: OutputOption = Output.TABLE) -> None:
    """Show whether Treadle schedules the cluster of a ResourceManager, and how well. Exit code 1: no engine answers."""
    from treadle.yarn.pages import read_bean

    bean = read_bean(rm, ca)
    compared = [] if output is Output.JSON else _compared(bean, rm, ca)  # which asks the sidecar
    print_result(output, bean, facts_table([*_rows(bean), *compared]))
    exit_if_silent(bean)


def _rows(bean: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the rows to show: who places containers, texts that are not empty, numbers, each reason of a rejection."""
    reason = why_not(bean)
    other = "YARN's CapacityScheduler" if "Schedules" in bean else "unknown"
    rows = [("places containers", f"{other}: {reason}" if reason else "Treadle")]
    # The reason is not repeated in other rows.
    texts = [(text, str(bean[key])) for key, text in _TEXTS.items() if bean.get(key)]
    texts = [(text, _policy(value) if text == "policy" else value) for text, value in texts]
    rows += [(text, value) for text, value in texts if text not in _REASONS or value not in reason]
    rows += [(text, str(bean[key])) for key, text in _NUMBERS.items() if key in bean]
    reasons = sorted(key for key in bean if key.startswith("Rejected") and key != "Rejected" and bean[key])
    return rows + [(f"rejected, {_words(key.removeprefix('Rejected'))}", str(bean[key])) for key in reasons]


def _compared(bean: dict[str, Any], rm: str, ca: Path | None) -> list[tuple[str, str]]:
    """Return the sidecar's comparison in mode observe_only; nothing in other modes."""
    from treadle.cli.observe import read_observation, summary

    if bean.get("Mode") != "observe_only":
        return []
    try:
        return [("compared", summary(read_observation(rm, ca)))]
    except UserError as error:
        return [("compared", f"not known: {error}")]


def _policy(kinds: str) -> str:
    """Return a policy's parts, with the names of the ready-made ones that have the same."""
    from treadle.shipped import ready_made_with

    names = ready_made_with(kinds)
    return f"as {' or '.join(names)}: {kinds}" if names else kinds


def _words(camel: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in camel).strip()
