"""Results as tables, comma-separated or as Parquet, for spreadsheets, R and data frames."""

from __future__ import annotations

import csv
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np

from treadle.compiled.array_types import Records
from treadle.errors import UserError, install_extra
from treadle.simulate.comparison import Interval, Pair, Slowdown, pairs_of, slowdowns_of
from treadle.simulate.run import Run

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


TableFormat = Literal["csv", "parquet"]


def write_tables(
    runs: Sequence[Run],
    folder: str | Path,
    *,
    tasks: bool = False,
    format: TableFormat = "csv",  # noqa: A002 (as pandas calls it)
) -> list[Path]:
    """Write runs.csv, jobs.csv, nodes.csv, queues.csv, slowdowns.csv and pairs.csv; return the files.

    Each row begins with its policy and seed; slowdowns and pairs are over all seeds. What is not known is empty.

    Args:
        runs: of one scenario.
        folder: is made if it is not there.
        tasks: write the table of tasks too, a row a task and run.
        format: csv, or parquet, for which files end in .parquet, columns keep their types and tags are lists.

    Raises:
        UserError: Parquet is wanted, and pyarrow, an extra, is not installed.
    """
    if format == "parquet":
        check_parquet("format='parquet'")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    write = _write if format == "csv" else _write_parquet
    kinds = ("jobs", "nodes", "queues", *(("tasks",) if tasks else ()))
    return [
        write(place / f"runs.{format}", (_figures(run) for run in runs)),
        *(
            write(place / f"{kind}.{format}", (row for run in runs for row in _rows(run, getattr(run, kind))))
            for kind in kinds
        ),
        write(place / f"slowdowns.{format}", map(_flat, slowdowns_of(runs))),
        write(place / f"pairs.{format}", map(_flat, pairs_of(runs))),
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


def check_parquet(what: str) -> None:
    """See that Parquet can be written; ``what`` wants it.

    Raises:
        UserError: pyarrow is not installed.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise UserError(f"{what}: needs pyarrow; {install_extra('parquet')}, or write CSV")


def _write_parquet(file: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as Parquet; a file of no rows has no columns, as with CSV."""
    import pyarrow  # an extra
    import pyarrow.parquet

    table = pyarrow.Table.from_pylist([{name: _value(value) for name, value in row.items()} for row in rows])
    pyarrow.parquet.write_table(table, file)
    return file


def _value(value: Any) -> Any:
    if isinstance(value, tuple):
        return list(value)
    return None if isinstance(value, float) and not np.isfinite(value) else value
