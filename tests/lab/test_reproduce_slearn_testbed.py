"""`treadle lab reproduce slearn --on sls`: everything but the simulated cluster."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from tests.support.optional import present
from tests.support.tables import mean_of, rows_of

from treadle.config.reader import read_settings
from treadle.dag import Dag, Stage
from treadle.policy.catalogue import register_parts
from treadle.workload.job import Framework, Job, arranged
from treadle_lab.papers.slearn import sls as testbed
from treadle_lab.papers.slearn.sls import WideDraw, policies, results_of, run_draw, script_of
from treadle_lab.sls.play import KeptPlays, Played, PlayedJob, Player, Scheduling
from treadle_lab.sls.run import BenchError


def trace() -> Any:
    def job(number: int, *durations_ms: int) -> Job:
        stage = Stage(0, len(durations_ms), 1, {"memory-mb": 1.0}, durations_ms=np.array(durations_ms))
        return Job(str(number), 1_000 * number, Dag("d", (stage,)), Framework.MAPREDUCE)

    workload = arranged([job(0, 100_000, 300_000), job(1, 20, 40_000, 5_000)])
    told = SimpleNamespace(duration_ms=np.array([150_000, 7]))
    return SimpleNamespace(seed=1, workload=workload, hints={"3sigma-paper": told}, wide=np.array([False, True]))


def test_a_draw_is_compressed_and_history_speaks_in_tags() -> None:
    script = script_of(trace(), "3sigma-paper")
    assert [job.stages[0].durations_ms for job in script.jobs] == [(500, 1_500), (1, 200, 25)]
    assert [job.at_ms for job in script.jobs] == [0, 5]
    assert [job.tags for job in script.jobs] == [("treadle:told=750",), ("treadle:told=1",)]
    assert [job.tags for job in script_of(trace(), "").jobs] == [(), ()]


def test_the_policies_are_the_one_that_ships_and_its_levels_by_history(tmp_path: Path) -> None:
    register_parts()
    schemes = {scheme.name: scheme for scheme in policies(tmp_path / "policies")}
    assert list(schemes) == ["slearn", "3sigma-paper", "3sigma", "fair", "fifo"]
    assert (schemes["fair"].ordering, schemes["fair"].policy) == ("fair", None)
    for name in ("slearn", "3sigma"):
        file = tmp_path / f"{name}.yaml"
        text = present(schemes[name].policy)
        file.write_text(text)
        order = read_settings(file).policy.order
        assert order.parameters.model_dump()["first_threshold_ms"] == 5_000
    assert "pilot_timeout_ms: 3000" in str(schemes["slearn"].policy)


def test_the_part_reads_what_tags_say(tmp_path: Path) -> None:
    policies(tmp_path)
    spec = present(importlib.util.spec_from_file_location("told", tmp_path / "told.py"))
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    view = SimpleNamespace(
        requests=np.array([(1,), (-1,), (0,)], [("application", "i4")]),
        applications=np.array([(5, 1), (5, 2)], [("cluster_timestamp", "i8"), ("id", "i8")]),
        tags=lambda number: [["treadle:told=70"], ["else"]][number],
    )
    part = module.Told()
    for _ in range(2):
        assert np.array_equal(part.durations_ms(view), [np.nan, np.nan, 70.0], equal_nan=True)


def draw(seed: int, paper: int, natively: int = 0) -> WideDraw:
    def run(completion_ms: int, **shim: int) -> Played:
        jobs = tuple(PlayedJob(f"job {at}", "SUCCEEDED", completion_ms) for at in range(2))
        return Played(jobs, 5_000, shim)

    ours = run(1_000, PlacedByCapacityScheduler=natively)
    return WideDraw(seed, {"slearn": ours, "3sigma-paper": run(paper), "fifo": run(9_000)}, (True, False))


def test_the_report_says_what_is_reached_and_what_is_not() -> None:
    good = [draw(1, 1_400), draw(2, 1_500)]
    written = json.loads(json.dumps(results_of(good, 150).as_json()))
    assert written["shortfalls"] == []
    assert len(rows_of(written, "slearn-testbed")) == 2
    over = mean_of(written, "slearn-testbed", "all jobs", "3Sigma by the paper's letter")
    assert over == pytest.approx(1.45)
    assert next(row["values"]["all jobs"] for row in written["rows"]) == [1.4, 1.5]
    missed = results_of([draw(1, 1_100), draw(2, 1_100, natively=3)], 150).facts["shortfalls"]
    assert any("expected: 1.3" in text for text in missed)
    assert any("seed 2, slearn: the stock scheduler placed 3 containers" in text for text in missed)


def test_the_task_leaves_room_for_masters_alone() -> None:
    cluster = testbed.cluster_of(150)
    assert cluster.vcores - testbed.TASK["vcores"] < testbed.TASK["vcores"], "no second task"


def test_a_draw_goes_on_with_the_schemes_that_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run is kept as it ends: the second call plays only the scheme that broke off, and others are left out."""
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    monkeypatch.setattr("treadle_lab.sls.run.own_jars", lambda: [jar])
    begun: list[str] = []

    def play(_player: Player, scheme: Scheduling, *_: object) -> Played:
        begun.append(scheme.name)
        if len(begun) == 2:
            raise BenchError("broke off")
        return Played((PlayedJob("job 0", "SUCCEEDED", 1_000), PlayedJob("job 1", "SUCCEEDED", 2_000)), 5_000, {})

    monkeypatch.setattr(Player, "play", play)
    kept = KeptPlays(tmp_path / "kept", "treadle_lab.papers.slearn.sls")

    def run(folder: str) -> WideDraw:
        names, setting = ["slearn", "3sigma-paper", "fifo"], cast(Any, None)  # nothing is played
        return run_draw(trace(), 150, names, 0, Player(setting, tmp_path / folder, kept, lambda _: None))

    with pytest.raises(BenchError):
        run("a")
    found = run("b")
    assert begun == ["slearn", "3sigma-paper", "3sigma-paper", "fifo"]
    assert list(found.runs) == ["slearn", "3sigma-paper", "fifo"]
    assert results_of([found], 150).facts["seeds"] == [1]
