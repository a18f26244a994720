"""Limits on the number of an application's own tagged containers at a node or rack, within one cycle.

Proposals count at once. A row without such limits depends on its set of nodes alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from treadle.compiled.array_types import I32, U8, Records
from treadle.compiled.functions import inner, tables
from treadle.constraints import Choice
from treadle.model.cluster import Cluster
from treadle.model.nodes import Classes
from treadle.model.tables import chain

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt


BOUND: Final = np.dtype(
    [
        ("set", "i4"),  # the nodes of the alternative; -1: any node
        ("least", "i4"),
        ("most", "i4"),
        ("first", "i4"),  # its counters in `OwnTags.listed`
        ("counters", "i4"),
        ("rack", "u1"),
        ("ends", "u1"),  # `GOES_ON`, `ENDS_ALTERNATIVE` or `ENDS_ROW`
    ],
    align=True,
)
GOES_ON: Final = 0
ENDS_ALTERNATIVE: Final = 1
ENDS_ROW: Final = 2


@tables
class OwnTags(NamedTuple):
    """The limits and counters, as the loop uses them."""

    row_bounds: I32  # the first limit of each request row, or -1; empty if no row has any
    row_tags: I32  # start of the counters of a row's containers in `listed`, which -1 ends; -1: none
    bounds: Records
    listed: I32  # counters, by limit and by row
    at_node: I32  # counter, node
    at_rack: I32  # counter, rack
    rack_of: I32  # the number of each node's rack


def no_tags() -> OwnTags:
    """Return the value for a cluster where no request counts containers."""
    none, table = np.zeros(0, np.int32), np.zeros((0, 0), np.int32)
    return OwnTags(none, none, np.zeros(0, BOUND), none, table, table, none)


@inner
def in_set(node_sets: U8, chosen: int, node: int) -> bool:
    """Return whether a node is in a set, which has one bit per node."""
    return bool((node_sets[chosen, node >> 3] >> (node & 7)) & 1)


@inner
def counts_allow(node_sets: U8, tags: OwnTags, row: int, node: int) -> bool:
    """Return whether one of a row's alternatives holds on a node, proposals of this cycle included."""
    at, holds = tags.row_bounds[row], True
    while True:
        bound = tags.bounds[at]
        holds = holds and (bound.set < 0 or in_set(node_sets, bound.set, node))
        for place in range(bound.first, bound.first + bound.counters):
            counter = tags.listed[place]
            count = tags.at_rack[counter, tags.rack_of[node]] if bound.rack else tags.at_node[counter, node]
            holds = holds and bound.least <= count <= bound.most
        if bound.ends != GOES_ON:
            if holds or bound.ends == ENDS_ROW:
                return holds
            holds = True
        at += 1


@inner
def count_proposed(tags: OwnTags, row: int, node: int) -> None:
    """Count a container that was just proposed."""
    at = tags.row_tags[row]
    while at >= 0 and tags.listed[at] >= 0:
        tags.at_node[tags.listed[at], node] += 1
        tags.at_rack[tags.listed[at], tags.rack_of[node]] += 1
        at += 1


@dataclass
class _Counters:
    """Counters by application and tag, and the lists of them."""

    number: dict[tuple[int, str], int] = field(default_factory=dict)
    listed: list[int] = field(default_factory=list)

    def list(self, application: int, tags: Iterable[str], *, ended: bool) -> tuple[int, int]:
        """List the counters of some tags; return the start and the length of the list."""
        first = len(self.listed)
        self.listed += [self.number.setdefault((application, tag), len(self.number)) for tag in sorted(tags)]
        count = len(self.listed) - first
        if ended:
            self.listed.append(-1)
        return first, count


def own_tags(cluster: Cluster, proposals: Iterable[Records]) -> OwnTags:
    """Return the current counts, including ``proposals`` without an outcome."""
    classes, own = cluster.classes, cluster.own_tags
    counting = [at for at, chosen in enumerate(classes.choices) if chosen.counts_tags]
    rows = np.flatnonzero(np.isin(classes.row_choice, counting)) if counting else np.zeros(0, np.intp)
    if not len(rows):
        return no_tags()
    counters = _Counters()
    row_bounds, bounds = _row_bounds(cluster, rows, counters)
    applications: list[int] = np.unique(cluster.requests.at["application"][row_bounds >= 0]).tolist()
    row_tags = _row_tags(cluster, applications, counters)
    racks, rack_of = np.unique(cluster.nodes.at["rack"], return_inverse=True)
    tags = OwnTags(
        row_bounds=row_bounds,
        row_tags=row_tags,
        bounds=np.array(bounds, BOUND),
        listed=np.array(counters.listed, np.int32),
        at_node=np.zeros((len(counters.number), len(cluster.nodes.at)), np.int32),
        at_rack=np.zeros((len(counters.number), len(racks)), np.int32),
        rack_of=rack_of.astype(np.int32),
    )
    groups, tasks = cluster.tasks.at, cluster.tasks.tasks.at
    for application in applications:
        for group, task in cluster.tasks.running(application, cluster.apps):
            mine = own.of[application].get(int(groups["priority"][group])) or ()
            _count(tags, counters, application, mine, int(tasks["node"][task]))
    for batch in proposals:
        for at in np.flatnonzero((batch["open"] == 1) & np.isin(batch["application"], applications)).tolist():
            application, row = int(batch["application"][at]), int(batch["row"][at])
            priority = int(cluster.requests.at["priority"][row])
            _count(tags, counters, application, own.of[application].get(priority) or (), int(batch["node"][at]))
    return tags


