"""What `treadle reproduce hdrf` found: a table, JSON, and why some got less than in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

from treadle.tables import empty_table
from treadle_lab.papers.hdrf.experiment import Run, StepResult
from treadle_lab.papers.hdrf.paper_tests import HdrfTest

__all__ = ["TOLERANCE", "document", "faults", "off", "table"]

TOLERANCE = 1.0
"""How many containers a leaf may have more or fewer than the paper's share of it."""
SCHEDULERS = {
    "treadle": "Treadle, H-DRF (repaired)",
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
    """Return reached shares beside the paper's, and beside those of naive hierarchical DRF as tasks end."""
    shown = empty_table(
        f"Test {test.name}: {test.about}",
        ("step", "leaf"),
        ("H-DRF", "naive DRF", *(SCHEDULERS[run.scheduler] for run in runs)),
        box=SIMPLE,
    )
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


def plot_test(test: HdrfTest, runs: Sequence[Run], target: Path) -> None:
    """Write one chart: what each leaf has, and dotted what the paper says that it should have."""
    from matplotlib.figure import Figure  # only here: matplotlib is an extra

    figure = Figure(figsize=(9, 3.2 * len(runs)), layout="constrained")
    panels = figure.subplots(len(runs), 1, sharey=True, squeeze=False)[:, 0]
    colors = {leaf: f"C{place}" for place, leaf in enumerate(test.demands)}
    paper = test.shares("hdrf")
    for panel, run in zip(panels, runs, strict=True):
        for leaf, color in colors.items():
            seconds = [sample.second for sample in run.samples]
            tasks = [sample.tasks.get(leaf, 0) for sample in run.samples]
            panel.step(seconds, tasks, where="post", color=color, label=leaf, linewidth=1.2)
        for step, expected in zip(run.steps, paper, strict=True):
            panel.axvline(step.start_s, color="0.7", linewidth=0.8)
            panel.text(step.start_s, 1.01, step.title, transform=panel.get_xaxis_transform(), fontsize=7)
            for leaf, share in expected.items():
                panel.hlines(share, step.settling_s, step.end_s, colors=colors[leaf], linestyles=":", linewidth=1.2)
        panel.set_title(SCHEDULERS[run.scheduler], fontsize=10, loc="left", pad=16)
        panel.set_ylabel("containers of tasks")
        panel.set_ylim(bottom=-0.3)
    panels[-1].set_xlabel("seconds (dotted: the paper's shares)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.suptitle(f"Test {test.name}")
    figure.savefig(target, dpi=150)
