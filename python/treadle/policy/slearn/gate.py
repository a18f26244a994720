"""The gate that lets pilots of a job run first, and how many they are (SLearn)."""

from __future__ import annotations

from collections import deque
from typing import Final, Literal, Protocol

import numpy as np
from pydantic import Field

from treadle.compiled.array_types import F64, I32, Records
from treadle.config.parts import Parameters
from treadle.events import ApplicationState
from treadle.model.cluster import Cluster
from treadle.model.tables import View
from treadle.policy.gates import hold_masters, let_masters_start
from treadle.policy.parts import NEVER, Keeper
from treadle.policy.slearn import pilots as kernel
from treadle.policy.slearn.estimates import Confidence, HistoryQuota
from treadle.policy.slearn.keeper import PilotKeeper
from treadle.policy.slearn.table import PilotTable
from treadle.policy.work import add_up_nodes

START: Final = (3.0, 2.0, 4.0)
"""Percent of the first T jobs, the second and the third."""
GAIN: Final = 1.1
"""By how much less than 3 % may have cost that going further in the same direction is tried."""


class Ratio(Protocol):
    """Says how many percent of a job's tasks are pilots."""

    def next_percent(self) -> float:
        """Return the ratio for one more job."""

    def ended(self, percent: float, normalised: float) -> None:
        """Learn from a job that was sampled at this ratio: its completion time over its tasks' total time."""


class FixedRatio:
    """Always the same."""

    def __init__(self, percent: float) -> None:
        self._percent = percent

    def next_percent(self) -> float:
        """Return the ratio."""
        return self._percent

    def ended(self, percent: float, normalised: float) -> None:
        """Learn nothing."""


class AdaptiveRatio:
    """The ratio that has cost least recently, from 1 to 5 %.

    The first T jobs have 3 %, the second 2 % and the third 4 %; then each has the ratio with the least mean
    normalised completion time of its last T jobs. If that is 2 % and 3 % costs more than 1.1 times as much, 1 %
    is tried, and likewise 5 % beyond 4 %. Of equals the smaller ratio is taken, and 3 % while no job has ended; the
    paper leaves both open.
    """

    def __init__(self, jobs: int = 100) -> None:
        """Begin; ``jobs`` is T."""
        self._jobs = jobs
        self._begun = 0
        self._scores: dict[float, deque[float]] = {}

    def next_percent(self) -> float:
        """Return the ratio for one more job."""
        turn = self._begun // self._jobs
        if turn < len(START):
            self._begun += 1
            return START[turn]
        means = {percent: sum(scores) / len(scores) for percent, scores in sorted(self._scores.items())}
        if not means:
            return START[0]
        best = min(means, key=means.__getitem__)
        tried_further = {2.0: 1.0, 4.0: 5.0}.get(best)
        if tried_further is not None and GAIN * means[best] < means.get(3.0, 0.0):
            return tried_further
        return best

    def ended(self, percent: float, normalised: float) -> None:
        """Learn from a job that was sampled at this ratio: its completion time over its tasks' total time."""
        self._scores.setdefault(percent, deque(maxlen=self._jobs)).append(normalised)


Z90: Final = 1.6449
"""Deviations on either side of the mean that contain 90 % of a normal distribution."""


class PilotsParameters(Parameters):
    """What can be set; the defaults are those of SLearn where it has them."""

    ratio: Literal["adaptive", "fixed"] = Field(
        default="adaptive", description="Whether the part of a job that is sampled follows how jobs fared, or is fixed."
    )
    ratio_percent: float = Field(
        default=3.0, gt=0.0, le=100.0, description="The part of a job's tasks that is sampled, if it is fixed."
    )
    ratio_jobs: int = Field(
        default=100,
        ge=1,
        le=100_000,
        description="How many of the latest jobs of each ratio the adaptive ratio goes by.",
    )
    thin_limit: int = Field(
        default=3, ge=0, le=1_000_000, description="Jobs with fewer tasks are not sampled and go to the highest level."
    )
    work_conserving: bool = Field(
        default=True, description="Whether machines that nobody else wants run what is held back, by arrival."
    )
    trusted_deviation: float = Field(
        default=0.0,
        ge=0.0,
        le=1e6,
        description="A job is not sampled whose task time has a hint with at most so large a deviation, as a part of "
        "it; 0: all are.",
    )
    settled_part: float = Field(
        default=0.0,
        ge=0.0,
        le=10.0,
        description="Nor is one whose level history settles (order: mlfq): so much of its size's 90 % interval, by "
        "logarithms, lies in one level, or not above that of pilots; 0: all are.",
    )
    history_part: float = Field(
        default=0.0,
        ge=0.0,
        le=1.0,
        description="While pilots run, a job has up to this part of the cluster at the level of the upper end of its "
        "size's 90 % interval by history (order: mlfq); 0: its pilots alone.",
    )
    masters_starting: int = Field(
        default=0,
        ge=0,
        le=1000,
        description="How many application masters start at a time, first come first served: where their starts share "
        "processors, all are late if all start at once; 0: any number.",
    )
    master_timeout_ms: int = Field(
        default=60_000, ge=1000, le=2**40, description="An AM that has asked for nothing by then counts as started."
    )
    tez: bool = Field(
        default=False,
        description="Whether Tez is sampled too; only for clusters where Tez does not reuse containers.",
    )
    pilot_timeout_ms: int = Field(
        default=600_000, ge=1000, le=2**40, description="A pilot that has run for longer is replaced by one more."
    )
    hold_timeout_ms: int = Field(
        default=1_800_000, ge=1000, le=2**40, description="No job is held back for longer than this."
    )

    def needs(self) -> tuple[str, ...]:
        """Return where history is remembered, if any of it is gone by."""
        return ("profiles.store",) if self.trusted_deviation or self.settled_part or self.history_part else ()


