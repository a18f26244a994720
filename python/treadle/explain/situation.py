"""What is explained: an engine's model after a decide, and what the decide's gate and order have said.

It is made of arrays and plain values, so that another process can be shown it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.compiled.array_types import F64, I32, I64, U8, Records
from treadle.compiled.pair_map import find
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.model.cluster import Cluster
from treadle.model.tables import ASSUMED, FREE, MAX_PARTITIONS
from treadle.policy.own_tags import OwnTags
from treadle.policy.state import Scratch
from treadle.yarn.codes import application_id, is_named


class Tables(NamedTuple):
    """The tables that are read; as in `treadle.model.tables.View` unless they say otherwise."""

    nodes: Records
    node_amounts: I64
    queues: Records
    limit_known: U8
    limit_amounts: I64
    user_amounts: I64
    apps: Records
    app_amounts: I64
    rows: Records
    capability: I64
    places: Records
    user_index: Records
    blacklist: Records
    excluded: Records
    counted: U8
    groups: Records
    tasks: Records
    task_index: Records
    """Pairs (`PAIR`) of a container's key and its place in ``tasks``."""
    leaf_first: I32
    leaf_applications: I32
    """These two as in `treadle.model.applications.ApplicationTable`."""


class Decided(NamedTuple):
    """What is read of what the latest decide has kept (`treadle.policy.state.Scratch`)."""

    rows: Records
    apps: Records
    queues: Records
    node_sets: U8
    row_nodes: I32
    headroom: I64
    available: I64
    bound: U8
    tags: OwnTags
    share_nodes: Records
    aims: F64
    """These two of the tree that the policy shares by (`treadle.policy.shares.tree.Shares`); empty without one."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is read of the settings that are followed now."""

    policy: str
    gate: str
    order: str
    share: str

    @classmethod
    def of(cls, settings: Settings) -> Followed:
        """Return it of settings."""
        policy = settings.policy
        return cls(
            policy=policy.name(),
            gate=policy.gate.label,
            order=policy.order.label,
            share=policy.share.label,
        )


