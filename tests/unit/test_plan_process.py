"""The plan listener as a process of its own: what it hears and tells, what it survives, and what it cannot do."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from struct import pack
from threading import Thread
from threading import enumerate as enumerate_threads
from typing import Any

import numpy as np
import psutil
import pytest
from tests.support.plan_requests import request
from tests.support.waiting import eventually
from tests.unit.test_plan_listener import DAG, KEY, ONE, OTHER, OTHER_KEY, dag, heard, read, report, text
from tests.unit.test_stage_reports import report as stage_report
from tests.unit.test_stage_reports import stage

from treadle.am.listener import PlanService
from treadle.am.protocol import CHALLENGE, NONCE_BYTES, Attempt, Header, Kind, Status
from treadle.am.registries import CLAIM, Claims, application_of, read_claims
from treadle.am.registries import DURATION_MAX_MS as CLAIM_DURATION_MAX_MS
from treadle.config.settings import Listener, Plans, default_settings
from treadle.history.profile import DURATION_MAX_MS, NUMBER_MAX, DurationSketch, JobRun, StageRun, recurrence_key
from treadle.live import plan_source
from treadle.live.history_writer import StagesOf
from treadle.live.plan_child import LINES, MEMORY_MAX, RUNS, RUNS_OF_USER, TRIMMED_BYTES, TRIMMED_EVERY_S, Memory, Runs
from treadle.live.plan_messages import CONTENT_MAX, MessageKind, frame, line, read_frame, run_from_bytes, run_to_bytes
from treadle.live.plan_source import PlanEventSource, PlanLink, open_plans
from treadle.processes import LISTENER, Child, LineLimit

ADDRESS = f"127.77.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
"""Of this process alone, so that no other one takes the port."""

SETTINGS = replace(default_settings(), plans=Plans(schedules=20), listener=Listener(address=ADDRESS, port=8047))


def ask(
    link: PlanLink, kind: Kind, body: bytes, attempt: Attempt = ONE, key: bytes = KEY, *, sealed: bool = False
) -> int | None:
    """Make a request; returns its status, None if it was not answered."""
    try:
        with closing(socket.create_connection((ADDRESS, link.port), timeout=30)) as connected:
            said = read(connected, CHALLENGE.size)
            content = heard(connected, request(key, said, kind, attempt, 5, body, bytes(NONCE_BYTES), sealed=sealed))
    except OSError:
        return None
    return content[5] if content else None


def known(link: PlanLink) -> Claims:
    """Return what is known of the DAG of `ONE`."""
    claims = link.claims(ONE)
    return np.zeros(0, CLAIM) if claims is None else claims


@pytest.fixture
def runs() -> list[JobRun]:
    return []


@pytest.fixture
def link(runs: list[JobRun]) -> Iterator[PlanLink]:
    made = PlanLink(SETTINGS, runs.append)
    made.start()
    made.register_attempt(ONE, "ann", "root.default", "TEZ")
    made.give_key(ONE, 5, KEY)
    made.set_machines({0: (("memory-mb", 8192.0),)})
    yield made
    made.close()


def test_plans_reports_runs_and_stages_go_through_the_process(link: PlanLink, runs: list[JobRun]) -> None:
    assert eventually(lambda: ask(link, Kind.PLAN, DAG) == Status.OK)
    assert ask(link, Kind.REPORT, report(1, {0: 6, 1: 9}, ended=2)) == Status.OK
    assert eventually(lambda: len(known(link)))
    claims = known(link)
    assert claims["priority"].tolist() == [4, 5, 6, 7, 8, 9]
    assert claims["duration_ms"].tolist() == [1_000] * 3 + [-1] * 3
    assert ask(link, Kind.REPORT, report(1, {}, state=1)) == Status.OK
    (run,) = eventually(lambda: runs)
    assert (run.key.user, [one.name for one in run.stages], run.stages[1].parents) == ("ann", ["v0", "v1"], ("v0",))
    assert eventually(lambda: len(known(link)) == 0)
    link.register_attempt(OTHER, "bob", "root.default", "SPARK")
    link.give_key(OTHER, 5, OTHER_KEY)
    body = stage_report(stage(0, 3), ended=True)
    assert eventually(lambda: ask(link, Kind.STAGES, body, OTHER, OTHER_KEY) == Status.OK)
    assert [one.width for one in link.take_stages(application_of(OTHER))] == [3]
    assert link.take_stages(application_of(OTHER)) == ()
    link.forget_attempt(ONE)
    assert eventually(lambda: ask(link, Kind.PLAN, DAG) is None), "its key is forgotten"
    assert link.claims(ONE) is None


def test_a_process_that_dies_is_reported_and_started_anew_and_gets_who_runs(
    link: PlanLink, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert eventually(lambda: ask(link, Kind.PLAN, DAG) == Status.OK)
    ask(link, Kind.REPORT, report(1, {0: 6, 1: 9}))
    assert eventually(lambda: link.next_update() == ONE and len(known(link)))
    (child,) = listeners()
    child.kill()
    assert eventually(lambda: "ended with code -9" in link.summary())
    assert eventually(lambda: link.next_update() == ONE and len(known(link)) == 0), "its sender is gone"
    assert eventually(lambda: ask(link, Kind.PLAN, DAG) == Status.OK)
    assert eventually(lambda: link.summary() == ""), "it says that it listens a moment after it does"


def child_of(link: PlanLink) -> Any:
    """Return the process that a link has started, as `subprocess` has it."""
    assert isinstance(link._child, Child)
    return link._child.popen


def listeners() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if "treadle.live.plan_child" in child.cmdline()]


def test_the_process_gives_way_has_a_bound_of_memory_and_ends_with_the_sidecar(link: PlanLink) -> None:
    (child,) = listeners()
    assert child.nice() == min(psutil.Process().nice() + LISTENER, 19)
    assert os.sched_getscheduler(child.pid) == os.SCHED_BATCH
    assert os.getsid(child.pid) == os.getsid(0), "else some kernels give it as much of a processor as the sidecar"
    assert os.getpgid(child.pid) == child.pid, "a terminal's signals are not for it"
    assert 0 < child.rlimit(psutil.RLIMIT_AS)[0] <= 16 << 30
    link._closed.set()
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), child_of(link).stdin.fileno())  # closes the pipe, whoever writes to it now
    child.wait(300)


def test_a_listener_that_hears_nothing_costs_a_bound_of_memory(link: PlanLink, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_source, "LINES_MAX", 1_000)
    (child,) = listeners()
    os.kill(child.pid, signal.SIGSTOP)
    for number in range(100_000):
        link.register_attempt(Attempt(0, number % 3_000, 1), "ann" * 30, "root.default", "TEZ")
    child.wait(300)
    assert eventually(lambda: ask(link, Kind.PLAN, DAG) == Status.OK), "another one knows who runs"


def test_a_port_that_is_taken_at_the_start_is_named_and_tried_again(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 0.1)
    sources: list[StagesOf] = []
    with closing(socket.create_server((ADDRESS, 8047))), caplog.at_level(logging.INFO, plan_source.__name__):
        source = open_plans(SETTINGS, lambda _: None, sources.append)
        assert isinstance(source, PlanEventSource)
        link = source._link
        assert isinstance(link, PlanLink)
        said = f"no plans, tried again soon: listener: {ADDRESS} port 8047"
        assert source.summary().startswith(said), "the status shows it meanwhile"
        assert [warning.startswith(said) for warning in source.warnings()] == [True], "as a warning too"
        assert not link.listening
        assert eventually(lambda: caplog.text.count("the plan listener is restarted") > 1)
        assert caplog.text.count(f"listener: {ADDRESS} port 8047") == 1, "the log says the same reason once"
        assert source.summary().startswith(said)
    try:
        assert eventually(lambda: link.listening)
        assert source.summary() == ""
        link.register_attempt(ONE, "ann", "root.default", "TEZ")
        link.give_key(ONE, 5, KEY)
        assert eventually(lambda: ask(link, Kind.PLAN, DAG) is not None)
    finally:
        link.close()


def test_nobody_waits_for_a_listener_that_is_being_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 600.0)
    monkeypatch.setattr(plan_source, "TAKE_S", 600.0)
    made = PlanLink(SETTINGS, lambda _: None, saying(frame(MessageKind.READY, b"7"), folder=tmp_path))
    made.start()
    assert made.listening
    took: list[object] = []
    asking = Thread(target=lambda: took.append(made.take_stages("application_1_0001")), daemon=True)
    asking.start()
    assert eventually(lambda: "application_1_0001" in made._stages)
    assert made._child is not None
    made._child.kill()
    asking.join(120)
    assert took == [()], "the one that asked when the process ended"
    assert eventually(lambda: "ended with code -9" in made.summary())
    assert made.take_stages("application_1_0002") == (), "and whoever asks before there is another"
    made.close()


def test_why_a_process_ended_is_said_though_it_did_not_read_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 600.0)
    ready = frame(MessageKind.READY, b"7")
    code = f"import os, time; os.read(0, 1); os.close(0); os.write(1, {ready!r}); time.sleep(600)"
    made = PlanLink(SETTINGS, lambda _: None, (sys.executable, "-c", code))
    made.start()
    made.register_attempt(ONE, "ann", "root.default", "TEZ")
    assert eventually(lambda: not [one for one in enumerate_threads() if one.name == "to the plan listener"])
    assert made._child is not None
    made._child.kill()
    assert eventually(made.summary) == "no plans, tried again soon: the plan listener's process ended with code -9"
    made.close()


@pytest.mark.parametrize(("given", "used"), [(None, "2"), ("7", "7")])
def test_many_threads_share_few_arenas_of_memory(
    given: str | None, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MALLOC_ARENA_MAX", raising=False)
    if given is not None:
        monkeypatch.setenv("MALLOC_ARENA_MAX", given)
    made = PlanLink(SETTINGS, lambda _: None, saying(frame(MessageKind.READY, b"7"), folder=tmp_path))
    made.start()
    assert made._child is not None
    assert psutil.Process(child_of(made).pid).environ()["MALLOC_ARENA_MAX"] == used
    made.close()


@pytest.mark.parametrize(
    "said",
    [
        b"x" * 40,
        pack(">4sBxxxIqii", b"TRDP", 3, CONTENT_MAX + 1, 0, 0, 0),
        frame(MessageKind.RUN, b"[[]]"),
        frame(MessageKind.REFUSED, b"[]"),
        frame(MessageKind.REFUSED, b"Infinity"),
        frame(MessageKind.READY, b"[" * 100_000),
    ],
    ids=["no frame", "too long", "no run", "no number", "no end", "too deep"],
)
def test_a_process_that_speaks_nonsense_is_ended(said: bytes) -> None:
    command = (sys.executable, "-c", f"import os, time; os.write(1, {said!r}); time.sleep(600)")
    made = PlanLink(SETTINGS, lambda _: None, command)
    made.start()
    assert made.summary().startswith("no plans, tried again soon: the plan listener: ")
    assert not made.listening
    made.close()


def saying(once: bytes, *more: bytes, folder: Path) -> tuple[str, ...]:
    """Return a command that says something, and something else when it is started again."""
    code = (
        f"import os, pathlib, time; again = pathlib.Path({str(folder / 'again')!r})\n"
        "was = again.exists(); again.touch()\n"
        f"os.write(1, {b''.join(more)!r} if was else {once!r}); time.sleep(0 if was else 600)"
    )
    return sys.executable, "-c", code


def test_what_a_process_said_that_then_speaks_nonsense_is_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 60.0)
    first = frame(MessageKind.READY, b"7") + frame(MessageKind.CLAIMS, claim(), ONE)
    made = PlanLink(SETTINGS, lambda _: None, saying(first + b"x" * 40, folder=tmp_path))
    made.register_attempt(ONE, "ann", "root.default", "TEZ")
    made.start()
    assert eventually(lambda: "no frame" in made.summary())
    assert len(known(made)) == 0
    made.close()


def test_why_a_process_that_was_started_again_cannot_listen_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_source, "PAUSE_S", 0.1)
    problem = frame(MessageKind.PROBLEM, b"the port is taken")
    made = PlanLink(SETTINGS, lambda _: None, saying(frame(MessageKind.READY, b"7"), problem, folder=tmp_path))
    made.start()
    assert made._child is not None
    made._child.kill()
    ended = made._child
    assert eventually(lambda: made._child is not ended and child_of(made).poll() is not None)
    assert eventually(lambda: made.summary() == "no plans, tried again soon: the port is taken")
    made.close()


def test_a_process_that_uses_too_much_memory_ends_and_that_is_said() -> None:
    code = "from treadle.live import plan_child; plan_child.MEMORY_MAX = 1; plan_child.main()"
    made = PlanLink(SETTINGS, lambda _: None, (sys.executable, "-c", code))
    made.start()
    assert eventually(lambda: "ended with code 3" in made.summary())
    made.close()


def test_free_memory_is_given_back_before_there_is_too_much() -> None:
    used, now_s, gave = [100 << 20], [0.0], []

    def give_back() -> None:
        gave.append(used[0])
        used[0] = 200 << 20

    memory = Memory(lambda: used[0], give_back, lambda: now_s[0])
    assert not memory.is_too_much()
    used[0] = TRIMMED_BYTES + 1
    assert not memory.is_too_much()
    used[0] = 400 << 20
    assert not memory.is_too_much()
    assert gave == [TRIMMED_BYTES + 1], "not again at once"
    now_s[0] = TRIMMED_EVERY_S
    assert not memory.is_too_much()
    assert gave == [TRIMMED_BYTES + 1, 400 << 20]
    used[0] = MEMORY_MAX + 1
    assert not memory.is_too_much(), "most of it was free"
    assert len(gave) == 3


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="this C library gives nothing back")
def test_what_is_free_between_things_that_are_kept_is_given_back() -> None:
    code = (
        "from treadle.live.plan_child import resident_bytes, trim\n"
        "things = [bytes(2_000) for _ in range(100_000)]\n"
        "kept = things[::1_000]; most = resident_bytes(); del things\n"
        "before = resident_bytes(); trim(); print(most - before >> 20, before - resident_bytes() >> 20)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    of_itself, given_back = map(int, said.split())
    assert of_itself < 100
    assert given_back > 50


def test_frames_are_read_as_they_were_written(tmp_path: Any) -> None:
    file = tmp_path / "frames"
    file.write_bytes(frame(MessageKind.CLAIMS, b"abc", ONE) + frame(MessageKind.READY, b"7"))
    with file.open("rb") as stream:
        assert read_frame(stream) == (MessageKind.CLAIMS, ONE, b"abc")
        assert read_frame(stream) == (MessageKind.READY, Attempt(0, 0, 0), b"7")
        assert read_frame(stream) is None


def claim(**changed: float) -> bytes:
    row = np.array([(5, 1, 1_000, -1, 0.5)], CLAIM)
    for name, value in changed.items():
        row[name] = value
    return row.tobytes()


@pytest.mark.parametrize(
    "content",
    [
        b"x",
        claim(tasks=-2),
        claim(tasks=2**31 - 1),
        claim(duration_ms=-2),
        claim(duration_ms=2**62),
        claim(score=1.5),
        claim(score=float("nan")),
        claim() * 2,
        claim() * 4_000,
    ],
)
def test_claims_that_cannot_be_are_not_taken(content: bytes) -> None:
    assert len(read_claims(claim())) == 1
    with pytest.raises(ValueError, match=r"claims|buffer"):
        read_claims(content)


def run(stages: int = 2, name: str = "v") -> JobRun:
    names = [f"{name}{at}" for at in range(stages)]
    made = (
        StageRun(one, 3, DurationSketch([5, 7]), {"memory-mb": 1}, tuple(names[:at]), one_to_one=tuple(names[:at][:1]))
        for at, one in enumerate(names)
    )
    return JobRun(recurrence_key("ann", "q", "TEZ", "dag"), "dag_1_0001_1", 5, 9, tuple(made))


def test_a_run_is_read_as_it_was_written_and_tells_parents_by_their_places() -> None:
    found = run_from_bytes(run_to_bytes(run()))
    assert (found.key, found.id, found.started_ms, found.ended_ms) == (run().key, "dag_1_0001_1", 5, 9)
    assert [(one.name, one.parents, one.one_to_one, one.durations.count) for one in found.stages] == [
        ("v0", (), (), 2),
        ("v1", ("v0",), ("v0",), 2),
    ]
    assert len(run_to_bytes(run(100, "x" * 1_000))) < 200_000


def demanding(name: str, amount: int, *parents: int) -> bytes:
    edges = b"".join(pack(">iB", parent, 0) for parent in parents)
    demand = pack(">i", 1) + text("memory-mb") + pack(">q", amount)
    return pack(">i", int(name[1:])) + text(name) + pack(">i", 2) + demand + pack(">i", len(parents)) + edges


def succeeded(number: int, took_ms: int) -> bytes:
    return pack(">iBBii", number, 1, 1, 0, 1) + pack(">iiiBqqqq", 0, 0, 0, 0, took_ms, took_ms, -1, -1)


def test_whatever_an_attempt_says_the_sidecar_can_read_what_its_listener_makes_of_it() -> None:
    runs: list[JobRun] = []
    service = PlanService(Plans(), remember=runs.append)
    service.register_attempt(ONE, "mallory", "root.default", "TEZ")
    asks, reports = (Header(kind, 0, ONE, 5, b"") for kind in (Kind.PLAN, Kind.REPORT))
    vertices = demanding("v0", 2**63 - 1), demanding("v1", 0, 0)
    for number, took_ms in enumerate((1, DURATION_MAX_MS), 1):
        assert service.serve(asks, dag(*vertices, number=number))[0] is Status.NO_PLAN
        assert service.serve(reports, succeeded(number, took_ms))[0] is Status.OK
        assert len(runs) == number
        stages = run_from_bytes(run_to_bytes(runs[-1])).stages
        assert stages[0].demand["memory-mb"] == NUMBER_MAX
    service.serve(asks, dag(*vertices, number=3))
    service.serve(reports, report(3, {0: 6}))
    news = eventually(service.next_update)
    assert read_claims(news[1].tobytes())["deviation_ms"].max() == CLAIM_DURATION_MAX_MS


def test_a_dag_with_an_edge_from_nowhere_that_succeeds_is_answered() -> None:
    runs: list[JobRun] = []
    service = PlanService(Plans(), remember=runs.append)
    service.register_attempt(ONE, "ann", "root.default", "TEZ")
    service.serve(Header(Kind.PLAN, 0, ONE, 5, b""), dag(demanding("v0", 1, 77)))
    assert service.serve(Header(Kind.REPORT, 0, ONE, 5, b""), succeeded(1, 5))[0] is Status.OK
    assert [stage.parents for stage in runs[0].stages] == [()]


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[[1],2,3,4,[]]", b"[" * 100_000, run_to_bytes(run(300))])
def test_what_is_no_run_is_not_taken(content: bytes) -> None:
    with pytest.raises(ValueError):
        run_from_bytes(content)


def test_runs_are_bounded_by_user_and_in_all() -> None:
    now_s = 0.0
    runs = Runs(lambda: now_s)
    assert sum(runs.allows("mallory") for _ in range(100)) == RUNS_OF_USER.burst
    assert sum(runs.allows(f"user {at}") for at in range(100)) == RUNS.burst - RUNS_OF_USER.burst
    now_s = 10.0
    assert sum(runs.allows("mallory") for _ in range(100)) == 10 * RUNS_OF_USER.per_s
    assert sum(runs.allows(f"more {at}") for at in range(100)) == 10 * RUNS.per_s - 10 * RUNS_OF_USER.per_s


def test_the_process_encrypts_where_that_is_set() -> None:
    pytest.importorskip("cryptography")
    made = PlanLink(replace(SETTINGS, listener=Listener(address=ADDRESS, port=8047, encrypt=True)), lambda _: None)
    made.start()
    try:
        made.register_attempt(ONE, "ann", "root.default", "TEZ")
        made.give_key(ONE, 5, KEY)
        body = report(9, {})
        assert eventually(lambda: ask(made, Kind.REPORT, body) == Status.REFUSED), "not in clear"
        assert ask(made, Kind.REPORT, body, sealed=True) == Status.UNKNOWN
    finally:
        made.close()


# Lines of the plan listener's process: masters that send nonsense leave a bounded number of them.


def record(text: str, *words: object) -> logging.LogRecord:
    return logging.LogRecord("a", logging.INFO, "f", 1, text, words, None)


def test_lines_are_bounded_and_how_many_were_left_out_is_said() -> None:
    now_s = 0.0
    limit = LineLimit(*LINES, clock_s=lambda: now_s)
    assert sum(limit.filter(record("no. %d", at)) for at in range(1_000)) == LINES.burst
    assert not limit.filter(record("one more"))
    now_s = 1.0 / LINES.per_s
    later = record("no. %d", 7)
    assert limit.filter(later)
    assert later.getMessage() == f"({1_001 - int(LINES.burst)} lines were left out) no. 7"
    assert not limit.filter(record("another one"))


def test_what_the_process_is_led_to_log_is_bounded() -> None:
    code = (
        "import logging; from treadle.live import plan_child\n"
        "plan_child.Child.handle = lambda self, line: logging.getLogger('treadle').warning('refused: %s', line)\n"
        "plan_child.main()"
    )
    said = subprocess.run(
        [sys.executable, "-P", "-c", code], input=line("x") * 5_000, capture_output=True, env=os.environ
    )
    assert said.returncode == 0
    lines = said.stderr.splitlines()
    # the burst, and a few for the time that it takes
    assert LINES.burst <= len(lines) < 1_000
    assert said.stdout == b""
