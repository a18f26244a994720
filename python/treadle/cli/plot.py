"""`treadle plot`: draw results of `treadle simulate` again, without running anything."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from treadle.cli._results import check_plotting, plot_folder, writing
from treadle.errors import UserError

app = typer.Typer()

FormatOption = Annotated[
    list[str] | None, typer.Option("--format", help="png, pdf or svg; may be given several times.", show_default="png")
]


@app.command()
def plot(
    file: Annotated[Path, typer.Argument(help="What `treadle simulate --json` wrote.")],
    folder: Annotated[Path, typer.Argument(help="A folder for the plots.")],
    formats: FormatOption = None,
    policy: Annotated[list[str] | None, typer.Option(help="Only these policies, in this order.")] = None,
) -> None:
    """Draw completion times, use, shares and slowdowns from a file of results."""
    check_plotting("treadle plot")
    from treadle.simulate.plots import plot_results  # only here: it needs matplotlib

    runs = _runs(file, policy)
    chosen = checked_formats(formats)
    plot_folder(folder, "FOLDER")
    with writing("FOLDER", folder, "folder"):
        for drawn in plot_results(runs, folder, chosen):
            typer.echo(f"wrote {drawn}")


def checked_formats(given: list[str] | None, option: str = "--format") -> tuple[str, ...]:
    """Return the formats of plots that an option names, each once.

    Raises:
        UserError: one of them is none.
    """
    from treadle.simulate.plots import FORMATS

    for name in given or ():
        if name not in FORMATS:
            raise UserError(f"{option}: {name!r} is none of {', '.join(FORMATS)}")
    return tuple(dict.fromkeys(given or ("png",)))


def _runs(file: Path, policies: list[str] | None) -> list[dict[str, Any]]:
    """Return the runs of a file that have figures.

    Raises:
        UserError: it is no file of results, is of an older version, or has no such policy.
    """
    from treadle.simulate.plots import missing

    try:
        document = json.loads(file.read_text("utf-8"))
        runs = [run for run in document["runs"] if run["failure"] is None]
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; name a file that `treadle simulate --json` wrote") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UserError(f"{file}: these are no results of `treadle simulate --json`; name a file of such") from None
    for run in runs:
        if name := missing(run):
            raise UserError(f"{file}: a run has no {name}: an older Treadle wrote it; simulate again with --json")
    known = list(dict.fromkeys(run["policy"] for run in runs))
    for name in policies or ():
        if name not in known:
            raise UserError(f"--policy: {name!r} is none of the file's, {', '.join(known)}")
    if policies:
        runs = sorted((run for run in runs if run["policy"] in policies), key=lambda run: policies.index(run["policy"]))
    if not runs:
        raise UserError(f"{file}: there is no run with figures in it")
    return runs