class PilotsGate:
    """A few tasks of each stage first, to learn how long they take; the rest when they have ended.

    Held back are only MapReduce's maps, and Tez's vertices if set so; reduces and vertices after the one that is
    sampled get nothing as long as anything of it is held back. Attempts at tasks that failed are never held back, nor
    is Spark.
    """

    def __init__(self, parameters: PilotsParameters) -> None:
        self._parameters = parameters
        self.due_ms = NEVER
        self.waits_for = ""
        self._table = PilotTable()
        fixed = parameters.ratio == "fixed"
        self.know_levels(np.zeros(0), 0)
        self._ratio: Ratio = FixedRatio(parameters.ratio_percent) if fixed else AdaptiveRatio(parameters.ratio_jobs)

    def use(self, keeper: Keeper | None) -> None:
        """Take the table, which outlives the gate."""
        if isinstance(keeper, PilotKeeper):
            self._table = keeper.table

    def know_levels(self, thresholds_ms: F64, sampling_level: int) -> None:
        """Take the order's levels, which say what history must settle."""
        deviations = Z90 * self._parameters.settled_part if len(thresholds_ms) else 0.0
        self._confidence = Confidence(self._parameters.trusted_deviation, deviations, thresholds_ms, sampling_level)
        part = self._parameters.history_part if len(thresholds_ms) else 0.0
        self._history_quota = HistoryQuota(part, Z90, thresholds_ms, sampling_level, np.zeros(0))

    def open(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> None:
        """Hold back what is to wait for pilots, and let everything else through."""
        chosen, which = self._parameters, cluster.apps.in_use()
        sampled = self._table.fit(cluster)
        self._learn(view.apps, sampled.jobs, which, now_ms)
        if len(cluster.ended):
            cluster.ended["state"] = int(ApplicationState.GONE)
            self._learn(cluster.ended, self._table.gone, np.arange(len(self._table.gone), dtype=np.int32), now_ms)
            self._table.gone = self._table.gone[:0]
        mapreduce = cluster.names.index_of("MAPREDUCE")
        tez = cluster.names.index_of("TEZ") if chosen.tez else -1
        rows["may"] = 1
        new = np.empty(len(which), np.int32)
        count = kernel.find_new(view, sampled, which, mapreduce, tez, chosen.thin_limit, self._confidence, new)
        percents = np.array([self._ratio.next_percent() for _ in range(count)], np.float64)
        kernel.begin_sampling(view, sampled, new[:count], percents, now_ms)
        history_quota = self._history_quota._replace(totals=np.zeros(len(view.counted)))
        add_up_nodes(view, history_quota.totals)
        timeouts_ms = chosen.pilot_timeout_ms, chosen.hold_timeout_ms
        self.due_ms = int(kernel.hold_back(view, sampled, rows, which, now_ms, mapreduce, *timeouts_ms, history_quota))
        self.waits_for = "pilots" if _holds_back(view, rows) else ""
        if chosen.masters_starting > 0:
            self.due_ms = min(self.due_ms, self._start_masters(cluster, view, now_ms, rows))
            if not self.waits_for and _holds_back(view, rows):
                self.waits_for = "application masters that start"

    def mark(self, cluster: Cluster, apps: Records) -> None:
        """Say of jobs whose pilots have not ended, and of thin ones, what they run and at which level."""
        self._table.mark(cluster, apps, self._history_quota.sampling_level)

    def open_for_idle(self, rows: Records) -> bool:
        """Let only through what was held back."""
        return self._parameters.work_conserving and bool(kernel.release_held(rows))

    def _start_masters(self, cluster: Cluster, view: View, now_ms: int, rows: Records) -> int:
        """Limit how many application masters start at a time, first come first served; return when to look again."""
        chosen, which, resources = self._parameters, cluster.apps.in_use(), len(view.counted)
        waiting, found = np.empty(len(which), np.int32), np.empty(3, np.int64)
        hold_masters(view, rows, which, now_ms, chosen.master_timeout_ms, waiting, found)
        count, starting, late_ms = map(int, found)
        waiting = waiting[:count]
        waiting = waiting[np.argsort(view.apps["start_time_ms"][waiting], kind="stable")]
        totals, headroom = np.empty(resources), np.empty(resources, np.int64)
        add_up_nodes(view, totals)
        nowhere = np.full((len(cluster.names.partitions), resources), NEVER)
        slots = chosen.masters_starting - starting
        held = let_masters_start(view, rows, waiting, slots, cluster.decide, totals, headroom, nowhere)
        return late_ms if held else NEVER

    def _learn(self, apps: Records, jobs: Records, which: I32, now_ms: int) -> None:
        """Report the ratio of those of some jobs that have ended."""
        percents, normalised = np.empty(len(which)), np.empty(len(which))
        count = kernel.take_ended(apps, jobs, which, now_ms, percents, normalised)
        for percent, score in zip(percents[:count].tolist(), normalised[:count].tolist(), strict=True):
            self._ratio.ended(percent, score)


def _holds_back(view: View, rows: Records) -> bool:
    """Say whether more is asked for than may be served now."""
    wanted = view.rows["count"].astype(np.int64) - view.rows["assumed"]
    served = np.where(rows["may"] == 1, rows["quota"], 0)
    return bool(((view.rows["application"] >= 0) & (wanted > served)).any())
