"""What-if replays: the jobs of a recording under other policies, on the simulator's model of its cluster.

The recording is used until the first different decision, where the model takes over. The jobs are the recorded ones
with their containers; application masters request them as in the simulator. The recorded policy shows the model's
error: its simulation from the same time on is compared with the recording.

`first_difference` finds the first decision of another policy that differs, on the recorded frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean, median
from typing import Final

import numpy as np

from treadle.config.settings import Settings
from treadle.errors import UserError, counted
from treadle.policy.user_parts import PolicyFailedError
from treadle.record.reader import open_all
from treadle.replay.model import Reduced, reduce
from treadle.replay.seen import RecordedCluster, read_recorded
from treadle.replay.verify import (
    ROWS_MAX,
    ReplaySession,
    Report,
    counted_to,
    other_column,
    recorded_settings,
    to_nobody,
)
from treadle.simulate import Run, simulate_all
from treadle.simulate.batch import Policy, check_trees, run_of, settings_of, size_of
from treadle.simulator.cluster.advance import Put
from treadle.simulator.simulation import Simulation
from treadle.wire.answer import decode_answer
from treadle.wire.frames import WireError, read_frame_header

OBSERVED: Final = "the recorded answers were observed, not followed"
"""Why the model takes over at the first decision of a recording in mode observe_only."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The first different decision."""

    at_ms: int
    """By the ResourceManager's clock."""
    after_s: float
    """Since the start of the recording."""
    ticks: int
    """Number of frames up to it, inclusive."""
    segment: str
    why: str


def same_settings(settings: Settings, own: Settings, seen: RecordedCluster) -> bool:
    """Return whether settings equal the recorded ones, as far as decisions depend on them."""
    if seen.settings_changed:
        return False
    plain = [
        replace(each, source=None, record=own.record, history=own.history, kernels=own.kernels)
        for each in (settings, own)
    ]
    return plain[0] == plain[1]


def first_difference(
    files: Sequence[Path], seen: RecordedCluster, settings: Settings | None, name: str, *, trust_code: bool
) -> Switch | None:
    """Return the first decision of a policy that differs from the recorded ones; None if all are equal.

    The policy receives the recorded frames and other recorded inputs while its proposals are equal. It starts with the
    first snapshot: recordings do not contain earlier engine state.

    Args:
        files: the segments
        seen: their content
        settings: the policy; None: the recorded one
        name: the policy's name, for errors
        trust_code: whether custom parts of the recorded policy may be executed

    Raises:
        UserError: a part of the policy failed.
        RecordingError: the recording cannot be replayed.
    """
    ticks = 0
    again: ReplaySession | None = None
    for recorded in open_all(files, []):
        if again is None or not recorded.follows:
            again = ReplaySession(recorded, trust_code=trust_code, other=settings)
        for tick in recorded.ticks:
            ticks += 1
            header = read_frame_header(tick.frame)[0]
            answer = again.take(tick)
            if settings is not None and again.part_failure:
                raise UserError(f"{name}: {again.part_failure}")
            why = OBSERVED if header.observe else _difference(tick.answer, answer)
            if why:
                after_s = (header.rm_time_ms - seen.begin_ms) / 1000
                return Switch(header.rm_time_ms, after_s, ticks, recorded.path.name, why)
    return None


def _difference(was: bytes, now: bytes) -> str:
    """Return the kind of difference between the decisions of two answers; empty if they are equal."""
    try:
        one, other = (decode_answer(each, ROWS_MAX).proposals for each in (was, now))
    except WireError:
        return "" if was == now else "no answer"
    if len(one) != len(other):
        return f"{len(other)} proposals in place of {len(one)}"
    return "other proposals" if other_column(one, other) else ""


@dataclass(frozen=True, slots=True)
class Group:
    """Completion times in seconds of a group of jobs that arrived and ended within the recording."""

    by: str
    """all, queue, user, type or size."""
    group: str
    jobs: int
    mean_s: float
    p50_s: float
    p95_s: float


