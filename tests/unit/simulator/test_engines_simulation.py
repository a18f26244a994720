"""Several engines on the simulated RM: who serves what, what conflicts, what is committed whole, what is measured."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support import scenarios
from tests.support.cli import Cli
from tests.support.files import written
from tests.support.optional import present
from tests.support.reader_view import ReaderView
from tests.support.scenarios import SLOT, machines, stage

from treadle import events
from treadle.config.settings import Settings, default_settings, with_parts
from treadle.errors import UserError
from treadle.events import ApplicationState, Fate
from treadle.policy.mapreduce import finish_s
from treadle.simulator.cluster.tables import AppState
from treadle.simulator.engines_simulation import EnginesSimulation, with_engines
from treadle.simulator.feed import Feed
from treadle.simulator.measure import EngineFigures
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import SimulatedRun


def job(user: str, tasks: int, duration_s: float = 100.0, **more: Any) -> dict[str, Any]:
    return {"user": user, "framework": "mapreduce", "stages": [stage(tasks, duration_s)]} | more


def scenario(jobs: list[dict[str, Any]], engines: dict[str, Any], nodes: int = 1, **sections: Any) -> ScenarioModel:
    """Return a cluster of one node with ten places, unless it says otherwise."""
    return scenarios.scenario(jobs, machines(nodes, 10), engines=engines, **sections)


def simulation(given: ScenarioModel, settings: Settings | None = None) -> EnginesSimulation:
    base = settings or with_parts(default_settings(), {"fit": "first_fit"})
    return EnginesSimulation(given, jobs_of(given, Path(), 1), with_engines(given, base), 1)


def ran(given: ScenarioModel) -> tuple[SimulatedRun, dict[str, EngineFigures]]:
    found = simulation(given).run()
    return found, {each.name: each for each in found.engines}


def two(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return engines for the users a and b."""
    return {"a": {"select": {"users": ["a"]}} | a, "b": b}


SLOW = {"decision": {"t_job_s": 2.0, "t_task_s": 0.5}}
FAST = {"decision": {"t_job_s": 0.5}}


def test_a_decision_takes_t_job_and_t_task_and_others_do_not_wait_for_it() -> None:
    found, engines = ran(scenario([job("a", 4, 10.0), job("b", 2, 10.0, arrival_s=0.25)], two(SLOW, FAST)))
    apps = found.built.state.apps
    assert apps["finish_ms"].tolist() == [4_000 + 10_000, 250 + 500 + 10_000]
    assert (engines["a"].useful_s, engines["b"].useful_s) == (4.0, 0.5)
    assert engines["a"].busyness == pytest.approx(4.0 / 14.0)
    assert [engines[name].conflicts for name in "ab"] == [0, 0]
    assert found.fates == {"COMMITTED": 6}


def test_jobs_of_one_engine_wait_for_each_other() -> None:
    costs = {"decision": {"t_job_s": 1.0, "jobs_max": 1}}
    _, engines = ran(scenario([job("a", 1, 10.0, count=3)], {"all": costs}))
    assert engines["all"].wait_mean_s == pytest.approx((0.0 + 1.0 + 2.0) / 3)
    assert (engines["all"].decisions, engines["all"].applications) == (3, 3)
    _, together = ran(scenario([job("a", 1, 10.0, count=3)], {"all": {"decision": {"t_job_s": 1.0}}}))
    assert (together["all"].decisions, together["all"].wait_mean_s, together["all"].useful_s) == (1, 0.0, 3.0)


def test_what_another_engine_took_meanwhile_is_a_conflict_and_is_tried_again() -> None:
    # a decides on eight of ten places for six seconds; b takes five of them after half a second
    found, engines = ran(scenario([job("a", 8), job("b", 5, 20.0)], two(SLOW, FAST)))
    assert found.fates["CHANGED"] >= 3
    assert engines["a"].conflicts == 1
    assert engines["a"].wasted_s == pytest.approx(2.0 + 8 * 0.5)
    assert engines["a"].transactions == 1
    assert engines["a"].conflict_fraction == 1.0
    # after a second it tries again the three that are left, finds no room until b's tasks have ended, at 20.5 s
    assert engines["a"].retries == engines["a"].empty + 1
    assert engines["a"].empty_s == pytest.approx(engines["a"].empty * 3.5)
    assert found.unfinished == 0
    assert engines["b"].conflicts == 0