def _count(tags: OwnTags, counters: _Counters, application: int, names: Iterable[str], node: int) -> None:
    for name in names:
        counter = counters.number.get((application, name), -1)
        if counter >= 0 and 0 <= node < len(tags.rack_of):
            tags.at_node[counter, node] += 1
            tags.at_rack[counter, tags.rack_of[node]] += 1


def _distinct(*columns: I32) -> tuple[list[list[int]], npt.NDArray[np.intp]]:
    """Return the distinct rows of some columns, and the index of each row among them."""
    found, which = np.unique(np.stack(columns), axis=1, return_inverse=True)
    return found.T.tolist(), which.reshape(-1)


def _row_tags(cluster: Cluster, applications: list[int], counters: _Counters) -> I32:
    """List the counters that containers of each row of some applications increase; return the start by row, or -1."""
    requests = cluster.requests.at
    rows = np.flatnonzero(np.isin(requests["application"], applications) & (requests["constrained"] == 1))
    distinct, which = _distinct(requests["application"][rows], requests["priority"][rows])
    first = np.full(len(distinct), -1, np.int32)
    for at, (application, priority) in enumerate(distinct):
        if mine := cluster.own_tags.of[application].get(priority):
            first[at], _ = counters.list(application, mine, ended=True)
    row_tags: I32 = np.full(len(requests), -1, np.int32)
    row_tags[rows] = first[which]
    return row_tags


def _row_bounds(cluster: Cluster, rows: npt.NDArray[np.intp], counters: _Counters) -> tuple[I32, list[tuple[int, ...]]]:
    """Return the start of the limits by row, or -1, and the limits.

    An application's requests with the same choices have the same limits.
    """
    classes, requests = cluster.classes, cluster.requests.at
    distinct, which = _distinct(requests["application"][rows], classes.row_choice[rows], classes.row_level[rows])
    first, bounds = np.full(len(distinct), -1, np.int32), list[tuple[int, ...]]()
    complete: dict[int, bool | None] = {}
    for at, (application, number, level) in enumerate(distinct):
        if application not in complete:
            complete[application] = _knows_all(cluster, application)
        mine = _bounds(classes, application, classes.choices[number], level, counters, complete=complete[application])
        if mine:
            first[at] = len(bounds)
            bounds += mine
    row_bounds: I32 = np.full(len(requests), -1, np.int32)
    row_bounds[rows] = first[which]
    return row_bounds, bounds


def _knows_all(cluster: Cluster, application: int) -> bool | None:
    """Return whether the tags of all running containers are known; None: those of a priority are not."""
    known = cluster.own_tags.of.setdefault(application, {})
    if None in known.values():
        return None
    groups = cluster.tasks.at
    mine = chain(groups, cluster.apps.at["first_group"][application])
    return all(int(groups["priority"][group]) in known for group in mine if groups["running"][group] > 0)


def _bounds(
    classes: Classes, application: int, chosen: Choice, level: int, counters: _Counters, *, complete: bool | None
) -> list[tuple[int, ...]]:
    """Return the limits of requests, by alternative; empty if counts are unknown, so that the RM checks them."""
    if complete is None:
        return []
    bounds = list[tuple[int, ...]]()
    for alternative in chosen.alternatives[: (chosen.last if level < 0 else level) + 1]:
        at = classes.class_for((alternative.where,))
        if at < 0:
            return []
        one: list[tuple[int, ...]] = [(at, 0, 0, 0, 0, 0, GOES_ON)]
        for count in alternative.counts:
            first, tags = counters.list(application, count.tags, ended=False)
            least = count.least if complete else 0  # while some containers' tags are unknown, a low count says nothing
            one.append((-1, least, count.most, first, tags, int(count.rack), GOES_ON))
        bounds += one[:-1]
        bounds.append((*one[-1][:-1], ENDS_ALTERNATIVE))
    return [*bounds[:-1], (*bounds[-1][:-1], ENDS_ROW)] if bounds else []
