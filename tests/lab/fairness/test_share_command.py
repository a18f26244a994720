from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.files import written

from treadle.cli.main import run

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "share"
POOL = "resources: {cpu: 10, gpu: 10}\n"
LEAF = POOL + "tree: {a: {demand: {cpu: 1}}}\n"


def share(*arguments: str | Path) -> int:
    return run(["share", *map(str, arguments)])


def test_json_is_as_documented(capsys: pytest.CaptureFixture[str]) -> None:
    assert share(EXAMPLES / "test-a.yaml", "--json") == 0
    start, gone, back = json.loads(capsys.readouterr().out)["steps"]
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


def test_the_algorithm_is_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert share(EXAMPLES / "test-a.yaml", "--json", "--algorithm", "drf-naive") == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["algorithm"] == "drf-naive"
    assert [leaf["tasks"] for leaf in answer["steps"][0]["leaves"].values()] == [10, 0, 10]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_example_prints_a_table(example: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert share(example) == 0
    printed = capsys.readouterr().out
    assert "hdrf: at the start" in printed
    assert "dominant share" in printed


def test_plot_writes_a_picture(tmp_path: Path) -> None:
    assert share(EXAMPLES / "test-b.yaml", "--plot", tmp_path / "plots") == 0
    picture = tmp_path / "plots" / "test-b-hdrf.png"
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tasks_change_and_groups_leave(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "tree.yaml"
    file.write_text(
        "resources: {cpu: 12}\n"
        "tree:\n"
        "  g: {children: {a: {demand: {cpu: 1}}, b: {demand: {cpu: 1}}}}\n"
        "  c: {demand: {cpu: 1}, tasks: 4}\n"
        "events: [{tasks: {c: 1}}, {leave: g}, {tasks: {c: 100}}, {join: a}]\n"
    )
    assert share(file, "--json") == 0
    steps = json.loads(capsys.readouterr().out)["steps"]
    tasks = [[leaf["tasks"] for leaf in step["leaves"].values()] for step in steps]
    assert tasks == [[4, 4, 4], [5.5, 5.5, 1], [0, 0, 1], [0, 0, 12], [6, 0, 6]]
    assert steps[1]["event"] == {"tasks": {"c": 1}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty; write resources and a tree"),
        ("resources: {cpu: 1", "not YAML: did not find expected"),
        ("tree: {a: {demand: {cpu: 1}}}", ":1: write either resources (one divisible pool) or servers (whole tasks)"),
        (POOL, ":1: there is no tree; add tree"),
        ("resources: {}\ntree: {}", ":1: the cluster has no resources"),
        (POOL + "tree: {}", ":2: tree: no children; add a leaf"),
        (POOL + "tree: [a]", ":2: tree: write a mapping"),
        (POOL + "tree: {a: {}}", ":2: a: neither a demand nor children"),
        (POOL + "tree: {a: {demand: {cpu: 1}, children: {b: {demand: {cpu: 1}}}}}", ":2: a: has children and a demand"),
        (POOL + "tree: {a: {demand: {cpu: 1}, wieght: 2}}", ":2: a: unknown field wieght; the fields are weight, "),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: 0}}", ":2: a.weight is 0; a weight must be above 0"),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: -2}}", ":2: a.weight is -2; a weight must be above 0"),
        (POOL + "tree: {a: {demand: {cpu: 1}, weight: .nan}}", ":2: a.weight is .nan; write a finite number"),
        (POOL + "tree:\n  a:\n    demand: {cpu: NaN}", ":4: a.demand.cpu is NaN; write a finite number"),
        (POOL + "tree: {a: {demand: {cpu: -1}}}", ":2: a.demand.cpu is -1; write 0 or more"),
        (POOL + "tree: {a: {demand: {cpu: 1e400}}}", ":2: a.demand.cpu is 1e400; write a finite number"),
        (POOL + "tree: {a: {demand: {cpu: 1/0}}}", ":2: a.demand.cpu is 1/0; write a finite number"),
        (POOL + "tree: {a: {demand: {cpu: [1]}}}", ":2: a.demand.cpu is not a number; write a finite number"),
        (
            POOL + "tree: {a: {demand: {fpga: 1}}}",
            ":2: a.demand: no resource fpga, only cpu, gpu; correct the name, or",
        ),
        (POOL + "tree: {a: {demand: {cpu: 0}}}", ":2: a.demand: all zero and endless work; add tasks"),
        (POOL + "tree: {a: {demand: {cpu: 1}, tasks: 1.5}}", ":2: a.tasks is 3/2; write a whole number, 0 or more"),
        (POOL + "tree: {a: {demand: {cpu: 1}, scheduler: fifo}}", ":2: a.scheduler: a is a leaf"),
        (POOL + "tree: {g: {scheduler: lifo, children: {a: {demand: {cpu: 1}}}}}", "g.scheduler: write fair or fifo"),
        (POOL + "tree:\n  a: {demand: {cpu: 1}}\n  a: {demand: {cpu: 1}}", ":4: tree: a is there twice"),
        (
            POOL + "tree:\n  a: {demand: {cpu: 1}}\n  g: {children: {a: {demand: {cpu: 1}}}}",
            ":4: a: line 3 has a node of this name; give each a name of its own",
        ),
        (POOL + "tree: &t {a: {demand: &d {cpu: 1}}, b: {demand: *d}}", ":2: *d: aliases are not supported"),
        (POOL + "tree: " + "{a: " * 200 + "}" * 200, ":2: more than 64 levels; make the tree flatter"),
        (LEAF + "events: {leave: a}", ":3: events: write a list"),
        (LEAF + "events: [{leave: z}]", ":3: events.leave: no such node in the tree"),
        (LEAF + "events: [{join: a}]", ":3: events.join: a has not left at that point"),
        (LEAF + "events: [{leave: a}, {leave: a}]", ":3: events.leave: a has left at that point"),
        (LEAF + "events: [{leave: a, join: a}]", ":3: events: each event is one of"),
        (LEAF + "events: [{tasks: {a: -1}}]", ":3: events.tasks is -1; write a whole number, 0 or more"),
        (LEAF + "headroom: true", ":3: headroom: a divisible pool needs none"),
        (LEAF + "calculator: disk", ":3: calculator: write dominant or one of cpu, gpu"),
        ("servers: [{cpu: 1}]\ntree: {a: {demand: {cpu: 1}}}", ":1: servers.count: say how many servers"),
        ("servers: [{count: 1000000, cpu: 1}]\ntree: {a: {demand: {cpu: 1}}}", "write them as one pool"),
    ],
)
def test_a_mistake_is_reported_with_its_place_and_remedy(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path / "tree.yaml", text)
    assert share(file) == 2
    told = capsys.readouterr().err
    assert message in told
    assert "Traceback" not in told