def test_coarse_conflicts_are_on_nodes_that_others_have_changed_though_there_is_room() -> None:
    jobs = [job("a", 2), job("b", 1), job("a", 2, arrival_s=200.0)]
    _, fine = ran(scenario(jobs, two(SLOW, FAST)))
    _, coarse = ran(scenario(jobs, two(SLOW | {"conflicts": "coarse"}, FAST)))
    assert (fine["a"].conflicts, fine["a"].transactions) == (0, 2)
    assert (coarse["a"].conflicts, coarse["a"].transactions) == (1, 2), "its own commits and ends of tasks are none"


@pytest.mark.parametrize("gang", [True, False])
def test_a_gang_is_committed_whole_or_not_at_all(gang: bool) -> None:
    given = scenario(
        [job("a", 8, 10.0), job("b", 5, 60.0)], two(SLOW | {"transactions": "gang" if gang else "incremental"}, FAST)
    )
    made = simulation(given)
    held = []
    found = made.run(after_step=lambda: held.append(int(made.rm.state.apps["containers"][0])))
    assert (set(held) == {0, 8}) == gang
    a = next(each for each in found.engines if each.name == "a")
    assert ("TRANSACTION" in found.fates) == gang
    assert a.conflicts == 1
    assert found.unfinished == 0


def test_a_tag_asks_for_the_first_containers_together() -> None:
    given = scenario([job("a", 8, 10.0, tags=["treadle:gang=4"]), job("b", 5, 60.0)], two(SLOW, FAST))
    made = simulation(given)
    held: list[int] = []
    made.run(after_step=lambda: held.append(int(made.rm.state.apps["containers"][0])))
    first = next(count for count in held if count)
    assert first >= 4, "five places are left: four and more are committed, though not all eight"


def test_a_gang_that_is_too_large_is_refused_and_counted() -> None:
    given = scenario(
        [job("a", 513, 1.0)],
        {"all": {"transactions": "gang"}},
        nodes=60,
        duration_limit_s=10.0,
        decision={"limit": 1000},
    )
    found, engines = ran(given)
    assert found.unfinished == 1
    assert found.end_ms == 10_000, "what is measured is measured up to the limit"
    assert engines["all"].too_large == engines["all"].empty > 0
    assert engines["all"].placed == 0


def test_back_off_doubles_and_who_conflicts_too_often_is_given_up_to_the_fallback() -> None:
    # Every half second b places something on the only node.
    jobs = [job("a", 2, 5.0), job("b", 1, 0.2, count=40, gap_s=0.5)]
    retry = {"backoff_ms": 100, "backoff_max_ms": 400, "attempts_max": 4}
    slow = {"decision": {"t_job_s": 1.0}, "conflicts": "coarse", "retry": retry}
    given = scenario(jobs, two(slow, {"decision": {"t_job_s": 0.05}}))
    made = simulation(given)
    starts: list[int] = []
    decisions = 0

    def look() -> None:
        nonlocal decisions
        if made.runners["a"].counts.decisions > decisions:
            decisions += 1
            starts.append(made.rm.now_ms)

    found = made.run(after_step=look)
    a, b = found.engines
    assert starts == [0, 1_100, 2_300, 3_700]
    assert (a.conflicts, a.given_up, a.moved, a.retries) == (4, 1, 1, 3)
    assert found.unfinished == 0
    assert b.placed == 40 + 2


