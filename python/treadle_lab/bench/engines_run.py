"""A fast engine alone, and beside one that takes seconds for a decision: real sidecars, Hadoop's load simulator.

Modes take turns, each in a JVM of its own, with the same jobs at the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from treadle_lab.bench.cluster import machine
from treadle_lab.bench.engines_figures import Ratio, Side, Waits, as_json, engines_of, ratio_of, side_of, waits_of
from treadle_lab.bench.engines_modes import Rosters, Thought
from treadle_lab.bench.paced_load import PacedLoad
from treadle_lab.sls.load import Mode
from treadle_lab.sls.run import Run, Setting, simulate

ALONE: Final = "alone"
AGAIN: Final = "alone-again"
ASLEEP: Final = "beside-asleep"
BUSY: Final = "beside-busy"
ONE: Final = "in-one-engine"

Progress = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    load: PacedLoad
    decision_s: float
    rounds: int
    warm_ms: float
    """Short jobs that arrive before this time of a run, milliseconds, do not count."""


@dataclass(slots=True)
class Outcome:
    """All runs so far, by mode."""

    runs: dict[str, list[Run]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def waits(self, name: str, warm_ms: float) -> list[Waits]:
        """Return the waits of a mode's runs."""
        return [waits_of(run, warm_ms) for run in self.runs.get(name, [])]


def modes_of(folder: Path, plan: Plan) -> dict[str, Mode]:
    """Return the modes in the order of a round; the load is the same for all."""
    rosters = Rosters(folder, plan.load.settings)
    asleep, busy = Thought(plan.decision_s), Thought(plan.decision_s, cpu=True)
    return {
        ALONE: rosters.alone(ALONE),
        ASLEEP: rosters.beside(ASLEEP, asleep),
        AGAIN: rosters.alone(AGAIN),
        BUSY: rosters.beside(BUSY, busy),
        ONE: rosters.one(ONE, asleep),
    }


def run_engines(plan: Plan, setting: Setting, folder: Path, progress: Progress) -> Outcome:
    """Run all modes, in turn and every other round in the opposite order; `in-one-engine` in the first round only."""
    modes, outcome = modes_of(folder / "rosters", plan), Outcome()
    for number in range(1, plan.rounds + 1):
        names = [name for name in modes if name != ONE or number == 1]
        for name in names if number % 2 else reversed(names):
            label = f"{name}, round {number} of {plan.rounds}"
            run = simulate(modes[name], setting, folder / f"{number}-{name}", partial(progress, label))
            if run.failure is not None:
                outcome.failures.append(f"{label}: {run.failure}")
            else:
                outcome.runs.setdefault(name, []).append(run)
    return outcome


def figures(plan: Plan, outcome: Outcome) -> tuple[list[Side], dict[str, Ratio]]:
    """Return what each mode showed, and the quotients of the pooled 99th percentiles.

    All runs must have ended: else there are no pairs.

    Raises:
        BenchError: a short job was never served.
    """
    waits = {name: outcome.waits(name, plan.warm_ms) for name in outcome.runs}
    sides = [side_of(name, outcome.runs[name], waits[name]) for name in waits]
    ratios = {name: ratio_of(waits[name], waits[ALONE], 0.99) for name in (AGAIN, ASLEEP, BUSY)}
    ratios[ONE] = ratio_of(waits[ONE], waits[ALONE][:1], 0.99)
    return sides, ratios


def report(plan: Plan, outcome: Outcome, measured: tuple[list[Side], Mapping[str, Ratio]]) -> dict[str, Any]:
    """Return everything for the JSON file."""
    engines = {name: [engines_of(run) for run in runs] for name, runs in outcome.runs.items() if "beside" in name}
    return {**_about(plan), **as_json(*measured), "engines": engines}


def failed_report(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """Return what there is for the JSON file if a run failed."""
    return {**_about(plan), "failures": outcome.failures}


def _about(plan: Plan) -> dict[str, Any]:
    return {"workload": asdict(plan.load), "decision_s": plan.decision_s, "rounds": plan.rounds, **machine()}
