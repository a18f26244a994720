"""Results as comma-separated tables, for spreadsheets, R and data frames."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle.compiled.array_types import Records
from treadle.simulate.comparison import Pair, Slowdown, pairs_of, slowdowns_of
from treadle.simulate.run import Run
from treadle.simulate.statistics import Interval

FIGURES: Final = (
    "jobs",
    "unfinished",
    "failed",
    "ended",
    "completion_mean_s",
    "completion_p50_s",
    "completion_p90_s",
    "completion_p99_s",
    "makespan_s",
    "jain",
    "share_error",
    "tasks",
    "tasks_failed",
    "tasks_killed",
    "tasks_lost",
    "containers",
    "decides",
    "proposals",
)


def write_tables(runs: Sequence[Run], folder: str | Path, *, tasks: bool = False) -> list[Path]:
    """Write runs.csv, jobs.csv, nodes.csv, queues.csv, slowdowns.csv and pairs.csv; return the files.

    Each row begins with its policy and seed; slowdowns and pairs are over all seeds. What is not known is empty.

    Args:
        runs: of one scenario.
        folder: is made if it is not there.
        tasks: write tasks.csv too, a row a task and run.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    kinds = ("jobs", "nodes", "queues", *(("tasks",) if tasks else ()))
    return [
        _write(place / "runs.csv", (_figures(run) for run in runs)),
        *(
            _write(place / f"{kind}.csv", (row for run in runs for row in _rows(run, getattr(run, kind))))
            for kind in kinds
        ),
        _write(place / "slowdowns.csv", map(_flat, slowdowns_of(runs))),
        _write(place / "pairs.csv", map(_flat, pairs_of(runs))),
    ]


def _figures(run: Run) -> dict[str, Any]:
    used = {f"used {name}": value for name, value in run.summary.utilisation.items()}
    return {"policy": run.policy, "seed": run.seed, **{name: getattr(run.summary, name) for name in FIGURES}, **used}


def _rows(run: Run, table: Records) -> Iterable[dict[str, Any]]:
    names = table.dtype.names or ()
    for row in table.tolist():
        yield {"policy": run.policy, "seed": run.seed, **dict(zip(names, row, strict=True))}


def _flat(found: Slowdown | Pair) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name in found.__slots__:
        value = getattr(found, name)
        if isinstance(value, Interval):
            flat |= {name: value.mean, f"{name}_low": value.low, f"{name}_high": value.high}
        else:
            flat[name] = value
    return flat


def _write(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(stream, list(row), lineterminator="\n")
                writer.writeheader()
            writer.writerow({name: _cell(value) for name, value in row.items()})
    return file


def _cell(value: Any) -> Any:
    if isinstance(value, tuple):
        return " ".join(value)
    return "" if isinstance(value, float) and not np.isfinite(value) else value
