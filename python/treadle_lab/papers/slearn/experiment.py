"""SLearn: draws of jobs under schemes; rows over seeds and their tables, and plots like the paper's."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
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
from treadle_lab.harness.runs import KeyedRun, RunSettings, run_all, run_to_the_end
from treadle_lab.papers.slearn.schemes import TITLES, Model, Scheme
from treadle_lab.papers.slearn.trace import (
    LOAD,
    NODES,
    OF_JOBS,
    THRESHOLDS_MS,
    Draws,
    Figures,
    JobHints,
    Source,
    Trace,
    levels,
)
from treadle_lab.plots import Line, Panel, panels, share_up_to
from treadle_lab.rows import Layout, Results, Row, figure_of

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


_source = lru_cache(maxsize=1)(Source)


@lru_cache(maxsize=64)
def _trace(draws: Draws, seed: int) -> Trace:
    """Return a draw, which a process makes once."""
    return _source(draws).draw(seed)


@dataclass(frozen=True, slots=True)
class SchemeRun(KeyedRun):
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

    def run(self) -> dict[str, Any]:
        """Return each job's completion time, and how long the simulation took."""
        run = run_model if self.model else run_scheme
        completion_ms, wall_s = run(_trace(self.draws, self.seed), self.scheme, self.draws.nodes)
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
    results = run_all(tasks, RunSettings(processes=1) if settings is None else settings, progress)
    outcomes = []
    for at, seed in enumerate(seeds):
        own = dict(zip((scheme.name for scheme in schemes), results[at * len(schemes) :], strict=False))
        completion_ms = {name: np.asarray(each["completion_ms"], np.float64) for name, each in own.items()}
        wall_s = {name: each["wall_s"] for name, each in own.items()}
        outcomes.append(Outcome(_trace(draws, seed), completion_ms, wall_s))
    return outcomes


ESTIMATORS = ("pilots", "combined", "3sigma", "point", "median", "drawn", "3sigma-paper", "point-paper")
OVER_SLEARN: Final = "over SLearn's, all jobs"
LAYOUTS: Final = {
    "slearn-times": "Mean completion times of jobs, and over SLearn's",
    "slearn-errors": "Estimates of wide jobs",
    "slearn-bins": "Bins of jobs by width and size",
}


def results_of(outcomes: Sequence[Outcome], paper: Figures = OF_JOBS, load: float = LOAD) -> Results:
    """Return the results of one outcome per seed at a load, with the paper's figures."""
    rows: dict[str, list[Row]] = {name: [] for name in LAYOUTS}
    for outcome in outcomes:
        for name, row in _rows(f"{load:g}", outcome, paper):
            rows[name].append(row)
    rows["slearn-times"] += _spread(rows["slearn-times"])
    wall_s = sum(sum(outcome.wall_s.values()) for outcome in outcomes)
    facts = {"seeds": [each.trace.seed for each in outcomes], "jobs": len(outcomes[0].trace.widths), "wall_s": wall_s}
    return Results({name: Layout(title) for name, title in LAYOUTS.items()}, rows, facts)


def _rows(x: str, outcome: Outcome, paper: Figures) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a draw, each with the name of its table."""
    schemes = outcome.completion_ms

    def row(table: str, figure: str, series: str, value: float, unit: str, *more: float | None) -> tuple[str, Row]:
        return table, Row(figure, TITLES.get(series, series), x, outcome.trace.seed, value, unit, *more)

    for name in schemes:
        yield row("slearn-times", "mean (s)", name, outcome.mean_s(name), "s")
        if name == "slearn":
            continue
        for figure, measure, papers in (
            (OVER_SLEARN, outcome.speedup_mean, paper.speedup_mean),
            ("wide jobs alone", outcome.speedup_wide, {}),
            ("median over jobs", outcome.speedup_p50, paper.speedup_p50),
        ):
            yield row("slearn-times", figure, name, measure(name), "1", papers.get(name))
    for name in ESTIMATORS:
        p50, p90 = np.percentile(outcome.errors(name), (50, 90)).tolist()
        right = outcome.right_queue(name)
        for figure, value, papers in (
            ("error P50 (%)", p50, paper.error_p50),
            ("error P90 (%)", p90, paper.error_p90),
            ("in the right queue (%)", right, paper.right_queue),
        ):
            yield row("slearn-errors", figure, name, value, "%", papers.get(name))
    yield from (row("slearn-bins", *each) for each in bins(outcome)) if AGAINST in schemes else ()


def _spread(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield how far single draws lie apart; the deviation is that of draws, not of their mean."""
    for series in dict.fromkeys(row.series for row in rows if row.figure == OVER_SLEARN):
        own = [row for row in rows if (row.series, row.figure) == (series, OVER_SLEARN)]
        values = [row.value for row in own]
        deviation = float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
        for figure, value in (("least", min(values)), ("most", max(values)), ("deviation", deviation)):
            yield Row(f"{figure} of draws", series, own[0].x, 0, value, "1")


