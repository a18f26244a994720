"""A job as events change it: one YARN application, whatever its attempts."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from treadle.history.run import JobRun, RecurrenceKey, recurrence_key
from treadle.history.stages.frameworks import Framework, StageId, stage_of
from treadle.history.stages.stage import WELL, Attempt, ContainerKey, StageState, outcome_of

_log = logging.getLogger(__name__)

STAGES_MAX: Final = 1000
TAGS_MAX: Final = 100
KEYS_MAX: Final = 10_000
"""Request keys of a job whose counts are remembered."""


class JobState:
    """One application."""

    def __init__(self, cluster_timestamp: int, id_: int, type_: str, *, whole: bool) -> None:
        self.id = f"application_{cluster_timestamp}_{id_:04d}"
        self.type = type_
        self.framework = Framework.of(type_)
        self.index = -1
        self.name = self.user = self.queue = ""
        self.resources: tuple[str, ...] = ()
        self.started_ms = 0
        self.gone_ms: int | None = None
        self.am_exit_status = 0
        self.awaiting_am = False
        self.unconfirmed = False
        self._confirmed: set[ContainerKey] = set()
        """Containers that were reported since the last snapshot began."""
        self._whole = whole
        """Was it seen from its start, without a gap?"""
        self._tags: list[str] = []
        self._hints_ms: dict[str, int] = {}
        """Duration of a task that the engine was given, by stage."""
        self._states: dict[int, StageState] = {}
        """By the first priority of its stage."""
        self._groups: dict[int, int] = {}
        self._counts: dict[int, tuple[int, int]] = {}
        """Priority and outstanding count by request key."""
        self._totals: Counter[int] = Counter()
        self._live: dict[ContainerKey, int] = {}

    def tag(self, tag: str) -> None:
        """Take a tag."""
        if tag not in self._tags and len(self._tags) < TAGS_MAX:
            self._tags.append(tag)

    def note_hint(self, stage: str, duration_ms: int) -> None:
        """Note the duration of a stage's tasks that the engine was given from earlier runs."""
        if len(self._hints_ms) < STAGES_MAX:
            self._hints_ms.setdefault(stage, duration_ms)

    @property
    def _only_masters_at_0(self) -> bool:
        """Does the framework never ask for a task at priority 0?"""
        return self.framework in (Framework.MAPREDUCE, Framework.TEZ)

    def _why_not(self) -> str:
        """Return why no run is made of the job, empty if one is."""
        if not self._whole:
            return "it was not seen from its start to its end"
        if not self._states:
            return "it asked for nothing"
        if outcome_of(self.framework, self.am_exit_status) not in WELL:
            return f"its master ended with status {self.am_exit_status}"
        for first, state in self._states.items():
            if state.pending or (self.framework is Framework.MAPREDUCE and not state.done):
                done = f"{state.well} of {state.width} tasks done, {state.pending} asked for"
                return f"stage {self.stage(first).name}: {done} when it ended"
        return ""

    def stage(self, priority: int) -> StageId:
        """Return the stage that containers of a priority belong to."""
        return stage_of(self.framework, priority)

    def demand(self, priority: int) -> Mapping[str, int]:
        """Return what containers of the stage of a priority ask for; empty if none was asked for."""
        first = self._groups.get(priority)
        return {} if first is None else self._states[first].demand

    def key(self) -> RecurrenceKey:
        """Return what its runs have in common."""
        return recurrence_key(self.user, self.queue, self.type, self.name, self._tags)

    def has(self, key: ContainerKey) -> bool:
        """Does such a container run?"""
        return key in self._live

    def forget_asks(self) -> None:
        """Forget the asks: all are reported again, perhaps with other keys."""
        self._counts.clear()
        self._totals.clear()
        for state in self._states.values():
            state.forget_asks()

    def doubt(self) -> None:
        """Take that a snapshot begins: what it does not have has ended unseen (see `resume`)."""
        self.unconfirmed = True
        self._confirmed.clear()
        self.forget_asks()

    def ask(self, key: int, priority: int, count: int, capability: Sequence[int], now_ms: int) -> None:
        """Take the outstanding count of a request key, absolute."""
        if priority == 0 and (self.awaiting_am or self._only_masters_at_0):
            return  # the AM's own, whose priority Spark's executors have too
        if count and key not in self._counts and len(self._counts) >= KEYS_MAX:
            self._whole = False
            return
        before, outstanding = self._counts.pop(key, (priority, 0))
        self._totals[before] -= outstanding
        self._totals[priority] += count
        if count:
            self._counts[key] = (priority, count)
        state = self._state(priority) if count or priority in self._groups else None
        if state is None:
            return
        if count:
            state.demand = dict(zip(self.resources, capability, strict=False))
        state.ask(priority, self._totals[priority], now_ms)

    def run_container(self, attempt: Attempt, capability: Sequence[int], *, allocated: bool) -> None:
        """Take a container that runs: one just allocated, or one of which another step is the first to be seen."""
        self._confirmed.add(attempt.key)
        if attempt.priority == 0 and self._only_masters_at_0:
            return  # reported before the ResourceManager has marked it as the AM's
        state = self._state(attempt.priority)
        if state is None or attempt.key in self._live:
            return
        self._live[attempt.key] = attempt.priority
        if not state.demand:
            state.demand = dict(zip(self.resources, capability, strict=False))
        if allocated:
            state.allocate(attempt)
        else:
            self._whole = False
            state.found(attempt)

    def start(self, key: ContainerKey, time_ms: int) -> None:
        """Take that a container was launched."""
        if key in self._live:
            self._running(key).start(key, time_ms)

    def end(self, key: ContainerKey, exit_status: int, time_ms: int) -> None:
        """Take that a container ended."""
        if key in self._live:
            self._running(key).end(key, outcome_of(self.framework, exit_status), exit_status, time_ms)
            del self._live[key]
            self._confirmed.discard(key)

    def resume(self, now_ms: int) -> None:
        """Take that a snapshot is complete: what it did not have has ended unseen."""
        if self.unconfirmed:
            self.unconfirmed = self._whole = False
            self.gone_ms = now_ms if self.gone_ms is None else self.gone_ms
        for state in self._states.values():
            if state.lose(self._confirmed, now_ms):
                self._whole = False
        self._live = {key: priority for key, priority in self._live.items() if key in self._confirmed}

    def run(self) -> JobRun | None:
        """Return the finished job; None if it was not seen completely, or apparently failed."""
        if self.gone_ms is None:
            return None
        failed = any(state.failed for state in self._states.values())
        for state in self._states.values():
            state.settle()
            if not failed:
                state.finish(self.gone_ms)
        reason = self._why_not()
        if reason:
            _log.info("%s is not remembered: %s", self.id, reason)
            return None
        stages = sorted((self.stage(first), state) for first, state in self._states.items() if state.width)
        names = [at.name for at, _ in stages]
        parents = (("map",) if name == "reduce" and "map" in names else () for name in names)
        runs = tuple(
            replace(state.run(at, before), hint_ms=self._hints_ms.get(at.name))
            for (at, state), before in zip(stages, parents, strict=True)
        )
        return JobRun(self.key(), self.id, self.started_ms, self.gone_ms, runs) if runs else None

    def _state(self, priority: int) -> StageState | None:
        """Return the stage of a priority, a new one at the first sight of it; None beyond `STAGES_MAX`."""
        first = self._groups.get(priority)
        if first is None:
            group = stage_of(self.framework, priority)
            first = next((known for known in self._states if stage_of(self.framework, known) == group), priority)
            if first not in self._states and len(self._states) >= STAGES_MAX:
                self._whole = False
                return None
            self._groups[priority] = first
        if first not in self._states:
            self._states[first] = StageState(self.framework)
        return self._states[first]

    def _running(self, key: ContainerKey) -> StageState:
        return self._states[self._groups[self._live[key]]]
