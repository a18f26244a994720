"""Several engines of a simulation in tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from rich.table import Table

from treadle.simulator.engine_figures import EngineFigures
from treadle.simulator.results import Summary

TIMES: Final = {
    "conflict_fraction": "conflict fraction",
    "wait_mean_s": "wait (s)",
    "wait_p99_s": "P99 (s)",
    "useful_s": "useful (s)",
    "wasted_s": "wasted (s)",
    "empty_s": "empty (s)",
}
COUNTS: Final = {
    "transactions": "succeeded",
    "conflicts": "conflicts",
    "empty": "empty",
    "retries": "retries",
    "given_up": "given up",
    "moved": "moved",
    "placed": "containers",
}


def engines_tables(summaries: Sequence[Summary]) -> Iterator[Table]:
    """Yield tables with a row for each policy and engine: how busy it was, and the outcomes of its transactions."""
    table = _table("Engines: busyness, conflicts over successes, wait to the first attempt, decision time")
    table.add_column("busy", justify="right")
    for title in TIMES.values():
        table.add_column(title, justify="right")
    for policy, engines in _engines(summaries):
        busy = f"{np.mean([each.busyness for each in engines]):.1%}"
        table.add_row(policy, engines[0].name, busy, *_means(engines, TIMES))
    yield table
    table = _table("Engines: transactions, and applications that other engines got")
    for title in COUNTS.values():
        table.add_column(title, justify="right")
    for policy, engines in _engines(summaries):
        table.add_row(policy, engines[0].name, *_means(engines, COUNTS))
    yield table


def _table(title: str) -> Table:
    table = Table(title=title, title_justify="left")
    for name in ("policy", "engine"):
        table.add_column(name)
    return table


def _engines(summaries: Sequence[Summary]) -> Iterator[tuple[str, tuple[EngineFigures, ...]]]:
    """Yield each policy and engine with its figures, one for each seed."""
    for policy in dict.fromkeys(each.policy for each in summaries):
        runs = [each.engines for each in summaries if each.policy == policy and each.engines]
        for engines in zip(*runs, strict=True):
            yield policy, engines


def _means(engines: Sequence[EngineFigures], fields: dict[str, str]) -> Iterator[str]:
    return (f"{np.mean([getattr(each, field) for each in engines]):.4g}" for field in fields)
