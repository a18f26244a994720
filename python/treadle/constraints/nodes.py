"""What a node is to a requirement, and which nodes meet one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from treadle.constraints.expression import Conjunction, Predicate

if TYPE_CHECKING:
    import numpy.typing as npt

DEFAULT_PARTITION: Final = "default"
"""How requirements name the partition of nodes without a label."""

EXACT_PARTITION: Final = "yarn_node_partition/"
"""How YARN's constraints name the partition; its value there is empty for nodes without a label."""

_PORT = re.compile(r":[0-9]+$")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as requirements see it: attributes by prefix/name, and the totals of its resource types."""

    attributes: Mapping[str, str] = field(default_factory=dict)
    rack: str = ""
    host: str = ""
    partition: str = ""
    totals: Mapping[str, int] = field(default_factory=dict)

    def values(self, predicate: Predicate) -> tuple[str, ...]:
        """Return what the node has under the predicate's name.

        A name without a prefix means the attributes of that name under any prefix.
        """
        name = predicate.name
        if predicate.exact:
            if name == EXACT_PARTITION:
                return (self.partition,)
            return (self.attributes[name],) if name in self.attributes else ()
        if name == "rack":
            return (self.rack,)
        if name == "host":
            return (_PORT.sub("", self.host),)
        if name == "partition":
            return (self.partition or DEFAULT_PARTITION,)
        totals = tuple(str(total) for kind, total in self.totals.items() if kind.lower() == name)
        if totals:
            return totals
        full = "/" in name
        return tuple(
            value
            for attribute, value in sorted(self.attributes.items())
            if (attribute.lower() if full else attribute.lower().rpartition("/")[2]) == name
        )


def eligible(conjunction: Conjunction, facts: NodeFacts) -> bool:
    """Say whether a node meets a conjunction."""
    return all(predicate.holds(facts.values(predicate)) for predicate in conjunction.predicates)


def nodes_of(predicate: Predicate, facts: Sequence[NodeFacts | None]) -> npt.NDArray[np.bool_]:
    """Return for each node whether a predicate holds there; never where there is no node (None)."""
    known: dict[tuple[str, ...], bool] = {}
    found = np.zeros(len(facts), bool)
    for row, node in enumerate(facts):
        if node is not None:
            values = node.values(predicate)
            verdict = known.get(values)
            if verdict is None:
                verdict = known[values] = predicate.holds(values)
            found[row] = verdict
    return found


def eligible_nodes(conjunction: Conjunction, facts: Sequence[NodeFacts | None]) -> npt.NDArray[np.bool_]:
    """Return for each node whether it meets a conjunction; never where there is no node (None)."""
    found = np.array([node is not None for node in facts], bool)
    for predicate in conjunction.predicates:
        found &= nodes_of(predicate, facts)
    return found
