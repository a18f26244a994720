"""What a policy has learned outlives a snapshot, whose indices are others: proposals are as without one."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.engine.fake_rm import FakeRM, cluster, flat
from tests.engine.parts import any_parts, estimates, job_row, ranks, settings_with
from tests.engine.test_engine_properties import NARROW, REJECTIONS, clusters
from tests.engine.twins import Shifts, Twins
from tests.support.optional import present

from treadle.config.settings import EngineReservation
from treadle.events import ApplicationState, NodeState, TaskClaims
from treadle.policy.slearn.table import Sampling

COMMON = settings(deadline=None, max_examples=50, suppress_health_check=list(HealthCheck))
ELSEWHERE = Shifts(application=3, node=2, queue=5, key=7, name=11)
MAP, REDUCE = 20, 10


def two_queues(nodes: int = 2, each: int = 4, tell: dict[str, str] | None = None) -> tuple[FakeRM, list[int]]:
    rm = FakeRM(settings=tell)
    for at in range(nodes):
        rm.node(f"n{at}", (each, each), rack=f"/r{at % 2}")
    size = nodes * each // 2
    return rm, flat(rm, 2, (size, size))


def churn(twins: Twins, ticks: int, ends: int = 1) -> None:
    """Let containers end and others take their room."""
    for _ in range(ticks):
        for _ in range(min(ends, len(twins.running))):
            life = twins.running[0]
            twins.end(0)
            asks = twins.rm.applications[life[0]].asks
            (key,) = [key for key, ask in asks.items() if ask.priority == life[2]]

            def again(rm: FakeRM, application: int = life[0], key: int = key) -> None:
                rm.applications[application].asks[key].count += 1
                rm.change(application)

            twins.do(again)
        twins.tick(limit=ends)


@pytest.mark.parametrize(
    "parts",
    [
        {"order": "las", "share": "none"},
        {"share": ("deficit", {"kappa": 0.2}), "order": "fifo"},
        {"share": ("deficit", {"kappa": 0.0, "slots": True}), "order": "las"},
        {"order": ("mlfq", {"size": "attained_service", "first_threshold_ms": 5000, "levels": 4})},
        {"order": "srpt", "estimate": "observed"},
        {"order": "srpt", "estimate": "observed", "fit": ("tetris", {"candidates": 4})},
    ],
)
def test_what_a_policy_has_learned_of_applications_and_queues_is_kept(parts: dict[str, Any]) -> None:
    rm, leaves = two_queues()
    for at, leaf in enumerate((*leaves, *leaves)):
        app = rm.application(leaf, start_ms=at)
        rm.ask(app, 0, 6 + at, (1, 1 + at % 2), priority=1)
    twins = Twins(rm, settings_with(**parts))
    twins.tick(limit=3)
    churn(twins, 5)
    twins.tick(snapshot=ELSEWHERE, limit=1)
    churn(twins, 6)
    twins.tick(snapshot=Shifts(), limit=1)
    churn(twins, 6)


def test_deficits_are_those_of_a_queue_and_a_partition_by_their_names() -> None:
    rm, leaves = two_queues(nodes=3)
    for at, partition in enumerate(("gpu", "", "gpu")):
        rm.nodes[at].partition = partition
    for leaf in leaves:
        for key, partition in enumerate(("", "gpu")):
            app = rm.application(leaf)
            rm.ask(app, key, 20, (1, 1), partition=partition, priority=1)
    twins = Twins(rm, settings_with(share=("deficit", {"kappa": 1.0, "slots": True})))
    twins.tick(limit=5)
    churn(twins, 3)
    twins.tick(snapshot=ELSEWHERE, limit=0)
    kept, other = (present(told.engine._policy.share.tree) for told in (twins.plain, twins.other))
    assert kept._partitions == other._partitions == ("", "gpu")
    deficits = [present(tree._shares).kept for tree in (kept, other)]
    assert deficits[0].any()
    assert deficits[0].tolist() == deficits[1].tolist()


def gone(twins: Twins, app: int) -> None:
    """Let an application end."""
    twins.do(lambda rm: setattr(rm.applications[app], "state", ApplicationState.GONE))
    twins.do(lambda rm: rm.change(app))


def ask_one(twins: Twins, app: int) -> None:
    """Let an application ask for a container."""
    twins.do(lambda rm: rm.ask(app, 0, 1, (1, 1), priority=1))


def sampled(twins: Twins, maps: int) -> int:
    leaf = len(twins.rm.queues) - 1
    app = len(twins.rm.applications)
    twins.do(lambda rm: rm.application(leaf, kind="MAPREDUCE", start_ms=app))
    twins.do(lambda rm: rm.ask(app, 0, maps, (1, 1), priority=MAP))
    return app


def pilots(**gate: Any) -> Twins:
    rm = cluster((60, 60))
    policy = settings_with(gate=("pilots", {"work_conserving": False} | gate), order="mlfq", estimate="pilots")
    return Twins(rm, policy)


def test_pilots_and_what_they_said_live_on_though_nobody_tells() -> None:
    twins = pilots(ratio="fixed", ratio_fraction=0.1)
    app = sampled(twins, 40)
    assert len(twins.tick()) == 4
    twins.end(0)
    twins.end(0)
    assert twins.tick(snapshot=ELSEWHERE) == []
    twins.end(0)
    assert twins.tick() == []
    twins.end(0)
    assert len(twins.tick(snapshot=Shifts())) == 36, "the last pilot has ended"
    both = (twins.plain, twins.other)
    jobs = [job_row(told.engine, app + told.shifts.application) for told in both]
    assert jobs[0]["sampling"] == jobs[1]["sampling"] == Sampling.OPEN
    for name in ("pilot_mean_ms", "pilot_error", "width", "pilots_ended"):
        assert jobs[0][name] == jobs[1][name], name
    records = [told.engine._cluster.apps.at[app + told.shifts.application] for told in both]  # type: ignore[union-attr]
    for name in ("container_ms", "service_ms"):
        assert records[0][name] == records[1][name], name


def test_tasks_that_begin_before_a_snapshot_is_drawn_are_pilots_as_long_as_some_are_missing() -> None:
    twins = pilots(ratio="fixed", ratio_fraction=0.1)
    app = sampled(twins, 40)
    assert len(twins.tick()) == 4
    assert twins.tick(snapshot=ELSEWHERE) == [], "four run that the engine hears of now for the first time"
    assert job_row(twins.other.engine, app + ELSEWHERE.application)["pilots_running"] == 4


def test_the_adaptive_ratio_goes_on_where_it_was() -> None:
    """With T = 1 each job has the next ratio: 3 %, 2 %, 4 %, then the best. A snapshot tells that it has ended."""
    twins = pilots(ratio="adaptive", ratio_jobs=1)
    counts = []
    for turn in range(5):
        app = sampled(twins, 100)
        counts.append(len(twins.tick(snapshot=Shifts(application=turn))))
        for after_ms in (1000 * (turn + 1), 500):
            while twins.running:
                twins.end(0)
            twins.tick(after_ms)
        while twins.running:
            twins.end(0)
        twins.tick()
        gone(twins, app)
    assert counts[:3] == [3, 2, 4]
    gates = [told.engine._policy.gate._ratio for told in (twins.plain, twins.other)]  # type: ignore[attr-defined]
    assert gates[0]._scores == gates[1]._scores
    assert {2.0, 3.0, 4.0} <= set(gates[0]._scores)


def test_a_job_that_a_snapshot_of_another_connection_does_not_tell_of_teaches_no_ratio() -> None:
    twins = pilots(ratio="adaptive", ratio_jobs=1)
    app = sampled(twins, 100)
    twins.tick()
    twins.do(lambda rm: setattr(rm.applications[app], "state", ApplicationState.GONE))
    twins.epoch = 2
    twins.tick(snapshot=ELSEWHERE)
    ratios = [told.engine._policy.gate._ratio._scores for told in (twins.plain, twins.other)]  # type: ignore[attr-defined]
    assert not ratios[1], "when it ended is not known"


def test_a_row_that_waits_for_a_nearer_node_has_waited_as_long_as_before() -> None:
    rm, leaves = two_queues(nodes=4, tell={"node-locality-delay": "3", "rack-locality-additional-delay": "2"})
    busy, app = rm.application(leaves[0]), rm.application(leaves[1])
    rm.ask(busy, 0, 4, (1, 4), priority=1, relax=False, places={"n0": (4, True), "/r0": (4, False)})
    twins = Twins(rm, settings_with())
    twins.tick()
    twins.do(lambda rm: rm.ask(app, 0, 4, (1, 1), priority=1, places={"n0": (4, True), "/r0": (4, True)}))
    made = []
    for at in range(8):
        made += twins.tick(250, snapshot=Shifts(key=at, node=at) if at % 2 else None)
    assert len(made) == 4, "it did not wait for ever"
    assert twins.rm.containers[0][1] == 0


def test_a_node_stays_held_for_a_big_ask() -> None:
    rm, leaves = two_queues()
    small, big = rm.application(leaves[0]), rm.application(leaves[1], start_ms=1)
    rm.ask(small, 0, 100, (1, 1), priority=1)
    twins = Twins(rm, replace(settings_with(), engine_reservation=EngineReservation(duration_ms=5000)))
    twins.tick(limit=8)
    twins.do(lambda rm: rm.ask(big, 0, 1, (4, 4), priority=1))
    twins.end(0)
    assert [app for app, _, _ in twins.tick(400)] == [small], "it overtakes the big one, which is given a node"
    placed = []
    for at in range(4):
        assert twins.plain.engine._cluster is not None
        (held,) = np.flatnonzero(twins.plain.engine._cluster.nodes.at["hold_row"] >= 0).tolist()
        on_it = [place for place, life in enumerate(twins.running) if twins.node_of(life[1]) == held]
        twins.end(on_it[0])
        placed += twins.tick(400, snapshot=Shifts(node=at % 4, key=at % 3))
    assert placed == [(big, 0, held)], "the node was kept free until the big one fitted"


def test_hints_about_tasks_are_kept() -> None:
    """Durations and ranks of keys that ask, of one that asks no more but runs, and of a stage not asked for yet."""
    rm, leaves = two_queues()
    apps = [rm.application(leaf, start_ms=at) for at, leaf in enumerate(leaves)]
    rm.ask(apps[0], 0, 2, (1, 1), priority=1)
    rm.ask(apps[0], 1, 9, (1, 1), priority=2)
    rm.ask(apps[1], 0, 9, (1, 1), priority=1)
    twins = Twins(rm, settings_with(order="srpt", share="none", estimate="hints", fit=("tetris", {"candidates": 4})))
    for key, duration_ms in ((0, 900_000), (1, 10), ((1 << 22) - 2, 5_000)):
        twins.estimate(apps[0], key, duration_ms, 3 if key > 1 else -1)
    said = estimates((apps[1], 0, 90_000, 9))
    twins.tell(TaskClaims(*(getattr(said, field.name) for field in fields(said))))
    twins.tell(ranks((apps[1], 0, 0.25)))
    twins.tick(limit=5)
    twins.tick(snapshot=ELSEWHERE, limit=0)
    both = [told.engine._policy.jobs.work() for told in (twins.plain, twins.other)]  # type: ignore[union-attr]
    assert both[0][apps[0]] == pytest.approx(both[1][apps[0] + 3])
    assert both[0][apps[1]] == pytest.approx(both[1][apps[1] + 3])
    twins.tick(limit=2)
    twins.tick(snapshot=Shifts(), limit=1)
    churn(twins, 4)
    assert twins.other.engine._cluster.hints.size == 4, "nothing is there twice"  # type: ignore[union-attr]
    assert twins.other.engine._cluster.hints.has_claims  # type: ignore[union-attr]


def test_a_snapshot_that_is_cut_short_loses_nothing() -> None:
    rm, leaves = two_queues()
    for at, leaf in enumerate(leaves):
        rm.ask(rm.application(leaf, start_ms=at), 0, 9, (1, 1), priority=1)
    twins = Twins(rm, settings_with(order="las", share="none"))
    twins.tick(limit=3)
    churn(twins, 3)
    other = twins.other
    other.rm.snapshot_next()
    other.engine.apply(other.rm.frame()[:6])  # its queues and nodes, no applications
    other.rm.sequence -= 1
    twins.tick(snapshot=ELSEWHERE, limit=0)
    service = [told.engine._cluster.apps.at["service_ms"] for told in (twins.plain, other)]  # type: ignore[union-attr]
    assert service[0][:2].all()
    assert service[0][:2].tolist() == service[1][3:5].tolist()


def test_nothing_is_kept_of_applications_that_have_gone() -> None:
    rm, leaves = two_queues()
    twins = Twins(rm, settings_with(order="las"))
    for at in range(50):
        app = twins.do(lambda rm: rm.application(leaves[0]))
        ask_one(twins, app)
        twins.estimate(app, 0, 1000)
        twins.tick()
        twins.end(0)
        twins.tick()
        gone(twins, app)
        twins.tick(snapshot=Shifts(application=at % 7))
        cluster = present(twins.other.engine._cluster)
        assert (cluster.hints.size, cluster.groups.size, cluster.requests.size) == (0, 0, 0)
        assert twins.other.engine._before is None


STEPS_MS = st.sampled_from([10, 1000, 40_000])
SOMEWHERE = st.builds(Shifts, *[st.integers(0, 4)] * 5)
FITS = ["packing", "first_fit", "tetris"]


@st.composite
def learning_parts(draw: Any) -> dict[str, Any]:
    """Return parts; nodes are not drawn at random, since draws begin anew with a snapshot."""
    parts: dict[str, Any] = draw(st.one_of(any_parts(), any_parts(), st.sampled_from(NARROW)))
    if parts.get("fit") == "random_fit":
        parts["fit"] = draw(st.sampled_from(FITS))
    return parts


@given(st.data(), clusters({"node-locality-delay": "2"}), learning_parts(), st.booleans())
@COMMON
def test_a_snapshot_anywhere_changes_no_later_proposal(
    data: st.DataObject, rm: FakeRM, parts: dict[str, Any], holds: bool
) -> None:
    draw = data.draw
    if parts.get("gate") == "pilots":
        del rm.nodes[1:]  # where pilots run is drawn
    for app in rm.applications:
        app.kind = draw(st.sampled_from(["MAPREDUCE", ""]))
        for key, ask in app.asks.items():
            ask.priority = MAP + key
            ask.places = {name: where for name, where in ask.places.items() if len(rm.nodes) > 1}
    policy = settings_with(**parts)
    twins = Twins(rm, replace(policy, engine_reservation=EngineReservation() if holds else policy.engine_reservation))
    for _ in range(draw(st.integers(2, 12))):
        _change(draw, twins)
        reasons = draw(st.lists(st.sampled_from(REJECTIONS), max_size=2))
        snapshot = draw(st.one_of(st.none(), st.none(), SOMEWHERE))
        limit = draw(st.integers(0, 12))
        twins.tick(draw(STEPS_MS), limit, snapshot, dict(enumerate(reasons)).get)


def _change(draw: Any, twins: Twins) -> None:
    """Do something to the cluster."""
    rm = twins.rm
    for _ in range(draw(st.integers(0, min(3, len(twins.running))))):
        twins.end(draw(st.integers(0, len(twins.running) - 1)), draw(st.sampled_from([0, 0, 1, -100])))
    app = draw(st.integers(0, len(rm.applications) - 1))
    match draw(st.sampled_from(["ask", "node", "gone", "tell", "rank", ""])):
        case "ask" if rm.applications[app].state != ApplicationState.GONE:
            key, count = draw(st.integers(0, 3)), draw(st.integers(1, 6))
            capability = (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
            twins.do(lambda rm: rm.ask(app, key, count, capability, priority=MAP + key))
        case "node":
            node, state = draw(st.integers(0, len(rm.nodes) - 1)), draw(st.sampled_from([1, 2]))
            twins.do(lambda rm: setattr(rm.nodes[node], "state", NodeState(state)))
        case "gone" if not any(life[0] == app for life in twins.running):
            twins.do(lambda rm: setattr(rm.applications[app], "state", ApplicationState.GONE))
            twins.do(lambda rm: rm.applications[app].asks.clear())
            twins.do(lambda rm: rm.change(app))
        case "tell" | "rank" as told:
            for key, ask in rm.applications[app].asks.items():
                if ask.count > 0 and rm.applications[app].state != ApplicationState.GONE:
                    if told == "tell":
                        twins.estimate(app, key, draw(st.sampled_from([500, 64_000])))
                    else:
                        twins.tell(ranks((app, key, draw(st.sampled_from([0.25, 1.0])))))
