"""`treadle lab gains --on sls`: the draws, the ratios and the simulator beside them; the simulated nodes do not run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.support.cli import Cli

from treadle_lab.gains.sls import NODES, POINTS, TIMES, Point, PointDraw, compressed, node_for, results_of, simulated_s
from treadle_lab.gains.workloads import HOURS, MACHINE, google_window, machines_for
from treadle_lab.sls.play import Played, PlayedJob, Player


def test_a_draw_is_the_window_compressed_and_nodes_have_its_load() -> None:
    window, jobs = google_window(52, HOURS), compressed(52)
    assert [job.arrival_ms for job in jobs] == [round(TIMES * job.arrival_ms) for job in window]
    longest = [max(stage.durations()) for job in window for stage in job.dag.stages]
    assert np.allclose(
        [max(stage.durations()) for job in jobs for stage in job.dag.stages], np.multiply(longest, TIMES), atol=1
    )
    assert len({job.name for job in jobs}) == len(jobs), "the testbed tells jobs apart by their names"
    node, machines = node_for(window, 1.2), machines_for(window, 1.2)
    for name, amount in MACHINE.items():
        assert node[name] == pytest.approx(machines * amount / NODES, abs=0.5)


def run(*completion_ms: int) -> Played:
    return Played(tuple(PlayedJob(f"{at}", "SUCCEEDED", each) for at, each in enumerate(completion_ms)), 9, {})


def test_the_ratio_on_the_cluster_stands_next_to_that_of_the_simulator() -> None:
    runs = {"fair-finish": run(1_000, 2_000), "fair": run(2_000, 4_000)}
    draws = [PointDraw(seed, runs, POINTS[0], {"fair-finish": 3.0, "fair": 4.0}) for seed in (51, 52)]
    found = results_of(draws)
    assert found.figure("gains-sls", "fair-finish over fair", "ResourceManager", POINTS[0].x).mean == pytest.approx(0.5)
    assert found.figure("gains-sls", "fair-finish over fair", "simulator", POINTS[0].x).mean == pytest.approx(0.75)
    assert found.facts["shortfalls"] == []
    assert found.facts["points"] == [POINTS[0].x] * 2


def test_the_simulator_plays_the_same_jobs() -> None:
    jobs = compressed(52)[:40]
    found = simulated_s(jobs, node_for(jobs, 1.2), POINTS[0], 52)
    longest_s = np.mean([max(stage.durations()) / 1000 for job in jobs for stage in job.dag.stages])
    assert set(found) == {"fair-finish", "fair"}
    assert all(each > longest_s for each in found.values()), "no job ends before its longest task"


def test_each_point_is_played_for_its_seeds(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[tuple[str, int, int]] = []

    def play(point: Point, turn: int, seed: int, player: Player) -> PointDraw:
        asked.append((point.x, turn, seed))
        one = player.kept.get_or_play(lambda: run(1_000), point.x, seed)
        return PointDraw(seed, {"fair-finish": one, "fair": one}, point, {"fair-finish": 1.0, "fair": 1.0})

    monkeypatch.setattr("treadle_lab.gains.sls.run_draw", play)
    monkeypatch.setattr("treadle_lab.cli._experiments.setting_of_testbed", lambda: None)
    cli(["lab", "gains", "--on", "sls", "--seeds", "3", "--cache", str(tmp_path / "kept"), "--folder", str(tmp_path)])
    loaded, less, limited = (point.x for point in POINTS)
    first = [(loaded, 0, 51), (less, 0, 51), (limited, 0, 51)]
    assert asked == [*first, (loaded, 1, 52), (loaded, 2, 53), (less, 1, 53)]


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--on", "sls", "--quick"], "--quick: is of simulations"), (["--folder", "logs"], "--folder: is of --on sls")],
)
def test_options_that_do_not_fit_are_refused(cli: Cli, options: list[str], words: str) -> None:
    assert words in cli(["lab", "gains", *options], 2).err