def test_no_engine_uses_more_than_its_claim() -> None:
    given = scenario([job("a", 30, 10.0), job("b", 3, 10.0)], two({"claim": 0.4}, {}), nodes=3)
    made = simulation(given)
    most = 0

    def look() -> None:
        nonlocal most
        most = max(most, int(made.rm.state.apps["containers"][0]))

    found = made.run(after_step=look)
    assert most == 12
    assert found.unfinished == 0
    assert found.engines[0].over_claim > 0
    assert found.engines[0].conflicts == 0


def test_of_two_answers_at_once_the_one_with_precedence_is_first() -> None:
    jobs = [job("a", 8), job("b", 8)]
    for precedence, first in ((0, 0), (1, 1)):
        found, engines = ran(scenario(jobs, two(FAST, FAST | {"precedence": precedence})))
        started = found.built.state.apps["finish_ms"]
        assert int(np.argmin(started)) == first
        assert [engines[name].conflicts for name in "ab"] == [int(first == 1), int(first == 0)]


def test_an_outage_moves_applications_and_they_return_after_ten_steady_seconds() -> None:
    jobs = [job("a", 20, 30.0), job("a", 5, 5.0, arrival_s=32.0), job("a", 5, 5.0, arrival_s=52.0)]
    jobs.append(job("b", 1, 1.0, arrival_s=47.0))
    entry = {"outages": [{"at_s": 20.0, "for_s": 15.0}], "fallback": "b"}
    given = scenario(jobs, two(entry, {}))
    made = simulation(given)
    owners: dict[float, str | None] = {}

    def look() -> None:
        active = [app for app in range(4) if made.roster.owner(app) is not None]
        states = made.rm.state.apps["state"]
        running = [app for app in range(4) if states[app] in (AppState.STARTING, AppState.RUNNING)]
        assert active == running
        owners[made.rm.now_ms / 1000] = made.roster.owner(0)
        if made.rm.now_ms == 52_000:  # b was told of the jobs at 47 s that it has lost them
            assert not knows(made, "b", 0)
            assert knows(made, "a", 0)

    found = made.run(after_step=look)
    assert found.unfinished == 0
    assert owners[0.0] == "a" == owners[45.0]
    assert {owner for at, owner in owners.items() if 20.0 <= at < 45.0} == {"b"}
    a, b = found.engines
    assert (a.moved, b.moved) == (1, 2)
    assert b.placed >= 10, "what ended while a was dead was placed again by b"


def knows(made: EnginesSimulation, name: str, app: int) -> bool:
    """Say whether an engine's model has asks or tasks of an application."""
    cluster = present(made.runners[name].engine._cluster)
    known = cluster.apps.at[app]
    return int(known["first_row"]) >= 0 or int(known["first_group"]) >= 0


def test_an_engine_that_thinks_too_long_is_dead_and_its_answer_is_nobodys() -> None:
    slow = {"decision": {"t_job_s": 9.0}, "decision_max_s": 4.0}
    found, engines = ran(scenario([job("a", 3, 10.0)], two(slow, FAST)))
    assert found.fates == {"COMMITTED": 3, "NOT_OWNER": 3}
    assert (engines["a"].placed, engines["b"].placed) == (0, 3)
    assert (engines["a"].moved, engines["a"].conflicts) == (1, 0)
    assert found.built.state.apps["finish_ms"].tolist() == [4_000 + 500 + 10_000]


