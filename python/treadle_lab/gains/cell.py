"""A cell of `gains`: one simulation of a point under a policy with a seed, and what is kept of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from inspect import getsource
from typing import Any, Final

import numpy as np
import yaml

from treadle.errors import UserError
from treadle.simulate import Scenario
from treadle.simulate.batch import Line, run_line
from treadle.simulate.figures import completion_s, figures_of
from treadle.simulate.run import Run
from treadle.simulator.results import FailedRun
from treadle.sweep.line import engine_digest
from treadle.workload.job import Workload
from treadle_lab.cells import digest
from treadle_lab.gains import traces
from treadle_lab.gains.bounds import bound_ms, fair_finish
from treadle_lab.gains.policies import BASELINE, chosen, file_of
from treadle_lab.gains.workloads import HOURS, POINTS

SLOW: Final = {"slearn": 3.0, "slearn-history": 3.0, "graphene": 3.0, "tetris": 1.5, "phoenix": 2.0}
"""How many times as long as others simulations under a policy take, about."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """One simulation."""

    x: str
    policy: str
    seed: int
    hours: float

    @property
    def key(self) -> str:
        """The digest of what draws the jobs, the policy, the seed and, of a trace, the length of its window."""
        hours = self.hours if POINTS[self.x].by_hours else None
        return digest(self.x, _source(self.x), self.policy, _content(self.policy), self.seed, hours)

    @property
    def title(self) -> str:
        """The cell's name where it fails."""
        return f"{self.x}, {self.policy}, seed {self.seed}"

    @property
    def cpu_s(self) -> float:
        """About how long it takes."""
        point = POINTS[self.x]
        return point.cpu_s * SLOW.get(self.policy, 1.0) * (self.hours / HOURS if point.by_hours else 1.0)


@cache
def _content(policy: str) -> Any:
    """Return what a policy's file says, without its comments."""
    return yaml.safe_load(file_of(policy).read_text("utf-8"))


@cache
def _source(x: str) -> list[str]:
    """Return the code and the arguments of what draws a point's jobs."""
    draw = POINTS[x].draw
    return [getsource(draw.func), repr(draw.args), repr(draw.keywords), getsource(traces)]


@lru_cache(maxsize=1)
def _drawn(x: str, seed: int, hours: float) -> tuple[dict[str, Any], Workload]:
    """Return what a seed draws: cells of a point and a seed come one after another."""
    return POINTS[x].draw(seed, hours)


def run(cell: Simulated) -> dict[str, Any]:
    """Run a cell; return what is kept.

    Raises:
        UserError: a part of the policy failed, or a job did not end.
    """
    document, workload = _drawn(cell.x, cell.seed, cell.hours)
    scenario = Scenario.of(document)
    every, counted = _capacities(scenario)
    jobs = fair_finish(workload, every) if cell.policy == "fair-finish-true" else workload
    scenario = scenario.with_jobs(jobs)
    settings = chosen(cell.policy, scenario)
    outcome = run_line(Line(scenario, cell.policy, settings, cell.seed, check=False, tasks=False))
    if isinstance(outcome.result, FailedRun):
        raise UserError(outcome.result.failure)
    result = outcome.result
    undone = int(np.isnan(result.completion_s).sum())
    if undone:
        raise UserError(f"{undone} jobs did not end: {'; '.join(outcome.notes)}")
    bound = {"bound_s": bound_ms(workload, counted) / 1000.0} if cell.policy == BASELINE else {}
    return _kept(result) | bound | {"cpu_s": round(result.summary.cpu_s, 2), "code": engine_digest()}


def _capacities(scenario: Scenario) -> tuple[dict[str, float], dict[str, float]]:
    """Return what the cluster has of each resource, and of each that the ResourceManager counts."""
    total: dict[str, float] = {}
    for group in scenario.model.cluster.nodes:
        for name, amount in group.resources.items():
            total[name] = total.get(name, 0.0) + group.count * amount
    free = {each.name for each in scenario.model.cluster.resources if not each.counted}
    return total, {name: amount for name, amount in total.items() if name not in free}


def _kept(result: Run) -> dict[str, Any]:
    jobs, summary = result.jobs, result.summary
    return {
        "figures": figures_of(jobs),
        "completion_ms": np.rint(1000.0 * completion_s(jobs)).astype(np.int64).tolist(),
        "use": summary.utilisation,
        "share_error": summary.share_error if len(summary.leaf_shares) > 1 else None,
    }
