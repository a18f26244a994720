from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.cli import Cli
from tests.support.files import written

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "share"
POOL = "resources: {cpu: 10, gpu: 10}\n"
LEAF = POOL + "tree: {a: {demand: {cpu: 1}}}\n"
DEEP = f"{POOL}tree: {''.join(f'{{a{at}: {{children: ' for at in range(90))}{{z: {{demand: {{cpu: 1}}}}}}{'}}' * 90}"


def answer_of(cli: Cli, file: Path, *options: str) -> Any:
    return json.loads(cli(["lab", "share", str(file), "--output=json", *options]).out)


def mistake(cli: Cli, file: Path, *options: str) -> str:
    return cli(["lab", "share", str(file), *options], 2).err


def test_json_is_as_documented(cli: Cli) -> None:
    start, gone, back = answer_of(cli, EXAMPLES / "test-a.yaml")["steps"]
    assert start["event"] is None
    assert start["settled"] is True
    assert start["leaves"] == {
        "n1.1": {"tasks": 5.0, "resources": {"cpu": 5.0, "gpu": 0.0}, "dominant_share": 0.5},
        "n2.1": {"tasks": 5.0, "resources": {"cpu": 5.0, "gpu": 0.0}, "dominant_share": 0.5},
        "n2.2": {"tasks": 10.0, "resources": {"cpu": 0.0, "gpu": 10.0}, "dominant_share": 1.0},
    }
    assert gone["event"] == {"leave": "n2.2"}
    assert gone["leaves"]["n2.2"] == {"tasks": 0.0, "resources": {"cpu": 0.0, "gpu": 0.0}, "dominant_share": 0.0}
    assert back["event"] == {"join": "n2.2"}
    assert back["leaves"] == start["leaves"]


def test_the_algorithm_is_chosen(cli: Cli) -> None:
    answer = json.loads(
        cli(["lab", "share", str(EXAMPLES / "test-a.yaml"), "--output=json", "--algorithm", "drf-naive"]).out
    )
    assert answer["algorithm"] == "drf-naive"
    assert [leaf["tasks"] for leaf in answer["steps"][0]["leaves"].values()] == [10, 0, 10]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_prints_a_table(example: Path, cli: Cli) -> None:
    printed = cli(["lab", "share", str(example)]).out
    assert "hdrf: at the start" in printed
    assert "dominant share" in printed


