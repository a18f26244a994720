"""`treadle lab reproduce omega`: comparison with the original's runs, the paper's conflicts and offers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.optional import present
from tests.support.tables import rows_of

from treadle.cli.main import run
from treadle_lab.harness.data import OMEGA, find_data
from treadle_lab.models.cell import JobKind
from treadle_lab.papers.omega.figures import FIGURES, GOOGLE_FIGURES, conflicts, outcomes_of, unscheduled
from treadle_lab.papers.omega.points import Comparison, Point, compare, read_reference, run_points

REFERENCE = find_data(OMEGA)


def test_a_cell_of_one_machine_has_a_row_for_each_scheduler() -> None:
    names = ("mono1", "mono2", "mesos", "omega", "omega-seq", "omega-aon", "omega-seq-aon", "omega4")
    points = [Point(name, 1, factor, t_s) for name in names for factor, t_s in ((0.1, 100.0), (20.0, 0.001))]
    runs = run_points(points, [1])
    found = [{"architecture": ran.point.architecture, **row} for ran in runs for row in ran.rows()]
    schedulers = {"mono1": 1, "mono2": 1, "mesos": 2, "omega4": 5}
    assert [row["architecture"] for row in found] == [
        name for name in names for _ in range(2 * schedulers.get(name, 2))
    ]
    for row in found:
        assert all(float(value) >= 0 for name, value in row.items() if name not in ("architecture", "scheduler"))
        assert float(row["cpu_utilisation"]) <= 1.0
    assert {row["unscheduled_batch"] for row in found if row["architecture"] == "mesos"} == {1.0}, "nothing is offered"
    conflicts = {row["conflict_fraction"] for row in found if row["architecture"] in ("mono1", "mono2", "mesos")}
    assert conflicts == {0.0}, "one scheduler at a time has the cell"


def test_the_tolerance_is_four_deviations_of_the_difference_and_a_little_more() -> None:
    ours, theirs = (0.49, 0.5, 0.51), (0.49, 0.51, 0.51, 0.51, 0.53)  # deviations of 0.01 and 0.0002 ** 0.5
    one = Comparison(Point("omega", 500, 1.0, 1.0), "S", "busyness", ours, theirs)
    assert one.tolerance == pytest.approx(4 * 0.0002**0.5 * (1 / 3 + 1 / 5) ** 0.5 + 0.002)
    assert one.within
    assert not replace(one, ours=(0.44, 0.45, 0.46)).within


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
    reference = read_reference(REFERENCE)
    points = list(dict.fromkeys(point for point, _ in reference))
    assert len(points) == 16
    compared = compare(run_points(points, range(1, 21)), reference)
    assert sum(one.within for one in compared) >= 0.98 * len(compared)


def test_what_the_paper_says_of_conflicts_and_offers() -> None:
    points = [Point(name, 500, 1.0, 10.0) for name in ("omega", "omega-seq", "omega-aon")]
    points += [Point(name, 500, 1.0, 100.0) for name in ("mesos", "omega")]
    found = outcomes_of(run_points(points, [1, 2, 3]))
    fine, coarse, gang = (conflicts(found[point], "S") for point in points[:3])
    assert coarse > fine
    assert gang > fine
    offers, shared = (unscheduled(JobKind.BATCH)(found[point]) for point in points[3:])
    assert offers > 0.01
    assert shared < 0.002


def test_every_architecture_runs_the_same_jobs() -> None:
    runs = run_points([Point(name, 5_000, 1.0, 0.1) for name in ("mono2", "omega", "omega4")], [5])
    # with room for all no task waits for a machine: the same work is done
    used = [run.outcome.cpu_utilisation for run in runs]
    assert used == pytest.approx([used[0]] * 3, rel=1e-3)
    assert runs[2].outcome.wait_s[JobKind.BATCH] < runs[1].outcome.wait_s[JobKind.BATCH]


def test_the_command_writes_rows_documents_and_the_same_bytes_again(tmp_path: Path) -> None:
    command = ["lab", "reproduce", "omega", "--quick", "--figure", "14", "--seeds", "2", "--seed", "7"]
    for name in ("a", "b"):
        assert run([*command, "--out", str(tmp_path / f"{name}.json")]) == 0
    document, again = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("a", "b"))
    rows = document["runs"]
    assert rows == again["runs"]
    assert [row["scheduler"] for row in rows if row["seed"] == 7] == ["S", "B1"] * 4
    assert len(rows_of(document, "omega-points")) == 8
    assert {row["seed"] for row in rows} == {7, 8}
    assert len(document["reference"]) == 2 * 7 * sum(
        point in {point for point, _ in read_reference(present(REFERENCE))} for point in FIGURES["14"].quick
    )


def test_points_of_figures_are_runnable() -> None:
    for figure in (*FIGURES.values(), *GOOGLE_FIGURES.values()):
        assert set(figure.quick) <= set(figure.points)
        assert all(len(point.built.schedulers) >= 1 for point in figure.points)
