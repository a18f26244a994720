"""Pictures of docs are small and on a page; that of the rooms is drawn from import statements."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.test_docs import PAGES

from treadle_lab.docs.rooms import draw_rooms, imports, levels

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"


def texts(file: Path) -> set[str]:
    root = ElementTree.parse(file).getroot()
    assert root.tag.endswith("svg")
    return {"".join(element.itertext()).strip() for element in root.iter() if element.tag.endswith("text")}


@pytest.mark.parametrize("name", [file.name for file in sorted(FOLDER.glob("*.svg"))])
def test_a_picture_is_small_and_on_a_page(name: str) -> None:
    assert (FOLDER / name).stat().st_size < 120_000
    assert [page.name for page in PAGES if f"](pictures/{name})" in page.read_text()] != []


def test_the_picture_of_the_rooms_is_drawn(tmp_path: Path) -> None:
    draw_rooms(tmp_path / "drawn.svg")
    for file in (tmp_path / "drawn.svg", FOLDER / "rooms.svg"):
        assert texts(file) >= {"engine", "policy", "cli"}


def test_rooms_stand_above_what_they_import(tmp_path: Path) -> None:
    graph = imports()
    height = levels(graph)
    assert "policy" in graph["engine"]
    assert all(height[room] > height[below] for room, others in graph.items() for below in others)
    for name, line in (("one", "from rooms.two import x"), ("two", "import rooms.one.deep")):
        (tmp_path / "rooms" / name).mkdir(parents=True)
        (tmp_path / "rooms" / name / "__init__.py").write_text(line)
    circle = imports(tmp_path / "rooms")
    assert circle == {"one": {"two"}, "two": {"one"}}
    with pytest.raises(ValueError, match="rooms import each other: "):
        levels(circle)
