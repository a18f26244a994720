"""A sweep's results: figures with intervals over seeds, Pareto fronts, and the best setting."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from treadle.simulate.batch import group_warnings
from treadle.simulate.comparison import Interval, interval_of, interval_of_ratio
from treadle.sweep.plan import Plan, Sweep

MEAN: Final = "completion_mean_s"


@dataclass(frozen=True, slots=True)
class Cell:
    """A scenario under a policy, over all seeds."""

    scenario: int
    policy: int
    seeds: tuple[int, ...]
    """Successful ones."""
    failed: tuple[tuple[int, str], ...]
    """Failed seeds with reasons."""
    figures: Mapping[str, Interval]
    over_first: Interval
    """Mean completion time relative to the first policy's, over the seeds successful under both."""
    pareto: bool = False
    """No other policy has a smaller mean completion time and better fairness on this scenario."""
    unfinished: int = 0
    """Jobs that failed or did not end, over all seeds."""


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The report."""

    plan: Plan
    fairness: str
    cells: tuple[Cell, ...]
    """Scenario by scenario, policy by policy."""
    best: int | None
    """The index of the best policy; None: no policy ran everywhere within the fairness limit."""
    best_over_first: float
    """Its mean completion time over the first policy's, the geometric mean over scenarios."""
    share_deviation_max: float | None
    """The limit for the best policy."""
    warnings: tuple[str, ...]
    runs: tuple[dict[str, Any], ...] = field(repr=False)

    @property
    def failed(self) -> int:
        """Number of failed runs."""
        return sum(len(cell.failed) for cell in self.cells)

    def as_json(self) -> dict[str, Any]:
        """Return the report as JSON, equal wherever the runs were."""
        plan = self.plan
        return {
            "fairness": self.fairness,
            "points": [
                {
                    "scenario": plan.scenarios[cell.scenario].name,
                    "scenario_settings": plan.scenarios[cell.scenario].settings,
                    "policy": plan.policies[cell.policy].name,
                    "policy_settings": plan.policies[cell.policy].settings,
                    "seeds": list(cell.seeds),
                    "pareto": cell.pareto,
                    "over_first": cell.over_first.as_json(),
                    "figures": {name: each.as_json() for name, each in cell.figures.items()},
                }
                for cell in self.cells
            ],
            "best": None if self.best is None else plan.policies[self.best].name,
            "failures": [
                {
                    "scenario": plan.scenarios[cell.scenario].name,
                    "policy": plan.policies[cell.policy].name,
                    "seed": seed,
                    "failure": why,
                }
                for cell in self.cells
                for seed, why in cell.failed
            ],
            "warnings": list(self.warnings),
            "runs": list(self.runs),
        }


def report_of(sweep: Sweep, plan: Plan, results: Sequence[bytes]) -> SweepReport:
    """Return the report on the results of a plan's runs, one each in its order."""
    figures_by_cell: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}
    runs: list[dict[str, Any]] = []
    lines: list[tuple[str, str]] = []
    for planned, result in zip(plan.runs, results, strict=True):
        document, policy_name = json.loads(result), plan.policies[planned.policy].name
        figures_by_cell.setdefault((planned.scenario, planned.policy), {})[planned.line.seed] = document
        run = {"scenario": plan.scenarios[planned.scenario].name, "policy": policy_name, "seed": planned.line.seed}
        runs.append(run | document)
        lines += [(policy_name, text) for text in (*document.get("warnings", ()), "")]
    cells = []
    for scenario in range(len(plan.scenarios)):
        row = [figures_by_cell[scenario, policy] for policy in range(len(plan.policies))]
        made = [_cell(scenario, policy, own, row[0]) for policy, own in enumerate(row)]
        front = pareto([(_mean(cell, MEAN), _fairness_cost(cell, sweep.fairness)) for cell in made])
        cells += [replace(cell, pareto=at in front) for at, cell in enumerate(made)]
    best, ratio = _best(sweep, plan, cells)
    warnings = tuple(f"{name}{': ' * bool(name)}{text}" for name, text in group_warnings(lines))
    limit = sweep.share_deviation_max
    return SweepReport(plan, sweep.fairness, tuple(cells), best, ratio, limit, warnings, tuple(runs))


def pareto(points: Sequence[tuple[float, float]]) -> set[int]:
    """Return the positions of Pareto-optimal points: no other is smaller in one figure and no larger in the other.

    A point with an unknown figure is excluded.
    """
    known = [at for at, point in enumerate(points) if np.isfinite(point).all()]
    return {
        at
        for at in known
        if not any(
            points[other][0] <= points[at][0] and points[other][1] <= points[at][1] and points[other] != points[at]
            for other in known
        )
    }


def _cell(scenario: int, policy: int, own: Mapping[int, dict[str, Any]], first: Mapping[int, dict[str, Any]]) -> Cell:
    well = {seed: each["figures"] for seed, each in own.items() if each["failure"] is None}
    others = {seed: each["figures"] for seed, each in first.items() if each["failure"] is None}
    names = next(iter(well.values())).keys() if well else ()
    both = [seed for seed in well if seed in others]
    return Cell(
        scenario,
        policy,
        tuple(well),
        tuple((seed, each["failure"]) for seed, each in own.items() if each["failure"] is not None),
        {name: interval_of([figures[name] for figures in well.values()]) for name in names},  # None counts as NaN
        interval_of_ratio([well[seed][MEAN] for seed in both], [others[seed][MEAN] for seed in both]),
        unfinished=sum(int(figures["unfinished"] + figures["failed"]) for figures in well.values()),
    )


def _mean(cell: Cell, name: str) -> float:
    """Return a figure's mean over seeds; NaN where a run failed, which would be a mean of other jobs."""
    known = not cell.failed and name in cell.figures
    return cell.figures[name].mean if known else float("nan")


def _fairness_cost(cell: Cell, fairness: str) -> float:
    """Return a cost that decreases with fairness."""
    value = _mean(cell, fairness)
    return -value if fairness == "jain" else value


def _best(sweep: Sweep, plan: Plan, cells: Sequence[Cell]) -> tuple[int | None, float]:
    """Return the policy with the lowest mean completion time over equally weighted scenarios, and its ratio."""
    count, width = len(plan.scenarios), len(plan.policies)
    times = np.array([_mean(cell, MEAN) for cell in cells]).reshape(count, width)
    errors = np.array([_mean(cell, "share_deviation") for cell in cells]).reshape(count, width).mean(axis=0)
    left = np.array([sum(cells[at * width + policy].unfinished for at in range(count)) for policy in range(width)])
    score = np.exp(np.log(times).mean(axis=0)) if count else np.zeros(0)
    allowed = np.isfinite(score) & (left == left.min(initial=np.iinfo(np.int64).max))
    if sweep.share_deviation_max is not None:
        allowed &= errors <= sweep.share_deviation_max
    if not allowed.any():
        return None, float("nan")
    best = int(np.flatnonzero(allowed)[np.argmin(score[allowed])])
    return best, float(score[best] / score[0])
