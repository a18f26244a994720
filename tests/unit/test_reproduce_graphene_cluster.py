"""`treadle reproduce graphene-cluster`: everything but the clusters."""

from __future__ import annotations

import getpass
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from treadle.admin.install import ready_made
from treadle.cli.main import run
from treadle.dag.dag import Dag
from treadle.history.dags import dag_of_profile
from treadle.history.run import recurrence_key
from treadle.history.store import open_store
from treadle.lab.harness.sleeping_dags import MEMORY, asks
from treadle.lab.reproduce.graphene_cluster import experiment as graphene_cluster
from treadle.lab.reproduce.graphene_cluster.experiment import (
    SCHEMES,
    WAIT_MS,
    Ended,
    Round,
    Scheme,
    cluster_settings,
    name_of,
    remember,
    tez_settings,
)
from treadle.lab.reproduce.graphene_cluster.jobs import NETWORK, NODE, UNIT_MB, DagSettings, draw
from treadle.lab.reproduce.graphene_cluster.report import (
    document,
    gaps_percent,
    median_shorter,
    plot_completions,
    shortfalls,
    table,
)
from treadle.live.live_settings import read_live_settings

SETTINGS = DagSettings()


def scheme(name: str) -> Scheme:
    return next(one for one in SCHEMES if one.name == name)


def rounds(shorter: float = 0.7, silent_ms: int = 4_000) -> list[Round]:
    found = []
    for seed in (1, 2):
        for one in SCHEMES:
            times = [20_000, 40_000, 90_000]
            if one.name == "both":
                times = [round(shorter * each) for each in times]
            if one.silent:
                times = [each + silent_ms for each in times]
            jobs = tuple(
                Ended(f"dag {at}", 10, 60_000, "SUCCEEDED", each, 8, one.plans) for at, each in enumerate(times)
            )
            found.append(Round(seed, one.name, jobs, max(times), {"treadle": 8} if one.scoring else {}))
    return found


def shape(dag: Dag) -> list[tuple[object, ...]]:
    return [(stage.tasks, stage.duration_ms, dict(stage.demand), stage.parents) for stage in dag.stages]


def test_a_draw_depends_on_its_seed_alone_and_every_task_fits_a_node() -> None:
    drawn = draw(3, SETTINGS)
    assert [shape(dag) for dag in drawn] == [shape(dag) for dag in draw(3, SETTINGS)]
    assert [shape(dag) for dag in drawn] != [shape(dag) for dag in draw(4, SETTINGS)]
    for dag in drawn:
        for stage in dag.stages:
            assert stage.demand.keys() == NODE.keys()
            assert all(0 < amount <= NODE[name] for name, amount in stage.demand.items())
            assert stage.demand[MEMORY] % UNIT_MB == 0
            assert asks(stage) == {NETWORK: stage.demand[NETWORK]}


def test_a_dag_is_no_run_of_another_nor_of_its_own_under_another_scheme() -> None:
    draws = {seed: draw(seed, DagSettings(jobs=8)) for seed in (1, 2)}
    names = [name_of(one, seed, dag) for one in SCHEMES for seed, dags in draws.items() for dag in dags]
    assert len({recurrence_key("someone", "default", "TEZ", name) for name in names}) == 2 * 8 * len(SCHEMES)


def test_the_store_knows_each_dag_as_it_is(tmp_path: Path) -> None:
    store = tmp_path / "profiles.db"
    draws = {5: draw(5, DagSettings(jobs=2))}
    remember(draws, store)
    remember(draws, store)
    with open_store(str(store), read_only=True) as opened:
        assert len(opened.profiles()) == 2 * len(SCHEMES)
        for dag in draws[5]:
            name = name_of(scheme("both"), 5, dag)
            profile = opened.get(recurrence_key(getpass.getuser(), "default", "TEZ", name))
            assert profile is not None
            assert shape(dag_of_profile(profile, {})) == shape(dag)