AGAINST: Final = "3sigma-paper"
"""The baseline of SLearn: the paper has its own 3Sigma."""
Found = tuple[str, str, float, str, None, float | None]
"""Figure, series, value, unit, reference, divisor."""


def bins(outcome: Outcome) -> Iterator[Found]:
    """Yield by bin its percent of jobs and of task time, the mean completion time over SLearn's, and who is faster.

    Small jobs have less than 1,000 s of task time, thin ones less than three tasks.
    """
    size, wide = np.asarray(outcome.trace.true_ms * outcome.trace.widths), outcome.trace.wide
    ours, theirs = (outcome.completion_ms[name] for name in ("slearn", AGAINST))
    for is_large, is_wide in product((False, True), repeat=2):
        name = f"{'large' if is_large else 'small'}, {'wide' if is_wide else 'thin'}"
        own = ((size >= THRESHOLDS_MS[0]) == is_large) & (wide == is_wide)
        if own.any():
            yield "jobs (%)", name, 100.0 * float(own.mean()), "%", None, None
            yield "task time (%)", name, 100.0 * float(size[own].sum() / size.sum()), "%", None, None
            over = float(ours[own].sum())
            yield "3Sigma by the letter over SLearn", name, float(theirs[own].sum()), "1", None, over
            faster = 100.0 * float((ours < theirs)[own].sum())
            yield "jobs that SLearn makes faster (%)", name, faster, "%", None, float(own.sum())


def plot_slearn(outcomes: Sequence[Outcome], results: Results, folder: Path) -> list[Path]:
    """Draw the plots and return their files."""
    others = [name for name in outcomes[0].completion_ms if TITLES.get(name) and name != "slearn"]
    by_job = {
        name: share_up_to(
            np.concatenate([each.completion_ms[name] / each.completion_ms["slearn"] for each in outcomes])
        )
        for name in others
    }
    errors = {name: share_up_to(np.concatenate([each.errors(name) for each in outcomes])) for name in ESTIMATORS}
    over, x = "completion time over that with SLearn", (0.1, 100)
    drawn = {
        "speedup": _beside(row for row in results.rows["slearn-times"] if row.figure == OVER_SLEARN),
        "speedup-by-job": Panel(by_job, over, "share of jobs", scales=("log", "linear"), x_range=x),
        "error": Panel(errors, "error of a wide job's mean task duration (%)", "share of wide jobs", x_range=(0, 200)),
    }
    return [panels([panel], folder / f"slearn-{name}.png") for name, panel in drawn.items() if panel.lines]


def _beside(chosen: Iterable[Row]) -> Panel:
    """Return figures by series with their intervals over seeds, and the paper's."""
    rows = list(chosen)
    names = list(dict.fromkeys(row.series for row in rows))
    if not names:
        return Panel({}, "", "")
    found = [figure_of([row for row in rows if row.series == name]) for name in names]
    here = Line(names, [each.mean for each in found], [each.low for each in found], [each.high for each in found])
    known = {row.series: row.reference for row in rows if row.reference is not None}
    paper = {"paper": Line(list(known), list(known.values()))} if known else {}
    return Panel({"here": here} | paper, "", rows[0].figure, level=1.0)
