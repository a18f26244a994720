"""The cluster model of the engine: all tables, and how events change them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, U8, Records
from treadle.compiled.pair_map import PairMap
from treadle.constraints import gang_of
from treadle.events import Event, Replaces
from treadle.model.containers import GroupTable
from treadle.model.hints import HintTable
from treadle.model.in_flight import Assumed, RejectionCounts, Rejections
from treadle.model.nodes import TAG, AllocationTags, Attributes, Classes, Constraints, NodeTable
from treadle.model.queues import APPLICATION, ApplicationTable, LimitTable, QueueTable, UserTable
from treadle.model.requests import RequestTable
from treadle.model.tables import ModelError, Names, View, own

REQUESTS: Final = int(Replaces.REQUESTS)
BLACKLIST: Final = int(Replaces.BLACKLIST)
TAGS: Final = int(Replaces.TAGS)
EVERYTHING: Final = REQUESTS | BLACKLIST | TAGS


class Cluster:
    """A mirror of the RM for one epoch; each snapshot creates a new one, from its first two sections."""

    def __init__(self, names: Iterable[events.Names], types: events.ResourceTypes) -> None:
        resources = len(types.names)
        self.names = Names()
        for event in names:
            self.names.add(event)
        self.types = types
        self.counted: U8 = own(types.counted)
        self.nodes = NodeTable(resources)
        self.queues = QueueTable()
        self.limits = LimitTable(resources)
        self.users = UserTable(resources)
        self.apps = ApplicationTable(resources)
        self.hints = HintTable(resources)
        self.requests = RequestTable(resources, self.hints)
        self.groups = GroupTable(resources)
        self.attributes = Attributes()
        self.constraints = Constraints()
        self.classes = Classes()
        self.own_tags = AllocationTags()
        self.blacklist = PairMap()
        self.assumed = Assumed()
        self.rejections = Rejections()
        self.rejection_counts = RejectionCounts()
        self.settings: dict[str, str] = {}
        self.now_ms = -1
        """The ResourceManager's time in the latest cycle; -1 before the first."""
        self.cycle = 1
        """The number of the next cycle; events are stamped with it."""
        self.ended: Records = np.zeros(0, APPLICATION)
        """The last records of applications that had ended when a snapshot arrived, until the next cycle."""
        self.charged_ms = -1
        """The time up to which the service of applications is added up; -1: never."""
        self.changed = True
        """Whether an event arrived that may allow a placement which was impossible in the last cycle."""
        self.learn: Callable[[Records, I32, U8], U8] | None = None
        """First consumer of outcomes (answer, positions, fates); returns the fates for the other consumers."""
        self._tags: dict[int, set[int]] = {}
        self.gang_sizes: dict[int, int] = {}
        """The largest gang size in the tags of each application that has one."""
        self._blacklists: dict[int, set[int]] = {}

    def view(self) -> View:
        """Return all tables, first grown so that every queue and partition can index them."""
        self.limits.reserve(len(self.queues.at), len(self.names.partitions))
        return View(
            nodes=self.nodes.at,
            node_amounts=self.nodes.amounts,
            queues=self.queues.at,
            children=self.queues.children,
            limit_known=self.limits.known,
            limit_amounts=self.limits.amounts,
            user_amounts=self.users.amounts,
            apps=self.apps.at,
            app_amounts=self.apps.amounts,
            rows=self.requests.at,
            capability=self.requests.capability,
            places=self.requests.localities.at,
            user_index=self.users.index.pairs,
            place_index=self.requests.localities.index.pairs,
            blacklist=self.blacklist.pairs,
            excluded=self.rejections.excluded.pairs,
            first_node=self.names.first_node,
            counted=self.counted,
            hints=self.hints.at,
            hint_capability=self.hints.amounts,
            groups=self.groups.at,
            group_amounts=self.groups.amounts,
            group_index=self.groups.index.pairs,
            tasks=self.groups.tasks.at,
        )

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application, in the order of their texts."""
        return sorted(self.names.texts[name] for name in self._tags.get(application, ()))

    def shared_partitions(self) -> list[int]:
        """Return the shareable partitions (idle nodes serve requests without a label), in the order of their names."""
        named = self.settings.get("shared-partitions", "").split(",")
        indices = [self.names.index_of(name) for name in sorted(set(named)) if name]
        return [self.names.partitions.index(index) for index in indices if index in self.names.partitions]

    def apply(self, event: Event) -> None:
        """Apply one event of the current snapshot; raises `ModelError` if it contradicts earlier events."""
        match event:
            case events.Fates():
                self._apply_fates(event)
            case events.Containers():
                self._check_width(event.capability)
                self.groups.apply(event, self.apps, self.names.index_of("MAPREDUCE"))
            case events.Names():
                self.names.add(event)
            case events.Tags():
                self._apply_tags(event)
            case events.TaskEstimates() | events.PlanRanks():
                self.hints.apply(event, self.apps, self.requests)
            case _:
                self._apply_change(event)
                self.changed = True

    def _apply_change(self, event: Event) -> None:
        """Apply an event that may allow a placement which was impossible in the last cycle."""
        match event:
            case events.Nodes():
                self._check_width(event.free)
                self.classes.nodes_changed(self.nodes.apply(event, self.names))
                self.attributes.nodes_changed(event)
            case events.Requests():
                self._check_width(event.capability)
                self.requests.apply(event, self.apps, self.names)
                self.constraints.requests_changed(event)
            case events.Localities():
                self.requests.apply_localities(event, self.names, self.cycle)
            case events.ApplicationUsage():
                self._check_width(event.used)
                self.apps.apply_usage(event)
            case events.QueueLimits():
                self._check_width(event.used)
                self.limits.apply(event, self.names)
            case events.Users():
                self._check_width(event.used)
                self.users.apply(event, self.names)
            case events.Applications():
                self.apps.apply(event, self.names)
                self._drop_replaced(event)
            case _:
                self._apply_rare_change(event)

    def _apply_rare_change(self, event: Event) -> None:
        match event:
            case events.Queues():
                self.queues.apply(event, self.names)
                self.apps.queues_changed(self.queues.size)
            case events.Blacklist():
                self._apply_blacklist(event)
            case events.Settings():
                self.settings = dict(event.values)
            case events.TaskInputs():
                self.groups.apply_inputs(event)
            case events.StageInputs():
                self.apps.apply_inputs(event)
            case events.NodeAttributes():
                self.attributes.apply(event, self.names)
                self.classes.nodes_changed(event.node)
            case events.Constraints():
                self.constraints.apply(event, self.names)
                self.classes.applications_changed(event.application)
            case events.AllocationTags():
                self.constraints.apply_tags(event, self.names)
                self.classes.applications_changed(event.application)
            case _:
                raise ModelError(f"{type(event).__name__} must not come after the start of a snapshot")

    def _apply_tags(self, event: events.Tags) -> None:
        """Apply tags of applications; tags with node requirements may change possible placements."""
        self.names.check(event.tag_name)
        for application, name in zip(event.application.tolist(), event.tag_name.tolist(), strict=True):
            self._tags.setdefault(application, set()).add(name)
            text = self.names.texts[name]
            if text.lower().startswith(TAG):
                self.classes.applications_changed([application])
                self.changed = True
            if size := gang_of((text,)):
                self.gang_sizes[application] = max(size, self.gang_sizes.get(application, 0))

    def _check_width(self, amounts: events.I64) -> None:
        if amounts.ndim != 2 or amounts.shape[1] != len(self.types.names):
            raise ModelError(f"amounts of shape {amounts.shape}, but there are {len(self.types.names)} resource types")

    def _drop_replaced(self, event: events.Applications) -> None:
        """Drop attempts that the event replaces, and all state of ended or moved applications."""
        ended = event.ended()
        drop = np.where(ended, EVERYTHING, event.replaces)
        if not (self._blacklists or self._tags or self.constraints.known or self.classes.active):
            # A snapshot starts empty: skip the loop over thousands of applications.
            drop[~ended & (self.apps.at["first_row"][event.application] < 0)] = 0
        for at in np.flatnonzero(drop):
            application, bits = int(event.application[at]), int(drop[at])
            if bits & REQUESTS:
                self.requests.drop(application, self.apps)
                self.constraints.drop(application)
                self.classes.drop(application)
            if ended[at]:
                self.hints.drop(application, self.apps, self.requests.at)
                self.groups.drop(application, self.apps)
                self.own_tags.drop(application)
                self.rejection_counts.drop(application)
                self.apps.at["input_bytes"][application] = 0.0
            if bits & BLACKLIST:
                for name in self._blacklists.pop(application, ()):
                    self.blacklist.remove(application, name)
                self.apps.at["blacklisted"][application] = 0
            if bits & TAGS:
                self._tags.pop(application, None)
                self.gang_sizes.pop(application, None)
                self.classes.drop(application)

    def _apply_blacklist(self, event: events.Blacklist) -> None:
        self.names.check(event.name_name)
        self.apps.cover(event.application, "application")
        rows = (event.application.tolist(), event.name_name.tolist(), event.present.tolist())
        for application, name, present in zip(*rows, strict=True):
            names = self._blacklists.setdefault(application, set())
            if present:
                self.blacklist.put(application, name, 1)
                names.add(name)
            elif name in names:
                self.blacklist.remove(application, name)
                names.remove(name)
            self.apps.at["blacklisted"][application] = len(names)

    def _apply_fates(self, event: events.Fates) -> None:
        """Release proposals in flight. A rejected one may succeed elsewhere, so it counts as a change."""
        view = self.view()
        for sequence in np.unique(event.sequence).tolist():
            mine = event.sequence == sequence
            positions, fates = event.position[mine], event.fate[mine]
            batch = self.assumed.resolve(view, sequence, positions, fates)
            if batch is None:
                continue
            if fates.any():
                self.changed = True
                self.rejection_counts.note(batch, positions, fates)
            if self.learn is not None:
                fates = self.learn(batch, positions, fates)
            if fates.any():
                self.rejections.learn(view, batch, positions, fates, self.cycle, self.now_ms)

    def sweep(self) -> None:
        """Free ended state: request rows without requests, and their node reservations."""
        rows = self.requests.at
        for row in self.requests.sweep(self.apps):
            node = int(rows["hold_node"][row])
            if node >= 0:
                self.nodes.at["hold_row"][node] = -1
                rows["hold_node"][row] = -1