def test_the_cluster_has_room_for_masters_and_the_ready_made_policy(tmp_path: Path) -> None:
    found = cluster_settings({1: draw(1, SETTINGS)}, SETTINGS, tmp_path / "place" / "cluster", 4711)
    assert (found.memory_mb, found.vcores) == (NODE[MEMORY] + 3 * UNIT_MB, NODE["vcores"] + 3)
    assert found.policy is not None
    settings = read_live_settings(found.policy)
    assert settings.policy == read_live_settings(ready_made()["graphene"]).policy
    assert (settings.listener.address, settings.listener.port) == ("127.0.0.1", 4711)
    assert settings.plans.schedules > 0


@pytest.mark.parametrize("one", SCHEMES, ids=lambda one: one.name)
def test_who_places_and_whom_the_plug_in_asks(one: Scheme) -> None:
    assert one.mode == ("enforce" if one.name in ("scoring", "both") else "observe_only")
    assert one.plans == (one.name in ("plan", "both"))
    asked = tez_settings(one, 4711)
    assert ("tez.am.dag.scheduler.class" in asked) == one.plugin
    assert asked.get("treadle.plan.addresses") == ("127.0.0.1:4711" if one.plugin else None)


def test_how_much_shorter_by_median_and_dag_by_dag() -> None:
    assert median_shorter(rounds(), "both") == pytest.approx(30.0)
    assert gaps_percent(rounds(), "both") == pytest.approx([30.0] * 6)
    assert gaps_percent(rounds(), "silent") == pytest.approx([-20.0, -10.0, -4000 / 900] * 2)
    assert shortfalls(rounds()) == []


def test_what_is_missed_is_said() -> None:
    found = rounds(0.9, WAIT_MS + 1_000)
    failed = [replace(job, status="FAILED") for job in found[0].jobs[:1]]
    unplanned = [replace(job, planned=False) for job in found[1].jobs[:1]]
    found[0] = replace(found[0], jobs=(*failed, *found[0].jobs[1:]))
    found[1] = replace(found[1], jobs=(*unplanned, *found[1].jobs[1:]))
    said = shortfalls(found)
    assert said == [
        "seed 1, stock: dag 0 ended as FAILED",
        "seed 1, plan: dag 0 followed no plan",
        "the median is 10 % shorter with plan and scoring; the goal is 25 %",
        "where nobody answers the plug-in, the median is 6.0 s longer; the wait is bounded to 5 s",
    ]


def test_table_json_and_plot(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=140)
    console.print(table(rounds()))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "6 of 6" in shown
    assert "28.0" in shown
    written = json.loads(json.dumps(document(rounds(), SETTINGS)))
    assert written["schemes"]["both"]["median_shorter_percent"] == pytest.approx(30.0)
    assert written["schemes"]["stock"]["median_ms"] == 40_000
    assert written["rounds"][0]["jobs"][0]["planned"] is False
    plot_completions(rounds(), tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_the_command_shows_all_draws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[DagSettings] = []

    def fake(draws: dict[int, list[Dag]], settings: DagSettings, *_: Any) -> Iterator[Round]:
        assert [len(dags) for dags in draws.values()] == [2, 2]
        told.append(settings)
        for seed in draws:
            for one in rounds()[: len(SCHEMES)]:
                yield replace(one, seed=seed)

    monkeypatch.setattr(graphene_cluster, "run_rounds", fake)
    figures = tmp_path / "figures.json"
    command = ["reproduce", "graphene-cluster", "--rounds", "2", "--seed", "7", "--jobs", "2", "--json", str(figures)]
    assert run([*command, "--plot", str(tmp_path / "plots")]) == 0
    assert told == [DagSettings(jobs=2)]
    assert {one["seed"] for one in json.loads(figures.read_text())["rounds"]} == {7, 8}
    assert (tmp_path / "plots" / "graphene-cluster.png").is_file()


def test_a_number_of_dags_out_of_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["reproduce", "graphene-cluster", "--jobs", "0"]) == 2
    assert "--jobs" in capsys.readouterr().err
