"""Policies side by side over seeds: slowdowns of groups of jobs, and policies pair by pair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from treadle.simulate.comparison import against_of, pairs_of, slowdowns_of
from treadle.simulator.results import Summary
from treadle.tables import empty_table


def comparison_tables(summaries: Sequence[Summary], *, details: bool) -> Iterator[Table]:
    """Yield the tables: of all jobs together, with ``details`` by class of sizes and queue too; pairs if there are.

    Where there are several seeds each figure has its 95 % interval.
    """
    table = Table(title="Times of jobs over seeds; slowdown: completion time over the least possible one alone")
    table.title_justify = "left"
    for name in ("policy", *(("jobs of",) if details else ())):
        table.add_column(name)
    for name in ("jobs", "completion, mean (s)", "slowdown, mean", "P50", "P99"):
        table.add_column(name, justify="right")
    for each in slowdowns_of(summaries):
        if not details and each.by != "all":
            continue
        group = (each.group if each.by == "all" else f"{each.by} {each.group}",) if details else ()
        figures = (each.completion_mean_s, each.mean, each.p50, each.p99)
        table.add_row(each.policy, *group, str(each.jobs), *map(str, figures))
    yield table
    pairs = pairs_of(summaries)
    if not pairs:
        return
    table = empty_table(
        "Policies pair by pair, on the jobs that ended under both",
        ("policy", "over"),
        ("jobs", "mean completion, ratio", "P99, ratio", "ended sooner"),
    )
    for pair in pairs:
        table.add_row(pair.policy, pair.other, str(pair.jobs), str(pair.ratio), str(pair.p99_ratio), str(pair.sooner))
    yield table


def baseline_table(summaries: Sequence[Summary], baseline: str) -> Table:
    """Return what each policy changes against a baseline, paired by seed; below 0 it is quicker."""
    table = empty_table(
        f"Changes against {baseline}, paired by seed, on the jobs that ended under both",
        ("policy", "figure"),
        ("change", "95 %", "verdict", "draws", "draws for 2 %"),
    )
    for each in against_of(summaries, baseline):
        for name, found in each.figures.items():
            needed = "-" if found.needed is None else str(found.needed)
            row = (found.change_text, found.interval_text, found.word, str(found.draws), needed)
            table.add_row(each.policy, name, *row)
        table.add_row(each.policy, "jobs over 10 % later", f"{each.late.mean:.1%}", *[""] * 4)
        table.add_row(each.policy, "worst job, times as long", f"{each.worst.mean:.3g}", *[""] * 4)
    return table
