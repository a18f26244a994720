"""Plans that are remembered for equal DAGs, by user: nobody's DAGs push out another's."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Final

from treadle.am.keeping import Bounds, Keeping
from treadle.dag.dag import Dag
from treadle.planner.online import Machines, PlanSource, shape_of
from treadle.planner.plan import Plan
from treadle.planner.problem import GROUPS_MAX

BYTES: Final = Bounds(8 << 20, 16 << 20, 64 << 20)
"""Of a plan, of a user's plans, of all that are remembered."""

MACHINE_STAGES_MAX: Final = 50_000
"""Machines times stages of a plan: the planner's tables grow with both. A DAG of 1,000 stages is planned on 50."""

_GROUP_BYTES: Final = 100
_STAGE_BYTES: Final = 500


class UserSource(PlanSource):
    """Plans a user's DAGs."""

    def __init__(self, sources: PlanSources, user: str, machines: Machines, schedules: int) -> None:
        super().__init__(machines, schedules)
        self._sources = sources
        self._user = user
        self._count = machines.count

    def plan(self, dag: Dag) -> Plan | None:
        """Return the plan of a DAG; None if it cannot be planned, since a task fits on no machine."""
        at = (self._user, shape_of(dag))
        known, found = self._sources.find(at)
        if not known:
            count = min(self._count, max(MACHINE_STAGES_MAX // max(len(dag.stages), 1), 1))
            self.machines = Machines(self.machines.capacity, count)
            found = super().plan(dag)
            self._sources.keep(at, self._user, found, dag)
        return found


class PlanSources:
    """Makes a source for each user; all plan on the same machines. For several threads."""

    def __init__(self, schedules: int, remembered: int) -> None:
        """Begin with no plan; at most ``remembered`` are kept."""
        self._schedules = schedules
        self._remembered = remembered
        self._kept: Keeping[Hashable, tuple[Plan | None]] = Keeping(BYTES._replace(things=remembered))
        self._machines = Machines({}, 1)
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, user: str, machines: Machines) -> UserSource:
        """Return who plans for a user on the machines that there are now."""
        with self._lock:
            if machines != self._machines:
                self._machines = machines
                self._kept = Keeping(BYTES._replace(things=self._remembered))
        return UserSource(self, user, machines, self._schedules)

    def find(self, at: Hashable) -> tuple[bool, Plan | None]:
        """Return whether a plan is remembered, and which: None for a DAG that cannot be planned."""
        with self._lock:
            found = self._kept.get(at)
        return (False, None) if found is None else (True, found[0])

    def keep(self, at: Hashable, user: str, plan: Plan | None, dag: Dag) -> None:
        """Remember a plan."""
        groups = sum(min(stage.tasks, GROUPS_MAX) for stage in dag.stages)
        edges = sum(len(stage.parents) + len(stage.demand) for stage in dag.stages)
        with self._lock:
            self._kept.put(at, user, (plan,), groups * _GROUP_BYTES + (len(dag.stages) + edges) * _STAGE_BYTES)
