"""The schemes that SLearn is compared with, and a plain model of the paper's scheduler that runs them."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import exp
from typing import Any, Final

import numpy as np
import yaml

from treadle.compiled.array_types import F64
from treadle.config.settings import EngineReservation, Settings, default_settings, with_parts
from treadle.policy.catalogue import register_parts
from treadle.policy.slearn.gate import AdaptiveRatio
from treadle.shipped import ready_made
from treadle_lab.estimators import THIN_LIMIT, Z90
from treadle_lab.papers.slearn.trace import LEVELS, SAMPLING_LEVEL, THRESHOLDS_MS, WEIGHT_FACTOR, Trace

FOREVER_MS: Final = 2**40
"""The paper's pilots have no bound in time."""

BY_LEVELS: Final = ("mlfq", {"size": "estimated_total"})
SCALED: Final = ("pilots", {"scale_history": True})
"""Pilot measurements; where there are none, history's estimates scaled by them."""
SAMPLED: Final = {"pilot_timeout_ms": FOREVER_MS, "hold_timeout_ms": FOREVER_MS}
TRUSTING: Final = 1e6


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to schedule."""

    name: str
    title: str
    parts: dict[str, Any] = field(default_factory=dict)
    """The kinds of parts, with parameters, that are not the default ones."""
    hints: str = ""
    """The estimator whose estimates the engine gets when a job arrives; empty: none."""

    def settings(self, seed: int) -> Settings:
        """Return the engine's settings."""
        register_parts()
        return replace(
            with_parts(default_settings(), self.parts), engine_reservation=EngineReservation(nodes_max=0), seed=seed
        )


def slearn() -> Scheme:
    """Return the paper's SLearn."""
    parts = {"gate": ("pilots", SAMPLED), "order": BY_LEVELS, "estimate": "pilots", "fit": "first_fit"}
    return Scheme("slearn", "SLearn", parts)


def combined(
    name: str = "combined", title: str = "pilots and history (ours)", hints: str = "history", **gate: Any
) -> Scheme:
    """Return ours, conf/policies/slearn-history.yaml: history has a say while pilots run, and pilots have the last.

    They are so much better than history here that weighing both by their uncertainty (estimate: combined) does worse.
    """
    chosen = ("pilots", SAMPLED | {"history_fraction": 0.2} | gate)
    return Scheme(name, title, {"gate": chosen, "order": BY_LEVELS, "estimate": SCALED, "fit": "first_fit"}, hints)


def shipped() -> tuple[Scheme, Scheme]:
    """Return slearn.yaml and slearn-history.yaml of conf/policies unchanged: with time-outs, and packing.

    The plain model supports neither. The second uses predictions of the history store.
    """
    return (_ready_made("shipped", "slearn", ""), _ready_made("shipped-history", "slearn-history", "stored"))


def shipped_apart() -> tuple[Scheme, ...]:
    """Return the paper's SLearn with each of what slearn.yaml has besides: its time-outs, one and both, and packing."""
    paper = slearn()

    def without(*timeouts: str) -> dict[str, Any]:
        gate = {name: value for name, value in SAMPLED.items() if name not in timeouts}
        return {**paper.parts, "gate": ("pilots", gate)}

    return (
        Scheme("pilot-timeout", "SLearn, pilots are replaced after 10 min", without("pilot_timeout_ms")),
        Scheme("hold-timeout", "SLearn, jobs are held back for 30 min at most", without("hold_timeout_ms")),
        Scheme("timeouts", "SLearn, both time-outs", without(*SAMPLED)),
        Scheme("packing", "SLearn, packing", {**paper.parts, "fit": "packing"}),
    )


def _ready_made(name: str, policy_name: str, hints: str) -> Scheme:
    policy = yaml.safe_load(ready_made()[policy_name].read_text("utf-8"))["policy"]
    return Scheme(name, TITLES[name], {part: (chosen.pop("kind"), chosen) for part, chosen in policy.items()}, hints)


def _from_history(name: str, title: str, hints: str) -> Scheme:
    return Scheme(name, title, {"order": BY_LEVELS, "estimate": "hints", "fit": "first_fit"}, hints)


THIN_TO_TOP: Final = ("pilots", SAMPLED | {"trusted_deviation": TRUSTING})
"""Thin jobs go to the highest level, and nothing is sampled."""