@dataclass(slots=True)
class Outcome:
    """The jobs' results: in the recording, or in the model under a policy."""

    policy: str
    seed: int
    makespan_s: float
    """From the first arrival to the last end of the compared jobs."""
    groups: list[Group] = field(default_factory=list)
    unfinished: int = 0
    utilisation: dict[str, float] = field(default_factory=dict)
    """By resource; for the model only."""
    share_deviation: float = math.nan
    """Distance of leaves from their H-DRF shares; for the model only."""

    @property
    def mean_s(self) -> float:
        """The mean completion time of all; NaN without any."""
        return next((each.mean_s for each in self.groups if each.by == "all"), math.nan)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording after its first pass."""

    files: Sequence[Path]
    cluster: RecordedCluster
    settings: Settings
    """The recorded policy."""
    trust_code: bool
    reduced: Reduced
    """Input of the simulator from the recording's start."""


@dataclass(slots=True)
class WhatIf:
    """The result of a policy."""

    policy: str
    switch: Switch | None
    """Where the model takes over; None: the policy makes the recorded decisions, so the recording is the result."""
    outcomes: list[Outcome]
    """By seed."""
    of_recorded: list[Outcome]
    """The recorded policy, simulated from the same time on."""


def open_recording(files: Sequence[Path], *, trust_code: bool, report: Report = to_nobody) -> Recording:
    """Read a recording.

    Raises:
        UserError: no job arrived and ended in it, or its policy cannot be used.
        WireError: a frame is malformed.
    """
    report(f"looking through {counted(len(files), 'segment')}")
    seen = read_recorded(files)
    whole = reduce(seen)
    if not whole.compared:
        raise UserError("no job came and ended within the recording: there is nothing to compare with")
    source = None if seen.settings is None else seen.settings.source
    own = recorded_settings(source, seen.engine, seen.place, trust_code=trust_code)
    return Recording(files, seen, own, trust_code, whole)


def replayed(recording: Recording, policies: Sequence[Policy], seeds: int, report: Report = to_nobody) -> list[WhatIf]:
    """Return the result of each policy.

    Raises:
        UserError: a policy does not fit the cluster, or fails.
    """
    results: list[WhatIf] = []
    starts: dict[int, tuple[Reduced, list[Outcome]]] = {}
    """By the number of frames before the switch: the model's input, and its results for the recorded policy."""
    there = as_recorded(recording.reduced)
    for policy in policies:
        name, settings = settings_of(policy, recording.reduced.scenario)
        if any(each.policy == name for each in results):
            raise UserError(f"policies: two are called {name!r}")
        if settings.engines:
            raise UserError(f"{name}: has several engines, and a recording is of one; name the policy of one")
        check_trees(settings, recording.reduced.scenario.model, name)
        mine = None if same_settings(settings, recording.settings, recording.cluster) else settings
        report(f"{name}: following the recording up to the first different decision")
        switch = first_difference(recording.files, recording.cluster, mine, name, trust_code=recording.trust_code)
        if switch is None:
            results.append(WhatIf(name, None, [replace(there, policy=name)], [there]))
            continue
        if switch.ticks not in starts:
            begun = reduce(recording.cluster, read_recorded(recording.files, switch.ticks))
            starts[switch.ticks] = begun, modelled(begun, "recorded", recording.settings, seeds, report)
        reduced, baseline = starts[switch.ticks]
        outcomes = baseline if mine is None else modelled(reduced, name, settings, seeds, report)
        results.append(WhatIf(name, switch, [replace(each, policy=name) for each in outcomes], baseline))
    return results


