"""What is kept of plans and reports, who makes room, and whose turn it is: bounds by attempt, by user and in all."""

from __future__ import annotations

import logging
import struct
from threading import Event, Thread

import pytest
from tests.unit.test_plan_listener import dag, ended_rows, vertex

from treadle.am import record as task_times
from treadle.am import registries as registry_module
from treadle.am.protocol import Attempt, Header, Kind, Status
from treadle.am.quotas import THING_BYTES, WAITING_MAX, Bounds, FairQueue, Keeping, Turns
from treadle.am.record import History
from treadle.am.registries import MACHINE_STAGES_MAX, PlanRegistry, PlanSources
from treadle.config.settings import Plans
from treadle.dag.dag import Dag, Stage
from treadle.history.run import DurationSketch, JobRun, StageRun, recurrence_key
from treadle.planner.online import Machines


def test_whoever_has_most_makes_room() -> None:
    kept: Keeping[int, str] = Keeping(Bounds(5_000, 10_000, 12_000))
    assert kept.put(0, "ann", "a", 2_000)
    assert not kept.put(1, "mallory", "too large", 5_001)
    assert [kept.put(at, "mallory", "m", 4_000) for at in range(2, 9)] == [True] * 7
    assert (kept.get(0), len(kept), kept.bytes_of("mallory")) == ("a", 3, 8_000)
    assert kept.put(9, "bob", "b", 4_000)
    assert (kept.get(0), kept.get(9), kept.bytes_of("mallory")) == ("a", "b", 4_000)
    assert kept.bytes <= 12_000


def test_small_things_are_bounded_in_number() -> None:
    kept: Keeping[int, None] = Keeping(Bounds(10_000, 10 * THING_BYTES, 100 * THING_BYTES, things=15))
    for at in range(100):
        kept.put(at, f"user {at % 2}", None, 0)
    assert len(kept) == 15
    kept.pop(99)
    assert len(kept) == 14


def test_users_take_turns_however_much_one_has_waiting() -> None:
    queue: FairQueue[int] = FairQueue()
    for at in range(1_000):
        queue.put("mallory", at)
        queue.put("mallory", at)
    queue.put("ann", 5_000)
    assert [queue.pop()[0] for _ in range(4)] == ["mallory", "ann", "mallory", "mallory"]
    queue.discard("mallory", 3)
    assert queue.pop() == ("mallory", 4)


def test_the_planner_goes_to_whoever_had_it_least() -> None:
    now_s = 0.0
    turns = Turns(lambda: now_s)
    order: list[str] = []
    inside, go_on = Event(), Event()

    def hold() -> None:
        nonlocal now_s
        with turns.turn("mallory", 60) as mine:
            assert mine
            inside.set()
            go_on.wait(60)
            now_s = 5.0

    def want(user: str) -> None:
        with turns.turn(user, 60) as mine:
            if mine:
                order.append(user)

    threads = [Thread(target=hold)]
    threads[0].start()
    inside.wait(60)
    for user in ["mallory"] * (WAITING_MAX + 2) + ["ann"]:
        threads.append(Thread(target=want, args=(user,)))
        threads[-1].start()
        while threads[-1].is_alive() and len(turns.waiting()) < min(len(threads) - 1, WAITING_MAX) + (user == "ann"):
            pass
    assert turns.waiting().count("mallory") == WAITING_MAX, "the others were turned away at once"
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert order == ["ann"] + ["mallory"] * WAITING_MAX
    assert turns.had_s("mallory") == 5.0
    now_s += 60.0
    assert turns.had_s("mallory") == 2.5


def test_who_waits_too_long_for_the_planner_is_answered_busy() -> None:
    turns = Turns()
    with turns.turn("mallory", 0) as mine, turns.turn("ann", 0.01) as other:
        assert (mine, other) == (True, False)
    with turns.turn("ann", 0.01) as mine:
        assert mine


def asked(registry: PlanRegistry, attempt: Attempt, kind: Kind, body: bytes) -> Status:
    return registry.serve(Header(kind, len(body), attempt, 1, b""), body)[0]


def test_reports_of_one_dag_grow_up_to_a_bound() -> None:
    registry = PlanRegistry(Plans(), History())
    attempt = Attempt(0, 1, 1)
    registry.meet(attempt, recurrence_key("mallory", "q", "TEZ", ""))
    asked(registry, attempt, Kind.PLAN, dag(*(vertex(at, 1) for at in range(900))))
    answers = set()
    for turn in range(400):
        rows = b"".join(
            struct.pack(">iiiBqqqq", at, 0, 0, 0, 1 << 41, int(1.03 ** (turn + 1)), -1, -1) for at in range(900)
        )
        answers.add(asked(registry, attempt, Kind.REPORT, struct.pack(">iBBii", 1, 0, 1, 0, 900) + rows))
    assert answers == {Status.OK, Status.BUSY}
    record = registry._records.get(attempt)
    assert record is not None
    assert record.size_bytes <= registry_module.RECORDS_BYTES.each


