"""TPC-H queries as measured on Spark: a folder with edges.csv and profiles.csv.

edges.csv has the columns query, stage, child; profiles.csv query, size_gb, max_cores, stage, tasks, mean_runtime_ms.
What a task asks for was not measured, so the caller says it.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from math import inf, isfinite
from pathlib import Path

from treadle.dag.dag import Dag, DagError, Stage, ordered

EDGE_COLUMNS = ("query", "stage", "child")
PROFILE_COLUMNS = ("query", "size_gb", "max_cores", "stage", "tasks", "mean_runtime_ms")


def read_dags(folder: Path, demand: Mapping[str, float], size_gb: int, max_cores: int) -> tuple[Dag, ...]:
    """Return the queries at one input size and one limit of cores, in order of their numbers.

    Raises:
        DagError: a file cannot be read or is malformed, or nothing was measured at that size and limit.
    """
    parents: dict[tuple[int, int], list[int]] = {}
    for query, stage, child in _rows(folder / "edges.csv", EDGE_COLUMNS):
        parents.setdefault((int(query), int(child)), []).append(int(stage))
    stages: dict[int, list[Stage]] = {}
    for row in _rows(folder / "profiles.csv", PROFILE_COLUMNS):
        query, size, cores, stage, tasks = map(int, row[:5])
        if (size, cores) == (size_gb, max_cores):
            before = tuple(dict.fromkeys(parents.get((query, stage), ())))
            stages.setdefault(query, []).append(Stage(stage, tasks, round(row[5]), demand, before))
    if not stages:
        raise DagError(f"{folder / 'profiles.csv'}: nothing at {size_gb} GB and {max_cores} cores; give a pair it has")
    return tuple(ordered(f"tpch-q{query}", tuple(found)) for query, found in sorted(stages.items()))


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[tuple[float, ...]]:
    """Yield the numbers of a CSV file in the order of ``columns``."""
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise DagError(f"{path}: no column {missing[0]}; the columns are {', '.join(columns)}")
            for row in reader:
                try:
                    values = tuple(float(row[column]) for column in columns)
                except (TypeError, ValueError):
                    values = (inf,)
                if not all(map(isfinite, values)):
                    raise DagError(f"{path}:{reader.line_num}: not all numbers; give one for each column")
                yield values
    except OSError as error:
        raise DagError(f"{path}: {error.strerror}; give a folder with edges.csv and profiles.csv") from None
    except UnicodeDecodeError:
        raise DagError(f"{path}: not UTF-8 text; give a CSV file") from None
