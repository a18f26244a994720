"""Task hints by request key: duration, number of remaining tasks, and rank in a plan.

Hints are kept by (application, key) outside the request rows: they may arrive before the first request of a key, and
they still apply to running tasks after the last one. A request row has the index of its row here.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, Records
from treadle.compiled.functions import inner, kernel, tables
from treadle.compiled.pair_map import find, give_back, pair, put, remove, take_from
from treadle.model.queues import ApplicationTable
from treadle.model.tables import ModelError, RowTable, largest, own


@inner
def copy_ask(rows: Records, capabilities: I64, row: int, hints: Records, hint_capability: I64) -> None:
    """Copy resources and priority of a key's requests, which its running tasks outlive."""
    at = rows[row].hint
    hints[at].priority = rows[row].priority
    hints[at].row = row
    for r in range(capabilities.shape[1]):
        hint_capability[at, r] = capabilities[row, r]


@tables
class HintTables(NamedTuple):
    """The hints, and the tables that they are linked to."""

    apps: Records
    hints: Records
    capability: I64
    hint_index: Records
    free: I32
    next_unused: I64
    rows: Records
    row_capability: I64
    row_index: Records


@inner
def hint_row(model: HintTables, app: int, key: int) -> int:
    """Return the row of a key, a new one without values if necessary; link the request row to it."""
    apps, hints, index = model.apps, model.hints, model.hint_index
    place = pair(app, key)
    at = find(index, place)
    if at >= 0:
        return at
    at = take_from(model.free, model.next_unused)
    put(index, place, at)
    hints[at].application = app
    hints[at].key = key
    hints[at].duration_ms = -1
    hints[at].deviation_ms = -1
    hints[at].tasks = -1
    hints[at].claimed_ms = -1
    hints[at].claimed_tasks = -1
    hints[at].score = 1.0
    hints[at].ranked = 0
    hints[at].priority = -1
    hints[at].row = -1
    hints[at].next = apps[app].first_hint
    apps[app].first_hint = at
    for r in range(model.capability.shape[1]):
        model.capability[at, r] = 0
    row = find(model.row_index, place)
    if row >= 0:
        model.rows[row].hint = at
        copy_ask(model.rows, model.row_capability, row, hints, model.capability)
    return at


@kernel
def hint_rows(model: HintTables, application: I32, key: I32, found: I64) -> None:
    """Write the row of each key to ``found``, as `hint_row` does for one."""
    for i in range(len(application)):
        found[i] = hint_row(model, application[i], key[i])


@kernel
def drop_hints(apps: Records, app: int, hints: Records, index: Records, free: I32, rows: Records) -> None:
    """Drop the hints of an application."""
    row = apps[app].first_row
    while row >= 0:
        rows[row].hint = -1
        row = rows[row].next
    at = apps[app].first_hint
    while at >= 0:
        remove(index, pair(app, hints[at].key))
        hints[at].application = -1
        give_back(free, at)
        at = hints[at].next
    apps[app].first_hint = -1


HINT: Final = np.dtype(
    [
        ("duration_ms", "i8"),  # of a task; -1: unknown
        ("deviation_ms", "i8"),  # -1: unknown
        ("claimed_ms", "i8"),  # duration reported by the application; -1: none
        ("score", "f8"),  # rank in the plan: 1 first, 0 last
        ("application", "i4"),  # -1: a free row
        ("key", "i4"),
        ("tasks", "i4"),  # remaining tasks; -1: unknown
        ("claimed_tasks", "i4"),  # number of tasks reported by the application; -1: none
        ("priority", "i4"),  # of its requests; -1: no request yet
        ("row", "i4"),  # its request row, or -1
        ("next", "i4"),  # the application's next row
        ("ranked", "u1"),  # whether the score comes from a plan
    ],
    align=True,
)


class HintTable(RowTable):
    """All keys with hints. The amounts are the resources of a task in the last request, 0 before the first."""

    def __init__(self, resources: int) -> None:
        super().__init__(HINT, (resources,), {"application": -1})
        self.has_claims = False
        """Whether an application has reported values of its own tasks."""

    def tables(self, apps: ApplicationTable, rows: RowTable) -> HintTables:
        """Return the tables as kernels take them; ``rows`` are request rows. Stale as soon as one grows."""
        return HintTables(
            apps=apps.at,
            hints=self.at,
            capability=self.amounts,
            hint_index=self.index.pairs,
            free=self.free,
            next_unused=self.next_unused,
            rows=rows.at,
            row_capability=rows.amounts,
            row_index=rows.index.pairs,
        )

    def apply(self, event: events.TaskEstimates | events.PlanRanks, apps: ApplicationTable, rows: RowTable) -> None:
        """Apply hints for request keys (absolute values); link existing request rows.

        Raises:
            ModelError: a number that is neither in range nor -1.
        """
        apps.cover(event.application, "application")
        largest(event.key, "request key")
        more = len(event.application)
        self.make_room(more)
        if isinstance(event, events.TaskEstimates):
            for name in ("duration_ms", "deviation_ms", "tasks"):
                if more and int(getattr(event, name).min()) < -1:
                    raise ModelError(f"TaskEstimates.{name} is {int(getattr(event, name).min())}; -1 means not known")
            values = {"duration_ms": event.duration_ms, "deviation_ms": event.deviation_ms, "tasks": event.tasks}
            claims = isinstance(event, events.TaskClaims)
            self.has_claims |= claims and more > 0
            values["claimed_ms"] = event.duration_ms if claims else np.full(more, -1)
            values["claimed_tasks"] = event.tasks if claims else np.full(more, -1)
        else:
            ranked = event.score >= 0.0
            if not bool(((ranked | (event.score == -1.0)) & (event.score <= 1.0)).all()):
                raise ModelError("PlanRanks.score must be between 0 and 1, or -1 for none")
            values = {"score": np.where(ranked, event.score, 1.0), "ranked": ranked.astype(np.uint8)}
        rows_of = np.empty(more, np.int64)
        hint_rows(self.tables(apps, rows), own(event.application), own(event.key), rows_of)
        for name, column in values.items():
            self.at[name][rows_of] = column  # of repeated keys the last one counts
        self.size = int(self.next_unused[0])

    def drop(self, application: int, apps: ApplicationTable, rows: Records) -> None:
        """Drop the hints of an application."""
        drop_hints(apps.at, application, self.at, self.index.pairs, self.free, rows)
