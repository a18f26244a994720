"""One schema: the annotations of events, the page docs/wire-format.md and the shim's table say the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, get_args

import numpy as np
import pytest

from treadle import events
from treadle.events.columns import U8, Section, code, filled
from treadle.wire.fates import MEANINGS
from treadle.wire.page import document_text, with_tables
from treadle.wire.schema import SECTIONS, VERSION, plans

ROOT = Path(__file__).resolve().parents[2]
RESOURCES = ROOT / "java-shim" / "shim" / "src" / "main" / "resources" / "io" / "treadle" / "shim" / "wire"


def test_java_reads_the_schema_as_it_is() -> None:
    file = RESOURCES / "schema.json"
    assert file.read_text("utf-8") == document_text(), f"run python -m treadle.wire.page {file.relative_to(ROOT)}"
    found = json.loads(file.read_text("utf-8"))
    assert (found["wire"], found["fates"]) == (VERSION, [fate.name for fate in events.Fate])
    assert [section["name"] for section in found["sections"]] == list(SECTIONS)


def test_the_page_has_the_tables_of_the_schema() -> None:
    page = (ROOT / "docs" / "wire-format.md").read_text("utf-8")
    assert page == with_tables(page), "run python -m treadle.wire.page docs/wire-format.md"


def test_each_fate_means_something() -> None:
    assert list(MEANINGS) == list(events.Fate)


def test_a_section_is_an_event_and_every_column_of_it_has_a_type() -> None:
    kinds = [section.kind for section in SECTIONS.values()]
    assert kinds == list(range(1, len(kinds) + 1))
    for section in SECTIONS.values():
        assert section.event in get_args(events.Event)
        assert section.columns, section.name
        assert all(column.type in {"u8", "i32", "i64", "name", "R*i64"} for column in section.columns)


def test_bounds_come_from_the_annotations() -> None:
    (check,) = [check for check in plans(2)[SECTIONS["CONTAINERS"].kind].checks if check.columns == ("event",)]
    assert (check.low, check.high) == (1, 4)
    assert get_args(Annotated[U8, code(events.NodeState)])[1].remark == "0 gone, 1 usable, 2 unusable"
    assert Section(7, "NODES") == events.Nodes.SECTION


def test_columns_that_are_not_given_are_zero() -> None:
    free = np.arange(4).reshape(2, 2)
    nodes = filled(events.Nodes, 2, node=[3, 4], state=1, free=free)
    assert nodes.node.dtype == np.int32
    assert nodes.state.tolist() == [1, 1]
    assert nodes.total.tolist() == [[0, 0], [0, 0]]
    assert nodes.free.tolist() == free.tolist()
    with pytest.raises(TypeError, match="Nodes has no column fre"):
        filled(events.Nodes, 2, fre=free)
    with pytest.raises(ValueError, match="the column node has 1 rows instead of 2"):
        filled(events.Nodes, 2, node=[1], resources=1)
