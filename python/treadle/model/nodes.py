"""Nodes, the restrictions of requests to some of them, and classes: the sets of nodes that requests may use.

Requests are restricted by node attributes, placement constraints and allocation tags. A class is the set of nodes that
satisfy at least one of some conjunctions of predicates, usually a single one. Events only record changes;
`Classes.sync` applies them before a cycle. A cluster without constraints pays nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol, TypeVar

import numpy as np

from treadle import events
from treadle.compiled.array_types import I32, I64, U8, Records
from treadle.compiled.functions import kernel
from treadle.constraints import (
    NO_PREFERENCE,
    Alternatives,
    Choice,
    Conjunction,
    NodeFacts,
    NodeFactTable,
    NodePreference,
    Predicate,
    choice,
    misread,
    node_preference,
    parse_constraint,
)
from treadle.events import NodeState
from treadle.model.queues import ApplicationTable
from treadle.model.requests import RequestTable
from treadle.model.tables import FREE, TOTAL, Names, Table, grown, own, renumbered

if TYPE_CHECKING:
    import numpy.typing as npt


NODE: Final = np.dtype(
    [
        ("name", "i4"),
        ("rack", "i4"),
        ("partition", "i4"),  # number of the partition
        ("next_same_name", "i4"),  # another node of that name (several NodeManagers on a host), or -1
        ("hold_row", "i4"),  # the request row that the node is reserved for, or -1
        ("state", "u1"),
        ("hold_until_ms", "i8"),
        ("backoff_until", "i8"),  # the first cycle that may use it again
    ],
    align=True,
)


@kernel
def apply_nodes(
    at: Records, amounts: I64, out: I32, part: I32, nodes: I32, name: I32, rack: I32, state: U8, total: I64, free: I64
) -> int:
    """Apply the states of nodes, except their names.

    Writes to ``out`` the rows in which more than the free resources changed; returns their number.
    """
    count = 0
    for i, node in enumerate(nodes):
        differs = at[node].name != name[i] or at[node].rack != rack[i]
        differs |= at[node].partition != part[i] or at[node].state != state[i]
        at[node].rack = rack[i]
        at[node].partition = part[i]
        at[node].state = state[i]
        for resource in range(amounts.shape[2]):
            differs |= amounts[node, TOTAL, resource] != total[i, resource]
            amounts[node, TOTAL, resource] = total[i, resource]
            amounts[node, FREE, resource] = free[i, resource]
        if differs:
            out[count] = i
            count += 1
    return count


class NodeTable(Table):
    """All nodes, by the shim's index. Amounts: ASSUMED, FREE (as reported by the RM), TOTAL."""

    def __init__(self, resources: int) -> None:
        super().__init__(NODE, (3, resources), {"name": -1, "next_same_name": -1, "hold_row": -1})

    def apply(self, event: events.Nodes, names: Names) -> I32:
        """Apply the state of nodes (absolute values); return those of which more than the free resources changed."""
        names.check(event.name_name)
        names.check(event.rack_name)
        self.cover(event.node, "node")
        given = [own(getattr(event, name)) for name in ("node", "name_name", "rack_name", "state", "total", "free")]
        changed, partitions = np.empty(len(event.node), np.int32), names.partitions_of(event.partition_name)
        changed = changed[: apply_nodes(self.at, self.amounts, changed, partitions, *given)]
        for row in changed.tolist():
            if self.at["name"][event.node[row]] != event.name_name[row]:
                self._rename(int(event.node[row]), int(event.name_name[row]), names.first_node)
        return event.node[changed]

    def _rename(self, node: int, name: int, first_node: I32) -> None:
        """Move ``node`` from the list of nodes of its old name to that of ``name``."""
        following = self.at["next_same_name"]
        old = int(self.at["name"][node])
        if old >= 0:
            before = int(first_node[old])
            if before == node:
                first_node[old] = following[node]
            else:
                while following[before] != node:
                    before = int(following[before])
                following[before] = following[node]
        self.at["name"][node] = name
        following[node] = first_node[name]
        first_node[name] = node


