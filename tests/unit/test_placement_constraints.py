"""YARN's placement constraints in their canonical form: what is understood of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from treadle.constraints.expression import ANY, Conjunction, Predicate
from treadle.constraints.placement import NO_MAXIMUM, OPAQUE, TagCount, Understood, understand


def attribute(key: str | None, *values: str, op: str = "EQ") -> dict[str, Any]:
    target = {"type": "NODE_ATTRIBUTE", "key": key, "values": list(values)}
    return {"scope": "node", "min": 1, "max": 1, "op": op, "targets": [target]}


def tags(least: int, most: int, *values: str, scope: str = "node", key: str | None = None) -> dict[str, Any]:
    target = {"type": "ALLOCATION_TAG", "key": key, "values": list(values)}
    return {"scope": scope, "min": least, "max": most, "op": "NO_OP", "targets": [target]}


def understood(tree: dict[str, Any]) -> Understood:
    found = understand(json.dumps(tree))
    assert isinstance(found, Understood)
    return found


def exact(name: str, value: str, op: str = "=") -> Conjunction:
    return Conjunction((Predicate(name, op, (value,), exact=True),))


def test_the_children_of_an_or_are_alternatives_in_their_order() -> None:
    found = understood({"and": [attribute("java", "1.8"), {"or": [attribute("z", "b"), attribute("z", "a")]}]})
    assert found.hard == exact("rm.yarn.io/java", "1.8")
    assert found.soft == (exact("rm.yarn.io/z", "b"), exact("rm.yarn.io/z", "a"))


def test_no_constraint_is_one_alternative_without_demands() -> None:
    found = understood({"and": []})
    assert [one.where for one in found.alternatives] == [ANY]
    assert found.soft == ()


def test_an_or_without_children_no_value_and_no_operator_hold_nowhere() -> None:
    nothing: dict[str, Any] = {"or": []}
    for tree in (nothing, attribute("java"), attribute("java", "1.8", op="NO_OP")):
        assert understood(tree).alternatives == ()
    assert len(understood({"or": [attribute("java"), attribute("java", "8")]}).alternatives) == 1


def test_attributes_have_their_full_names_and_the_partition_its_own() -> None:
    assert understood(attribute("nm.yarn.io/os", "x", op="NE")).hard == exact("nm.yarn.io/os", "x", "!=")
    assert understood(attribute("yarn_node_partition/", "gpu")).hard == exact("yarn_node_partition/", "gpu")
    assert understood(attribute("yarn_node_partition/")).hard == exact("yarn_node_partition/", "")


def test_own_tags_are_counted_at_node_or_rack() -> None:
    found = understood({"and": [tags(0, 2, "b", "a"), tags(1, NO_MAXIMUM, "c", scope="rack", key="self")]})
    assert found.alternatives[0].counts == (TagCount(False, 0, 2, ("a", "b")), TagCount(True, 1, NO_MAXIMUM, ("c",)))


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
    assert understand(json.dumps(tree)) is OPAQUE


@pytest.mark.parametrize("text", ["", "[]", "null", "1", "{", '{"and":[1]}', "[" * 100_000])
def test_anything_else_is_opaque(text: str) -> None:
    assert understand(text) is OPAQUE
