"""What a look at a ResourceManager comes to: one that is well, lost, on standby, without Treadle, without an engine."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from tests.support.cluster_pages import TREADLE, FakeCluster, job, node
from tests.support.dashboards import nobody
from tests.support.optional import present
from tests.support.pages import served
from tests.support.waiting import eventually
from tests.support.wired import Clock

from treadle.dashboard import collector as module
from treadle.dashboard import reading
from treadle.dashboard.collector import Board, Collector
from treadle.dashboard.history import History
from treadle.dashboard.reading import NOT_YET, Agreement, BackgroundQuestion, HeldNode, Reader, agreements_of, held_of
from treadle.errors import UserError

START_S = 1_700_000_000.0


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a look really takes, on a busy machine, is no reason to ask less often here."""
    monkeypatch.setattr(module, "DUTY", 1e9)


class Looking:
    """A collector, what it posted, and its clock."""

    def __init__(self, url: str, path: Path) -> None:
        self.clock, self.board, self.history = Clock(START_S), Board(), History(path)
        self.collector = Collector(Reader(url), self.history, self.board, self.clock, held=nobody, observed=nobody)

    def look(self, after_s: float = 30.0) -> dict[str, Any]:
        """Look again some time later; return the overview."""
        self.clock.now_s += after_s
        self.collector.poll()
        return self.read("overview")

    def read(self, part: str) -> dict[str, Any]:
        document = present(self.board.read(part))
        return dict(json.loads(document.plain))


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with served(FakeCluster()) as manager:
        yield manager


@pytest.fixture
def looking(cluster: FakeCluster, tmp_path: Path) -> Iterator[Looking]:
    found = Looking(cluster.url, tmp_path / "history.sqlite")
    yield found
    found.history.close()


def conditions(overview: dict[str, Any]) -> dict[str, tuple[str, float]]:
    return {each["name"]: (each["text"], each["since_s"] - START_S) for each in overview["conditions"]}


def test_a_cluster_that_is_well_is_shown_and_kept(looking: Looking) -> None:
    overview = looking.look()
    assert (overview["state"], overview["schedules"], overview["conditions"]) == ("ACTIVE", True, [])
    assert overview["totals"] == {
        "nodes": 2,
        "containers": 4,
        "memory_mb": 16384,
        "memory_used_mb": 4096,
        "vcores": 16,
        "vcores_used": 4,
    }
    shown = {row["path"]: row for row in looking.read("queues")["queues"]}
    assert shown["root.a"]["entitled"] == pytest.approx(0.5)
    (row,) = looking.read("jobs")["running"]
    assert (row["place"], row["placed"], row["placed_by_capacity_scheduler"], row["expected_ms"]) == (1, 5, 1, 120_000)
    assert looking.read("decisions")["rejected"] == {"NodeFull": 2, "UserLimit": 0}
    assert "queue root.a entitled" in looking.history.names()


def test_counters_become_rates_and_a_new_resource_manager_makes_none(looking: Looking, cluster: FakeCluster) -> None:
    looking.look()
    cluster.beans["Treadle"] = {**TREADLE, "Committed": 38, "RejectedNodeFull": 5}
    looking.look(30)
    assert looking.read("decisions")["rates"]["Committed"] == pytest.approx(1.0)
    assert looking.read("decisions")["rates"]["RejectedNodeFull"] == pytest.approx(0.1)
    cluster.beans["Treadle"] = {**TREADLE, "Committed": 1}
    looking.look(30)
    assert looking.read("decisions")["rates"] == {}
    points = looking.history.points(["rate Committed"], 600, looking.clock.now_s).series["rate Committed"]
    assert [value for _, value in points] == [pytest.approx(1.0)]


Hurt = Callable[[FakeCluster], object]


def broken(page: str) -> Hurt:
    return lambda cluster: cluster.broken.add(page)


def beans(**shown: dict[str, Any]) -> Hurt:
    return lambda cluster: setattr(cluster, "beans", shown)


def treadle(**changes: Any) -> Hurt:
    """Change what the bean of Treadle says."""
    return lambda cluster: cluster.beans.update(Treadle={**TREADLE, **changes})


def engine(**batch: Any) -> Hurt:
    return treadle(Engines=json.dumps({"engines": {"batch": batch}}))