class Attributes:
    """Node attributes: by node, a mapping of attribute to value."""

    def __init__(self) -> None:
        self.of_node: dict[int, dict[int, int]] = {}

    def apply(self, event: events.NodeAttributes, names: Names) -> None:
        """Apply attributes (absolute values)."""
        names.check(event.attribute_name)
        names.check(event.value_name)
        columns = (event.node, event.attribute_name, event.value_name, event.present)
        for node, attribute, value, present in zip(*(column.tolist() for column in columns), strict=True):
            if present:
                self.of_node.setdefault(node, {})[attribute] = value
            elif node in self.of_node:
                self.of_node[node].pop(attribute, None)

    def nodes_changed(self, event: events.Nodes) -> None:
        """Drop the attributes of removed nodes."""
        if self.of_node:
            for node in event.node[event.state == int(NodeState.GONE)].tolist():
                self.of_node.pop(node, None)


class Constraints:
    """Constraint texts by (application, key), -1 for an opaque one; and the allocation tags."""

    def __init__(self) -> None:
        self.text: dict[int, dict[int, int]] = {}
        self.tags: dict[int, dict[int, set[int]]] = {}

    def apply(self, event: events.Constraints, names: Names) -> None:
        """Apply constraints (absolute values)."""
        names.check(event.text_name)
        columns = (event.application, event.key, event.text_name, event.opaque)
        for application, key, text, opaque in zip(*(column.tolist() for column in columns), strict=True):
            self.text.setdefault(application, {})[key] = -1 if opaque else text
            self.tags.get(application, {}).pop(key, None)

    def apply_tags(self, event: events.AllocationTags, names: Names) -> None:
        """Apply allocation tags of constrained keys."""
        names.check(event.tag_name)
        columns = (event.application, event.key, event.tag_name)
        for application, key, tag in zip(*(column.tolist() for column in columns), strict=True):
            self.tags.setdefault(application, {}).setdefault(key, set()).add(tag)

    @property
    def known(self) -> bool:
        """Return whether there is any constraint or tag."""
        return bool(self.text or self.tags)

    def requests_changed(self, event: events.Requests) -> None:
        """Drop the constraints of keys without requests."""
        if self.text:
            for row in np.flatnonzero(event.count == 0).tolist():
                application, key = int(event.application[row]), int(event.key[row])
                self.text.get(application, {}).pop(key, None)
                self.tags.get(application, {}).pop(key, None)

    def drop(self, application: int) -> None:
        """Drop an application."""
        self.text.pop(application, None)
        self.tags.pop(application, None)


Tags = frozenset[str]


class AllocationTags:
    """Container tags by application and priority; None: unknown."""

    def __init__(self) -> None:
        self.of: dict[int, dict[int, Tags | None]] = {}

    def set_tags(self, application: int, priority: int, tags: Tags) -> None:
        """Set the tags of a request."""
        known = self.of.setdefault(application, {})
        known[priority] = tags if known.get(priority, tags) == tags else None

    def drop(self, application: int) -> None:
        """Drop an application."""
        self.of.pop(application, None)

    def follow(self, old: AllocationTags, apps: I32) -> None:
        """Take over the tags of priorities that a snapshot no longer contains; ``apps`` maps to the new indices."""
        for application, known in renumbered(old.of, apps).items():
            self.of[application] = known | self.of.get(application, {})


CLASSES_MAX: Final = 4_096
"""Maximum number of classes. Beyond it the ResourceManager checks constraints, and requests with required tags wait."""

CHOICES_MAX: Final = 16_384
"""Number of choices above which unused ones are dropped."""

ROWS_AT_ONCE: Final = 4_096
"""Maximum number of requests bound in one cycle; the others wait for the next, so that no application delays it."""

UNMET_NAMED_MAX: Final = 64
"""Maximum number of applications whose diagnostics say that no node satisfies them."""

