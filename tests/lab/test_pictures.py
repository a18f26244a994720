"""The docs' pictures can be drawn anew, show what their pages say, and are those that the command draws."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.unit.test_docs import PAGES

from treadle.simulate import simulate
from treadle_lab.docs.pictures import PICTURES, POLICIES, draw_conflicts, imports, levels, pilots_of, scenario

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs" / "pictures"
SHOWN = {
    "rooms": {"engine", "policy", "cli"},
    "hdrf-tree": {"n2.1", "naive hierarchical DRF: n2.1 starves", "H-DRF: no leaf starves", "50%"},
    "pilots": {"pilots", "middle"},
    "troublesome-tasks": {"generated-3: troublesome stages red, longest path bold (tasks x ms, largest demand)"},
    "conflicts": {"conflicts per transaction", "service engine, cell model", "service engine, simulated cluster"},
}


def texts(file: Path) -> set[str]:
    root = ElementTree.parse(file).getroot()
    assert root.tag.endswith("svg")
    return {"".join(element.itertext()).strip() for element in root.iter() if element.tag.endswith("text")}


@pytest.mark.parametrize("name", PICTURES)
def test_the_committed_picture_is_small_and_on_a_page(name: str) -> None:
    file = FOLDER / f"{name}.svg"
    assert file.stat().st_size < 120_000
    assert texts(file) >= SHOWN[name]
    assert [page.name for page in PAGES if f"](pictures/{name}.svg)" in page.read_text()] != []


@pytest.mark.parametrize("name", sorted(set(PICTURES) - {"conflicts"}))
def test_the_command_draws_it(name: str, tmp_path: Path) -> None:
    PICTURES[name](tmp_path / "drawn.svg")
    assert texts(tmp_path / "drawn.svg") >= SHOWN[name]


@pytest.mark.slow
def test_conflicts_are_counted_on_real_engines(tmp_path: Path) -> None:
    draw_conflicts(tmp_path / "drawn.svg", hours=0.2, t_job_s=(1.0, 3.0))
    assert texts(tmp_path / "drawn.svg") >= SHOWN["conflicts"]


def test_no_picture_is_left_over() -> None:
    """Those of the dashboard are made by ``make screenshots``."""
    assert {file.stem for file in FOLDER.iterdir() if not file.name.startswith("dashboard-")} == set(PICTURES)


def test_pilots_let_the_smaller_jobs_pass() -> None:
    """What the picture is there to show."""
    ends = {}
    for policy in POLICIES:
        run = simulate(scenario(), policy, seed=1)
        ends[policy] = dict(zip(run.jobs["name"], run.jobs["end_ms"], strict=True))
        large = run.tasks[pilots_of(run, 0)]
        assert (large["job"] == 0).all()
        assert len(large) == 3
    assert ends["slearn"]["small"] < ends["fifo"]["small"] / 2
    assert ends["slearn"]["middle"] < ends["fifo"]["middle"]


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