SCHEMES: Final = (
    slearn(),
    combined(),
    _from_history("3sigma", "3Sigma", "3sigma"),
    Scheme(
        "3sigma-tl",
        "3SigmaTL",
        {"gate": THIN_TO_TOP, "order": BY_LEVELS, "estimate": "hints", "fit": "first_fit"},
        "3sigma",
    ),
    _from_history("point", "Point-Est", "point"),
    _from_history("3sigma-paper", "3Sigma by the paper's letter", "3sigma-paper"),
    _from_history("point-paper", "Point-Est by the paper's letter", "point-paper"),
    _from_history("drawn", "3Sigma with drawn errors as large as the paper's", "drawn"),
    Scheme("las", "LAS", {"order": ("mlfq", {"size": "attained_service"}), "fit": "first_fit"}),
    Scheme("fifo", "FIFO", {"order": "fifo", "fit": "first_fit"}),
    _from_history("oracle", "Oracle", "oracle"),
    Scheme(
        "exact",
        "SLearn whose pilots tell the truth",
        {"gate": ("pilots", SAMPLED), "order": BY_LEVELS, "estimate": "hints", "fit": "first_fit"},
        "oracle",
    ),
    combined("combined-stored", "pilots and the store of profiles (ours)", "stored"),
)
"""SLearn, ours, the paper's baselines, strengthened and literal, one with errors as large as in it, SLearn without
errors; ours with predictions of the history store."""


OF_DAGS: Final = ("3sigma", "point", "3sigma-paper", "point-paper", "las", "fifo", "oracle")

DAG_SCHEMES: Final = (
    Scheme(
        "slearn",
        "SLearn-DAG",
        {"gate": ("pilots", SAMPLED | {"tez": True}), "order": BY_LEVELS, "estimate": SCALED, "fit": "first_fit"},
        "3sigma",
    ),
    combined(tez=True),
    *(scheme for scheme in SCHEMES if scheme.name in OF_DAGS),
)
"""SLearn-DAG: the first stage is sampled, later ones are 3Sigma's, scaled by its pilot measurements. Ours, and the
baselines: a DAG's size is the sum of its stages'."""


TITLES: Final = {each.name: each.title for each in (*SCHEMES, *shipped_apart())} | {
    "shipped": "SLearn as it ships",
    "shipped-history": "SLearn with a store of profiles, as it ships",
    "pilots": "pilots",
    "median": "median of earlier jobs",
}
"""Titles of schemes and estimators in results."""


_THRESHOLDS_MS: Final = THRESHOLDS_MS.tolist()


@dataclass(slots=True)
class _Job:
    """A job that has come."""

    number: int
    arrival_ms: float
    durations_ms: list[float]
    """Durations of all stages' tasks, in the order of their start."""
    widths: list[int]
    """Width of each stage; one starts when the previous one has ended."""
    hint_ms: list[float]
    """Task durations by history in ms, by stage; empty: no history."""
    deviations_ms: list[float]
    stage: int = 0
    may_begin: int = 0
    """Number of tasks in the started stages."""
    level: int = 0
    pilots: int = 0
    percent: float = 0.0
    held: bool = False
    allowed: int = 0
    """Number of tasks that may start while it is held back: its pilots, and its quota by history."""
    history_level: int = -1
    """Its level by the upper end of history's interval; -1: history says nothing, or has no say."""
    pilots_since_ms: list[float] = field(default_factory=list)
    """When each pilot began."""
    begun: int = 0
    ended: int = 0
    pilots_ended: int = 0
    running: int = 0
    attained_ms: float = 0.0
    since_ms: float = 0.0

    def startable(self) -> bool:
        """Return whether a task may start: in a held job only a pilot, or one within the quota by history."""
        return self.begun < (self.allowed if self.held else self.may_begin)

    def size_ms(self, first_ms: float, deviations: float = 0.0) -> float:
        """Return its size by history, each stage some deviations larger; ``first_ms`` is the first stage's task."""
        size_ms = first_ms * self.widths[0]
        later = zip(self.hint_ms[1:], self.deviations_ms[1:], self.widths[1:], strict=False)
        for hint_ms, deviation_ms, width in later:
            size_ms += hint_ms * exp(deviations * deviation_ms / hint_ms) * width
        return size_ms