@dataclass(frozen=True, slots=True)
class Situation:
    """A model between two decides. Nothing of it is changed; it is stale after the next event."""

    view: Tables
    scratch: Decided | None
    """Of the latest decide; None before the first."""
    texts: list[str]
    """Names by their indices. More may come, none changes."""
    partitions: tuple[int, ...]
    """The name of each partition."""
    shared_partitions: tuple[int, ...]
    """Those whose idle nodes may be lent to asks without a label."""
    resources: tuple[str, ...]
    turned_down: dict[int, dict[int, int]]
    """How often proposals were turned down, by application and fate."""
    unmet: dict[int, str]
    """Why no usable node meets what applications require of nodes, by application; as many as the engine names."""
    now_ms: int
    """The ResourceManager's time of the latest decide; -1 before the first."""
    decide: int
    """The number of the next decide."""
    followed: Followed
    commits: bool
    """Whether the engine places; without, it observes and the stock scheduler places."""
    gate_waits_for: str
    """For what the gate holds asks back, in its own words; empty if it holds none back."""

    @classmethod
    def of(cls, engine: Engine) -> Situation | None:
        """Return the situation of an engine; None before its first snapshot."""
        found = engine.inside()
        if found is None:
            return None
        cluster, scratch = found
        return cls(
            view=_tables(cluster),
            scratch=_decided(scratch),
            texts=cluster.names.texts,
            partitions=tuple(cluster.names.partitions),
            shared_partitions=tuple(cluster.shared_partitions()),
            resources=tuple(cluster.types.names),
            turned_down=cluster.turned_down.counts,
            unmet=engine.unmet(),
            now_ms=cluster.now_ms,
            decide=cluster.decide,
            followed=Followed.of(engine.running),
            commits=engine.commits,
            gate_waits_for=engine.gate_waits_for(),
        )

    def copied(self) -> Situation:
        """Return the same in arrays of its own, which no later event changes."""
        return replace(
            self,
            view=Tables(*map(copied, self.view)),
            scratch=None if self.scratch is None else Decided(*map(copied, self.scratch)),
            turned_down={app: dict(found) for app, found in self.turned_down.items()},
        )

    def available(self) -> I64:
        """Return what is free on each node and not proposed to anybody (node, resource).

        Of a resource that the policy overbooks, what it offered beyond that in the latest decide counts too.
        """
        free = self.view.node_amounts[:, FREE] - self.view.node_amounts[:, ASSUMED]
        overbooked = self.binds() & (self.view.counted == 0)
        if self.scratch is not None and overbooked.any():
            seen = min(len(free), len(self.scratch.available))
            free[:seen, overbooked] = self.scratch.available[:seen, overbooked]
        return free

    def binds(self) -> npt.NDArray[np.bool_]:
        """Say which resources bound what a node may take: those that are counted, and those that are overbooked."""
        counted: npt.NDArray[np.bool_] = self.view.counted == 1
        return counted if self.scratch is None else counted | (self.scratch.bound == 1)

    def partition_name(self, partition: int) -> str:
        """Return the name of a partition; empty: the default one."""
        return self.texts[self.partitions[partition]]

    def node_name(self, node: int) -> str:
        """Return the name of a node."""
        return self.texts[int(self.view.nodes["name"][node])]

    def queue_path(self, queue: int) -> str:
        """Return the path of a queue."""
        return self.texts[int(self.view.queues["path"][queue])]

    def application_id(self, application: int) -> str:
        """Return YARN's id of an application."""
        row = self.view.apps[application]
        return application_id(int(row["cluster_timestamp"]), int(row["id"]))

    def amounts(self, values: I64) -> dict[str, int]:
        """Return amounts by the names of resources; those that are 0 and not counted are left out."""
        pairs = zip(self.resources, values.tolist(), self.view.counted.tolist(), strict=True)
        return {name: value for name, value, counted in pairs if value or counted}

    def counted_amounts(self, values: I64) -> dict[str, int]:
        """Return amounts of those resources that bind, by their names."""
        pairs = zip(self.resources, values.tolist(), self.view.counted.tolist(), strict=True)
        return {name: value for name, value, counted in pairs if counted}

    def user(self, leaf: int, partition: int, name: int) -> int:
        """Return the row of a user in a leaf and a partition, by the user's name; -1 if there is none."""
        return int(find(self.view.user_index, ((leaf * MAX_PARTITIONS + partition) << 32) | name))

    def knows_row(self, row: int) -> bool:
        """Say whether the latest decide has seen a request row."""
        return self.scratch is not None and row < len(self.scratch.rows)

    def find(self, given: str) -> list[int]:
        """Return the indices of the applications that run of which an id, or the end of it (`0042`), is given.

        There may be several: after a restart of the ResourceManager numbers begin again at 1.
        """
        running = np.flatnonzero(self.view.apps["state"] != 0).tolist()
        return [application for application in running if is_named(self.application_id(application), given)]


def _tables(cluster: Cluster) -> Tables:
    view, apps = cluster.view(), cluster.apps
    beside = {
        "task_index": cluster.tasks.task_index.pairs,
        "leaf_first": apps.leaf_first,
        "leaf_applications": apps.leaf_applications,
    }
    return Tables(*(beside[name] if name in beside else getattr(view, name) for name in Tables._fields))


def _decided(scratch: Scratch | None) -> Decided | None:
    if scratch is None:
        return None
    beside = {"share_nodes": scratch.shares.nodes, "aims": scratch.shares.aims}
    fields: list[Any] = [beside.get(name, getattr(scratch, name, None)) for name in Decided._fields]
    return Decided(*fields)


def copied(column: Any) -> Any:
    """Return an array with the same content, or a tuple of such arrays, that shares no memory with the original.

    As bytes: of records numpy copies field by field, which takes twenty times as long, and a frame waits for it.
    """
    if isinstance(column, OwnTags):
        return OwnTags(*map(copied, column))
    if not column.flags.c_contiguous:
        return column.copy()
    new = np.empty_like(column)
    new.reshape(-1).view(np.uint8)[:] = column.reshape(-1).view(np.uint8)
    return new