def test_dags_of_one_user_do_not_push_out_those_of_others() -> None:
    registry = PlanRegistry(Plans(), History())
    ann = Attempt(0, 1, 1)
    registry.meet(ann, recurrence_key("ann", "q", "TEZ", ""))
    asked(registry, ann, Kind.PLAN, dag(vertex(0, 1)))
    large = dag(*(vertex(at, 1) for at in range(1_000)))
    for number in range(2, 60):
        attempt = Attempt(0, number, 1)
        registry.meet(attempt, recurrence_key("mallory", "q", "TEZ", ""))
        asked(registry, attempt, Kind.PLAN, large)
    assert registry.view(ann) is not None
    assert registry._records.bytes_of("mallory") <= registry_module.RECORDS_BYTES.user
    assert asked(registry, ann, Kind.REPORT, ended_rows(0)) is Status.OK


def test_a_dag_of_too_many_tasks_is_not_planned() -> None:
    registry = PlanRegistry(Plans(schedules=1), History())
    attempt = Attempt(0, 1, 1)
    registry.meet(attempt, recurrence_key("mallory", "q", "TEZ", ""))
    half = registry_module.PLAN_TASKS_MAX // 2
    assert asked(registry, attempt, Kind.PLAN, dag(vertex(0, half), vertex(1, half + 1))) is Status.NO_PLAN
    assert len(registry._sources) == 0, "nobody has tried"
    assert asked(registry, attempt, Kind.PLAN, dag(vertex(0, 1), vertex(1, 1))) is Status.OK


def test_history_of_one_user_does_not_push_out_that_of_others() -> None:
    history = History()

    def run(user: str, name: str, stages: int) -> JobRun:
        key = recurrence_key(user, "q", "TEZ", name)
        made = tuple(StageRun(f"v{at}", 1, DurationSketch([5]), {}, ()) for at in range(stages))
        return JobRun(key, f"dag_{user}_{name}", 5, 9, made)

    history.put(run("ann", "daily", 1))
    names = [chr(ord("a") + at // 26) + chr(ord("a") + at % 26) for at in range(60)]
    for name in names:
        history.put(run("mallory", name, 500))
    assert history.find(recurrence_key("ann", "q", "TEZ", "daily")) is not None
    assert history.find(recurrence_key("mallory", "q", "TEZ", names[-1])) is not None
    assert history.find(recurrence_key("mallory", "q", "TEZ", names[0])) is None
    assert history._profiles.bytes_of("mallory") <= task_times.PROFILES_BYTES.user


def test_plans_of_large_dags_are_made_on_fewer_machines_and_kept_by_user() -> None:
    sources = PlanSources(schedules=1, remembered=3)
    machines = Machines({"cpu": 4.0}, 10_000)
    chain = Dag("d", tuple(Stage(at, 1, 10, {"cpu": 1.0}, (at - 1,) if at else ()) for at in range(100)))
    source = sources.of("ann", machines)
    assert source.plan(chain) is not None
    assert source.machines.count == MACHINE_STAGES_MAX // 100
    again = sources.of("ann", machines)
    assert again.plan(chain) is not None
    assert again.planned == 0, "it was remembered"
    for at in range(5):
        sources.of("mallory", machines).plan(Dag("m", (Stage(0, at + 1, 10, {"cpu": 1.0}),)))
    assert len(sources) == 3


def test_names_of_a_dag_begin_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry = PlanRegistry(Plans(schedules=1), History())
    attempt = Attempt(0, 1, 1)
    registry.meet(attempt, recurrence_key("mallory", "q", "TEZ", ""))
    name = b"x\n2026-01-01 ERROR treadle: forged \x1b[2J"
    body = struct.pack(">iH", 1, 1) + b"d" + struct.pack(">i", 2)
    for parent in (1, 0):
        body += struct.pack(">iH", 1 - parent, len(name)) + name + struct.pack(">iii", 1, 0, 1)
        body += struct.pack(">iB", parent, 0)
    caplog.set_level(logging.INFO)
    assert asked(registry, attempt, Kind.PLAN, body) is Status.NO_PLAN
    assert "is not planned" in caplog.text
    assert "\x1b" not in caplog.text
    assert "\n2026-01-01 ERROR" not in caplog.text