class Model:
    """One draw of jobs under one scheme."""

    def __init__(self, trace: Trace, scheme: Scheme, nodes: int) -> None:
        """Make everything ready; ``nodes`` have one slot each."""
        order = scheme.parts["order"]
        self._by_arrival = order == "fifo"
        self._by_attained = order != "fifo" and order[1]["size"] == "attained_service"
        gate: tuple[str, dict[str, Any]] | None = scheme.parts.get("gate")
        settings = {} if gate is None else gate[1]
        self._sampled = gate is not None
        self._thin_limit = THIN_LIMIT if self._sampled else 0
        self._trusted = settings.get("trusted_deviation", 0.0)
        self._history_fraction = settings.get("history_fraction", 0.0)
        self._nodes = nodes
        self._ratio = AdaptiveRatio()
        self._goes_by_hints = scheme.parts.get("estimate") == "hints"
        hints = trace.hints[scheme.hints] if scheme.hints else None
        self._jobs: list[_Job] = []
        first = 0
        for number, job in enumerate(trace.workload.jobs):
            stages = job.dag.stages
            durations_ms = np.concatenate([stage.durations() for stage in stages]).astype(float).tolist()
            said = slice(first, first + len(stages) if hints is not None else first)
            known = hints is not None and bool((hints.duration_ms[said] >= 0).all())
            hint_ms = hints.duration_ms[said].astype(float).tolist() if hints is not None and known else []
            deviations_ms = hints.deviation_ms[said].astype(float).tolist() if hints is not None and known else []
            widths = [stage.tasks for stage in stages]
            made = _Job(number, float(job.arrival_ms), durations_ms, widths, hint_ms, deviations_ms)
            self._jobs.append(made)
            first += len(stages)
        self._waiting: list[list[int]] = [[] for _ in range(LEVELS)]
        self._use = [0] * LEVELS
        self._held: dict[int, _Job] = {}
        """In order of arrival."""
        self._busy: dict[int, _Job] = {}
        self._ends: list[tuple[float, int, bool]] = []
        self._free = nodes
        self._now_ms = 0.0
        self.completion_ms = np.zeros(len(self._jobs))

    def run(self) -> F64:
        """Return the completion time of each job."""
        coming = 0
        while coming < len(self._jobs) or self._ends:
            at_ms = self._jobs[coming].arrival_ms if coming < len(self._jobs) else float("inf")
            self._now_ms = min(at_ms, self._ends[0][0]) if self._ends else at_ms
            while coming < len(self._jobs) and self._jobs[coming].arrival_ms <= self._now_ms:
                self._arrive(self._jobs[coming])
                coming += 1
            while self._ends and self._ends[0][0] <= self._now_ms:
                _, number, pilot = heappop(self._ends)
                self._end(self._jobs[number], pilot)
            if self._free:
                self._serve()
        return self.completion_ms

    def _arrive(self, job: _Job) -> None:
        job.may_begin = job.widths[0]
        if self._sampled and max(job.widths) < self._thin_limit:
            job.level = 0
        elif self._sampled and not self._trusts(job):
            job.held, job.level = True, SAMPLING_LEVEL
            job.percent = self._ratio.next_percent()
            job.allowed = job.pilots = max(1, int(job.widths[0] * job.percent / 100.0 + 1e-9))
            self._held[job.number] = job
            if self._history_fraction and job.hint_ms and min(job.deviations_ms) >= 0:
                high_ms = job.hint_ms[0] * exp(Z90 * job.deviations_ms[0] / job.hint_ms[0])
                job.history_level = bisect_left(_THRESHOLDS_MS, job.size_ms(high_ms, Z90))
                job.level = min(SAMPLING_LEVEL, job.history_level)
        elif not (self._by_arrival or self._by_attained):
            job.level = bisect_left(_THRESHOLDS_MS, job.size_ms(job.hint_ms[0]))
        heappush(self._waiting[job.level], job.number)

    def _trusts(self, job: _Job) -> bool:
        if not self._trusted or not job.hint_ms or min(job.deviations_ms) < 0:
            return False
        return bool(job.deviations_ms[0] / job.hint_ms[0] <= self._trusted)

    def _end(self, job: _Job, pilot: bool) -> None:
        self._attain(job)
        self._free += 1
        self._use[job.level] -= 1
        job.running -= 1
        job.ended += 1
        if self._by_attained:
            self._move(job, bisect_left(_THRESHOLDS_MS, job.attained_ms))
        if not job.running:
            del self._busy[job.number]
        if pilot:
            job.pilots_ended += 1
            if job.held and job.pilots_ended == job.pilots:
                self._open(job)
        if job.ended == job.may_begin and job.stage + 1 < len(job.widths):
            job.stage += 1
            job.may_begin += job.widths[job.stage]
            if not job.held:
                heappush(self._waiting[job.level], job.number)
        if job.ended == len(job.durations_ms):
            self.completion_ms[job.number] = self._now_ms - job.arrival_ms
            if job.percent:
                self._ratio.ended(job.percent, self.completion_ms[job.number] / sum(job.durations_ms))

    def _open(self, job: _Job) -> None:
        job.held = False
        del self._held[job.number]
        first_ms = sum(job.durations_ms[: job.pilots]) / job.pilots
        self._move(job, self._level(job, job.hint_ms[0] if self._goes_by_hints else first_ms))

    @staticmethod
    def _level(job: _Job, first_ms: float) -> int:
        """Return the level of a job if its first stage's tasks take so long; later ones by SLearn-DAG's scaling."""
        scale = first_ms / job.hint_ms[0] if job.hint_ms else 1.0
        return bisect_left(_THRESHOLDS_MS, job.size_ms(0.0) * scale + first_ms * job.widths[0])

    def _vouch(self, job: _Job) -> None:
        """Put a job whose pilots run where history does, or below if they run for longer than that."""
        ran_ms = sum(
            min(self._now_ms - since_ms, duration_ms)
            for since_ms, duration_ms in zip(job.pilots_since_ms, job.durations_ms, strict=False)
        )
        level = max(job.history_level, self._level(job, ran_ms / job.pilots))
        if job.begun < job.pilots:
            level = min(level, SAMPLING_LEVEL)
        if level != job.level:
            self._move(job, level)

    def _move(self, job: _Job, level: int) -> None:
        if level == job.level and not job.pilots:
            return
        self._use[job.level] -= job.running
        self._use[level] += job.running
        job.level = level
        if job.startable():
            heappush(self._waiting[level], job.number)

    def _attain(self, job: _Job) -> None:
        job.attained_ms += job.running * (self._now_ms - job.since_ms)
        job.since_ms = self._now_ms

    def _serve(self) -> None:
        if self._by_attained:
            for job in self._busy.values():  # the others' level has not changed
                self._attain(job)
                self._move(job, bisect_left(_THRESHOLDS_MS, job.attained_ms))
        for job in self._held.values():
            if job.history_level >= 0:
                self._vouch(job)
        while self._free:
            first = self._next()
            if first is None:
                break
            self._begin(first)
        for job in self._held.values():  # unused slots go to held jobs, first come first served
            while self._free and job.begun < job.may_begin:
                self._begin(job)

    def _next(self) -> _Job | None:
        """Return the first job of the level that has least for its weight."""
        best, least = None, float("inf")
        for level, waiting in enumerate(self._waiting):
            while waiting and not (self._jobs[waiting[0]].level == level and self._jobs[waiting[0]].startable()):
                heappop(waiting)
            part = self._use[level] * WEIGHT_FACTOR**level
            if waiting and part < least:
                best, least = self._jobs[waiting[0]], part
        return best

    def _begin(self, job: _Job) -> None:
        self._attain(job)
        pilot = job.held and job.begun < job.pilots
        if pilot:
            job.pilots_since_ms.append(self._now_ms)
        heappush(self._ends, (self._now_ms + job.durations_ms[job.begun], job.number, pilot))
        job.begun += 1
        job.running += 1
        self._busy[job.number] = job
        self._use[job.level] += 1
        self._free -= 1
        if job.history_level >= 0 and job.held and job.begun == job.pilots:
            vouched = min(int(self._nodes * self._history_fraction + 1e-9), job.may_begin)
            job.allowed = max(job.pilots, vouched)
            self._vouch(job)
            heappush(self._waiting[job.level], job.number)
