"""What is explained: an engine's model after a decide, and what the decide's gate and order have said."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from treadle.compiled.array_types import I64
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, View
from treadle.policy.state import Scratch


@dataclass(frozen=True, slots=True)
class Situation:
    """A model between two decides. Nothing of it is changed; it is stale after the next event."""

    cluster: Cluster
    view: View
    scratch: Scratch | None
    """What the latest decide has kept; None before the first."""
    settings: Settings
    """Those that are followed now."""
    waits_for: str
    """For what the policy holds asks back on purpose, in its own words."""

    @classmethod
    def of(cls, engine: Engine) -> Situation | None:
        """Return the situation of an engine; None before its first snapshot."""
        found = engine.inside()
        if found is None:
            return None
        cluster, scratch = found
        return cls(cluster, cluster.view(), scratch, engine.running, engine.waits_for())

    def copied(self) -> Situation:
        """Return the same in arrays of its own, which no later event changes."""
        cluster = copy(self.cluster)
        for name in ("users", "blacklist", "rejections", "apps", "tasks", "turned_down"):
            setattr(cluster, name, copy(getattr(cluster, name)))
        cluster.turned_down.counts = {app: dict(found) for app, found in cluster.turned_down.counts.items()}
        for holder, name in (
            (cluster.users, "index"),
            (cluster.rejections, "excluded"),
            (cluster.tasks, "task_index"),
        ):
            setattr(holder, name, copy(getattr(holder, name)))
        for pairs in (cluster.users.index, cluster.blacklist, cluster.rejections.excluded, cluster.tasks.task_index):
            pairs.pairs = copied(pairs.pairs)
        cluster.apps.leaf_first = cluster.apps.leaf_first.copy()
        cluster.apps.leaf_applications = cluster.apps.leaf_applications.copy()
        view = self.view._replace(**{name: copied(column) for name, column in self.view._asdict().items()})
        return replace(self, cluster=cluster, view=view, scratch=_kept(self.scratch))

    def available(self) -> I64:
        """Return what is free on each node and not proposed to anybody (node, resource)."""
        return self.view.node_amounts[:, FREE] - self.view.node_amounts[:, ASSUMED]

    def partition_name(self, partition: int) -> str:
        """Return the name of a partition; empty: the default one."""
        return self.cluster.names.texts[self.cluster.names.partitions[partition]]

    def node_name(self, node: int) -> str:
        """Return the name of a node."""
        return self.cluster.names.texts[int(self.view.nodes["name"][node])]

    def queue_path(self, queue: int) -> str:
        """Return the path of a queue."""
        return self.cluster.names.texts[int(self.view.queues["path"][queue])]

    def application_id(self, application: int) -> str:
        """Return YARN's id of an application."""
        row = self.view.apps[application]
        return f"application_{row['cluster_timestamp']}_{int(row['id']):04d}"

    def amounts(self, values: I64) -> dict[str, int]:
        """Return amounts by the names of resources; those that are 0 and not counted are left out."""
        pairs = zip(self.cluster.types.names, values.tolist(), self.cluster.counted.tolist(), strict=True)
        return {name: value for name, value, counted in pairs if value or counted}

    def knows_row(self, row: int) -> bool:
        """Say whether the latest decide has seen a request row."""
        return self.scratch is not None and row < len(self.scratch.rows)

    def find(self, id_: str) -> int:
        """Return the index of an application that runs, by YARN's id or the end of it (`0042`); -1 if there is none."""
        apps = self.view.apps
        for application in np.flatnonzero(apps["state"] != 0).tolist():
            name = self.application_id(application)
            if id_ in (name, name.removeprefix("application_")) or name.endswith(f"_{id_}"):
                return int(application)
        return -1


def _kept(scratch: Scratch | None) -> Scratch | None:
    """Return what is read of a decide's arrays in arrays of its own."""
    if scratch is None:
        return None
    names = ("rows", "apps", "queues", "node_sets", "row_nodes")
    return scratch._replace(**{name: copied(getattr(scratch, name)) for name in names})


def copied(column: Any) -> Any:
    """Return an array of its own with the same content.

    As bytes: of records numpy copies field by field, which takes twenty times as long, and a frame waits for it.
    """
    if not column.flags.c_contiguous:
        return column.copy()
    new = np.empty_like(column)
    new.reshape(-1).view(np.uint8)[:] = column.reshape(-1).view(np.uint8)
    return new
