"""Requirements: what they say, what they mean on a node, and what is said of wrong ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.expressions import NODES, RIGHT, WRONG, facts_of, written

from treadle.constraints import placement
from treadle.constraints.expression import ExpressionError, Predicate, conditions, parse
from treadle.constraints.placement import NodeFacts, NodeTable, eligible, eligible_nodes

GOLDEN = Path(__file__).parent.parent / "golden" / "expressions.json"


def test_the_golden_file_is_what_the_cases_give() -> None:
    assert GOLDEN.read_text("utf-8") == written()
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
    assert parse("a=1&b=2", joined_by="&") == parse("a=1;b=2")
    assert [one.name for one in conditions("b=1;a=2")] == ["b", "a"]
    for text in RIGHT:
        assert parse(parse(text).text()) == parse(text)


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_requirement_is_reported_with_its_place(text: str) -> None:
    with pytest.raises(ExpressionError) as told:
        parse(text)
    assert 1 <= told.value.at <= len(text) + 1
    assert f"character {told.value.at}: " in str(told.value)


def test_all_nodes_at_once_are_as_one_by_one() -> None:
    facts = [facts_of(node) for node in NODES]
    for text in RIGHT:
        found = eligible_nodes(parse(text), [*facts, None])
        assert found.tolist() == [*(eligible(parse(text), node) for node in facts), False]


def test_a_table_of_nodes_follows_what_they_are() -> None:
    predicates = [one for text in RIGHT for one in parse(text).predicates]
    table, facts = NodeTable(), [facts_of(node) for node in NODES]
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
    monkeypatch.setattr(placement, "COLUMNS_MAX", 2)
    table = NodeTable([NodeFacts({"rm.yarn.io/a": "1", "rm.yarn.io/b": "2", "rm.yarn.io/c": "3"})])
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
