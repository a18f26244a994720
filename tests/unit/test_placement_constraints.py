"""YARN's placement constraints in their canonical form: what is understood of them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.expressions import NODES, RIGHT, WRONG, eligible, facts_of, written

from treadle import events
from treadle.constraints import (
    ANY,
    NO_MAXIMUM,
    Alternatives,
    Conjunction,
    ExpressionError,
    NodeFacts,
    NodeFactTable,
    Predicate,
    TagCount,
    conditions,
    parse,
    parse_constraint,
)
from treadle.engine.testing import StringTable, request, resource_types, rows
from treadle.model.cluster import Cluster


def attribute(key: str | None, *values: str, op: str = "EQ") -> dict[str, Any]:
    target = {"type": "NODE_ATTRIBUTE", "key": key, "values": list(values)}
    return {"scope": "node", "min": 1, "max": 1, "op": op, "targets": [target]}


def tags(least: int, most: int, *values: str, scope: str = "node", key: str | None = None) -> dict[str, Any]:
    target = {"type": "ALLOCATION_TAG", "key": key, "values": list(values)}
    return {"scope": scope, "min": least, "max": most, "op": "NO_OP", "targets": [target]}


def understood(tree: dict[str, Any]) -> Alternatives:
    found = parse_constraint(json.dumps(tree))
    assert found is not None
    return found


def exact(name: str, value: str, op: str = "=") -> Conjunction:
    return Conjunction((Predicate(name, op, (value,), exact=True),))


def test_the_children_of_an_or_are_alternatives_in_their_order() -> None:
    found = understood({"and": [attribute("java", "1.8"), {"or": [attribute("z", "b"), attribute("z", "a")]}]})
    java = exact("rm.yarn.io/java", "1.8")
    assert [one.where for one in found] == [java & exact("rm.yarn.io/z", zone) for zone in ("b", "a")]


def test_no_constraint_is_one_alternative_without_demands() -> None:
    found = understood({"and": []})
    assert [one.where for one in found] == [ANY]


def test_an_or_without_children_no_value_and_no_operator_hold_nowhere() -> None:
    nothing: dict[str, Any] = {"or": []}
    for tree in (nothing, attribute("java"), attribute("java", "1.8", op="NO_OP")):
        assert understood(tree) == ()
    assert len(understood({"or": [attribute("java"), attribute("java", "8")]})) == 1


def test_attributes_have_their_full_names_and_the_partition_its_own() -> None:
    assert understood(attribute("nm.yarn.io/os", "x", op="NE"))[0].where == exact("nm.yarn.io/os", "x", "!=")
    assert understood(attribute("yarn_node_partition/", "gpu"))[0].where == exact("yarn_node_partition/", "gpu")
    assert understood(attribute("yarn_node_partition/"))[0].where == exact("yarn_node_partition/", "")


def test_own_tags_are_counted_at_node_or_rack() -> None:
    found = understood({"and": [tags(0, 2, "b", "a"), tags(1, NO_MAXIMUM, "c", scope="rack", key="self")]})
    assert found[0].counts == (TagCount(False, 0, 2, ("a", "b")), TagCount(True, 1, NO_MAXIMUM, ("c",)))


@pytest.mark.parametrize(
    "tree",
    [
        tags(0, 1, "a", key="all"),
        tags(0, 1, "a", key="not-self"),
        tags(0, 1, "a", key="app-id/application_1_1"),
        tags(0, 1),
        tags(0, 1, "a", scope="cluster"),
        attribute(None, "x"),
        attribute("java", "1", "2"),
        {"delayed_or": []},
        {"and": [{"and": "x"}]},
        {"and": [{"or": [attribute("z", str(at)) for at in range(33)]}]},
        {"and": [
            {"or": [attribute(f"n{at}", "a"), attribute(f"n{at}", "b")]} for at in range(9)
        ]},
    ],
)  # fmt: skip
def test_what_only_the_resource_manager_can_judge_is_opaque(tree: dict[str, Any]) -> None:
    assert parse_constraint(json.dumps(tree)) is None


@pytest.mark.parametrize("text", ["", "[]", "null", "1", "{", '{"and":[1]}', "[" * 100_000])
def test_anything_else_is_opaque(text: str) -> None:
    assert parse_constraint(text) is None


# Requirements: what they say, what they mean on a node, and what is said of wrong ones.

EXPRESSIONS = Path(__file__).parent.parent / "golden" / "expressions.json"


def test_the_golden_file_is_what_the_cases_give() -> None:
    assert EXPRESSIONS.read_text("utf-8") == written()
    cases = json.loads(written())["cases"]
    assert sum("verdict" in case for case in cases) > 200
    assert {case["verdict"] for case in cases if "verdict" in case} == {True, False}


@pytest.mark.parametrize(
    ("text", "node", "verdict"),
    [
        ("zone=a", 0, True),
        ("zone=b", 0, False),
        ("kernel>=4.9", 0, True),  # a version: 4.18 comes after 4.9
        ("kernel<=4.18", 0, True),
        ("absent!=1", 0, True),
        ("absent=1", 0, False),
        ("host=node1.example.com", 0, True),
        ("partition=default", 0, True),
        ("partition=gpu", 1, True),
        ("zone=b", 1, True),
        ("zone!=b", 1, False),
        ("yarn.io/gpu>=1", 0, True),
        ("yarn.io/gpu>=1", 1, False),
        ("vcores=99", 1, False),  # the resource type, not the attribute of that name
    ],
)
def test_what_a_condition_means(text: str, node: int, verdict: bool) -> None:
    assert eligible(parse(text), facts_of(NODES[node])) is verdict


def test_canonical_texts_are_equal_for_equal_requirements() -> None:
    assert parse("B=2|1 ; a >= 3;b=1|2") == parse("a>=3;b=1|2")
    assert parse("B=2|1 ; a >= 3").text() == "a>=3;b=1|2"
    assert [one.name for one in conditions("b=1;a=2")] == ["b", "a"]
    for text in RIGHT:
        assert parse(parse(text).text()) == parse(text)


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_requirement_is_reported_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionError) as told:
        parse(text)
    assert 1 <= told.value.at <= len(text) + 1
    assert f"character {told.value.at}: " in str(told.value)


def test_a_table_of_nodes_follows_what_they_are() -> None:
    predicates = [one for text in RIGHT for one in parse(text).predicates]
    table, facts = NodeFactTable(), [facts_of(node) for node in NODES]
    shown: list[NodeFacts | None] = [None] * len(facts)
    for turn in range(3 * len(facts)):
        node = 5 * turn % len(facts)
        shown[node] = None if turn % 4 == 3 else facts[(node + turn) % len(facts)]
        table.put([len(facts) - 1, node], [shown[-1], shown[node]])
        for one in predicates:
            expected = [each is not None and one.holds(each.values(one.name, exact=one.exact)) for each in shown]
            assert table.meet(one).tolist() == expected
            assert table.meet(one, np.array([node])).tolist() == [expected[node]]


def test_what_nodes_have_is_kept_for_so_many_names_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("treadle.constraints.COLUMNS_MAX", 2)
    table = NodeFactTable([NodeFacts({"rm.yarn.io/a": "1", "rm.yarn.io/b": "2", "rm.yarn.io/c": "3"})])
    for text in ("a=1", "b=1", "c=3", "a=1", "b=2", "c=1"):
        (predicate,) = parse(text).predicates
        assert table.meet(predicate).tolist() == [text in ("a=1", "b=2", "c=3")]
        assert len(table._columns) <= 2


def test_an_exact_attribute_is_judged_as_yarn_does() -> None:
    facts = NodeFacts(attributes={"rm.yarn.io/java": "1.8"})
    assert Predicate("rm.yarn.io/java", "=", ("1.8",), exact=True).holds(("1.8",))
    for name, value in (("rm.yarn.io/java", "1.80"), ("java", "1.8"), ("rm.yarn.io/Java", "1.8")):
        predicate = Predicate(name, "=", (value,), exact=True)
        assert not predicate.holds(facts.values(name, exact=True))


# What the engine makes of YARN's placement constraints, against the verdicts of a ResourceManager.
# `ConstraintVerdictsTest` writes the file: random constraints, judged on the nodes of a real ResourceManager.

VERDICTS = Path(__file__).parents[1] / "golden" / "constraints.json"


def counted(count: TagCount, tags: list[dict[str, int]], racks: list[str], node: int) -> bool:
    """Say whether an application has as many containers with each tag at a node, or in its rack, as it must."""
    there = [at for at in range(len(tags)) if (racks[at] == racks[node] if count.rack else at == node)]
    held = [sum(tags[at].get(tag, 0) for at in there) for tag in count.tags]
    return all(count.least <= one <= count.most for one in held)


def test_what_the_engine_understands_it_judges_as_the_resourcemanager_does() -> None:
    golden: dict[str, Any] = json.loads(VERDICTS.read_text("utf-8"))
    nodes = [NodeFacts(one["attributes"], one["rack"], one["name"]) for one in golden["nodes"]]
    tags, racks = [one["tags"] for one in golden["nodes"]], [one["rack"] for one in golden["nodes"]]
    seen: Counter[str] = Counter()
    for case in golden["cases"]:
        understood = parse_constraint(case["text"])
        if understood is None:
            seen["opaque"] += 1
            continue
        for node, verdict in enumerate(case["verdicts"]):
            if verdict == "throws":
                continue  # such a request never reaches the scheduler
            held = any(
                eligible(one.where, nodes[node]) and all(counted(count, tags, racks, node) for count in one.counts)
                for one in understood
            )
            assert held == (verdict == "true"), (case["text"], node, verdict)
            seen[verdict] += 1
    assert min(seen["true"], seen["false"]) > 100, seen


# What asks may be bound to, and narrow rows of nodes, in the model.


class Mirror:
    """A cluster of two nodes and an application that wants a constrained container."""

    def __init__(self) -> None:
        self.texts = StringTable()
        amounts = {"total": [8, 4], "free": [8, 4]}
        nodes = [{"node": at, "name_name": f"n{at}", "rack_name": "/r", "state": 1} | amounts for at in (0, 1)]
        made = rows(events.Nodes, self.texts, nodes)
        types = resource_types(("memory-mb", "vcores"), (1, 1))
        self.cluster = Cluster([self.texts.drain()], types)
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


def test_a_text_that_has_the_index_of_another_one_stands_for_it() -> None:
    names = Mirror().cluster.names
    gone = names.index_of("n1")
    names.add(events.Names(("job", "more"), (gone, len(names.texts))))
    assert names.index_of("n1") == -1
    assert (names.texts[names.index_of("job")], names.index_of("job")) == ("job", gone)
    assert names.texts[-1] == "more"
    assert len(names.first_node) >= len(names.texts)
