"""Tasks that run and have run, by application and priority, as the steps in containers' lives tell.

Frameworks give tasks of one kind one priority (the maps of a job, the vertices of a DAG), so an application's
containers of one priority are taken for alike. AM containers are not tasks. All is forgotten with the application.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32
from treadle.compiled.pair_map import PairMap
from treadle.model import containers_compiled as kernel
from treadle.model.applications import ApplicationTable
from treadle.model.tables import ModelError, Table, grown, largest, own

GROUP: Final = np.dtype(
    [
        ("created_ms", "i8"),  # sum over the tasks that run
        ("ended_ms", "i8"),  # sum of the durations of those that ended well
        ("application", "i4"),  # -1: a free row
        ("priority", "i4"),
        ("running", "i4"),
        ("ended", "i4"),  # how many ended well
        ("first", "i4"),  # a task that runs, or -1
        ("next", "i4"),  # the application's next group
        ("covered", "u1"),  # used while work is added up: the tasks that run are among those told of
    ],
    align=True,
)

TASK: Final = np.dtype(
    [
        ("key", "i8"),  # application and container
        ("created_ms", "i8"),
        ("input_bytes", "f8"),  # 0: not known
        ("group", "i4"),
        ("next", "i4"),
        ("before", "i4"),
        ("pilot", "u1"),
    ],
    align=True,
)


MANY: Final = 4096
"""Of more steps than these it pays to count how many groups there can be among them."""


class TaskTable(Table):
    """Groups of tasks by ``index.find(application, priority)``. The amounts are what those that run have together."""

    def __init__(self, resources: int) -> None:
        super().__init__(GROUP, (resources,), {"application": -1})
        self.index = PairMap()
        self.tasks = Table(TASK)
        self.task_index = PairMap()
        self.free: I32 = np.zeros(16, np.int32)
        self._free_tasks: I32 = np.zeros(16, np.int32)
        self.next_unused = np.zeros(1, np.int64)
        self._next_task = np.zeros(1, np.int64)

    def make_room(self, groups: int) -> None:
        """Make room for so many further groups."""
        self.reserve(int(self.next_unused[0]) + groups)
        self.free = grown(self.free, len(self.at) + 1, 0)
        self.index.reserve(groups)

    def apply(self, event: events.Containers, apps: ApplicationTable, mapreduce: int) -> None:
        """Take steps in the lives of containers, in order. Steps of applications that are gone mean nothing.

        ``mapreduce`` is the name of the applications' type by which it is told how containers end, -1 if there is none.
        """
        more = len(event.application)
        apps.cover(np.maximum(event.application, 0), "application")
        groups = more
        if more > MANY:
            groups = len(np.unique((event.application.astype(np.int64) << 32) | (event.priority & 0x7FFFFFFF)))
        self.make_room(groups)
        self.tasks.reserve(int(self._next_task[0]) + more)
        self._free_tasks = grown(self._free_tasks, len(self.tasks.at) + 1, 0)
        self.task_index.reserve(more)
        kernel.apply_containers(
            apps.at,
            self.at,
            self.amounts,
            self.index.pairs,
            self.free,
            self.next_unused,
            self.tasks.at,
            self.task_index.pairs,
            self._free_tasks,
            self._next_task,
            own(event.container),
            own(event.application),
            own(event.priority),
            own(event.event),
            own(event.time_ms),
            own(event.created_ms),
            own(event.exit_status),
            own(event.am),
            own(event.capability),
            mapreduce,
        )
        self.size = int(self.next_unused[0])

    def apply_inputs(self, event: events.TaskInputs) -> None:
        """Take how much the tasks in containers read; containers that do not run mean nothing.

        Raises:
            ModelError: an input that is negative or not finite.
        """
        largest(event.application, "application")
        if not bool((np.isfinite(event.bytes) & (event.bytes >= 0.0)).all()):
            raise ModelError("TaskInputs.bytes must not be negative")
        rows = zip(event.application.tolist(), event.container.tolist(), event.bytes.tolist(), strict=True)
        for application, container, size in rows:
            task = int(kernel.find_task(self.task_index.pairs, application, container))
            if task >= 0:
                self.tasks.at["input_bytes"][task] = size

    def drop(self, application: int, apps: ApplicationTable) -> None:
        """Forget an application."""
        kernel.drop_groups(
            apps.at,
            application,
            self.at,
            self.index.pairs,
            self.free,
            self.tasks.at,
            self.task_index.pairs,
            self._free_tasks,
        )
