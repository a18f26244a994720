"""What `treadle reproduce hdrf` found: a table, JSON, and what became of who got less than the paper says."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from treadle.lab.reproduce.hdrf.experiment import Run, StepResult
from treadle.lab.reproduce.hdrf.paper_tests import HdrfTest

__all__ = ["TOLERANCE", "document", "faults", "off", "table"]

TOLERANCE = 1.0
"""How many containers a leaf may have more or fewer than the paper's share of it."""
SCHEDULERS = {
    "treadle": "Treadle, H-DRF",
    "capacity": "stock CapacityScheduler",
}


def off(step: StepResult, expected: dict[str, float]) -> dict[str, float]:
    """Return how far off those leaves are that are not within `TOLERANCE` of what is expected."""
    missed = {leaf: step.tasks[leaf] - tasks for leaf, tasks in expected.items()}
    return {leaf: amount for leaf, amount in missed.items() if abs(amount) > TOLERANCE}


def faults(test: HdrfTest, step: StepResult, expected: dict[str, float]) -> list[str]:
    """Say who starves and what lies idle.

    A leaf starves that has nothing though the paper gives it at least one task. A resource lies idle if more of it is
    unused than in the paper's shares, by more than the largest task needs of it.
    """
    found = [f"{leaf} starves" for leaf, tasks in expected.items() if tasks >= 1 and step.tasks[leaf] == 0]
    for resource in ("cpu", "gpu"):
        needs = {leaf: test.demands[leaf][resource] for leaf in expected}
        idle = sum(need * (expected[leaf] - step.tasks[leaf]) for leaf, need in needs.items())
        if idle > max(needs.values(), default=0):
            found.append(f"{idle:.3g} {resource} idle")
    return found


def table(test: HdrfTest, runs: list[Run]) -> Table:
    """Return reached shares beside the paper's, and beside what naive hierarchical DRF comes to as tasks end."""
    shown = Table(title=f"Test {test.name}: {test.about}", title_justify="left", box=SIMPLE)
    shown.add_column("step")
    shown.add_column("leaf")
    for title in ("H-DRF", "naive DRF", *(SCHEDULERS[run.scheduler] for run in runs)):
        shown.add_column(title, justify="right")
    paper, naive = test.shares("hdrf"), test.shares("drf-naive")
    for number, step in enumerate(test.steps):
        title = f"{number + 1}. {step.title}"
        for leaf, tasks in paper[number].items():
            reached = [_cell(run.steps[number], leaf) for run in runs]
            shown.add_row(title, leaf, f"{tasks:.4g}", f"{naive[number][leaf]:.4g}", *reached)
            title = ""
        verdicts = ["; ".join(_verdict(test, run.steps[number], paper[number])) for run in runs]
        shown.add_row("", "", "", "", *verdicts, end_section=True)
    return shown


def _cell(step: StepResult, leaf: str) -> str:
    spread = f" ({step.least[leaf]} to {step.most[leaf]})" if step.least[leaf] != step.most[leaf] else ""
    return f"{step.tasks[leaf]:g}{spread}"


def _verdict(test: HdrfTest, step: StepResult, expected: dict[str, float]) -> list[str]:
    found = faults(test, step, expected)
    if found:
        return found
    return ["other shares"] if off(step, expected) else ["as the paper"]


def document(tests: list[HdrfTest], runs: list[Run]) -> dict[str, Any]:
    """Return everything for `--json`."""
    described = []
    for test in tests:
        own = [run for run in runs if run.test == test.name]
        paper = test.shares("hdrf")
        described.append(
            {
                "test": test.name,
                "about": test.about,
                "cluster": {"nodes": test.nodes, "cpu": test.capacity, "gpu": test.capacity},
                "demands": test.demands,
                "steps": [step.title for step in test.steps],
                "expected": {"hdrf": paper, "drf-naive": test.shares("drf-naive")},
                "runs": [
                    {
                        **asdict(run),
                        "off": [off(step, tasks) for step, tasks in zip(run.steps, paper, strict=True)],
                        "faults": [faults(test, step, tasks) for step, tasks in zip(run.steps, paper, strict=True)],
                    }
                    for run in own
                ],
            }
        )
    return {"tolerance": TOLERANCE, "tests": described}