ON_STANDBY = beans(RMInfo={"State": "standby"})
DEAD = {"Schedules": 0, "LeaseHeld": 0, "LastError": "the sidecar ended with code 9"}
WITHOUT_ENGINE = treadle(**DEAD)
STALLED = "root.research counts as 50%"
STARVING = treadle(
    Warnings=f"stalled: queue root.research.nlp has 2.5% of the 15.0% that it is entitled to: {STALLED}; an old name"
)


@pytest.mark.parametrize(
    ("hurt", "name", "says"),
    [
        (STARVING, "stalled root.research.nlp", f"15.0% that it is entitled to: {STALLED}"),
        (STARVING, "Warnings", "the engine warns: an old name"),
        (broken("/jmx"), "lost", "does not answer"),
        (beans(), "lost", "no bean RMInfo, so it is no ResourceManager's; check --rm"),
        (ON_STANDBY, "standby", "is on standby, where nothing is scheduled"),
        (
            beans(RMInfo={"State": "initializing"}),
            "passing",
            "is starting: nothing is scheduled; if it stays so, look at its log",
        ),
        (
            beans(RMInfo={"State": "active"}),
            "treadle",
            "runs without Treadle; look at yarn.resourcemanager.scheduler.class",
        ),
        (WITHOUT_ENGINE, "scheduling", "no engine holds the lease; the sidecar ended with code 9"),
        (treadle(**DEAD, Mode="observe_only"), "engine", "no engine answers: the sidecar ended with code 9"),
        (broken("nodes"), "nodes and queues", "pages show old figures"),
        (lambda cluster: setattr(cluster, "nodes", [{"no": "id"}]), "nodes and queues", "another form"),
        (
            engine(alive=False, served_by="main", committed=7, starts=1, error="killed"),
            "engine batch",
            "the engine batch is dead; main serves its applications",
        ),
        (
            engine(alive=False, served_by="main", starts=0),
            "engine batch",
            "the engine batch has not answered yet; main serves its",
        ),
    ],
)
def test_trouble_is_shown_with_since_when_until_it_is_over(
    looking: Looking, cluster: FakeCluster, hurt: Hurt, name: str, says: str
) -> None:
    looking.look(30)
    beans, nodes = deepcopy(cluster.beans), cluster.nodes
    hurt(cluster)
    first = conditions(looking.look(30))
    assert says in first[name][0]
    assert first[name][1] == 60
    again = looking.look(30)
    assert conditions(again)[name] == first[name]
    assert any(each["text"].startswith(f"{name}: ") for each in again["events"])
    assert looking.read("nodes")["name"] == ["n1:1", "n2:1"], "what was known is still shown, as old"
    assert looking.read("nodes")["at_s"] < looking.clock.now_s or name not in ("lost", "standby", "nodes and queues")
    assert name == "treadle" or "treadle" not in conditions(again), "what starts may well run with it"
    if name in ("lost", "standby", "passing", "treadle", "scheduling"):
        assert again["schedules"] is False
        assert b"\ntreadle_schedules 1.0" not in looking.board.metrics
    cluster.beans, cluster.nodes = beans, nodes
    cluster.broken.clear()
    last = looking.look(400)
    assert conditions(last) == {}
    assert any(each["text"].startswith(f"resolved: {name}: ") for each in last["events"])
    assert last["schedules"] is True


def test_since_when_outlives_a_restart_unless_nobody_looked_for_long(cluster: FakeCluster, tmp_path: Path) -> None:
    WITHOUT_ENGINE(cluster)
    since = []
    for at_s in (0.0, 60.0, 6060.0):
        looking = Looking(cluster.url, tmp_path / "history.sqlite")
        since.append(conditions(looking.look(at_s))["scheduling"][1])
        looking.history.close()
    assert since == [0.0, 0.0, 6060.0]


def test_what_was_expected_of_a_job_stands_beside_what_it_took(
    looking: Looking, cluster: FakeCluster, tmp_path: Path
) -> None:
    for progress, elapsed_ms in ((10, 20_000), (30, 45_000), (60, 80_000)):
        cluster.jobs = [job(1, progress=float(progress), elapsedTime=elapsed_ms)]
        looking.look()
    looking.history.close()
    again = Looking(cluster.url, tmp_path / "history.sqlite")
    again.clock.now_s = looking.clock.now_s
    cluster.jobs = []
    cluster.ended = [job(1, state="FINISHED", progress=100.0, elapsedTime=130_000, finishedTime=int(START_S * 1000))]
    for _ in range(2):  # it is told twice, and kept once
        again.look()
    (row,) = again.read("jobs")["ended"]
    assert row["expected_ms"] == {"0.25": 150_000, "0.5": 133_333}
    assert row["elapsed_ms"] == 130_000
    again.history.close()