def test_tasks_change_and_groups_leave(tmp_path: Path, cli: Cli) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text(
        "resources: {cpu: 12}\n"
        "tree:\n"
        "  g: {children: {a: {demand: {cpu: 1}}, b: {demand: {cpu: 1}}}}\n"
        "  c: {demand: {cpu: 1}, tasks: 4}\n"
        "events: [{tasks: {c: 1}}, {leave: g}, {tasks: {c: 100}}, {join: a}]\n"
    )
    steps = answer_of(cli, file)["steps"]
    tasks = [[leaf["tasks"] for leaf in step["leaves"].values()] for step in steps]
    assert tasks == [[4, 4, 4], [5.5, 5.5, 1], [0, 0, 1], [0, 0, 12], [6, 0, 6]]
    assert steps[1]["event"] == {"tasks": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "tree.yaml: is not a mapping; write resources: and tree:"),
        ("resources: {cpu: 1", "not YAML: expected"),
        ("tree: {a: {demand: {cpu: 1}}}", ":1: write either resources (one divisible pool) or servers (whole tasks)"),
        (POOL, ":1: tree: is missing; write it (docs/queue-shares.md)"),
        ("resources: {}\ntree: {a: {demand: {cpu: 1}}}", ":1: resources: has 0; at least 1 must be written"),
        (POOL + "tree: {}", ":2: tree: has 0; at least 1 must be written"),
        (POOL + "tree: [a]", ":2: tree: ['a']: it must be a valid dictionary"),
        (POOL + "tree: {a: {}}", ":2: tree.a: a leaf needs a demand, a group children"),
        (
            POOL + "tree: {a: {demand: {cpu: 1}, children: {b: {demand: {cpu: 1}}}}}",
            ":2: tree.a: a leaf needs a demand",
        ),
        (POOL + "tree: {a: {demand: {cpu: 1}, wieght: 2}}", ":2: tree.a.wieght: 2: Extra inputs are not permitted"),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: 0}}", "a: weight is 0; a weight must be"),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: -2}}", ":2: tree.a.weight: -2: write a finite number, 0 or more"),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: .nan}}", ":2: tree.a.weight: nan: write a finite number"),
        (POOL + "tree:\n  a:\n    demand: {cpu: -1}", ":4: tree.a.demand.cpu: -1: write a finite number, 0 or more"),
        (POOL + "tree: {a: {demand: {cpu: 1/0}}}", ":2: tree.a.demand.cpu: '1/0': write a finite number"),
        (POOL + "tree: {a: {demand: {cpu: [1]}}}", ":2: tree.a.demand.cpu: [1]: write a finite number"),
        (POOL + "tree: {a: {demand: {fpga: 1}}}", "a: demand names fpga, which the cluster does not have (cpu, gpu)"),
        (POOL + "tree: {a: {demand: {cpu: 0}}}", "a: its tasks need nothing and it has endless work"),
        (POOL + "tree: {a: {demand: {cpu: 1}, tasks: 1.5}}", ":2: tree.a.tasks: 1.5: it must be a valid integer"),
        (POOL + "tree: {a: {demand: {cpu: 1}, scheduler: fifo}}", ":2: tree.a: only groups have a scheduler"),
        (POOL + "tree: {g: {scheduler: lifo, children: {a: {demand: {cpu: 1}}}}}", "it must be 'fair' or 'fifo'"),
        (POOL + "tree:\n  a: {demand: {cpu: 1}}\n  a: {demand: {cpu: 1}}", ":4: tree.a: is there twice; keep one"),
        (
            POOL + "tree:\n  a: {demand: {cpu: 1}}\n  g: {children: {a: {demand: {cpu: 1}}}}",
            "a: two nodes have this name",
        ),
        (POOL + "tree: &t {a: {demand: &d {cpu: 1}}, b: {demand: *d}}", ":2: tree.b.demand: is an alias; write it out"),
        (DEEP, "more than 64 levels"),
        (LEAF + "events: {leave: a}", ":3: events: {'leave': 'a'}: it must be a valid tuple"),
        (LEAF + "events: [{leave: z}]", ":3: events.0.leave: z: there is no such leaf that is there"),
        (LEAF + "events: [{join: a}]", ":3: events.0.join: a: there is no such leaf that has left"),
        (LEAF + "events: [{leave: a}, {leave: a}]", ":3: events.1.leave: a: there is no such leaf that is there"),
        (LEAF + "events: [{leave: a, join: a}]", ":3: events.0: each event is one of"),
        (LEAF + "events: [{tasks: {a: -1}}]", ":3: events.0.tasks.a: -1: it must be greater than or equal to 0"),
        (LEAF + "headroom: true", "headroom: a divisible pool needs none"),
        (LEAF + "calculator: disk", ":3: calculator: write dominant or one of cpu, gpu"),
        ("servers: [{cpu: 1}]\ntree: {a: {demand: {cpu: 1}}}", "servers: say by count how many servers"),
        ("servers: [{count: 1000000, cpu: 1}]\ntree: {a: {demand: {cpu: 1}}}", "write them as one pool"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_remedy(text: str, message: str, tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "tree.yaml", text)
    told = mistake(cli, file)
    assert message in told
    assert "Traceback" not in told


def test_mistakes_on_the_command_line(tmp_path: Path, cli: Cli) -> None:
    assert "none.yaml: cannot be read: No such file or directory; check the path" in mistake(
        cli, tmp_path / "none.yaml"
    )
    said = mistake(cli, EXAMPLES / "test-a.yaml", "--algorithm", "drf")
    assert "--algorithm: 'drf' is none; choose one of hdrf, " in said
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8; save the file" in mistake(cli, tmp_path / "binary.yaml")


@pytest.mark.parametrize(
    ("tree", "leaves"),
    [
        ("counterexample-tasks-end", {"n1.1": 5, "n2.1": 5, "n2.2": 5, "n2.3": 5}),
        ("test-a", {"n1.1": 5, "n2.1": 5, "n2.2": 10}),
        ("test-b", {"n1.1": 10 / 3, "n2.1": 10 / 3, "n3.1": 10 / 3, "n3.2": 5, "n4.1": 5}),
    ],
)
def test_dynamic_hdrf_is_where_tasks_that_end_lead_to(cli: Cli, tree: str, leaves: dict[str, float]) -> None:
    found = answer_of(cli, EXAMPLES / f"{tree}.yaml", "--algorithm", "hdrf-dynamic")["steps"][0]
    assert {name: leaf["tasks"] for name, leaf in found["leaves"].items()} == leaves


@pytest.mark.parametrize("algorithm", ["hdrf-dynamic", "drf-naive"])
def test_too_many_leaves_for_an_algorithm_are_refused(tmp_path: Path, cli: Cli, algorithm: str) -> None:
    leaves = "\n".join(f"  n{number}: {{demand: {{cpu: 1}}}}" for number in range(201))
    file = written(tmp_path / "tree.yaml", f"resources: {{cpu: 10}}\ntree:\n{leaves}\n")
    assert "201 leaves" in mistake(cli, file, "--algorithm", algorithm)
