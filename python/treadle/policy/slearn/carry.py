"""SLearn's table over a snapshot: found again by what the model was found again by, applications and containers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.compiled.functions import inner, kernel
from treadle.model.carry import Carried, carry_ended, old_task
from treadle.model.cluster import Cluster
from treadle.policy.slearn.table import JOB, RUNS_PILOTS, PilotTable, is_of_stage

if TYPE_CHECKING:
    from treadle.compiled.array_types import I32, Records
    from treadle.model.tables import View
    from treadle.policy.slearn.table import Sampled

LEARNED: Final = tuple(name for name in JOB.names or () if name != "pilots_running")
"""The columns of a job that are taken over; how many pilots run is counted anew."""


@inner
def oldest_new(old_index: Records, new: View, now: Sampled, app: int, old_app: int) -> int:
    """Return the first task of the sampled stage that has begun since and is no pilot, or -1."""
    best, group = -1, new.apps[app].first_group
    while group >= 0:
        task = new.groups[group].first if is_of_stage(now.jobs[app].sampled_stage, new.groups[group].priority) else -1
        while task >= 0:
            if not now.pilot[task] and old_task(old_index, new.tasks[task].key, app, old_app) < 0:
                earlier = best < 0 or new.tasks[task].created_ms < new.tasks[best].created_ms
                if not earlier and new.tasks[task].created_ms == new.tasks[best].created_ms:
                    earlier = new.tasks[task].key < new.tasks[best].key
                if earlier:
                    best = task
            task = new.tasks[task].next
        group = new.groups[group].next
    return best


@kernel
def carry_pilots(new: View, was: Sampled, now: Sampled, apps: I32, old_index: Records) -> None:
    """Find the pilots among the tasks that run; those that begin while some are missing are pilots too.

    ``apps`` has the new index of each old application, -1 for none; ``old_index`` finds tasks in the old tables.
    """
    for old_app in range(len(apps)):
        app = apps[old_app]
        if app < 0 or now.jobs[app].sampling != RUNS_PILOTS:
            continue
        running, group = 0, new.apps[app].first_group
        while group >= 0:
            task = new.groups[group].first
            while task >= 0:
                before = old_task(old_index, new.tasks[task].key, app, old_app)
                if before >= 0 and was.pilot[before]:
                    now.pilot[task] = 1
                    running += 1
                task = new.tasks[task].next
            group = new.groups[group].next
        wanted = now.jobs[app].pilots + now.jobs[app].replacements - now.jobs[app].pilots_ended
        while running < wanted:
            task = oldest_new(old_index, new, now, app, old_app)
            if task < 0:
                break
            now.pilot[task] = 1
            running += 1
        now.jobs[app].pilots_running = running


def carry_table(table: PilotTable, old: Cluster, new: Cluster, carried: Carried) -> None:
    """Let the table of the model before a snapshot be that of the model after it, which has been taken over already."""
    was, before = table.fit(old), old.view()
    table.gone = was.jobs[carried.gone][: len(new.ended)]
    table.clear()
    tasks = new.tasks
    tasks.make_room(old.tasks.size)
    now, view = table.fit(new), new.view()
    live = np.flatnonzero(carried.apps >= 0)
    for column in LEARNED:
        now.jobs[column][carried.apps[live]] = was.jobs[column][live]
    # how many have ended whose containers were given back
    carry_ended(before, view, was.ended, now.ended, carried.apps, tasks.index.pairs, tasks.free, tasks.next_unused)
    tasks.size = int(tasks.next_unused[0])
    carry_pilots(view, was, now, carried.apps, old.tasks.task_index.pairs)