def test_an_engine_gets_its_own_applications_alone_and_all_nodes_and_queues() -> None:
    entry = {"outages": [{"at_s": 5.0, "for_s": 15.0}], "decision": {"t_job_s": 0.3, "jobs_max": 1}}
    jobs = [job("a", 14, 25.0, count=3, gap_s=3.0), job("b", 9, 7.0, count=4, gap_s=4.0)]
    made = simulation(scenario(jobs, two(entry, {"decision": {"t_job_s": 0.2, "jobs_max": 1}}), nodes=2))
    views = {name: ReaderView() for name in made.runners}
    own = made.rm.frame
    moved = 0

    def frame(engine: int = 0) -> list[events.Event]:
        nonlocal moved
        told = own(engine)
        name = list(made.runners)[engine]
        views[name].apply(told)
        compare(name)
        for event in told:
            if isinstance(event, events.Applications):
                moved += int((event.state == ApplicationState.MOVED).sum())
        return told

    def compare(name: str) -> None:
        everything = ReaderView()
        everything.apply(Feed(made.built, {}, False, None).frame(made.rm.state, None))
        mine = {app for app in range(7) if made.roster.owner(app) == name}
        for kind in (events.Applications, events.ApplicationUsage, events.Containers):
            known = {
                key: row
                for key, row in everything.table(kind).items()
                if (row["application"] if kind is events.Containers else key[0]) in mine
            }
            assert views[name].table(kind) == known, (name, kind.__name__)
        for shared in (events.Nodes, events.QueueLimits):
            assert views[name].table(shared) == everything.table(shared)
        open_apps = {key[0] for key in views[name].table(events.Requests)}
        assert len(open_apps) <= 1
        for key, row in views[name].table(events.Requests).items():
            assert row == everything.table(events.Requests)[key]

    made.rm.frame = frame  # type: ignore[method-assign]
    assert made.run().unfinished == 0
    assert moved > 0
    assert views["a"].snapshots == 2


def test_the_same_seed_gives_the_same_figures_and_every_application_has_an_owner() -> None:
    jobs = [job("a", 20, 5.0, count=6, gap_s=2.0), job("b", 30, 3.0, count=6, gap_s=1.0)]
    engines = two({"policy": {"fit": {"kind": "random_fit"}}} | SLOW, {"copies": 3} | FAST)
    master = {"master": SLOT, "heartbeat_ms": 300}
    given = scenario(
        jobs, engines, nodes=4, frameworks=master, failures={"task_probability": 0.05, "attempts_max": 100}
    )
    first, second = (simulation(given).run() for _ in range(2))
    assert first.unfinished == 0
    assert [asdict(each) for each in first.engines] == [asdict(each) for each in second.engines]
    assert first.fates == second.fates
    assert sum(each.placed for each in first.engines) == first.fates["COMMITTED"] == first.counts["containers"]


def test_fates_of_conflicts_keep_nobody_off_a_node() -> None:
    made = simulation(scenario([job("a", 8), job("b", 5, 20.0)], two(SLOW, FAST)))
    made.run()
    assert made.fates.get(int(Fate.NODE_FULL), 0) == 0


SMALL = """
cluster:
  nodes: [{count: 2, resources: {memory-mb: 4096, vcores: 4}}]
workload:
  jobs: [{user: a, count: 3, stages: [{tasks: 6, duration_s: 5, demand: {memory-mb: 1024, vcores: 1}}]}]
engines:
  a:
    select: {users: [a]}
    decision: {t_job_s: 0.1}
  b: {copies: 2}
"""


def test_the_command_shows_engines_and_writes_them(tmp_path: Path, cli: Cli) -> None:
    file, out = tmp_path / "scenario.yaml", tmp_path / "out.json"
    file.write_text(SMALL, "utf-8")
    shown = cli(["simulate", str(file), f"--out={out}"]).out
    assert "Engines" in shown
    assert "b-2" in shown
    (found,) = json.loads(out.read_text("utf-8"))["runs"]
    assert [each["name"] for each in found["engines"]] == ["a", "b-1", "b-2"]
    assert found["engines"][0]["placed"] == found["containers"] > 0
    file.write_text(SMALL.partition("engines:")[0], "utf-8")
    assert "Engines" not in cli(["simulate", str(file), f"--out={out}"]).out
    (found,) = json.loads(out.read_text("utf-8"))["runs"]
    assert "engines" not in found


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("copies: 2", "copys: 2"), "scenario.yaml:10: engines.b.copys: 'copys' is not one of"),
        (("t_job_s: 0.1", "t_jobs: 1"), "scenario.yaml:9: engines.a.decision.t_jobs: 't_jobs' is not one of"),
        (("{copies: 2}", "{select: {users: [b]}}"), "scenario.yaml:10: engines.b.select: the last entry must serve"),
        (("{copies: 2}", "{outages: [{at_s: 1, for_s: 1, copy: 2}]}"), "engines.b.outages: there is no copy 2, but 1"),
        (("{copies: 2}", "{plans: {schedules: 5}}"), "engines.b: plans.schedules: plans are not simulated"),
    ],
)
def test_a_wrong_entry_is_reported_with_its_line(change: tuple[str, str], told: str, tmp_path: Path, cli: Cli) -> None:
    file = written(tmp_path / "scenario.yaml", SMALL.replace(*change))
    assert told in cli(["simulate", str(file)], 2).err