ANY_NODE: Final = -1
NO_NODE: Final = 0
"""The class without nodes, for requests that no node satisfies."""

TAG: Final = "treadle:"

Wanted = tuple[Conjunction, ...]


@dataclass(frozen=True, slots=True)
class _Binding:
    """The binding of a request: its choices, their index, and the class that allows all alternatives."""

    choice: Choice
    number: int
    at: int


class Unmet(NamedTuple):
    """Applications with asks that no node can serve."""

    texts: tuple[tuple[int, str], ...]
    """The first `UNMET_NAMED_MAX` of them by index, each with the reason."""
    applications: int
    """Their total number."""


NONE_UNMET: Final = Unmet((), 0)


class Classes:
    """The class of each request row, and the nodes of each class."""

    def __init__(self) -> None:
        self.active = False
        """Whether any request has ever been bound to nodes."""
        self.row_class: I32 = np.zeros(0, np.int32)
        """The class of each request row; `ANY_NODE` if it may use every node."""
        self.row_choice: I32 = np.zeros(0, np.int32)
        """The choice of each request row, an index of `choices`; -1 for none."""
        self.row_level: I32 = np.zeros(0, np.int32)
        """The last alternative that each row may use; -1: all."""
        self.levels: dict[Choice, int] = {}
        """The last alternative that requests of a choice may use, where that is limited."""
        self.choices: list[Choice] = []
        self.wanted: list[Wanted] = [()]
        """The condition of each class: a node satisfies it if it meets one of these conjunctions."""
        self.nodes: npt.NDArray[np.bool_] = np.zeros((16, 0), bool)
        """(class, node): the nodes of each class."""
        self.packed: U8 = np.zeros((16, 0), np.uint8)
        """(class, node / 8): the same as bits."""
        self.errors: dict[int, str] = {}
        """Parse error of each application whose requirement is invalid."""
        self.misread: dict[int, str] = {}
        """Parse error of each application with an invalid tag of Treadle's."""
        self.left_out: set[int] = set()
        """Applications with a constraint that exceeded `CLASSES_MAX`."""
        self.changes = 0
        """Increases when classes are added or removed or their nodes change; requests do not count."""
        self._class_of: dict[Wanted, int] = {(): NO_NODE}
        self._choice_of: dict[Choice, int] = {}
        self._predicates: dict[Predicate, npt.NDArray[np.bool_]] = {}
        self._parsed: dict[str, Alternatives | None] = {}
        self._preferences: dict[int, NodePreference] = {}
        self._choices_bound: dict[int, dict[int, _Binding]] = {}
        """Bindings by application and constraint text, valid until its tags or constraints change."""
        self._plain: I32 = np.zeros((0, 2), np.int32)
        """(application, class and choice): the common binding of all its requests; -1: rows are bound one by one."""
        self._table = NodeFactTable()
        self._nodes_changed: set[int] = set()
        self._apps_changed: set[int] = set()
        self._bound: npt.NDArray[np.bool_] = np.zeros(0, bool)
        """Whether requests of each application may be bound to nodes."""
        self._owner: I32 = np.zeros(0, np.int32)
        self._key: I32 = np.zeros(0, np.int32)
        """The application and key for which each row was bound."""
        self._unread: npt.NDArray[np.intp] = np.zeros(0, np.intp)
        """Rows not bound yet (`ROWS_AT_ONCE`); no node is allowed for them until then."""
        self._empty: npt.NDArray[np.bool_] = np.zeros(0, bool)
        self._empty_of = -1
        """The cached classes without nodes, and the value of `changes` that they belong to."""
        self._freed = False
        """Whether a row was freed since unused choices were last dropped."""

    def applications_changed(self, applications: I32 | list[int]) -> None:
        """Record that relevant tags of applications, or constraints of their requests, have changed."""
        if len(applications):
            self.active = True
            self._bound = grown(self._bound, int(np.max(applications)) + 1, False)
            self._bound[applications] = True
            self._apps_changed.update(np.asarray(applications).tolist())

    def drop(self, application: int) -> None:
        """Drop an application's bindings until its requests are reported again."""
        if application < len(self._bound) and self._bound[application]:
            self._apps_changed.add(application)

    def nodes_changed(self, nodes: I32) -> None:
        """Record nodes of which more than the free resources changed."""
        if self.active:
            self._nodes_changed.update(nodes.tolist())

    def facts(self, cluster: ClusterTables, node: int) -> NodeFacts | None:
        """Return the properties of a node that requirements test; None if it may not be used."""
        record, texts = cluster.nodes.at[node], cluster.names.texts
        if record["state"] != NodeState.USABLE:
            return None
        attributes = cluster.attributes.of_node.get(node, {})
        return NodeFacts(
            attributes={texts[name]: texts[value] for name, value in attributes.items()},
            rack=texts[record["rack"]],
            host=texts[record["name"]],
            partition=texts[cluster.names.partitions[record["partition"]]],
            totals=dict(zip(cluster.types.names, cluster.nodes.amounts[node, TOTAL].tolist(), strict=True)),
        )

    def sync(self, cluster: ClusterTables) -> bool:
        """Bring classes and rows up to date; return whether rows that the last cycle left unbound are bound now."""
        if not self.active:
            return False
        waited = len(self._unread) > 0
        self._sync_nodes(cluster)
        self._sync_rows(cluster)
        return waited

    def _sync_nodes(self, cluster: ClusterTables) -> None:
        size = cluster.nodes.size
        if len(self._table) < size:
            self._nodes_changed.update(range(len(self._table), size))
            self.nodes = _widened(self.nodes, len(cluster.nodes.at))
            self.packed = _widened(self.packed, (len(cluster.nodes.at) + 7) // 8)
            for predicate, holds in self._predicates.items():
                self._predicates[predicate] = grown(holds, len(cluster.nodes.at), False)
        if not self._nodes_changed:
            return
        changed = np.array(sorted(self._nodes_changed), np.int64)
        self._nodes_changed.clear()
        facts = [self.facts(cluster, node) for node in changed.tolist()]
        self._table.put(changed.tolist(), facts)
        for predicate, holds in self._predicates.items():
            holds[changed] = self._table.meet(predicate, changed)
        usable = np.array([each is not None for each in facts], bool)
        for at, wanted in enumerate(self.wanted):
            self.nodes[at, changed] = self._meeting(wanted, usable, changed)
        self._pack(slice(0, len(self.wanted)))
        self.changes += 1

    def _pack(self, which: slice) -> None:
        packed = np.packbits(self.nodes[which], axis=1, bitorder="little")
        self.packed[which, : packed.shape[1]] = packed

    def _sync_rows(self, cluster: ClusterTables) -> None:
        rows = len(cluster.requests.at)
        if len(self.row_class) < rows:
            self.row_class = grown(self.row_class, rows, ANY_NODE)
            self.row_choice = grown(self.row_choice, rows, -1)
            self.row_level = grown(self.row_level, rows, -1)
            self._owner = grown(self._owner, rows, -1)
            self._key = grown(self._key, rows, -1)
        apps = len(cluster.apps.at)
        self._bound = grown(self._bound, apps, False)
        self._plain = grown(self._plain, len(self._bound), -1)
        owner, key = cluster.requests.at["application"], cluster.requests.at["key"]
        gone = (self._owner >= 0) & ((self._owner != owner) | (self._key != key))
        if self._apps_changed:
            changed = np.zeros(len(self._bound), bool)
            changed[list(self._apps_changed)] = True
            gone |= (self._owner >= 0) & changed[np.maximum(self._owner, 0)]
            for application in sorted(self._apps_changed):
                self._read(cluster, application)
            self._apps_changed.clear()
        if gone.any():
            self._forget(gone)
        if len(self._unread):
            self.row_class[self._unread] = ANY_NODE
        new = np.flatnonzero((owner >= 0) & (self._owner < 0))
        new = self._bind_plain(new[self._bound[owner[new]]], owner, key)
        if len(self._unread):
            # Waiting rows come first: rows that change all the time must not delay others.
            new = np.concatenate((self._unread[np.isin(self._unread, new)], np.setdiff1d(new, self._unread)))
        for row in new[:ROWS_AT_ONCE].tolist():
            self._bind_row(cluster, row)
        self._unread = new[ROWS_AT_ONCE:]
        self.row_class[self._unread] = NO_NODE

    def _bind_plain(self, rows: npt.NDArray[np.intp], owner: I32, key: I32) -> npt.NDArray[np.intp]:
        """Bind rows of applications with one common binding; return the rows that need binding one by one."""
        known = self._plain[owner[rows], 0] >= 0
        if self.levels or not known.any():
            return rows
        at = rows[known]
        self._owner[at], self._key[at] = owner[at], key[at]
        self.row_class[at], self.row_choice[at] = self._plain[owner[at]].T
        self.row_level[at] = -1
        return rows[~known]

    def _forget(self, gone: npt.NDArray[np.bool_]) -> None:
        self.row_class[gone] = ANY_NODE
        self.row_choice[gone] = -1
        self.row_level[gone] = -1
        self._owner[gone] = -1
        self._freed = True

    def _read(self, cluster: ClusterTables, application: int) -> None:
        """Read an application's requirements, and whether its requests are bound to nodes."""
        tags = [tag for tag in cluster.tags(application) if tag.lower().startswith(TAG)]
        mine = node_preference(tags) if tags else NO_PREFERENCE
        self._preferences.pop(application, None)
        self._choices_bound.pop(application, None)
        self._plain[application] = -1
        self.errors.pop(application, None)
        self.misread.pop(application, None)
        self.left_out.discard(application)
        if text := misread(tags):
            self.misread[application] = text
        if mine is not NO_PREFERENCE:
            self._preferences[application] = mine
        if mine.error:
            self.errors[application] = mine.error
        self._bound[application] = mine is not NO_PREFERENCE or bool(cluster.constraints.text.get(application))

    def _bind_row(self, cluster: ClusterTables, row: int) -> None:
        """Bind a request row."""
        if len(self.choices) >= CHOICES_MAX and self._freed:
            self._sweep()
        ask = cluster.requests.at[row]
        application, key = int(ask["application"]), int(ask["key"])
        self._owner[row], self._key[row] = application, key
        tags = cluster.constraints.tags.get(application, {}).get(key)
        if tags:
            tag_texts = frozenset(cluster.names.texts[tag] for tag in tags)
            cluster.own_tags.set_tags(application, int(ask["priority"]), tag_texts)
        text = cluster.constraints.text.get(application, {}).get(key, -1)
        binding = self._choices_bound.get(application, {}).get(text)
        if binding is None:
            binding = self._binding(cluster, application, text)
        if binding is None:
            return
        chosen, last, at = binding.choice, binding.choice.last, binding.at
        level = min(self.levels.get(chosen, last), last) if self.levels else last
        if level < last:
            nearer = self.class_for(chosen.nodes_at(level))
            level, at = (last, at) if nearer < 0 else (level, nearer)
        self.row_class[row] = at
        self.row_level[row] = -1 if level == last else level
        self.row_choice[row] = binding.number

    def _binding(self, cluster: ClusterTables, application: int, text: int) -> _Binding | None:
        """Return the binding of an application's requests with a constraint text; None if nothing restricts them."""
        own_constraint = self._parsed_constraint(cluster, text) if text >= 0 else None
        mine = self._preferences.get(application, NO_PREFERENCE)
        if mine is NO_PREFERENCE and own_constraint is None:
            return None
        chosen = choice(mine, own_constraint)
        at = self._class(chosen.nodes_at(chosen.last))
        if at < 0:
            self.left_out.add(application)
            if mine is NO_PREFERENCE:
                return None  # checked by the ResourceManager
        number = self._choice_of.setdefault(chosen, len(self.choices))
        if number == len(self.choices):
            self.choices.append(chosen)
        binding = _Binding(chosen, number, NO_NODE if at < 0 else at)
        if at >= 0:
            self._choices_bound.setdefault(application, {})[text] = binding
            if not cluster.constraints.text.get(application) and not cluster.constraints.tags.get(application):
                self._plain[application] = at, number
        return binding

    def _parsed_constraint(self, cluster: ClusterTables, name: int) -> Alternatives | None:
        text = cluster.names.texts[name]
        if text not in self._parsed:
            if len(self._parsed) >= CHOICES_MAX:
                self._parsed.clear()
            self._parsed[text] = parse_constraint(text)
        return self._parsed[text]

    def set_level(self, row: int, level: int) -> None:
        """Limit a row to alternatives up to ``level`` (-1 or the last one: all), unless no class is left."""
        chosen = self.choices[self.row_choice[row]]
        at = self.class_for(chosen.nodes_at(chosen.last if level < 0 else level))
        if at >= 0:
            self.row_level[row] = -1 if level >= chosen.last else level
            self._freed |= bool(self.row_class[row] != at)
            self.row_class[row] = at

    def class_for(self, conjunctions: Wanted) -> int:
        """Return the class with this condition, -1 if there are too many classes."""
        if conjunctions not in self._class_of and len(self.wanted) == CLASSES_MAX:
            return -1  # dropping classes would renumber them
        return self._class(conjunctions)

    def supply(self, cluster: ClusterTables, predicate: Predicate) -> I64:
        """Return the total resources of the usable nodes that satisfy a predicate."""
        holds = self._nodes_of(predicate)[: cluster.nodes.size]
        holds = holds & (cluster.nodes.at["state"][: len(holds)] == int(NodeState.USABLE))
        amounts: I64 = cluster.nodes.amounts[: len(holds), TOTAL][holds].sum(axis=0)
        return amounts

    def forget_levels(self) -> None:
        """Allow all alternatives for all rows again."""
        self.levels = {}
        # Most policies set none, and ask in each cycle: the maximum is cheaper than the rows.
        if np.maximum.reduce(self.row_level, initial=-1) >= 0:
            for row in np.flatnonzero(self.row_level >= 0).tolist():
                self.set_level(row, -1)

    def unmet(self, cluster: ClusterTables) -> Unmet:
        """Return the applications with requests that no node satisfies, and why."""
        if not self.active:
            return NONE_UNMET
        if self._empty_of != self.changes or len(self._empty) != len(self.wanted):
            self._empty = np.asarray(~self.nodes[: len(self.wanted)].any(axis=1))
            self._empty_of = self.changes
        rows = np.flatnonzero((self.row_class >= 0) & (self._owner >= 0))
        rows = rows[self._empty[self.row_class[rows]] & (cluster.requests.at["count"][rows] > 0)]
        masters = cluster.apps.at["awaiting_am"][cluster.requests.at["application"][rows]] == 1
        rows = rows[~masters]
        applications, first = np.unique(cluster.requests.at["application"][rows], return_index=True)
        row_of = dict(zip(applications.tolist(), rows[first].tolist(), strict=True))
        rows_unmet = sorted(row_of.keys() | self.errors.keys())
        some = rows_unmet[:UNMET_NAMED_MAX]
        named = tuple((each, self.errors.get(each) or self._unmet_by(row_of[each])) for each in some)
        return Unmet(named, len(rows_unmet))

    def _unmet_by(self, row: int) -> str:
        """Return why no node satisfies a request."""
        requirement = " or ".join(one.text() for one in self.wanted[self.row_class[row]])
        if not requirement:
            return "no node can meet its constraint; change it"
        return f"no usable node meets {requirement}; change the requirement, or give nodes what it names"

    def may(self, row: int, node: int) -> bool:
        """Return whether the class of a request row contains a node, as of the last `sync`."""
        at = int(self.row_class[row]) if row < len(self.row_class) else ANY_NODE
        return at == ANY_NODE or bool(node < self.nodes.shape[1] and self.nodes[at, node])

    def _class(self, conjunctions: Wanted) -> int:
        """Return the class with this condition, a new one if necessary; -1 if there are too many in use."""
        known_class = self._class_of.get(conjunctions)
        if known_class is not None:
            return known_class
        if len(self.wanted) == CLASSES_MAX:
            if self._freed:
                self._sweep()
            if len(self.wanted) == CLASSES_MAX:
                return -1
        at = len(self.wanted)
        self.wanted.append(conjunctions)
        self._class_of[conjunctions] = at
        self.nodes = grown(self.nodes, at + 1, False)
        self.packed = grown(self.packed, at + 1, 0)
        usable = np.zeros(self.nodes.shape[1], bool)
        usable[: len(self._table)] = self._table.usable
        self.nodes[at] = self._meeting(conjunctions, usable, slice(None))
        self._pack(slice(at, at + 1))
        self.changes += 1
        return at

    def _meeting(self, wanted: Wanted, usable: npt.NDArray[np.bool_], which: I64 | slice) -> npt.NDArray[np.bool_]:
        """Return which of some nodes satisfy a condition; ``usable`` are those of them that may be used."""
        found = np.zeros(len(usable), bool)
        for conjunction in wanted:
            meets = usable.copy()
            for predicate in conjunction.predicates:
                meets &= self._nodes_of(predicate)[which]
            found |= meets
        return found

    def _nodes_of(self, predicate: Predicate) -> npt.NDArray[np.bool_]:
        eligible = self._predicates.get(predicate)
        if eligible is None:
            eligible = np.zeros(self.nodes.shape[1], bool)
            eligible[: len(self._table)] = self._table.meet(predicate)
            self._predicates[predicate] = eligible
        return eligible

    def _sweep(self) -> None:
        """Drop classes and choices that no row uses, and renumber the rest."""
        used = np.unique(self.row_choice[self.row_choice >= 0])
        choices: I32 = np.full(len(self.choices), -1, np.int32)
        choices[used] = np.arange(len(used))
        self.choices = [self.choices[at] for at in used.tolist()]
        self._choice_of = {kept: at for at, kept in enumerate(self.choices)}
        live = self.row_choice >= 0
        self.row_choice[live] = choices[self.row_choice[live]]
        kept = np.union1d([NO_NODE], self.row_class[self.row_class >= 0]).astype(np.int64)
        numbers: I32 = np.full(len(self.wanted), -1, np.int32)
        numbers[kept] = np.arange(len(kept))
        self.wanted = [self.wanted[at] for at in kept.tolist()]
        self._class_of = {wanted: at for at, wanted in enumerate(self.wanted)}
        bound = self.row_class >= 0
        self.row_class[bound] = numbers[self.row_class[bound]]
        self.nodes[: len(kept)] = self.nodes[kept]
        self.packed[: len(kept)] = self.packed[kept]
        needed = {one for wanted in self.wanted for conjunction in wanted for one in conjunction.predicates}
        self._predicates = {one: holds for one, holds in self._predicates.items() if one in needed}
        self._parsed.clear()
        self._choices_bound.clear()
        self._plain[:] = -1
        self._freed = False
        self.changes += 1


A = TypeVar("A", bound=np.generic)


def _widened(table: npt.NDArray[A], width: int) -> npt.NDArray[A]:
    """Return a table with at least ``width`` columns, the new ones 0."""
    if table.shape[1] >= width:
        return table
    wide = np.zeros((table.shape[0], width), table.dtype)
    wide[:, : table.shape[1]] = table
    return wide


class ClusterTables(Protocol):
    """The parts of `treadle.model.cluster.Cluster`, which imports this module, that requirements need."""

    names: Names
    types: events.ResourceTypes
    nodes: NodeTable
    apps: ApplicationTable
    requests: RequestTable
    attributes: Attributes
    constraints: Constraints
    own_tags: AllocationTags

    def tags(self, application: int) -> list[str]:
        """Return the tags of an application."""