def test_mistakes_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert share(tmp_path / "none.yaml") == 2
    assert "none.yaml: No such file or directory; give the path" in capsys.readouterr().err
    assert share(EXAMPLES / "test-a.yaml", "--algorithm", "drf") == 2
    assert "--algorithm: 'drf' is none; choose one of hdrf, " in capsys.readouterr().err
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    assert share(tmp_path / "binary.yaml") == 2
    assert "not UTF-8 text" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert share(EXAMPLES / "test-a.yaml", "--plot", tmp_path / "file") == 2
    assert "--plot: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("tree", "leaves"),
    [
        ("counterexample-tasks-end", {"n1.1": 5, "n2.1": 5, "n2.2": 5, "n2.3": 5}),
        ("test-a", {"n1.1": 5, "n2.1": 5, "n2.2": 10}),
        ("test-b", {"n1.1": 10 / 3, "n2.1": 10 / 3, "n3.1": 10 / 3, "n3.2": 5, "n4.1": 5}),
    ],
)
def test_dynamic_hdrf_is_where_tasks_that_end_lead_to(
    capsys: pytest.CaptureFixture[str], tree: str, leaves: dict[str, float]
) -> None:
    assert share(EXAMPLES / f"{tree}.yaml", "--json", "--algorithm", "hdrf-dynamic") == 0
    found = json.loads(capsys.readouterr().out)["steps"][0]
    assert {name: leaf["tasks"] for name, leaf in found["leaves"].items()} == leaves


@pytest.mark.parametrize("algorithm", ["hdrf-dynamic", "drf-naive"])
def test_too_many_leaves_for_an_algorithm_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], algorithm: str
) -> None:
    leaves = "\n".join(f"  n{number}: {{demand: {{cpu: 1}}}}" for number in range(201))
    file = written(tmp_path / "tree.yaml", f"resources: {{cpu: 10}}\ntree:\n{leaves}\n")
    assert share(file, "--algorithm", algorithm) == 2
    assert "201 leaves" in capsys.readouterr().err