def test_engines_in_both_files_are_refused() -> None:
    given = scenario([job("a", 1)], {"a": {}})
    settings = with_engines(given, default_settings())
    with pytest.raises(UserError, match="take them out of one"):
        with_engines(given, settings)


# An engine that serves MapReduce with the gate `parallelism`, simulated: widths, predicted ends, and others' jobs.


def mapreduce(maps: int, map_s: float, **more: Any) -> dict[str, Any]:
    return {"framework": "mapreduce", "stages": [stage(maps, map_s)]} | more


NODES, TICK = machines(10, 10), {"tick_ms": 1000}


def workers(policy: str, base: int) -> Settings:
    return with_parts(default_settings(), {"gate": ("parallelism", {"mode": policy, "workers": base})})


def ends_and_width(given: ScenarioModel, settings: Settings) -> tuple[list[int], int]:
    """Return when each job ends, milliseconds, and the most containers that the first had at a time."""
    made = scenarios.simulation(given, settings)
    widest = 0

    def look() -> None:
        nonlocal widest
        widest = max(widest, int(made.rm.state.apps["containers"][0]))

    run = made.run(after_step=look)
    assert run.unfinished == 0
    return run.built.state.apps["finish_ms"].tolist(), widest


def test_a_job_is_kept_to_its_width_and_ends_when_it_was_predicted_to() -> None:
    given = scenarios.scenario([mapreduce(24, 20.0)], NODES, decision=TICK)
    (ends_ms,), alone = ends_and_width(given, workers("as_requested", 8))
    assert alone <= 8 + 1, "its master is none of the workers"
    assert ends_ms / 1000 == pytest.approx(finish_s(8, 24, 20.0, 0, 0.0), rel=0.25)
    (sooner_ms,), wide = ends_and_width(given, workers("max_parallelism", 8))
    assert wide >= 24
    assert sooner_ms / 1000 == pytest.approx(finish_s(24, 24, 20.0, 0, 0.0), rel=0.25)


def test_another_engines_jobs_are_as_fast_beside_a_specialist_with_a_cap() -> None:
    service = [mapreduce(10, 10.0, user="service", arrival_s=5.0 + 20.0 * at) for at in range(5)]
    jobs = [mapreduce(200, 15.0, user="batch"), *service]
    ends: dict[str, list[int]] = {}
    for policy in ("as_requested", "global_cap"):
        gate = {"kind": "parallelism", "mode": policy, "workers": 20}
        roster = {"batch": {"select": {"users": ["batch"]}, "policy": {"gate": gate}}, "service": {}}
        several = scenarios.scenario(jobs, NODES, decision=TICK, engines=roster)
        settings = with_engines(several, default_settings())
        run = EnginesSimulation(several, jobs_of(several, Path(), 1), settings, 1).run()
        assert run.unfinished == 0
        ends[policy] = run.built.state.apps["finish_ms"].tolist()
    assert ends["global_cap"][0] < 0.6 * ends["as_requested"][0], "with 60 workers instead of 20"
    for began_s, mine, before in zip(
        (5.0 + 20.0 * at for at in range(5)), ends["global_cap"][1:], ends["as_requested"][1:], strict=True
    ):
        assert mine - 1000 * began_s <= 1.05 * (before - 1000 * began_s)
