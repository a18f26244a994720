"""A hub with engines that are plain objects: who is asked what, and what their answers become."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.support.hub import Manager, PlainChild, Row, roster, rows_of

from treadle import events
from treadle.config.settings import GANG_MAX, STEADY_MS
from treadle.engine.testing import StringTable, request, rows
from treadle.events import NOTHING_HELD, ApplicationState, Fate, Held
from treadle.sidecar.conversation import FAILURES_MAX, Listener
from treadle.sidecar.hub import CLAIMS_EVERY_MS
from treadle.sidecar.merge import FIGURES
from treadle.wire.answer import Status
from treadle.wire.frames import FrameFlag

BY_QUEUE: dict[str, dict[str, Any]] = {"prod": {"select": {"queues": ["root.q0"]}}, "rest": {}}
"""Applications with even indices are of the first engine, the others of the second."""


def begun(entries: dict[str, dict[str, Any]] = BY_QUEUE, **settings: int) -> tuple[Manager, list[PlainChild]]:
    """Return a manager whose engines have had the snapshot, and these."""
    manager = Manager(entries)
    for name, value in settings.items():
        setattr(manager, name, value)
    manager.snapshot()
    return manager, list(manager.children.values())


def applications(child: PlainChild, last: int = 1) -> dict[int, int]:
    """Return the applications that an engine heard of in its last frames, and the state of each."""
    found: dict[int, int] = {}
    for event in child.events(events.Applications, last):
        found |= dict(zip(event.application.tolist(), event.state.tolist(), strict=True))
    return found


def plan(child: PlainChild, *answers: Sequence[Row]) -> None:
    child.plan.extend(answers)


def test_each_engine_gets_all_nodes_and_its_own_applications() -> None:
    _, (prod, rest) = begun()
    assert set(applications(prod)) == {0, 2, 4}
    assert set(applications(rest)) == {1, 3, 5}
    for child in (prod, rest):
        (nodes,) = child.events(events.Nodes)
        assert nodes.node.tolist() == list(range(8))
        assert child.frames[0].header.snapshot


def test_answers_are_merged_by_turns_in_pieces_and_fates_go_back_in_each_engines_numbering() -> None:
    manager, (prod, rest) = begun(batch=2)
    manager.send()
    plan(prod, [(0, 0, 0), (0, 0, 1), (2, 0, 2)])
    plan(rest, [(1, 0, 3), (3, 0, 4), (5, 0, 5)])
    answer = manager.send()
    assert rows_of(answer) == [(0, 0, 0), (0, 0, 1), (1, 0, 3), (3, 0, 4), (2, 0, 2), (5, 0, 5)]
    assert answer.proposals.transaction is None
    assert not answer.again
    full, committed = int(Fate.NODE_FULL), int(Fate.COMMITTED)
    manager.send(manager.fates(answer, committed, full, committed, committed, full, committed))
    decided_on = prod.frames[-2].header.sequence
    assert prod.fates() == [(decided_on, 0, committed), (decided_on, 1, full), (decided_on, 2, full)]
    assert [fate for _, _, fate in rest.fates()] == [committed] * 3


def test_of_two_that_wait_precedence_counts_but_nobody_is_passed_over_twice() -> None:
    manager, (low, high) = begun({"low": {"select": {"queues": ["root.q0"]}}, "high": {"precedence": 5}}, batch=1)
    manager.limit = 1
    plan(low, [(0, 0, 0), (0, 0, 1)])
    plan(high, [(1, 0, 0), (1, 0, 1)])
    order = [rows_of(manager.send())[0][0] for _ in range(4)]
    assert order == [1, 0, 1, 0]


def test_what_is_left_over_is_sent_next_and_no_frame_goes_to_who_waits() -> None:
    manager, (prod, _) = begun()
    manager.limit = 2
    plan(prod, [(0, 0, node) for node in range(5)])
    first = manager.send()
    assert len(first.proposals) == 2
    assert first.again
    asked = len(prod.frames)
    second, third = manager.send(), manager.send()
    assert [len(second.proposals), len(third.proposals)] == [2, 1]
    assert (second.again, third.again) == (True, False)
    assert len(prod.frames) == asked
    manager.send()
    assert len(prod.frames) == asked + 1


def test_a_limit_bounds_where_transactions_begin_not_where_they_end() -> None:
    manager, (prod, _) = begun()
    manager.limit = 3
    plan(prod, [(0, 0, 0, 0), (2, 0, 1, 1), (2, 0, 2, 1), (2, 0, 3, 1), (2, 0, 4, 1), (0, 0, 5, 2)])
    answer = manager.send()
    assert len(answer.proposals) == 5
    assert answer.proposals.transaction is not None
    assert answer.proposals.transaction.tolist() == [0, 1, 1, 1, 1]
    assert len(manager.send().proposals) == 1


def test_an_engine_that_thinks_is_not_waited_for_and_misses_nothing() -> None:
    manager, (prod, rest) = begun()
    prod.thinks = True
    plan(rest, [(1, 0, 0)])
    answer = manager.send()
    assert rows_of(answer) == [(1, 0, 0)]
    assert answer.again
    asked = len(prod.frames)
    texts = StringTable()
    for node in (3, 4):
        free = rows(events.Nodes, texts, [{"node": node, "state": 1, "total": [9, 9], "free": [node, node]}])
        assert manager.send(free).again
    assert len(prod.frames) == asked
    assert len(rest.frames) == asked + 2
    prod.thinks = False
    plan(prod, [(0, 0, 7)])
    prod.answer()
    assert rows_of(manager.send()) == [(0, 0, 7)]
    manager.send()
    (free,) = prod.events(events.Nodes)
    assert free.node.tolist() == [3, 4]
    assert not prod.frames[-1].header.snapshot


def test_applications_of_a_dead_engine_move_and_return_when_it_has_lived_long_enough() -> None:
    manager, (prod, rest) = begun()
    prod.alive = False
    assert not manager.send().unserved
    assert set(applications(rest)) == {0, 2, 4}
    prod.alive = True
    prod.begin_anew()
    manager.send()
    assert applications(prod) == {}
    manager.now_ms += STEADY_MS
    manager.send()
    assert set(applications(prod)) == {0, 2, 4}
    assert set(applications(rest).values()) == {ApplicationState.MOVED}
    owners = manager.hub.roster_json()
    assert owners["applications"]["application_1_0002"] == ["prod", "prod", ""]
    assert owners["engines"]["rest"]["moved"] == 3


def test_applications_that_nobody_serves_are_said_and_proposals_of_their_last_owner_dropped() -> None:
    manager, (prod, rest) = begun()
    prod.thinks = rest.thinks = True
    manager.send()
    plan(prod, [(0, 0, 0)])
    rest.alive = False
    prod.messages += 1
    assert not manager.send().unserved
    prod.alive = False
    assert manager.send().unserved


def test_an_answer_without_any_sign_of_life_since_the_last_one_does_not_renew_the_lease() -> None:
    manager, (prod, rest) = begun()
    assert not manager.send().unserved
    prod.thinks = rest.thinks = True
    assert manager.send().unserved
    prod.messages += 1
    assert not manager.send().unserved
    assert manager.send().unserved
    rest.thinks = False
    rest.answer()
    assert not manager.send().unserved
    assert not manager.send().unserved, "it answers each frame"


def test_an_engine_with_many_wrong_answers_in_a_row_is_started_again() -> None:
    manager, (prod, _) = begun()
    for wrong in (FAILURES_MAX - 1, 0, FAILURES_MAX):
        for _ in range(wrong):
            plan(prod, [(0, 0, 0, 0)] * (GANG_MAX + 1))
            manager.send()
        assert prod.alive == (wrong < FAILURES_MAX)
        manager.send()
    assert "8 of its answers" in prod.problem


def test_a_proposal_for_another_engines_application_is_dropped_with_its_transaction() -> None:
    manager, (prod, _) = begun()
    plan(prod, [(0, 0, 0, 0), (2, 0, 1, 1), (1, 0, 2, 1), (4, 0, 3, 2)])
    assert rows_of(manager.send()) == [(0, 0, 0), (4, 0, 3)]
    manager.send()
    assert [fate for _, _, fate in prod.fates()] == [Fate.TRANSACTION, Fate.NOT_OWNER]


@pytest.mark.parametrize("claim", [0.125, 0.25])
def test_a_claim_bounds_what_an_engine_uses_with_what_is_in_flight(claim: float) -> None:
    manager, (prod, _) = begun({"prod": {"select": {"queues": ["root.q0"]}, "claim": claim}, "rest": {}})
    fits = round(claim * 8 * 8)  # vcores of eight nodes, one a container
    plan(prod, [(0, 0, 0)] * (fits - 1), [(2, 0, 1)] * 3)
    assert len(manager.send().proposals) == fits - 1
    assert len(manager.send().proposals) == 1
    manager.send()
    assert [fate for _, _, fate in prod.fates()] == [Fate.CLAIM] * 2


def test_asks_beyond_a_claim_and_what_engines_hold_back_are_named() -> None:
    manager, (prod, rest) = begun({"prod": {"select": {"queues": ["root.q0"]}, "claim": 0.3}, "rest": {}})
    assert manager.send().held.applications.tolist() == []
    plan(prod, [(0, 0, 0)] * 19)  # vcores of eight nodes, one a container
    manager.send()
    manager.now_ms += CLAIMS_EVERY_MS
    assert manager.send().held.applications.tolist() == [0, 2, 4]
    rest.held = Held(np.array([1, 2], np.int32), np.array([7], np.int32))
    manager.send()
    found = manager.send().held
    assert found.applications.tolist() == [0, 1, 2, 4]  # of what it names only its own
    assert found.nodes.tolist() == [7]
    rest.held = NOTHING_HELD
    manager.snapshot()
    assert manager.send().held.nodes.tolist() == []


def coarse() -> dict[str, dict[str, Any]]:
    return {"prod": {"select": {"queues": ["root.q0"]}, "conflicts": "coarse"}, "rest": {}}


def test_coarse_conflicts_are_what_others_have_sent_or_committed_since_the_engine_looked() -> None:
    manager, (prod, rest) = begun(coarse())
    prod.thinks = True
    plan(rest, [(1, 0, 3)], [(1, 0, 4)])
    first = manager.send()
    manager.send(manager.fates(first, Fate.COMMITTED))
    prod.thinks = False
    plan(prod, [(0, 0, 3), (0, 0, 4), (0, 0, 5)])
    prod.answer()
    assert rows_of(manager.send()) == [(0, 0, 5)]
    plan(prod, [(0, 0, 3), (0, 0, 4)])
    assert rows_of(manager.send()) == [(0, 0, 3)]  # that on 4 is still in flight
    manager.send()
    assert [fate for _, _, fate in prod.fates()] == [Fate.CHANGED] * 3


def test_what_native_scheduling_commits_is_a_coarse_conflict_and_what_the_engine_itself_does_is_none() -> None:
    manager, (prod, _) = begun(coarse())
    prod.thinks = True
    manager.send()
    placed = {"application": 0, "event": 1, "capability": [1024, 1]}
    native = rows(
        events.Containers,
        StringTable(),
        [placed | {"container": 7, "node": 3}, placed | {"container": 8, "node": 4, "by_treadle": 1}],
    )
    manager.send(native)
    prod.thinks = False
    plan(prod, [(0, 0, 3), (0, 0, 4)])
    prod.answer()
    assert rows_of(manager.send()) == [(0, 0, 4)]


def test_a_snapshot_of_the_manager_makes_what_was_decided_before_it_stale() -> None:
    manager, (prod, rest) = begun()
    prod.thinks = True
    manager.send()
    manager.snapshot()
    assert rest.frames[-1].header.snapshot
    prod.thinks = False
    plan(prod, [(0, 0, 3)])
    prod.answer()
    assert rows_of(manager.send()) == []
    assert prod.frames[-1].header.snapshot
    assert set(applications(prod)) == {0, 2, 4}
    assert manager.hub.roster_json()["engines"]["prod"]["conflicts"] == 1


def test_an_engine_that_wants_a_snapshot_gets_it_from_the_hub() -> None:
    manager, (prod, rest) = begun()
    prod.resend = True
    assert not manager.send().resend
    manager.send()
    assert prod.frames[-1].header.snapshot
    assert set(applications(prod)) == {0, 2, 4}
    assert not rest.frames[-1].header.snapshot


def test_what_is_no_answer_is_not_used() -> None:
    manager, (prod, _) = begun()
    for answer in (b"", b"nonsense", b"x" * 100):
        prod.thinks = True
        manager.send()
        prod.thinks = False
        prod.answer()
        prod._answer = answer
        assert len(manager.send().proposals) == 0
        assert prod.frames[-1].header.snapshot


def test_what_no_engine_may_say_reaches_nobody() -> None:
    manager, (prod, rest) = begun()
    manager.limit = 100
    whole = [(0, 0, 0, 0)] * (GANG_MAX + 1)
    many = [(0, 0, 0)] * (manager.limit + GANG_MAX)
    for rows_, status in ((whole, {}), (many, {}), ([], {"engines": {"figures": {"retries": 10**1000}}})):
        plan(prod, rows_)
        plan(rest, [(1, 0, 0)])
        prod.status = {"policy": "hostile", "configuration": 1} | status
        assert rows_of(manager.send()) == [(1, 0, 0)]
        assert manager.send().proposals is not None
        assert prod.frames[-1].header.snapshot, "its answer was not used"


def test_the_first_engine_leaves_room_for_what_the_others_say() -> None:
    manager, (prod, rest) = begun()
    prod.status = {"policy": "one", "configuration": 1, "warnings": [f"w{at}" for at in range(20)]}
    rest.status = {"policy": "two", "configuration": 1, "warnings": ["mine; prod: not mine"]}
    manager.now_ms += 10_000
    manager.send()
    assert manager.status["warnings"][:3] == ["prod: w0", "prod: w1", "rest: mine, prod: not mine"]


def test_nothing_is_kept_for_an_engine_that_is_dead() -> None:
    manager, (prod, _) = begun()
    prod.alive = False
    manager.send()
    prod.alive = True
    manager.send()
    assert prod.frames[-1].header.snapshot


def test_frames_that_do_not_continue_are_refused_until_a_snapshot() -> None:
    manager, (prod, _) = begun()
    manager.sequence += 1
    assert manager.send().resend
    assert manager.send().resend
    assert len(prod.frames) == 1
    assert not manager.snapshot().resend
    assert prod.frames[-1].header.snapshot


def test_an_application_that_was_given_up_is_served_by_another_and_hears_why() -> None:
    manager, (prod, rest) = begun()
    prod.status = {"policy": "p", "engines": {"given_up": [[0, "too many conflicts"], [1, "not its own"]]}}
    manager.send()
    assert set(applications(rest, 2)) >= {1}
    manager.send()
    assert 0 in applications(rest)
    assert manager.status["diagnostics"] == [[0, "too many conflicts; engine rest serves it now"]]
    assert manager.hub.roster_json()["applications"]["application_1_0000"] == ["prod", "rest", "given up"]


def test_sizes_count_when_an_application_asks_for_tasks() -> None:
    manager = Manager({"large": {"select": {"tasks_min": 20}}, "rest": {}})
    manager.snapshot()
    large, rest = manager.children.values()
    assert applications(large) == {}
    texts = StringTable()
    new = {"cluster_timestamp": 1, "id": 9, "attempt": 1, "queue": 1, "state": 1}
    waiting = rows(events.Applications, texts, [new | {"application": 9, "awaiting_am": 1}])
    manager.send(waiting, rows(events.Requests, texts, [request(9, 0, 1, [1024, 1])]))
    assert set(applications(rest)) == {9}
    running = rows(events.Applications, texts, [new | {"application": 9, "replaces": 1}])
    manager.send(running, rows(events.Requests, texts, [request(9, 1, 20, [1024, 1])]))
    assert set(applications(large)) == {9}
    assert applications(rest) == {9: ApplicationState.MOVED}


def test_another_roster_is_followed_and_who_stays_goes_on() -> None:
    manager, (prod, rest) = begun()
    manager.rosters.append(roster({"prod": {"select": {"queues": ["root.q1"]}}, "new": {}}))
    manager.configuration = 2
    manager.send()
    new = manager.children["new"]
    assert rest.closed
    assert not prod.closed
    assert not prod.frames[-1].header.snapshot
    manager.send()
    assert set(applications(new, 2)) == {0, 2, 4}
    assert applications(prod, 2) == dict.fromkeys((0, 2, 4), int(ApplicationState.MOVED)) | dict.fromkeys((1, 3, 5), 1)


def test_one_status_says_what_all_say() -> None:
    manager, (prod, rest) = begun()
    same = {"configuration": 1, "warnings": ["the disk is full"], "engines": {"figures": {"retries": 3}}}
    prod.status = same | {"policy": "one", "overrides_order": True, "error": "a part failed"}
    rest.status = same | {"policy": "two", "configuration": 2, "diagnostics": [[1, "wait"], [0, "another's"]]}
    manager.now_ms += 10_000
    manager.send()
    said = manager.status
    assert said["policy"] == "prod: one; rest: two"
    assert (said["overrides_guarantees"], said["overrides_order"]) == (False, True)
    assert said["configuration"] == 1
    assert said["error"] == "prod: a part failed"
    assert said["warnings"] == ["prod, rest: the disk is full"]
    assert said["diagnostics"] == [[1, "wait"]]
    figures = said["engines"]["engines"]
    assert list(figures) == ["prod", "rest"]
    assert (figures["prod"]["alive"], figures["prod"]["applications"], figures["prod"]["retries"]) == (True, 3, 3)


def test_what_is_known_beside_frames_goes_to_who_serves_the_application() -> None:
    class Plans(Listener):
        def __init__(self) -> None:
            self.asked: list[int] = []

        def collect(self, frame: Any) -> Sequence[Any]:
            if frame.header.snapshot:
                return ()
            return (rows(events.PlanRanks, StringTable(), [{"application": at, "score": at} for at in range(4)]),)

        def again(self, applications: Any) -> None:
            self.asked += applications

        def summary(self) -> str:
            return "2 DAGs"

        def warnings(self) -> Sequence[str]:
            return ("no plans",)

        def keys_for(self) -> Sequence[str]:
            return ("TEZ",)

    plans = Plans()
    manager = Manager(BY_QUEUE, plans)
    manager.snapshot()
    manager.send()
    prod, rest = manager.children.values()
    ((ranks,),) = [given for given in prod.beside if given]
    assert ranks.application.tolist() == [0, 2]
    ((ranks,),) = [given for given in rest.beside if given]
    assert ranks.score.tolist() == [1.0, 3.0]
    assert set(plans.asked) == set(range(6))
    assert manager.status["keys_for"] == ["TEZ"]
    assert manager.status["learned"] == "2 DAGs"


def test_parts_of_a_frame_are_one() -> None:
    manager, (prod, _) = begun()
    nodes = [
        rows(events.Nodes, StringTable(), [{"node": node, "state": 1, "total": [9, 9], "free": [1, 1]}])
        for node in (1, 2)
    ]
    asked = len(prod.frames)
    assert not manager.send(nodes[0], flags=FrameFlag.MORE).again
    assert len(prod.frames) == asked
    manager.send(nodes[1])
    assert np.concatenate([each.node for each in prod.events(events.Nodes)]).tolist() == [1, 2]


def test_figures_of_as_many_engines_as_may_be_fit_into_a_status() -> None:
    select = {"queues": ["root.q0"]}
    entries: dict[str, dict[str, Any]] = {letter + "long" * 7 + "abc": {"select": select} for letter in "abcdefg"}
    manager = Manager(entries | {"rest" * 8: {}})
    manager.snapshot()
    figures = dict.fromkeys(FIGURES, 10**9)
    for child in manager.children.values():
        child.status = {"policy": "p" * 400, "error": "e" * 400, "engines": {"figures": figures}}
    manager.now_ms += 10**10
    manager.send()
    shown = manager.status["engines"]["engines"]
    assert len(shown) == 8
    assert all(len(name) == 32 for name in shown)
    assert len(json.dumps(manager.status["engines"])) <= Status.ENGINES_BYTES_MAX
