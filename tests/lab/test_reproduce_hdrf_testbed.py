"""`treadle lab reproduce hdrf --section 5.2 --on sls`: everything but the simulated cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from tests.support.files import written
from tests.support.optional import present
from tests.support.tables import rows_of

from treadle.config.reader import read_settings
from treadle.errors import UserError
from treadle.policy.catalogue import register_parts
from treadle_lab.harness.data import FACEBOOK_2010, find_data
from treadle_lab.papers.hdrf import sls as testbed
from treadle_lab.papers.hdrf.facebook import LEAVES, TITLES, queue_of, schedule
from treadle_lab.papers.hdrf.sls import (
    SCHEMES,
    SIMULATED,
    ShownDraw,
    cluster_of,
    figures_of,
    results_of,
    scheduling,
    script_of,
)
from treadle_lab.sls.play import KeptPlays, Pace, Played, PlayedJob, Player, Scheduling, Script, ScriptedJob, map_reduce


@pytest.fixture(scope="module")
def sample() -> Path:
    return present(find_data(FACEBOOK_2010))


def test_jobs_are_the_simulators_compressed(sample: Path) -> None:
    jobs, played = schedule(sample, 2).jobs, script_of(sample, 2).jobs
    assert [job.queue for job in played] == [job.queue for job in jobs]
    assert [job.at_ms for job in played] == [round(0.1 * job.arrival_ms) for job in jobs]
    for job, one in zip(jobs, played, strict=True):
        (stage,) = one.stages
        assert len(stage.durations_ms) == job.dag.stages[0].tasks
        assert np.allclose(stage.durations_ms, 0.1 * np.asarray(job.dag.stages[0].durations()), atol=0.51)
        resource = "gpu" if job.queue == "n1-2" else "cpu"
        assert stage.resources == {"memory-mb": job.dag.stages[0].demand["memory-mb"], resource: 1}


def test_nodes_are_the_papers_and_queues_figure_10s() -> None:
    cluster = cluster_of()
    assert (cluster.nodes, cluster.resources) == (50, {"cpu": 4, "gpu": 1})
    assert cluster.memory_mb - 6 * 1024 < 1024, "masters' room is none for a task"
    queues = cluster.queues("fifo")
    prefix = "yarn.scheduler.capacity.root."
    assert queues[f"{prefix}queues"] == "n1,n2,n3"
    assert queues[f"{prefix}n2.queues"] == "n2-1,n2-2,n2-3"
    below = [float(queues[f"{prefix}n2.n2-{number}.capacity"]) for number in (1, 2, 3)]
    assert sum(below) == pytest.approx(100.0)
    assert queues[f"{prefix}n3.n3-1.capacity"] == "100"


def test_schemes_are_the_policy_that_ships_naive_h_drf_and_stock(tmp_path: Path) -> None:
    register_parts()
    found = {}
    for scheme in ("hdrf", "naive"):
        file = written(tmp_path / f"{scheme}.yaml", str(scheduling(scheme).policy))
        share = read_settings(file).policy.share
        assert share.kind.name == "hdrf"
        found[scheme] = share.parameters.model_dump()["static"]
    assert found == {"hdrf": False, "naive": True}
    assert scheduling("capacity-scheduler").policy is None


TASK = {"memory-mb": 1024, "cpu": 1}
SCRIPT = Script(
    (
        *(ScriptedJob(leaf, 0, map_reduce([10], TASK), queue=queue_of(leaf)) for leaf in LEAVES if leaf != "n2.2"),
        ScriptedJob("second", 0, map_reduce([10], TASK), queue="n2-2"),
    )
)
PACE = Pace(1.0, 3.0, 1_000.0, 1.05)


def played(end_ms: int = 1_000, **shim: int) -> Played:
    """All leaves but the second of n2, whose job comes when others have ended, have two tasks one after the other."""
    spans = ((0, 400), (400, 1_000), (1_000, -1))
    jobs = tuple(
        PlayedJob(job.name, "SUCCEEDED", end_ms, submitted_ms=2_000 * (job.name == "second"), tasks_ms=spans)
        for job in SCRIPT.jobs
    )
    return Played(jobs, 3_000, shim, PACE)


def test_what_a_run_has_shown_is_by_leaf_in_uncompressed_time() -> None:
    shown = figures_of(SCRIPT, played(), "seed 1, hdrf")
    assert shown["median_tasks"] == {leaf: None if leaf == "n2.2" else 1.0 for leaf in LEAVES}
    assert shown["response_s"] == dict.fromkeys(LEAVES, 10.0)
    assert shown["end_s"] == 30.0
    lost = played()
    lost = replace(lost, jobs=(replace(lost.jobs[0], status="UNKNOWN"), *lost.jobs[1:]))
    with pytest.raises(UserError, match=r"seed 1, hdrf: of n1.1 it is not known"):
        figures_of(SCRIPT, lost, "seed 1, hdrf")


def test_the_report_has_the_simulator_and_the_paper_beside_it() -> None:
    def draw(seed: int, *, slow: bool = False) -> ShownDraw:
        runs = {scheme: played(1_000 if scheme == "hdrf" else 1_500) for scheme in SCHEMES}
        if slow:
            runs["naive"] = replace(
                runs["naive"], pace=replace(PACE, heartbeats_share=0.5), shim={"PlacedByCapacityScheduler": 2}
            )
        return ShownDraw(seed, runs, {scheme: figures_of(SCRIPT, each, scheme) for scheme, each in runs.items()})

    beside = [(scheme, seed) for seed in (1, 2, 3) for scheme in SIMULATED.values()]
    simulated = dict.fromkeys(beside, draw(1).figures["hdrf"])
    written: dict[str, Any] = json.loads(json.dumps(results_of([draw(1), draw(2)], simulated).as_json()))
    assert written["shortfalls"] == []
    assert written["seeds"] == [1, 2]
    naive, over = TITLES["naive"], rows_of(written, "hdrf-responses")
    assert over[naive,]["n1.1"]["mean"] == pytest.approx(1.5)
    assert over[f"{naive}, in the simulator",]["n1.1"]["mean"] == 1.0
    names = ("hdrf-tasks", "hdrf-responses", "testbed-pace")
    assert [len(rows_of(written, name)) for name in names] == [9, 6, 6]
    slow = results_of([draw(1), draw(2, slow=True)], simulated).facts["shortfalls"]
    assert slow[0] == "seed 2, naive: the stock scheduler placed 2 containers in Treadle's stead"
    assert slow[1].startswith("seed 2, naive: the machine did NOT keep up: 50 % of heartbeats")


def test_a_draw_plays_each_scheme_once_and_begins_with_another_each_turn(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = []

    def play(_player: Player, scheme: Scheduling, script: Script, *_: object) -> Played:
        begun.append(scheme.name)
        return Played(tuple(PlayedJob(job.name, "SUCCEEDED", 10, tasks_ms=((0, 9),)) for job in script.jobs), 10, {})

    monkeypatch.setattr(Player, "play", play)
    player = Player(
        cast(Any, None), tmp_path, KeptPlays(None, "treadle_lab.papers.hdrf.sls"), lambda _: None
    )  # nothing is played
    draw = testbed.run_draw(sample, 1, 1, player)
    assert begun == [*SCHEMES[1:], SCHEMES[0]]
    assert list(draw.runs) == list(SCHEMES)
