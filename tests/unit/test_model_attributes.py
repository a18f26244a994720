"""What asks may be bound to, and narrow rows of nodes, in the model."""

from __future__ import annotations

from treadle import events
from treadle.engine.invented_cluster import Texts, request, resource_types, rows
from treadle.model.cluster import Cluster
from treadle.model.tables import FREE, TOTAL


class Mirror:
    """A cluster of two nodes and an application that wants a constrained container."""

    def __init__(self) -> None:
        self.texts = Texts()
        amounts = {"total": [8, 4], "free": [8, 4]}
        nodes = [{"node": at, "name_name": f"n{at}", "rack_name": "/r", "state": 1} | amounts for at in (0, 1)]
        made = rows(events.Nodes, self.texts, nodes)
        types = resource_types(("memory-mb", "vcores"), (1, 1))
        self.cluster = Cluster.start([self.texts.drain()], types)
        self.cluster.apply(made)
        self.tell(events.Applications, {"application": 3, "state": 1})
        self.tell(events.Requests, request(3, 0, 2, [1, 1], constrained=1))

    def tell(self, kind: type[events.Event], *given: dict[str, object]) -> None:
        event = rows(kind, self.texts, given)
        self.cluster.apply(self.texts.drain())
        self.cluster.apply(event)

    def attributes(self, node: int) -> dict[str, str]:
        texts = self.cluster.names.texts
        return {texts[name]: texts[value] for name, value in self.cluster.attributes.of_node.get(node, {}).items()}


def test_attributes_come_and_go_each_for_itself_and_all_with_their_node() -> None:
    mirror = Mirror()
    gpu = {"node": 1, "attribute_name": "rm.yarn.io/gpu", "value_name": "A100", "present": 1}
    mirror.tell(events.NodeAttributes, gpu, gpu | {"attribute_name": "rm.yarn.io/os", "value_name": "8"})
    assert mirror.attributes(1) == {"rm.yarn.io/gpu": "A100", "rm.yarn.io/os": "8"}
    mirror.tell(events.NodeAttributes, gpu | {"value_name": "", "present": 0})
    assert mirror.attributes(1) == {"rm.yarn.io/os": "8"}
    mirror.tell(events.Nodes, {"node": 1, "name_name": "n1", "state": 0, "total": [0, 0], "free": [0, 0]})
    assert mirror.attributes(1) == {}


def test_constraints_and_allocation_tags_go_with_their_key() -> None:
    mirror = Mirror()
    constraints = mirror.cluster.constraints
    mirror.tell(events.Constraints, {"application": 3, "text_name": "{}"}, {"application": 3, "key": 1, "opaque": 1})
    mirror.tell(events.AllocationTags, {"application": 3, "tag_name": "hbase"})
    assert constraints.text[3] == {0: mirror.texts.index("{}"), 1: -1}
    assert constraints.tags[3] == {0: {mirror.texts.index("hbase")}}
    mirror.tell(events.Constraints, {"application": 3, "text_name": "{}"})
    assert constraints.tags[3] == {}, "earlier tags are dropped"
    mirror.tell(events.Requests, request(3, 0, 0, [1, 1], constrained=1))
    assert constraints.text[3] == {1: -1}
    mirror.tell(events.Applications, {"application": 3, "state": 0})
    assert constraints.text == {}


def test_a_narrow_row_changes_what_is_free_alone() -> None:
    mirror = Mirror()
    mirror.tell(events.NodesFree, {"node": 1, "free": [-2, 3]})
    nodes = mirror.cluster.nodes
    assert nodes.amounts[1, FREE].tolist() == [-2, 3]
    assert nodes.amounts[1, TOTAL].tolist() == [8, 4]
    assert nodes.amounts[0, FREE].tolist() == [8, 4]


def test_a_text_that_has_the_index_of_another_one_stands_for_it() -> None:
    names = Mirror().cluster.names
    gone = names.index_of("n1")
    names.add(events.Names(("job", "more"), (gone, len(names.texts))))
    assert names.index_of("n1") == -1
    assert (names.texts[names.index_of("job")], names.index_of("job")) == ("job", gone)
    assert names.texts[-1] == "more"
    assert len(names.first_node) >= len(names.texts)
