"""Treadle's own parts: what the catalogue says of them is true, and nobody asks for their names."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from treadle.config import parts as config_parts
from treadle.config.parts import DEFAULTS, PART_KINDS, PartRegistry, Traits
from treadle.config.settings import default_settings, with_parts
from treadle.model.carry import LEARNED
from treadle.model.queues import APPLICATION, FIFO
from treadle.policy.catalogue import BUILTIN_PARTS, register_parts
from treadle.policy.node_search import RULES as FITS
from treadle.policy.orders import FOLLOW_USE
from treadle.policy.orders import RULES as ORDERS
from treadle.policy.shares.rules import RULES as SHARES

ROOT = Path(__file__).resolve().parents[2]
KEPT = (ROOT / "docs" / "engine.md").read_text("utf-8")
BY_NAME = re.compile(r"kind\.name (==|!=|in|not)\b|\bparameters\.(share|fit) (==|!=|[<>]|in\b|not\b)|RULES\[\"")

register_parts()


def test_each_part_with_compiled_steps_has_a_number() -> None:
    for part, rules in (("share", SHARES), ("order", ORDERS), ("fit", FITS)):
        assert {own.make.steps for own in BUILTIN_PARTS if own.part == part and own.make.steps} == rules.keys()


def test_each_file_of_compiled_steps_has_a_number_of_its_own() -> None:
    for rules in (SHARES, ORDERS, FITS):
        assert len(set(rules.values())) == len(rules)
    assert set(ORDERS.values()) == set(FOLLOW_USE)
    assert FIFO not in FOLLOW_USE


def test_nobody_asks_for_the_name_of_a_part() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in sorted((ROOT / "python" / "treadle").rglob("*.py"))
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if BY_NAME.search(line) and file.name != "rules.py"  # which has the numbers of shares
    ]
    scores = [each for each in found if "node_search.py" in each]
    assert len(scores) == len(FITS), "each compiled score is called in one place"
    assert found == scores


def test_what_is_kept_of_applications_is_in_the_docs_and_found_again_after_a_snapshot() -> None:
    section = KEPT[KEPT.index("## Kept") : KEPT.index("## Lost")]
    rows = [row.split("|") for row in section.splitlines() if row.startswith("| ")]
    assert len(LEARNED) > 5
    assert set(LEARNED) <= set(re.findall(r"`(\w+)`", section))
    of_applications = {
        name for row in rows if row[3].strip() == "application" for name in re.findall(r"`(\w+)`", row[2])
    }
    assert len(of_applications) > 3
    assert of_applications & {*(APPLICATION.names or ())} <= set(LEARNED), "a snapshot loses one of them"


def test_the_parts_that_do_as_the_resource_manager_says_are_the_default_ones() -> None:
    follows = {
        own.part: own.kind
        for own in BUILTIN_PARTS
        if own.part in ("gate", "share", "order") and not own.traits.overrides
    }
    assert follows == {part: DEFAULTS[part] for part in ("gate", "share", "order")}


def test_a_part_of_which_nothing_is_said_overrides(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = PartRegistry()
    for part in PART_KINDS:
        registry.register(part, DEFAULTS[part])(lambda parameters: parameters)
    policy = default_settings(registry).policy
    assert policy.overrides_guarantees() and policy.overrides_order() and policy.holds_back()
    registry.register("share", "meek", traits=Traits(overrides=False))(lambda parameters: parameters)
    monkeypatch.setattr(config_parts.PARTS, "_kinds", registry._kinds)
    assert not with_parts(default_settings(), {"share": "meek"}).policy.overrides_guarantees()


def test_parts_are_chosen_by_kind_with_parameters_or_without() -> None:
    chosen = with_parts(default_settings(), {"order": "srpt", "fit": ("packing", {"window": 3})}).policy
    given = {"window": 3, "scarcity": False}
    assert (chosen.order.kind.name, chosen.fit.parameters.model_dump()) == ("srpt", given)
    assert chosen.share == default_settings().policy.share
    assert np.array_equal([chosen.overrides_guarantees(), chosen.overrides_order()], [False, True])
