"""Files of DAGs are read as written, and an error names file, line, field and remedy."""

from __future__ import annotations

import io
import json
import lzma
from pathlib import Path
from typing import Any

import pytest
from tests.support.files import written

from treadle.dag import DagError
from treadle.workload.reading import WorkloadError
from treadle_lab import planning
from treadle_lab.dags import Shape, generate, read_instances, write_instances

DATA = Path(__file__).resolve().parents[2] / "data"
STAGE = {"id": 0, "tasks": 2, "duration_ms": 10, "demand": {"cpu": 0.5}}
LINE: dict[str, Any] = {"name": "q", "machines": 2, "capacity": {"cpu": 1.0}, "stages": [STAGE]}
PROJECT: dict[str, Any] = {"id": "p", "cap": [2], "dur": [1, 2], "dem": [[1], [2]], "succ": [[1], []]}


def test_dags_are_read_as_written() -> None:
    (dag,) = read_instances(DATA / "dags" / "wide.jsonl")
    assert (dag.dag.name, dag.machines, dict(dag.capacity)) == ("two-waves", 2, {"cpu": 1.0, "memory": 4.0})
    middle = dag.dag.stages[1]
    assert (middle.tasks, middle.duration_ms, middle.parents, middle.one_to_one) == (12, 1000, (0,), frozenset({0}))


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    text = io.StringIO()
    write_instances([generate(seed) for seed in (1, 2)], text)
    path = written(tmp_path / "dags.jsonl", text.getvalue())
    again = io.StringIO()
    write_instances(read_instances(path), again)
    assert again.getvalue() == text.getvalue()


def test_machines_of_the_file_may_be_replaced() -> None:
    assert [dag.machines for dag in read_instances(DATA / "dags" / "wide.jsonl", machines=7)] == [7]


def test_projects_are_read_packed_or_not(tmp_path: Path) -> None:
    plain = DATA / "rcpsp" / "small.jsonl"
    packed = tmp_path / "small.jsonl.xz"
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    for path in (plain, packed):
        first, second = planning.read_instances(path)
        assert (first.dag.name, first.machines, len(first.dag.stages)) == ("small-1", 1, 7)
        assert first.dag.stages[4].parents == (1, 2)
        assert dict(second.capacity) == {"r1": 2.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"machines": "2"}, r":2: machines: is \"2\"; it must be a valid number"),
        ({"machines": True}, r":2: machines: is true; it must be a valid number"),
        ({"machines": 0}, r":2: machines: is 0; it must be greater than or equal to 1"),
        ({"capacity": {"cpu": -1}}, r":2: capacity\.cpu: is -1; it must be greater than or equal to 0"),
        ({"capacity": [1]}, r":2: capacity: is \[1\]; give amounts by resource"),
        ({"stages": []}, r":2: stages: empty; give at least one$"),
        ({"stages": {}}, r":2: stages: is \{\}; give a list$"),
        ({"stages": [{}]}, r":2: stages\[0\]: id: missing; write it"),
        (
            {"stages": [STAGE | {"demand": {"cpu": "x"}}]},
            r":2: stages\[0\]: demand\.cpu: is \"x\"; it must be a valid number",
        ),
        ({"stages": [STAGE | {"parent": []}]}, r":2: stages\[0\]: parent: unknown; .*did you mean parents"),
        ({"stages": [3]}, r":2: stages\[0\]: is 3; give a list of objects"),
        ({"stage": []}, r":2: stage: unknown; the fields are name, machines, capacity, stages"),
        ({"stages": [STAGE | {"tasks": 1.5}]}, r":2: stages\[0\]: tasks: is 1\.5; it must be a valid integer"),
        ({"stages": [STAGE | {"duration_ms": -1}]}, r"duration_ms: is -1; it must be greater"),
        ({"stages": [STAGE | {"duration_ms": float("inf")}]}, r"duration_ms: is Infinity; it must be a finite number"),
        ({"stages": [STAGE | {"duration_ms": float("nan")}]}, r"duration_ms: is NaN; it must be a finite number"),
        ({"name": {"of": "q"}}, r":2: name: is \{.of.: .q.\}; it must be a valid string"),
        ({"name": "\ud800"}, r":2: name: is .*; it must be a valid string"),
        ({"stages": [STAGE | {"parents": [5]}]}, r":2: DAG q: stage 0 has an unknown parent, 5"),
        ({"stages": [STAGE | {"parents": [0]}]}, r":2: DAG q: the stages 0 -> 0 wait for each other"),
        ({"stages": [STAGE, STAGE]}, r":2: DAG q: two stages have the id 0"),
        ({"stages": [STAGE | {"demand": {"cpu": 2}}]}, r"stage 0: a task needs 2 of cpu, a machine has 1; give larger"),
        ({"stages": [STAGE | {"demand": {"gpu": 1}}]}, r"stage 0: a task needs 1 of gpu, a machine has 0"),
    ],
)
def test_a_mistake_in_a_dag_is_reported(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "dags.jsonl", json.dumps(LINE) + "\n" + json.dumps(LINE | change) + "\n")
    with pytest.raises(DagError, match=message):
        list(read_instances(path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dem": [[1]]}, r":1: dem: give 2 lists of whole numbers"),
        ({"dem": [[1], [1, 1]]}, r":1: dem\[1\]: 2 amounts for 1 resources"),
        ({"dem": [[1], [3]]}, r":1: DAG p: stage 1: a task needs 3 of r1, a machine has 2"),
        ({"succ": [[2], []]}, r":1: succ\[0\]: 2 is not an activity"),
        ({"succ": [[1], [0]]}, r":1: DAG p: the stages 0 -> 1 -> 0 wait for each other"),
        ({"dur": [1, -2]}, r":1: dur\[1\]: is -2; it must be greater"),
        ({"id": None}, r"^[^:]*:1: id: is null; it must be a valid string"),
    ],
)
def test_a_mistake_in_a_project_is_reported(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "projects.jsonl", json.dumps(PROJECT | change) + "\n")
    with pytest.raises(DagError, match=message):
        list(planning.read_instances(path))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1: this is no JSON"),
        (b"3", ":1: not a JSON object"),
        (b"\xff", "this is no UTF-8 text"),
        (b"[" * 99999, "the JSON is nested too deep"),
        (b'{"name": ' + b"9" * 5000 + b"}", "line 1: Exceeds the limit"),
    ],
)
def test_a_line_that_is_no_object_is_reported(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "dags.jsonl"
    path.write_bytes(content)
    with pytest.raises((DagError, WorkloadError), match=message):
        list(read_instances(path))


def test_an_unreadable_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(WorkloadError, match="none: there is no such file"):
        list(read_instances(tmp_path / "none"))
    torn = tmp_path / "torn.xz"
    torn.write_bytes(lzma.compress(b"x" * 999)[:-9])
    with pytest.raises(WorkloadError, match="the packed file is cut off or damaged"):
        list(read_instances(torn))


def test_generated_dags_are_as_asked_for() -> None:
    shape = Shape(machines=4, depth=(6, 6), stages=(30, 30), tasks=(2000, 2000), long_share=0.3)
    for seed in range(20):
        made = generate(seed, shape)
        layer: dict[int, int] = {}
        for stage in made.dag.stages:
            layer[stage.id] = 1 + max((layer[parent] for parent in stage.parents), default=0)
        assert max(layer.values()) == 6
        assert len(made.dag.stages) == 30
        assert 1500 < made.dag.tasks < 2500
