"""The same load on a cell and on real engines: do they agree on conflicts and busyness?

The cell (`treadle_lab.models.cell`) has decision times and conflicts and nothing else. Here the same jobs, arrivals and
decision times go to real engines on the simulated ResourceManager, one for service and one for batch jobs, with the
cell's randomised first fit (`random_fit`), one job a decision, and a second of back-off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from treadle.config.settings import Settings, default_settings, with_parts
from treadle.dag import Dag, Stage
from treadle.errors import percent
from treadle.simulator.engines_simulation import EnginesSimulation, with_engines
from treadle.simulator.scenario import ScenarioModel
from treadle.workload.job import Framework, Job, Workload
from treadle_lab.models.cell import (
    ARCHITECTURES,
    MACHINE_CPU,
    MACHINE_MEMORY_MB,
    Cell,
    CellWorkload,
    DecisionTime,
    Draw,
    JobKind,
    drawn,
    simulate_cell,
)
from treadle_lab.rows import Results, Table

CONFLICTS_WITHIN: Final = 0.10
BUSYNESS_WITHIN: Final = 0.03
"""Maximum deviation of real engines from the cell, relative to it."""

SCHEDULERS: Final = {"S": JobKind.SERVICE, "B1": JobKind.BATCH}
DECISION: Final = DecisionTime(job_s=2.0, task_s=0.005)
_BATCH: Final = Draw(gap_s=10.0, tasks=10.0, duration_s=120.0)
_SERVICE: Final = Draw(gap_s=10.0, tasks=5.0, duration_s=170.0, joint=True)


@dataclass(frozen=True, slots=True)
class Load:
    """The common load: a small cell, three quarters full, with long decisions, so that a few hours have conflicts."""

    machines: int = 100
    hours: float = 8.0

    @property
    def duration_s(self) -> float:
        """Duration of a run."""
        return 3600.0 * self.hours

    def jobs(self, seed: int) -> CellWorkload:
        """Draw the jobs of a run."""
        return drawn(seed, self.duration_s, batch=_BATCH, service=_SERVICE)


@dataclass(frozen=True, slots=True)
class Counted:
    """The results of one scheduler in one run."""

    busyness: float
    transactions: int
    conflicts: int
    wait_s: float


Counts = dict[str, Counted]
"""By scheduler: S and B1."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """A figure of both."""

    scheduler: str
    figure: str
    cell: float
    engines: float
    tolerance: float | None
    """Relative; None if nothing is promised."""

    @property
    def difference(self) -> float:
        """Return how far the engines are from the cell, relative to it."""
        return self.engines / self.cell - 1.0 if self.cell else float(self.engines != self.cell)

    @property
    def within(self) -> bool:
        """Return whether it is within the tolerance."""
        return self.tolerance is None or abs(self.difference) <= self.tolerance


def cell_counts(load: Load, seed: int) -> Counts:
    """Run the cell, shared state with fine conflicts and incremental transactions."""
    decision = dict.fromkeys(SCHEDULERS.values(), DECISION)
    jobs = load.jobs(seed)
    outcome = simulate_cell(
        Cell(load.machines), ARCHITECTURES["omega"], jobs, decision, duration_s=load.duration_s, seed=seed
    )
    return {
        one.name: Counted(one.busyness, one.successes, one.failures, outcome.wait_s[SCHEDULERS[one.name]])
        for one in outcome.schedulers
    }


def engine_counts(load: Load, seed: int, *, check: bool = False) -> Counts:
    """Run real engines."""
    scenario = _scenario(load)
    settings = with_engines(scenario, _settings(seed))
    simulation = EnginesSimulation(scenario, _workload(load.jobs(seed)), settings, seed, check=check)
    run = simulation.run()
    return {
        each.name.upper(): Counted(each.busyness, each.transactions, each.conflicts, each.wait_mean_s)
        for each in run.engines
    }


def compare(cell: Sequence[Counts], engines: Sequence[Counts]) -> list[Agreement]:
    """Return the figures of both over all seeds: conflicts and transactions added up, means of the others."""
    agreements = []
    for name in SCHEDULERS:
        ours, theirs = [each[name] for each in engines], [each[name] for each in cell]
        agreements += [
            Agreement(name, "conflict fraction", _fraction(theirs), _fraction(ours), CONFLICTS_WITHIN),
            Agreement(name, "busyness", _mean(theirs, "busyness"), _mean(ours, "busyness"), BUSYNESS_WITHIN),
            Agreement(name, "wait (s)", _mean(theirs, "wait_s"), _mean(ours, "wait_s"), None),
        ]
    return agreements


def run_both(load: Load, seeds: Sequence[int], progress: Callable[[int], None]) -> list[Agreement]:
    """Run both for each seed; ``progress`` is called with the number of seeds that are done."""
    cell, engines = [], []
    for done, seed in enumerate(seeds, 1):
        cell.append(cell_counts(load, seed))
        engines.append(engine_counts(load, seed))
        progress(done)
    return compare(cell, engines)


def results_of(load: Load, seeds: Sequence[int], agreements: Sequence[Agreement]) -> Results:
    """Return the figures of both side by side."""
    rows = [
        (
            each.scheduler,
            each.figure,
            each.cell,
            each.engines,
            percent(each.difference, "+.2f"),
            "-" if each.tolerance is None else percent(each.tolerance),
        )
        for each in agreements
    ]
    heading = ("scheduler", "figure", "cell", "engines", "difference", "allowed")
    table = Table("A cell and real engines under the same load", heading, rows, 2)
    differ = [] if all(each.within for each in agreements) else ["the two do not agree: a difference is too large"]
    facts = {"machines": load.machines, "hours": load.hours, "t_job_service_s": DECISION.job_s}
    return Results({}, {}, facts | {"seeds": list(seeds), "shortfalls": differ}, {"omega-engines": table})


def _fraction(counts: Sequence[Counted]) -> float:
    transactions = sum(each.transactions for each in counts)
    return sum(each.conflicts for each in counts) / transactions if transactions else 0.0


def _mean(counts: Sequence[Counted], field: str) -> float:
    return float(sum(getattr(each, field) for each in counts) / len(counts))


def _settings(seed: int) -> Settings:
    """Return the engines' settings: the cell's randomised first fit, without reservations."""
    base = with_parts(default_settings(), {"fit": "random_fit", "order": "fifo"})
    hold, limits = (
        base.engine_reservation.model_copy(update={"nodes_max": 0}),
        base.limits.model_copy(update={"proposals_max": 10**6}),
    )
    return replace(base, engine_reservation=hold, limits=limits, seed=seed)


def _scenario(load: Load) -> ScenarioModel:
    machine = {"memory-mb": MACHINE_MEMORY_MB, "vcores": MACHINE_CPU // 1000}
    engine: dict[str, Any] = {
        "decision": {"t_job_s": DECISION.job_s, "t_task_s": DECISION.task_s, "jobs_max": 1},
        "retry": {"backoff_ms": 1000, "backoff_max_ms": 1000},
        "decision_max_s": 600.0,
    }
    return ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": load.machines, "resources": machine}], "heartbeat_ms": 0},
            "frameworks": {"heartbeat_ms": 0},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},  # in its place come the drawn jobs
            "decision": {"tick_ms": 1, "limit": 10**6},
            "duration_limit_s": load.duration_s,
            "engines": {"s": {"select": {"users": ["service"]}, **engine}, "b1": engine},
        }
    )


def _workload(drawn_jobs: CellWorkload) -> Workload:
    return Workload(("memory-mb", "vcores"), tuple(_jobs(drawn_jobs)))


def _jobs(drawn_jobs: CellWorkload) -> Iterator[Job]:
    """Yield the drawn jobs, each with one stage; times in whole milliseconds."""
    for at in range(len(drawn_jobs)):
        demand = {"memory-mb": float(drawn_jobs.memory[at]), "vcores": float(drawn_jobs.cpu[at]) / 1000.0}
        stage = Stage(0, int(drawn_jobs.tasks[at]), round(1000 * float(drawn_jobs.duration_s[at])), demand)
        kind = JobKind(int(drawn_jobs.kind[at])).name.lower()
        arrival_ms = round(1000 * float(drawn_jobs.arrival_s[at]))
        yield Job(f"job{at}", arrival_ms, Dag(f"job{at}", (stage,)), Framework.MAPREDUCE, user=kind)
