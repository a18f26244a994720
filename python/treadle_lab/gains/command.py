"""What `treadle lab gains` does: runs or reads cells, shows tables, writes rows, page and plots."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from treadle import __version__
from treadle.cli._console import console_for_tables, counted_progress, say
from treadle.cli._results import check_results, check_writable, writing
from treadle.errors import UserError
from treadle.simulate.statistics import FEW
from treadle_lab.gains import cell
from treadle_lab.gains.cell import BASELINE, REFERENCES, quick, whole
from treadle_lab.gains.page import BOUND, MEAN, Results, factor_table, page_of, rows_from, workload_tables
from treadle_lab.gains.workloads import HOURS, POINTS
from treadle_lab.harness.runs import kept_only, run_cells
from treadle_lab.rows import Row, as_document, json_text, rows_of, show


@dataclass(frozen=True, slots=True)
class Source:
    """Where results come from."""

    quick: bool
    only: tuple[str, ...]
    draws: int
    cache: Path
    jobs: int
    no_run: bool
    kept: Path | None


@dataclass(frozen=True, slots=True)
class Places:
    """Where results go; None: nowhere."""

    json_file: Path | None
    page: Path | None
    plot: Path | None


def compare(source: Source, places: Places) -> None:
    """Get the rows, show the tables and write what is wanted.

    Raises:
        UserError: a cell failed, a file cannot be read or written.
    """
    check_results(places.json_file, places.plot)
    if places.page is not None:
        check_writable("--page", places.page)
    document = _simulated(source) if source.kept is None else _read(source.kept)
    rows = rows_of(document)
    if not rows:
        raise UserError(f"--no-run: {source.cache} has no cells; leave the option out to run them")
    console, results = console_for_tables(200), Results(rows)
    for table in (*workload_tables(results), factor_table(results)):
        if table.rows:
            show(table, console)
    if any(results.draws(x) < FEW for x in results.xs):
        say(console, f"Some points have fewer than {FEW} draws: their intervals say little.")
    _write(places, document, rows, console)


def _simulated(source: Source) -> dict[str, Any]:
    plan = quick() if source.quick else whole(source.only, source.draws)
    cells = plan.cells()
    if source.no_run:
        documents: Sequence[Mapping[str, Any] | None] = kept_only(cells, source.cache)
    else:
        with counted_progress("cells") as bar:
            task = bar.add_task("simulating", total=len(cells))
            documents = run_cells(
                cells,
                cell.run,
                source.cache,
                source.jobs,
                lambda text: say(Console(stderr=True), text),
                lambda done, _: bar.update(task, completed=done),
            )
    done = [document for document in documents if document is not None]
    builds = len({document["code"] for document in done})
    if builds > 1:
        what = "if a change between them altered results, raise MODEL in treadle_lab/harness/runs.py and run again"
        say(Console(stderr=True), f"cells are of {builds} builds of the engine; {what}", "yellow")
    head = {
        "command": "treadle lab gains" + " --quick" * source.quick,
        "version": __version__,
        "cpu_hours": round(sum(document["cpu_s"] for document in done) / 3600, 2),
        "cells": len(done),
        "missing": len(cells) - len(done),
        "hours": HOURS,
        "builds": builds,
    }
    return head | as_document(rows_from(cells, documents), BASELINE)


def _read(file: Path) -> dict[str, Any]:
    try:
        document = json.loads(file.read_text("utf-8"))
        rows_of(document)
    except OSError as error:
        raise UserError(f"--from: {file}: {error.strerror}; name a file that --json wrote") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"--from: {file}: not rows of --json ({error}); name a file that --json wrote") from None
    return dict(document)


def _write(places: Places, document: Mapping[str, Any], rows: Sequence[Row], console: Console) -> None:
    if places.json_file is not None:
        with writing("--json", places.json_file, "file"):
            places.json_file.write_text(json_text(document), "utf-8")
    if places.page is not None:
        with writing("--page", places.page, "file"):
            places.page.write_text(page_of(document), "utf-8")
    if places.plot is not None:
        for file in _plots(rows, places.plot):
            console.print(f"wrote {file}", highlight=False)


def _plots(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw each workload: mean completion by point, and the change over the baseline with its interval."""
    from treadle_lab.plots import intervals, lines  # matplotlib is an extra

    files = []
    mean = [row for row in rows if row.figure == MEAN and not POINTS[row.x].only]
    for workload in dict.fromkeys(POINTS[row.x].workload for row in mean):
        own = [row for row in mean if POINTS[row.x].workload == workload]
        name = workload.lower().replace(" ", "-")
        with writing("--plot", folder, "folder"):
            files += [folder / f"{name}.svg", folder / f"{name}-change.svg"]
            lines([row for row in own if row.series not in REFERENCES], files[-2])
            intervals([row for row in own if row.series not in (BASELINE, BOUND)], files[-1])
    return files