def modelled(reduced: Reduced, name: str, settings: Settings, seeds: int, report: Report = to_nobody) -> list[Outcome]:
    """Return the model's results for a policy, by seed.

    Raises:
        UserError: the policy fails.
    """
    model, found = reduced.scenario.model, []
    count = counted_to(report, seeds, f"{name}: the model, run")
    for seed in range(1, seeds + 1):
        count(seed)
        simulation = Simulation(model, reduced.workload(seed), settings, seed, check=False, situation=reduced.situation)
        try:
            found.append(_modelled(run_of(simulation.run(), name, seed, tasks=False), reduced))
        except PolicyFailedError as error:
            raise UserError(f"{name}: {error}") from error
    return found


def outcomes_of(
    reduced: Reduced, policies: Sequence[Policy], seeds: int, report: Report = to_nobody
) -> dict[str, list[Outcome]]:
    """Return the model's results for each policy, by name and seed.

    Raises:
        UserError: a policy does not fit the cluster, or fails.
    """
    scenario = reduced.scenario.with_jobs(reduced.workload)
    outcomes: dict[str, list[Outcome]] = {}
    count = counted_to(report, seeds * len(policies), "the model, run")
    count(1)
    for number, run in enumerate(simulate_all(scenario, policies, seeds, check=False, allow_impossible=True), 2):
        if number <= seeds * len(policies):
            count(number)
        outcomes.setdefault(run.policy, []).append(_modelled(run, reduced))
    return outcomes


def as_recorded(reduced: Reduced) -> Outcome:
    """Return the recorded outcome."""
    took = {job.id: (job.end_ms - job.submit_ms) / 1000 for job in reduced.compared}
    return Outcome(
        "recorded", 0, _span([(job.submit_ms, job.end_ms) for job in reduced.compared]), _groups(reduced, took)
    )


def _modelled(run: Run, reduced: Reduced) -> Outcome:
    took, spans = {}, []
    steps = () if reduced.situation is None else reduced.situation.steps
    ended = {step.job for step in steps if step.what == Put.ENDED}
    for job in reduced.compared:
        if job.id in ended:  # as recorded
            took[job.id] = (job.end_ms - job.submit_ms) / 1000
            spans.append((job.submit_ms - reduced.begin_ms, job.end_ms - reduced.begin_ms))
    for row, seconds in zip(run.jobs, run.completion_s.tolist(), strict=True):
        id_ = str(row["id"])
        if id_ not in ended and id_ in reduced.extra_ms and not math.isnan(seconds):
            took[id_] = seconds + reduced.extra_ms[id_] / 1000
            spans.append((int(row["arrival_ms"]), int(row["end_ms"]) + reduced.extra_ms[id_]))
    return Outcome(
        run.policy,
        run.seed,
        _span(spans),
        _groups(reduced, took),
        len(reduced.compared) - len(took),
        run.summary.utilisation,
        run.summary.share_deviation,
    )


def _span(spans: Sequence[tuple[int, int]]) -> float:
    if not spans:
        return math.nan
    return (max(end for _, end in spans) - min(begin for begin, _ in spans)) / 1000


def _groups(reduced: Reduced, took: dict[str, float]) -> list[Group]:
    times_by_group: dict[tuple[str, str], list[float]] = {}
    for job in reduced.compared:
        seconds = took.get(job.id)
        if seconds is None:
            continue
        size = size_of(job.tasks)
        for key in (("all", "all"), ("queue", job.queue), ("user", job.user), ("type", job.type), ("size", size)):
            times_by_group.setdefault(key, []).append(seconds)
    order = {"all": 0, "queue": 1, "user": 2, "type": 3, "size": 4}
    return [
        Group(by, group, len(own), mean(own), median(own), float(np.percentile(own, 95)))
        for (by, group), own in sorted(times_by_group.items(), key=lambda item: (order[item[0][0]], item[0][1]))
    ]


def error(modelled: Sequence[Outcome], real: Outcome) -> tuple[float, float]:
    """Return the model's relative errors of makespan and mean completion time."""
    return (
        mean(each.makespan_s for each in modelled) / real.makespan_s - 1.0,
        mean(each.mean_s for each in modelled) / real.mean_s - 1.0,
    )
