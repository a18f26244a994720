"""`treadle reproduce omega`: points from files, comparison with the original's runs, the paper's statements."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.files import written
from tests.support.tables import rows_of

from treadle.cli.main import run
from treadle.errors import UserError
from treadle_lab.harness.data import OMEGA, find_data
from treadle_lab.models.cell import JobKind
from treadle_lab.papers.omega.comparison import Comparison, Spread, claims_of, compare, read_reference
from treadle_lab.papers.omega.figures import FIGURES, GOOGLE_FIGURES
from treadle_lab.papers.omega.points import ROW_COLUMNS, Point, read_points, run_points

HEADER = "architecture,machines,batch_rate_factor,t_job_service_s"
REFERENCE = find_data(OMEGA)


def points_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    return written(folder / "points.csv", "\n".join((header, *lines)) + "\n")


def test_points_of_a_file_of_results_are_each_there_once() -> None:
    assert REFERENCE is not None
    points = read_points(REFERENCE)
    assert len(points) == len(set(points)) == 16
    assert points[0] == Point("mono1", 500, 1.0, 0.1)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("omega9,500,1,1", "line 2: architecture is 'omega9': Value error, choose of mono1"),
        ("omega,0,1,1", "line 2: machines is '0': Input should be greater than or equal to 1; a line is"),
        ("omega,2.5,1,1", "line 2: machines is '2.5'"),
        ("omega,500,0,1", "line 2: batch_rate_factor is '0': Input should be greater than 0"),
        ("omega,500,1,-1", "line 2: t_job_service_s is '-1': Input should be greater than or equal to 0"),
        ("omega,500,1,nan", "line 2: t_job_service_s is 'nan'"),
        ("omega,500,1", "line 2: t_job_service_s is None: Input should be a valid number; a line is"),
    ],
)
def test_what_is_wrong_with_a_point_is_said_with_its_line(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        read_points(points_file(tmp_path, line))
    assert said in str(error.value)


def test_ends_of_lines_empty_lines_further_columns_and_repeated_points_do_not_matter(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_bytes(
        b"\xef\xbb\xbf" + HEADER.encode() + b",scheduler\r\nmono1,1,0.1,0.001\r\n\r\n,,,\r\n"
        b' omega4 , 20000 ,2e1,"100",S,1,2\r\nmono1,1.0,0.10,1e-3,M\r\n'
    )
    assert read_points(file) == [Point("mono1", 1, 0.1, 0.001), Point("omega4", 20_000, 20.0, 100.0)]


def test_a_cell_of_one_machine_has_a_row_for_each_scheduler(tmp_path: Path) -> None:
    names = ("mono1", "mono2", "mesos", "omega", "omega-seq", "omega-aon", "omega-seq-aon", "omega4")
    lines = [f"{name},1,{factor},{t_s}" for name in names for factor, t_s in (("0.1", "100"), ("20", "0.001"))]
    points, out = points_file(tmp_path, *lines), tmp_path / "out.json"
    assert run(["reproduce", "omega", "--points", str(points), "--seeds", "1", "--json", str(out)]) == 0
    found = json.loads(out.read_text())["runs"]
    schedulers = {"mono1": 1, "mono2": 1, "mesos": 2, "omega4": 5}
    assert [row["architecture"] for row in found] == [
        name for name in names for _ in range(2 * schedulers.get(name, 2))
    ]
    for row in found:
        assert all(row[name] >= 0 for name in ROW_COLUMNS[5:])
        assert row["cpu_utilisation"] <= 1.0
    assert {row["unscheduled_batch"] for row in found if row["architecture"] == "mesos"} == {1.0}, "nothing is offered"


def test_files_that_hold_no_points(tmp_path: Path) -> None:
    for lines, header, said in (
        ((), HEADER, "has no point; a line is"),
        (("1,2",), "a,b", "line 2: architecture is .*: Field required; a line is architecture,machines"),
    ):
        with pytest.raises(UserError, match=said):
            read_points(points_file(tmp_path, *lines, header=header))


def test_the_tolerance_is_four_deviations_of_the_difference_and_a_little_more() -> None:
    one = Comparison(Point("omega", 500, 1.0, 1.0), "S", "busyness", Spread(0.5, 0.01, 20), Spread(0.51, 0.02, 5))
    assert one.tolerance == pytest.approx(4 * 0.02 * (1 / 20 + 1 / 5) ** 0.5 + 0.002)
    assert one.within
    assert not replace(one, ours=Spread(0.45, 0.01, 20)).within


def test_the_original_s_runs_are_met() -> None:
    assert REFERENCE is not None
    points = [
        Point(name, 500, 1.0, t_s) for name, t_s in (("mono1", 1.0), ("mono2", 10.0), ("mesos", 10.0), ("omega", 1.0))
    ]
    compared = compare(run_points(points, range(1, 4)), read_reference(REFERENCE))
    assert len(compared) == (1 + 1 + 2 + 2) * 7
    assert [(one.point, one.scheduler, one.figure) for one in compared if not one.within] == []


@pytest.mark.slow
def test_all_of_the_original_s_runs_are_met_with_twenty_seeds() -> None:
    assert REFERENCE is not None
    compared = compare(run_points(read_points(REFERENCE), range(1, 21)), read_reference(REFERENCE))
    assert sum(one.within for one in compared) >= 0.98 * len(compared)


def test_what_the_paper_says_of_conflicts_and_offers() -> None:
    points = [Point(name, 500, 1.0, 10.0) for name in ("omega", "omega-seq", "omega-aon")]
    points += [Point(name, 500, 1.0, 100.0) for name in ("mesos", "omega")]
    claims = claims_of(run_points(points, [1, 2, 3]))
    assert [claim.claim.split()[0] for claim in claims] == ["coarse", "gang", "Mesos"]
    assert all(claim.holds for claim in claims), claims


def test_every_architecture_runs_the_same_jobs() -> None:
    runs = run_points([Point(name, 5_000, 1.0, 0.1) for name in ("mono2", "omega", "omega4")], [5])
    # with room for all no task waits for a machine: the same work is done
    used = [run.outcome.cpu_utilisation for run in runs]
    assert used == pytest.approx([used[0]] * 3, rel=1e-3)
    assert runs[2].outcome.wait_s[JobKind.BATCH] < runs[1].outcome.wait_s[JobKind.BATCH]


def test_the_command_writes_rows_documents_and_the_same_bytes_again(tmp_path: Path) -> None:
    points = points_file(tmp_path, "mesos,500,1,1,further,columns", "omega4,500,0.5,1", "mesos,500,1,1")
    command = ["reproduce", "omega", "--points", str(points), "--seeds", "2", "--first-seed", "7"]
    for name in ("a", "b"):
        assert run([*command, "--json", str(tmp_path / f"{name}.json")]) == 0
    document, again = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "b"))
    rows = document["runs"]
    assert rows == again["runs"]
    assert set(ROW_COLUMNS) <= set(rows[0])
    schedulers = [row["scheduler"] for row in rows if row["seed"] == 7]
    assert schedulers == ["S", "B", "S", "B1", "B2", "B3", "B4"]
    assert {row["conflict_fraction"] for row in rows[:4]} == {0.0}
    assert len(rows_of(document, "omega-points")) == 7
    assert {row["seed"] for row in rows} == {7, 8}
    assert len(document["reference"]) == 2 * 7


def test_points_of_figures_are_runnable() -> None:
    for figure in (*FIGURES.values(), *GOOGLE_FIGURES.values()):
        assert set(figure.quick) <= set(figure.points)
        assert all(len(point.built.schedulers) >= 1 for point in figure.points)
