"""Draws of jobs under schemes."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import F64, I32
from treadle.config.settings import Settings
from treadle.events import Applications, ApplicationState, Event, Requests, TaskEstimates
from treadle.simulator.cluster.tables import RowKind
from treadle.simulator.feed import ranges
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import Simulation
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Workload
from treadle_lab.harness.runs import RunSettings, digest_of, run_all, run_to_the_end
from treadle_lab.papers.slearn.paper import NODES, levels
from treadle_lab.papers.slearn.schemes import Model, Scheme
from treadle_lab.papers.slearn.trace import Choices, JobHints, Source, Trace

BARRIERS: Final = {"heartbeat_ms": 0, "tez_min_fraction": 1.0, "tez_max_fraction": 1.0, "tez_reuse": False}
"""A stage asks for containers when the one before it has ended, for each task one of its own."""


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The result of one draw of jobs."""

    trace: Trace
    completion_ms: dict[str, F64]
    """By scheme, of each job, from its arrival to the end of its last task."""
    wall_s: dict[str, float]

    def mean_s(self, scheme: str) -> float:
        """Return the mean completion time."""
        return float(self.completion_ms[scheme].mean()) / 1000

    def speedup_mean(self, scheme: str, by: str = "slearn") -> float:
        """Return the mean completion time of a scheme over that of SLearn."""
        return self.mean_s(scheme) / self.mean_s(by)

    def speedup_wide(self, scheme: str) -> float:
        """Return the mean completion time of wide jobs over that with SLearn."""
        wide = self.trace.wide
        return float(self.completion_ms[scheme][wide].mean() / self.completion_ms["slearn"][wide].mean())

    def speedup_p50(self, scheme: str) -> float:
        """Return the median over jobs of completion time over that with SLearn."""
        return float(np.median(self.completion_ms[scheme] / self.completion_ms["slearn"]))

    def errors(self, estimator: str) -> F64:
        """Return how far off an estimator is for each wide job, in percent of the true duration."""
        wide = self.trace.wide
        true_ms = self.trace.true_ms[wide]
        return np.asarray(100.0 * np.abs(self.trace.estimated_ms[estimator][wide] - true_ms) / true_ms)

    def right_queue(self, estimator: str) -> float:
        """Return the percentage of wide jobs whose estimated size is of the same level as their true size."""
        trace, wide = self.trace, self.trace.wide
        right = levels(trace.estimated_ms[estimator] * trace.widths) == levels(trace.true_ms * trace.widths)
        return 100.0 * float(right[wide].mean())


def scenario_of(nodes: int) -> ScenarioModel:
    """Return a cluster of nodes with one slot each, of which everything is heard at once.

    Decisions are made when something happens, at the next tenth of a second.
    """
    return ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": nodes, "resources": dict(CONTAINER)}], "heartbeat_ms": 0},
            "frameworks": BARRIERS,
            "decision": {"tick_ms": 100, "idle_ms": 2**40},
            "workload": {"jobs": [{"stages": [{"tasks": 1, "duration_s": 1}]}]},
            "report": {"window_s": 1e6},
        }
    )


class HintedSimulation(Simulation):
    """A simulation whose engine gets hints about tasks: of all stages with their job, later ones again when asked for.

    Until then the hints of later stages have the number of tasks.
    """

    def __init__(
        self, scenario: ScenarioModel, workload: Workload, settings: Settings, seed: int, hints: JobHints
    ) -> None:
        super().__init__(scenario, workload, settings, seed, check=False, hinted=True)
        self._hints = hints
        rows = self.built.state.rows
        self._is_stage = np.isin(rows["kind"], (RowKind.TASKS, RowKind.INSIDE))
        self._stage_of_row = np.cumsum(self._is_stage) - 1
        self._ahead = self._is_stage & (rows["parents"] > 0)

    def frame(self) -> list[Event]:
        """Return the events of the ResourceManager with hints."""
        apps = self.rm.state.apps
        frame: list[Event] = []
        for event in super().frame():
            frame.append(event)
            if isinstance(event, Applications):
                live = event.application[event.state != ApplicationState.GONE]
                rows = ranges(apps["first_row"][live], apps["rows"][live])
                frame.append(self._hints_for(rows[self._is_stage[rows]]))
            elif isinstance(event, Requests):
                rows = (apps["first_row"][event.application] + event.key)[event.count > 0]
                begun = rows[self._ahead[rows]]
                self._ahead[begun] = False
                frame += [self._hints_for(begun)] if len(begun) else []
        return frame

    def _hints_for(self, row: I32) -> TaskEstimates:
        rows, stage = self.rm.state.rows[row], self._stage_of_row[row]
        return TaskEstimates(
            application=rows["app"],
            key=rows["key"],
            duration_ms=self._hints.duration_ms[stage],
            deviation_ms=self._hints.deviation_ms[stage],
            tasks=np.where(self._ahead[row], rows["tasks"], -1).astype(np.int32),
        )


