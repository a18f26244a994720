"""What parts of the model read of the whole of it, `treadle.model.cluster.Cluster`, which is made of them."""

from __future__ import annotations

from typing import Protocol

from treadle import events
from treadle.model.applications import ApplicationTable
from treadle.model.attributes import Attributes, Constraints
from treadle.model.nodes import NodeTable
from treadle.model.own_tags import AllocationTags
from treadle.model.requests import RequestTable
from treadle.model.tables import Names


class Mirror(Protocol):
    """Nodes and applications with what is said of them, as far as requirements of nodes go by it."""

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