def test_a_lost_or_standby_resource_manager_is_asked_for_beans_alone(looking: Looking, cluster: FakeCluster) -> None:
    ON_STANDBY(cluster)
    for _ in range(5):
        looking.look()
    assert cluster.asked == []


def test_rest_pages_are_read_less_often_than_beans(looking: Looking, cluster: FakeCluster) -> None:
    for _ in range(12):
        looking.look(5.0)
    assert cluster.asked.count("nodes") <= 5, "once in fifteen seconds, of sixty"


def test_a_history_that_fails_is_shown_and_the_rest_goes_on(looking: Looking) -> None:
    looking.look()
    looking.history._base.close()
    looking.look()
    overview = looking.look()
    assert "nothing is remembered" in conditions(overview)["history"][0]
    assert overview["state"] == "ACTIVE"


def test_nodes_that_are_kept_free_are_shown_with_for_whom_or_why_nobody_knows(
    looking: Looking, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WAIT_S", 60.0)
    overview = looking.look()
    assert looking.read("nodes")["held_for"] == ["", ""]
    assert looking.read("nodes")["held_error"] == "no engine can be asked"
    assert overview["conditions"] == [], "elsewhere than on the ResourceManager's host that is no trouble"

    def held() -> list[Any]:
        found = {"node": "n2", "application": "application_1_0001", "left_ms": 5}
        return ["rubbish", {"node": None, "left_ms": "x"}, found]

    monkeypatch.setattr(looking.collector, "_held", BackgroundQuestion[list[HeldNode]](lambda: held_of(held()), []))
    looking.look()
    assert looking.read("nodes")["held_for"] == ["", "application_1_0001"]
    assert looking.read("nodes")["held_error"] == ""


def test_what_observe_only_found_is_a_metric_in_that_mode_alone(
    looking: Looking, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "WAIT_S", 60.0)
    tally = {"same_node": 3, "other_node": "x", "capacity_scheduler_only": 2, "later": 1}
    unknown = {"same_node": 1, "other_node": 0, "capacity_scheduler_only": 0}
    found = {"total": tally, "by_queue": {"root.a": tally, "root.b": "rubbish", "": unknown}}
    asked = BackgroundQuestion[dict[str | None, Agreement]](lambda: agreements_of(found), {})
    monkeypatch.setattr(looking.collector, "_observed", asked)

    def shown() -> list[str]:
        looking.look()
        names = ("treadle_observed_placements_total{", "treadle_queue_observed_placements_total{")
        return [line for line in looking.board.metrics.decode().splitlines() if line.startswith(names)]

    assert shown() == []
    cluster.beans["Treadle"] = {**TREADLE, "Mode": "observe_only"}
    assert shown() == [
        'treadle_observed_placements_total{proposed="same_node"} 3.0',
        'treadle_observed_placements_total{proposed="other_node"} 0.0',
        'treadle_observed_placements_total{proposed="capacity_scheduler_only"} 2.0',
        'treadle_queue_observed_placements_total{proposed="same_node",queue="root.a"} 3.0',
        'treadle_queue_observed_placements_total{proposed="other_node",queue="root.a"} 0.0',
        'treadle_queue_observed_placements_total{proposed="capacity_scheduler_only",queue="root.a"} 2.0',
        'treadle_queue_observed_placements_total{proposed="same_node",queue=""} 1.0',
        'treadle_queue_observed_placements_total{proposed="other_node",queue=""} 0.0',
        'treadle_queue_observed_placements_total{proposed="capacity_scheduler_only",queue=""} 0.0',
    ]


def test_hostile_names_stay_names(looking: Looking, cluster: FakeCluster) -> None:
    name = '<script>alert(1)</script>"\\\n\x1b[31m'
    cluster.jobs = [job(1, name)]
    cluster.nodes = [node(name)]
    cluster.queues[0]["queuePath"] = f"root.{name}"
    looking.look()
    assert looking.read("jobs")["running"][0]["name"] == name
    metrics = looking.board.metrics.decode()
    line = next(
        line for line in metrics.splitlines() if line.startswith("treadle_queue_used_ratio{") and "script" in line
    )
    assert line == 'treadle_queue_used_ratio{queue="root.<script>alert(1)</script>\\"\\\\\\n\x1b[31m"} 0.25'


def test_a_look_that_fails_is_told_until_one_does_not(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    looking.look()
    failed: list[object] = []

    def fail(decisions: object) -> None:
        failed.append(decisions)
        raise ZeroDivisionError("what nobody thought of")

    monkeypatch.setattr(module, "BEANS_EVERY_S", 0.001)
    stop = Event()
    thread = Thread(target=looking.collector.run, args=(stop,))
    with monkeypatch.context() as broken:
        broken.setattr(module, "_troubles_of", fail)
        thread.start()
        try:
            text = eventually(lambda: conditions(looking.read("overview")).get("look", ("", 0))[0])
            eventually(lambda: len(failed) > 3)  # one that raises is not the last
        finally:
            stop.set()
            thread.join()
    assert text.startswith("the cluster was not read, pages show old figures: ZeroDivisionError: what nobody thought")
    overview = looking.look()
    assert conditions(overview) == {}
    assert any(each["text"].startswith("resolved: look: ") for each in overview["events"])


def test_jobs_that_ended_are_read_again_only_when_one_more_has(
    looking: Looking, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.jobs, cluster.ended = [], [job(1, state="FINISHED", finishedTime=int(START_S * 1000))]
    looking.look()
    read: list[bool] = []
    jobs = looking.history.jobs

    def counted(ended: bool) -> dict[str, dict[str, Any]]:
        read.append(ended)
        return jobs(ended)

    monkeypatch.setattr(looking.history, "jobs", counted)
    looking.look()
    assert read == []
    cluster.ended.append(job(2, state="FINISHED", finishedTime=int(START_S * 1000) + 1))
    looking.look()
    assert read == [True]
    assert [row["id"][-1] for row in looking.read("jobs")["ended"]] == ["2", "1"]


def test_an_engine_that_hangs_keeps_nobody_from_looking(looking: Looking, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on = Event()

    def held() -> list[Any]:
        goes_on.wait(60)
        return [{"node": "n2", "application": "application_1_0001", "left_ms": 5}]

    asked = BackgroundQuestion[list[HeldNode]](lambda: held_of(held()), [])
    monkeypatch.setattr(looking.collector, "_held", asked)
    try:
        looking.look()
        assert looking.read("nodes")["held_error"] == NOT_YET
        assert asked.ask(0.0) == ([], NOT_YET), "it is not asked once more meanwhile"
    finally:
        goes_on.set()
    assert asked.ask(60.0)[1] == ""
    monkeypatch.setattr(reading, "WAIT_S", 60.0)
    looking.look()
    assert looking.read("nodes")["held_for"] == ["", "application_1_0001"]


@pytest.mark.parametrize("took_s", [0.0, 0.5, 11.0, 100.0])
def test_the_next_look_comes_ten_seconds_after_a_slow_one_at_most(
    looking: Looking, monkeypatch: pytest.MonkeyPatch, took_s: float
) -> None:
    """While a ResourceManager that hung comes back, a lease that is held again must not be shown as lost for long."""

    class Stop(Event):
        pauses: ClassVar[list[float]] = []

        def wait(self, timeout: float | None = None) -> bool:
            self.pauses.append(timeout or 0.0)
            self.set()
            return True

    times = iter([0.0, took_s])
    monkeypatch.setattr(module, "DUTY", 0.1)
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(looking.collector, "poll", lambda: None)
    Stop.pauses.clear()
    looking.collector.run(Stop())
    (pause_s,) = Stop.pauses
    assert module.BEANS_EVERY_S <= pause_s <= 10.0


def test_that_the_lease_is_held_again_is_shown_while_pages_are_slow(
    looking: Looking, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    WITHOUT_ENGINE(cluster)
    assert looking.look()["schedules"] is False
    cluster.beans["Treadle"] = dict(TREADLE)
    shown = []

    def slow() -> Any:
        shown.append((looking.read("overview")["schedules"], looking.read("decisions")["why_not"]))
        raise UserError("no answer within 10 s")

    monkeypatch.setattr(looking.collector._reader, "cluster", slow)
    looking.look()
    assert shown == [(True, "")]


def test_pages_are_given_up_for_this_look_when_one_took_too_long(
    looking: Looking, cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five pages of a ResourceManager that hangs would take fifty seconds, in which nobody sees what beans say."""
    times = iter(range(0, 1000, 11))
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(times)))
    overview = looking.look()
    assert cluster.asked == []
    assert "took too long with the pages before" in conditions(overview)["jobs"][0]


def events(overview: dict[str, Any]) -> list[str]:
    return [each["text"] for each in overview["events"]]


def test_a_policy_that_changes_is_among_what_changed(looking: Looking, cluster: FakeCluster, tmp_path: Path) -> None:
    looking.look()
    cluster.beans["Treadle"] = {**TREADLE, "Policy": "order=\x1bsrpt"}
    assert events(looking.look()) == ["policy changed from order=fifo to order= srpt"]
    cluster.beans["Treadle"] = {**TREADLE, "Policy": ""}
    assert len(events(looking.look())) == 1, "an engine that has not told its policy yet has not changed it"
    looking.history.close()
    cluster.beans["Treadle"] = {**TREADLE, "Mode": "observe_only"}
    again = Looking(cluster.url, tmp_path / "history.sqlite")
    found = events(again.look())
    again.history.close()
    assert "policy changed from order= srpt to order=fifo" in found, "while no dashboard ran"
    assert "mode changed from enforce to observe_only" in found


def test_each_engines_policy_is_followed(looking: Looking, cluster: FakeCluster) -> None:
    engine(alive=True, policy="order=fifo")(cluster)
    looking.look()
    engine(alive=True, policy="order=fair")(cluster)
    assert "policy of engine batch changed from order=fifo to order=fair" in events(looking.look())


@pytest.mark.parametrize("counted_ms", [5_000, 3_620_000])
def test_a_restart_of_the_resource_manager_is_among_what_changed_and_counters_say_since_when(
    looking: Looking, cluster: FakeCluster, counted_ms: int
) -> None:
    cluster.beans["Treadle"] = {**TREADLE, "SinceMs": 3_600_000}
    looking.look(30)
    looking.look(0)
    assert looking.read("decisions")["counted_since_s"] == START_S + 30 - 3600
    assert "SinceMs" not in looking.read("decisions")["numbers"]
    cluster.beans["Treadle"] = {**TREADLE, "SinceMs": counted_ms}
    overview = looking.look(6000)
    (line,) = events(overview)
    assert line.startswith("the ResourceManager started, or became active again, at 2023-11-1")
    assert line.endswith("+00:00: counters began at 0")
    since_s = START_S + 6030 - counted_ms / 1000
    assert looking.read("jobs")["counted_since_s"] == looking.read("decisions")["counted_since_s"] == since_s
    cluster.beans["Treadle"] = {**TREADLE, "SinceMs": counted_ms + 30_000}
    assert events(looking.look(30)) == [line]


def test_a_stalled_queue_is_not_resolved_by_the_loss_of_the_engine(looking: Looking, cluster: FakeCluster) -> None:
    STARVING(cluster)
    looking.look()
    WITHOUT_ENGINE(cluster)
    assert any(line.startswith("unknown now: stalled root.research.nlp") for line in events(looking.look()))
    STARVING(cluster)
    looking.look()
    cluster.beans["Treadle"] = dict(TREADLE)
    assert any(line.startswith("resolved: stalled root.research.nlp") for line in events(looking.look()))


def test_nothing_is_expected_of_a_job_that_was_never_served(looking: Looking, cluster: FakeCluster) -> None:
    cluster.jobs = [job(1, progress=5.0), job(2, progress=50.0)]
    looking.look()
    assert [each["expected_ms"] is None for each in looking.read("jobs")["running"]] == [True, False]


def test_an_engine_that_places_nothing_is_stalled(looking: Looking, cluster: FakeCluster) -> None:
    cluster.beans["Treadle"] = {**TREADLE, "Schedules": 0, "LeaseHeld": 0, "Stalled": 1}
    looking.look()
    assert looking.read("decisions")["numbers"]["Stalled"] == 1
    assert b"\ntreadle_stalled 1.0" in looking.board.metrics
