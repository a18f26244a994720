"""The engine's figures as a table and as plots."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.table import Table

from treadle_lab.bench.engine_run import Constrained, Failed, Figures, growth
from treadle_lab.bench.plots import load_pyplot
from treadle_lab.harness.statistics import Interval

DIMENSIONS = ("nodes", "rows", "leaves")


def figures_table(results: Sequence[Figures | Failed]) -> Table:
    """Return a row for each policy and configuration."""
    table = Table(title="a steady state: apply the events of a tick, decide; milliseconds, wall (CPU of the thread)")
    table.add_column("policy")
    for name in (*DIMENSIONS, "placed a decide", "placements/s", "decide p50", "decide p99", "apply p50"):
        table.add_column(name, justify="right")
    for result in results:
        if isinstance(result, Failed):
            table.add_row(result.policy, *(f"{getattr(result, name):,}" for name in DIMENSIONS), "failed", *["-"] * 4)
            continue
        table.add_row(
            result.policy,
            *(f"{getattr(result, name):,}" for name in DIMENSIONS),
            f"{result.placed_per_decide:,.0f}",
            f"{result.placements_per_s:,.0f} ({result.placements_per_s_cpu:,.0f})",
            f"{result.decide_p50_ms:.2f} ({result.decide_p50_ms_cpu:.2f})",
            f"{result.decide_p99_ms:.2f} ({result.decide_p99_ms_cpu:.2f})",
            f"{result.apply_p50_ms:.2f} ({result.apply_p50_ms_cpu:.2f})",
        )
    return table


def growth_table(results: Sequence[Figures]) -> Table:
    """Return the exponents of growth of each policy."""
    table = Table(title="CPU time per placement grows as n^k; in brackets 95 % intervals of the fit")
    table.add_column("policy")
    for name in DIMENSIONS:
        table.add_column(f"k, {name}", justify="right")
    for policy, exponents in growth(results).items():
        found = [exponents[name] for name in DIMENSIONS]
        table.add_row(policy, *("-" if value is None else _with_interval(value) for value in found))
    return table


def _with_interval(k: Interval) -> str:
    return f"{k.mean:.2f}" if k.low == k.high else f"{k.mean:.2f} ({k.low:.2f} to {k.high:.2f})"


def constrained_table(results: Sequence[Constrained]) -> Table:
    """Return a row for each policy and configuration: what constrained rows leave of the speed."""
    table = Table(title="placements a second of CPU time, without and with constrained rows")
    table.add_column("policy")
    for name in (*DIMENSIONS, "without", "with", "ratio"):
        table.add_column(name, justify="right")
    for one in results:
        sizes = [f"{getattr(one, name):,}" for name in DIMENSIONS]
        table.add_row(one.policy, *sizes, f"{one.without:,.0f}", f"{one.constrained:,.0f}", f"{one.ratio:.2f}")
    return table


def write_plots(folder: Path, results: Sequence[Figures]) -> list[Path]:
    """Draw placements per second over each dimension that has several sizes; return the files."""
    pyplot = load_pyplot()
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for dimension in DIMENSIONS:
        if len({getattr(result, dimension) for result in results}) < 2:
            continue
        figure, axes = pyplot.subplots(figsize=(9, 5))
        for policy in dict.fromkeys(result.policy for result in results):
            points: dict[int, list[float]] = {}
            for result in results:
                if result.policy == policy:
                    points.setdefault(getattr(result, dimension), []).append(result.placements_per_s_cpu)
            sizes = sorted(points)
            middle = [sorted(points[size])[len(points[size]) // 2] for size in sizes]
            axes.plot(sizes, middle, marker="o", label=policy)
            axes.fill_between(sizes, [min(points[n]) for n in sizes], [max(points[n]) for n in sizes], alpha=0.1)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel(dimension)
        axes.set_ylabel("placements per second of CPU time\n(median and range over the other dimensions)")
        axes.legend()
        path = folder / f"engine-{dimension}.png"
        figure.savefig(path, dpi=120, bbox_inches="tight")
        pyplot.close(figure)
        paths.append(path)
    return paths