class Ran(NamedTuple):
    """Results of a run."""

    completion_ms: F64
    """Completion time of each job."""
    wall_s: float
    """Wall time of the simulation in seconds."""


def run_scheme(trace: Trace, scheme: Scheme, nodes: int = NODES) -> Ran:
    """Run a draw under a scheme, on the engine in the simulator."""
    made = (scenario_of(nodes), trace.workload, scheme.settings(trace.seed), trace.seed)
    hints = trace.hints[scheme.hints] if scheme.hints else None
    simulation = Simulation(*made, check=False) if hints is None else HintedSimulation(*made, hints)
    run, completion_ms = run_to_the_end(simulation, scheme.title)
    return Ran(completion_ms, run.wall_s)


def run_model(trace: Trace, scheme: Scheme, nodes: int = NODES) -> Ran:
    """Run the same by the plain model in place of the engine."""
    began = time.perf_counter()
    return Ran(Model(trace, scheme, nodes).run(), time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Draws:
    """Where draws come from."""

    folder: Path
    jobs: int
    nodes: int
    choices: Choices


@lru_cache(maxsize=1)
def _source(draws: Draws) -> Source:
    return Source(draws.folder, draws.jobs, draws.nodes, draws.choices)


@lru_cache(maxsize=64)
def _trace(draws: Draws, seed: int) -> Trace:
    """Return a draw, which a process makes once."""
    return _source(draws).draw(seed)


@lru_cache(maxsize=1)
def _content(folder: Path) -> str:
    """Return a digest of the extract."""
    digest = hashlib.sha256()
    for file in sorted(each for each in folder.iterdir() if each.is_file()):
        digest.update(f"\n{file.name}\n".encode() + file.read_bytes())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class SchemeRun:
    """A draw under a scheme."""

    draws: Draws
    seed: int
    scheme: Scheme
    model: bool
    """By the plain model, not by the engine."""

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"seed {self.seed}, {self.scheme.name}"

    @property
    def key(self) -> str:
        """The digest of all that it depends on."""
        own = asdict(self.draws) | {"folder": _content(self.draws.folder)}
        return digest_of(__name__, own, self.seed, asdict(self.scheme), self.model)


def run_one(wanted: SchemeRun) -> dict[str, Any]:
    """Run a draw under a scheme; return each job's completion time, and how long the simulation took."""
    run = run_model if wanted.model else run_scheme
    trace, nodes = _trace(wanted.draws, wanted.seed), wanted.draws.nodes
    completion_ms, wall_s = run(trace, wanted.scheme, nodes)
    return {"completion_ms": completion_ms.tolist(), "wall_s": wall_s}


def run_draws(
    draws: Draws,
    seeds: Sequence[int],
    schemes: Sequence[Scheme],
    *,
    model: bool = False,
    settings: RunSettings | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> list[Outcome]:
    """Run each draw under all schemes, on the engine in the simulator or, with ``model``, on the plain model.

    Args:
        draws: the source of draws
        seeds: the seeds
        schemes: the schemes to compare
        model: takes the plain model
        settings: where results are kept, and how many run at a time; None: one at a time, in this process
        progress: called with the runs that are done, and their number

    Raises:
        UserError: the extract is missing or wrong, or runs failed.
    """
    _trace(draws, seeds[0])  # an error in the extract is reported once
    tasks = [SchemeRun(draws, seed, scheme, model) for seed in seeds for scheme in schemes]
    results = run_all(tasks, run_one, RunSettings(processes=1) if settings is None else settings, progress)
    outcomes = []
    for at, seed in enumerate(seeds):
        own = dict(zip((scheme.name for scheme in schemes), results[at * len(schemes) :], strict=False))
        completion_ms = {name: np.asarray(each["completion_ms"], np.float64) for name, each in own.items()}
        wall_s = {name: each["wall_s"] for name, each in own.items()}
        outcomes.append(Outcome(_trace(draws, seed), completion_ms, wall_s))
    return outcomes
