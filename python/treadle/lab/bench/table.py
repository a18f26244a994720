"""The results as a table on the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from treadle.lab.bench.results import ModeResult

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("span_s", "span, s", ".1f"),
    ("peak_containers_per_s", "peak containers/s", ",.0f"),
    ("mean_containers_per_s", "mean containers/s", ",.0f"),
    ("commit_wall_us", "commit, wall µs", ".1f"),
    ("commit_cpu_us", "commit, CPU µs", ".1f"),
    ("scheduler_cpu_us", "scheduler CPU µs per container", ".1f"),
    ("shim_link_cpu_us", "of it the link thread", ".1f"),
    ("shim_frame_us", "of that frames, wall", ".1f"),
    ("shim_commit_cpu_us", "of that commits with all checks", ".1f"),
    ("heartbeat_p50_us", "heartbeat p50, µs", ",.0f"),
    ("heartbeat_p99_us", "heartbeat p99, µs", ",.0f"),
    ("stale_nodes_mean", "nodes silent for 2 s, mean", ",.0f"),
    ("rm_cpu_s", "RM and simulation, CPU s", ".1f"),
    ("sidecar_cpu_s", "sidecar, CPU s", ".1f"),
    ("decide_p50_us", "decide p50, µs", ",.0f"),
    ("decide_p99_us", "decide p99, µs", ",.0f"),
    ("rejected", "rejected", ",.0f"),
    ("placed_natively", "placed natively", ",.0f"),
    ("containers_missing", "containers missing", ",.0f"),
)


def results_table(outcome: Sequence[ModeResult], comparison: dict[str, Any]) -> Table:
    """Return a column for each mode, a row for each figure; the ratios below."""
    table = Table(title="median of the rounds", caption=_ratios(comparison), caption_justify="left")
    table.add_column("")
    for result in outcome:
        table.add_column(result.mode.name, justify="right")
    for name, title, form in _ROWS:
        table.add_row(title, *(_cell(result, name, form) for result in outcome))
    return table


def _cell(result: ModeResult, name: str, form: str) -> str:
    if result.figures is None:
        return "failed"
    value = getattr(result.figures, name)
    return "-" if math.isnan(value) else format(value, form)


def _ratios(comparison: dict[str, Any]) -> str:
    parts = []
    for name, of in (
        ("span_ratio", comparison["better_stock_mode"]),
        ("floor_ratio", "floor"),
        ("floor_to_stock", comparison["better_stock_mode"]),
        ("observe_span_ratio", "sync"),
        ("observe_cpu_ratio", "sync"),
    ):
        value = comparison[name]
        parts.append(f"{name} {'-' if value is None else format(value, '.2f')} (to {of or 'nothing: it did not run'})")
    return "\n".join(parts)
