"""What the plan listener answers, and what it does not: each attempt hears of itself alone."""

from __future__ import annotations

import hmac
import logging
import re
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread
from threading import enumerate as enumerate_threads

import pytest
from tests.support.optional import present
from tests.support.plan_requests import request
from tests.support.waiting import eventually

from treadle.am import listener as module
from treadle.am import registries
from treadle.am.listener import BY_ADDRESS_MAX, BY_ATTEMPT_MAX, CONNECTIONS_MAX, PlanListener
from treadle.am.protocol import (
    ANSWER,
    ATTEMPTS_MAX,
    BODY_MAX,
    CHALLENGE,
    EDGES_MAX,
    ENDED_MAX,
    MAC_BYTES,
    NONCE_BYTES,
    REPORT_MAX,
    REQUEST,
    TAG_BYTES,
    VERSION,
    VERTICES_MAX,
    Attempt,
    Direction,
    Ended,
    Header,
    KeyRing,
    Kind,
    MessageError,
    Outcome,
    PlannedVertex,
    PlanRequest,
    Status,
    VertexProgress,
    answer,
    challenge,
    check_body,
    code,
    read_header,
    read_plan_request,
    read_report,
    seal,
    unseal,
)
from treadle.am.quotas import (
    ALL_BYTES,
    ATTEMPT_BYTES,
    REQUESTS,
    THING_BYTES,
    USER_BYTES,
    WAITING_MAX,
    Bounds,
    FairQueue,
    FairScheduler,
    QuotaCache,
    Rates,
)
from treadle.am.registries import MACHINE_STAGES_MAX, History, PlanRegistry, PlanSources
from treadle.config.settings import Plans
from treadle.dag import Dag, Stage
from treadle.errors import UserError, install_extra
from treadle.history.profile import DurationSketch, JobRun, StageRun, recurrence_key, with_run
from treadle.planner.online import Machines, PlanSource
from treadle.planner.plan import Plan

ONE, OTHER = Attempt(1_700_000_000_000, 7, 2), Attempt(1_700_000_000_000, 8, 1)
NONCE = bytes(range(64, 64 + NONCE_BYTES))
KEY, OTHER_KEY = bytes(range(32)), bytes(range(1, 33))


def text(content: str) -> bytes:
    return struct.pack(">H", len(content)) + content.encode()


def vertex(number: int, tasks: int, *parents: int) -> bytes:
    edges = b"".join(struct.pack(">iB", parent, 0) for parent in parents)
    demand = struct.pack(">i", 1) + text("memory-mb") + struct.pack(">q", 1024)
    return (
        struct.pack(">i", number)
        + text(f"v{number}")
        + struct.pack(">i", tasks)
        + demand
        + struct.pack(">i", len(parents))
        + edges
    )


def dag(*vertices: bytes, number: int = 1) -> bytes:
    return struct.pack(">i", number) + text("report") + struct.pack(">i", len(vertices)) + b"".join(vertices)


def report(number: int, low: dict[int, int], ended: int = 0, state: int = 0, tasks: int = 2) -> bytes:
    table = b"".join(struct.pack(">iii", vertex, at, tasks) for vertex, at in low.items())
    rows = b"".join(struct.pack(">iiiBqqqq", 0, task, 0, 0, 5_000 + task, 1_000, -1, -1) for task in range(ended))
    head = struct.pack(">iBB", number, state, 1)
    return head + struct.pack(">i", len(low)) + table + struct.pack(">i", ended) + rows


DAG = dag(vertex(0, 2), vertex(1, 3, 0))


class Served:
    """A listener with a registry of plans behind it, and a client that may misbehave."""

    def __init__(self, encrypt: bool = False) -> None:
        self.keys = KeyRing()
        self.keys.give(ONE, 5, KEY)
        self.keys.give(OTHER, 5, OTHER_KEY)
        self.plans = PlanRegistry(Plans(schedules=20), History())
        for attempt in (ONE, OTHER):
            self.plans.register_attempt(attempt, recurrence_key("ann", "root.default", "TEZ", ""))
        self.now_s = 0.0
        self.rates = Rates(lambda: self.now_s)
        self.listener = PlanListener("127.0.0.2", 0, self.keys, self.plans.serve, self.allows, encrypt=encrypt)
        self.sealed = encrypt

    def allows(self, attempt: Attempt, size_bytes: int) -> bool:
        return self.rates.allows(attempt, "ann", size_bytes)

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.2", self.listener.port), timeout=30)

    @contextmanager
    def connected(self) -> Iterator[tuple[socket.socket, bytes]]:
        """Connect; yields the connection and its challenge."""
        with closing(self.connect()) as connected:
            yield connected, read(connected, CHALLENGE.size)

    def request(self, said: bytes, kind: Kind = Kind.PLAN, body: bytes = DAG) -> bytes:
        """Return a request of `ONE` as it should be after a challenge."""
        return request(KEY, said, kind, ONE, 5, body, NONCE, sealed=self.sealed)

    def say(self, content: bytes) -> bytes:
        """Send bytes, after the challenge; return what comes until the connection ends."""
        with self.connected() as (connected, _):
            return heard(connected, content)

    def ask(
        self, kind: Kind, body: bytes, attempt: Attempt = ONE, key: bytes = KEY, number: int = 5
    ) -> tuple[Status, bytes] | None:
        """Make a request as it should be; None: it was not answered."""
        with self.connected() as (connected, said):
            whole = request(key, said, kind, attempt, number, body, NONCE, sealed=self.sealed)
            content = heard(connected, whole)
        if not content:
            return None
        header, mac, rest = (
            content[: ANSWER.size],
            content[ANSWER.size :][:MAC_BYTES],
            content[ANSWER.size + MAC_BYTES :],
        )
        assert mac == code(key, said, whole[: REQUEST.size], header)
        _, _, status, flags, length, _ = ANSWER.unpack(header)
        assert length == len(rest)
        assert flags == self.sealed
        return Status(status), unseal(key, Direction.ANSWER, said, NONCE, rest) if self.sealed else rest


def read(connected: socket.socket, length: int) -> bytes:
    content = b""
    while len(content) < length and (part := connected.recv(length - len(content))):
        content += part
    return content


def heard(connected: socket.socket, content: bytes) -> bytes:
    answer = b""
    try:
        connected.sendall(content)
        while part := connected.recv(1 << 16):
            answer += part
    except ConnectionError:
        return answer
    return answer


@pytest.fixture
def sealing() -> Iterator[Served]:
    pytest.importorskip("cryptography")
    made = Served(encrypt=True)
    yield made
    made.listener.close()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    yield made
    made.listener.close()


def test_a_plan_comes_back_parents_first(served: Served) -> None:
    assert served.ask(Kind.PLAN, DAG) == (Status.OK, struct.pack(">iii", 2, 0, 1))


def test_without_the_key_nothing_is_answered(served: Served) -> None:
    assert served.ask(Kind.PLAN, DAG, key=OTHER_KEY) is None
    assert served.ask(Kind.PLAN, DAG, number=6) is None
    assert served.ask(Kind.PLAN, DAG, attempt=ONE._replace(attempt=3)) is None
    assert served.ask(Kind.PLAN, DAG, key=bytes(32), attempt=ONE._replace(application=9)) is None
    assert served.say(b"GET / HTTP/1.1\r\n" + bytes(200)) == b""


def test_one_application_cannot_speak_for_another(served: Served) -> None:
    assert served.ask(Kind.PLAN, DAG, attempt=OTHER, key=KEY) is None
    assert served.ask(Kind.PLAN, DAG) is not None
    assert served.ask(Kind.REPORT, report(1, {0: 6, 1: 9}), OTHER, OTHER_KEY) == (Status.UNKNOWN, b"")
    assert not len(served.plans.claims(OTHER))


def test_what_was_said_once_is_worth_nothing_on_another_connection(served: Served) -> None:
    with served.connected() as (connected, said):
        whole = served.request(said)
        assert heard(connected, whole)
    assert served.say(whole) == b""


def test_an_answer_is_to_one_request_alone(served: Served) -> None:
    """Its code does not fit another request after the same challenge, nor the same request with another nonce."""
    with served.connected() as (connected, said):
        whole = served.request(said, Kind.REPORT, report(9, {}))
        content = heard(connected, whole)
    header, mac = content[: ANSWER.size], content[ANSWER.size :][:MAC_BYTES]
    assert mac == code(KEY, said, whole[: REQUEST.size], header)
    for other in (
        served.request(said, Kind.REPORT, report(8, {})),
        request(KEY, said, Kind.REPORT, ONE, 5, report(9, {}), bytes(NONCE_BYTES)),
    ):
        assert mac != code(KEY, said, other[: REQUEST.size], header)


def test_an_encrypted_request_has_an_encrypted_answer(sealing: Served) -> None:
    plan = struct.pack(">iii", 2, 0, 1)
    assert sealing.ask(Kind.PLAN, DAG) == (Status.OK, plan)
    with sealing.connected() as (connected, said):
        whole = sealing.request(said)
        content = heard(connected, whole)
    assert said[5] == 1
    assert b"report" not in whole
    assert plan not in content
    assert len(content) == ANSWER.size + MAC_BYTES + len(plan) + TAG_BYTES


def test_where_bodies_are_encrypted_another_is_refused_and_the_other_way_round(sealing: Served, served: Served) -> None:
    for one in (sealing, served):
        one.sealed = not one.sealed
        with one.connected() as (connected, said):
            assert heard(connected, one.request(said))[5] == Status.REFUSED


def test_a_sealed_body_opens_with_the_keys_of_its_connection_alone() -> None:
    pytest.importorskip("cryptography")
    said, direction = bytes(CHALLENGE.size), Direction.REQUEST
    sealed = seal(KEY, direction, said, NONCE, DAG)
    assert unseal(KEY, direction, said, NONCE, sealed) == DAG
    for wrong in (
        (OTHER_KEY, direction, said, NONCE, sealed),
        (KEY, Direction.ANSWER, said, NONCE, sealed),
        (KEY, direction, bytes(39) + b"1", NONCE, sealed),
        (KEY, direction, said, bytes(NONCE_BYTES), sealed),
        (KEY, direction, said, NONCE, sealed[:-1]),
        (KEY, direction, said, NONCE, b""),
    ):
        with pytest.raises(MessageError):
            unseal(*wrong)


def test_without_the_package_a_listener_that_should_encrypt_does_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UserError, match=re.escape(install_extra("encrypt"))):
        PlanListener("127.0.0.1", 0, KeyRing(), lambda *_: (Status.OK, b""), lambda *_: True, encrypt=True)


def test_another_version_is_named_once_in_the_log(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    for version in (1, 3, 1):
        assert served.say(b"TRDQ" + bytes([version]) + bytes(REQUEST.size + MAC_BYTES - 5)) == b""
    for version in (1, 3):
        assert caplog.text.count(f"speaks version {version} of the plan protocol, this listener version 2") == 1


def test_a_changed_body_is_refused(served: Served) -> None:
    with served.connected() as (connected, said):
        whole = bytearray(served.request(said))
        whole[-1] ^= 1
        assert heard(connected, bytes(whole))[5] == Status.REFUSED


def test_a_body_of_100_mb_is_not_read(served: Served) -> None:
    with served.connected() as (connected, said):
        header = REQUEST.pack(b"TRDQ", VERSION, Kind.PLAN, 0, 100 << 20, *ONE, 5, bytes(32), NONCE)
        assert heard(connected, header + code(KEY, said, header) + bytes(BODY_MAX)) == b""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        DAG[:-1],
        DAG + b"\0",
        struct.pack(">i", 1) + b"\xff\xff",
        struct.pack(">iH", 1, 1) + b"\xff" + struct.pack(">i", 0),
        struct.pack(">iHi", 1, 0, -1),
        struct.pack(">iHi", 1, 0, 1 << 30),
        dag(vertex(0, -2)),
        dag(vertex(0, 1 << 30)),
    ],
)
def test_a_damaged_body_is_refused(served: Served, body: bytes) -> None:
    assert served.ask(Kind.PLAN, body) == (Status.REFUSED, b"")


@pytest.mark.parametrize(
    "body",
    [
        dag(),
        dag(vertex(0, 1, 1), vertex(1, 1, 0)),
        dag(vertex(0, 1, 9)),
        dag(*(vertex(at, 1) for at in range(VERTICES_MAX + 1))),
    ],
    ids=["empty", "cycle", "unknown parent", "too many vertices"],
)
def test_a_dag_that_cannot_be_planned_has_no_plan(served: Served, body: bytes) -> None:
    assert served.ask(Kind.PLAN, body) == (Status.NO_PLAN, b"")


def ended_rows(many: int) -> bytes:
    return struct.pack(">iBBii", 1, 0, 1, 0, many) + bytes(45 * many)


@pytest.mark.parametrize(
    "body",
    [
        report(1, dict.fromkeys(range(VERTICES_MAX + 1), 3)),
        ended_rows(ENDED_MAX + 1),
        report(1, {}) + bytes(REPORT_MAX),
    ],
    ids=["vertices", "ended tasks", "bytes"],
)
def test_a_report_that_is_too_large_is_refused(served: Served, body: bytes) -> None:
    assert served.ask(Kind.REPORT, body) == (Status.REFUSED, b"")


def test_a_dag_of_too_many_edges_has_no_plan(served: Served) -> None:
    many = EDGES_MAX // 100 + 1
    body = dag(*(vertex(at, 1, *range(at - 100, at)) for at in range(100, 100 + many)))
    assert served.ask(Kind.PLAN, body) == (Status.NO_PLAN, b"")


def test_requests_of_one_attempt_at_a_time_are_bounded(served: Served) -> None:
    waiting = []
    for _ in range(BY_ATTEMPT_MAX):
        connected = served.connect()
        said = read(connected, CHALLENGE.size)
        connected.sendall(served.request(said)[:-1])
        waiting.append(connected)
    eventually(lambda: served.listener._attempts._counts[ONE] == BY_ATTEMPT_MAX, timeout_s=30)
    assert served.ask(Kind.PLAN, DAG) is None
    assert served.ask(Kind.PLAN, DAG, OTHER, OTHER_KEY) is not None
    for connected in waiting:
        connected.close()
    eventually(lambda: served.listener._attempts._counts[ONE] == 0, timeout_s=30)
    assert served.ask(Kind.PLAN, DAG) is not None


def test_one_address_cannot_fill_all_connections(served: Served) -> None:
    waiting = [served.connect() for _ in range(BY_ADDRESS_MAX)]
    for connected in waiting:
        read(connected, CHALLENGE.size)
    with closing(served.connect()) as more:
        assert read(more, 1) == b""
    source = ("127.0.0.9", 0)
    with closing(
        socket.create_connection(("127.0.0.2", served.listener.port), timeout=30, source_address=source)
    ) as other:
        assert len(read(other, CHALLENGE.size)) == CHALLENGE.size
    for connected in waiting:
        connected.close()


def allowed(rates: Rates, user: str, attempts: range, size_bytes: int) -> int:
    """Return how many requests of attempts, one of each in turn, are within the rates until one is not."""
    count = 0
    while rates.allows(Attempt(0, attempts[count % len(attempts)], 1), user, size_bytes):
        count += 1
    return count


def test_bytes_are_bounded_by_attempt_by_user_and_in_all() -> None:
    now_s, size_bytes = 0.0, 64 << 10
    rates = Rates(lambda: now_s)
    assert allowed(rates, "ann", range(1), size_bytes) == ATTEMPT_BYTES.burst // size_bytes
    assert allowed(rates, "ann", range(1, 10), size_bytes) == (USER_BYTES.burst - ATTEMPT_BYTES.burst) // size_bytes
    users = (rates.allows(Attempt(1, at, 1), f"user {at // 4}", size_bytes) for at in range(1_000))
    assert sum(users) == (ALL_BYTES.burst - USER_BYTES.burst) // size_bytes
    now_s = 10.0
    more = (rates.allows(Attempt(2, at, 1), f"more {at // 4}", size_bytes) for at in range(1_000))
    assert sum(more) == 10 * ALL_BYTES.per_s // size_bytes


def test_an_attempt_that_asks_too_often_is_answered_busy_and_others_are_not(served: Served) -> None:
    answers = [served.ask(Kind.REPORT, report(9, {})) for _ in range(int(REQUESTS.burst) + 1)]
    assert answers == [(Status.UNKNOWN, b"")] * int(REQUESTS.burst) + [(Status.BUSY, b"")]
    assert served.ask(Kind.REPORT, report(9, {}), OTHER, OTHER_KEY) == (Status.UNKNOWN, b"")
    served.now_s += 1.0
    assert served.ask(Kind.REPORT, report(9, {})) == (Status.UNKNOWN, b"")


@pytest.mark.parametrize(("bound", "sent"), [("AUTHENTICATION_S", 4), ("REQUEST_S", -1)], ids=["header", "body"])
def test_what_does_not_come_is_not_waited_for(
    served: Served, monkeypatch: pytest.MonkeyPatch, bound: str, sent: int
) -> None:
    monkeypatch.setattr(module, bound, 0.05)
    with served.connected() as (connected, said):
        connected.sendall(served.request(said)[:sent])
        assert connected.recv(1) == b""


def use_up_rate(served: Served) -> None:
    for _ in range(int(REQUESTS.burst)):
        served.rates.allows(ONE, "ann", 0)


def beyond_rate(served: Served, body: bytes) -> tuple[socket.socket, bytes]:
    """Connect, send the header of a request that is beyond the rate; return the connection and the answer's header."""
    connected = served.connect()
    said = read(connected, CHALLENGE.size)
    connected.sendall(served.request(said, Kind.REPORT, body)[: REQUEST.size + MAC_BYTES])
    return connected, read(connected, ANSWER.size + MAC_BYTES)


def test_what_is_beyond_a_rate_is_answered_before_its_body_is_there(served: Served) -> None:
    use_up_rate(served)
    connected, content = beyond_rate(served, report(9, {}))
    assert ANSWER.unpack(content[: ANSWER.size])[2] == Status.BUSY
    connected.sendall(report(9, {}))
    assert connected.recv(1) == b""
    connected.close()


def test_an_answer_to_what_is_beyond_a_rate_is_heard_though_a_long_body_follows(served: Served) -> None:
    use_up_rate(served)
    for _ in range(20):
        assert served.ask(Kind.PLAN, bytes(BODY_MAX)) == (Status.BUSY, b"")
    eventually(lambda: served.listener._attempts._counts[ONE] == 0)


def test_requests_that_are_turned_away_are_bounded_too(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    use_up_rate(served)
    waiting = [beyond_rate(served, report(9, {})) for _ in range(BY_ATTEMPT_MAX)]
    assert all(content for _, content in waiting)
    more, content = beyond_rate(served, report(9, {}))
    assert content == b""
    monkeypatch.setattr(module, "REQUEST_S", 0.05)
    for connected, _ in [*waiting, (more, b"")]:
        connected.close()
    eventually(lambda: served.listener._attempts._counts[ONE] == 0)
    silent, _ = beyond_rate(served, report(9, {}))
    eventually(lambda: served.listener._attempts._counts[ONE] == 0)
    assert silent.recv(1) == b"", "a body that does not come is not waited for"
    silent.close()


def test_no_thread_is_there_for_who_has_shown_no_key_or_is_beyond_a_rate() -> None:
    before = set(enumerate_threads())
    served = Served()
    waiting = [served.connect() for _ in range(BY_ADDRESS_MAX - 1)]
    for connected in waiting:
        read(connected, CHALLENGE.size)
    use_up_rate(served)
    connected, content = beyond_rate(served, report(9, {}))
    assert content
    there = {thread.name for thread in set(enumerate_threads()) - before}
    assert there == {"plan listener"}
    for each in [*waiting, connected]:
        each.close()
    served.listener.close()


def test_a_sealed_request_is_not_answered_where_nothing_can_be_sealed(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setattr(served.listener, "_can_seal", False, raising=False)
    with served.connected() as (connected, said):
        header = REQUEST.pack(b"TRDQ", VERSION, Kind.PLAN, 1, 0, *ONE, 5, sha256(b"").digest(), NONCE)
        assert heard(connected, header + code(KEY, said, header)) == b""
    assert served.ask(Kind.PLAN, DAG) is not None
    assert "failed" not in caplog.text


def test_too_many_connections_are_closed_and_room_comes_back() -> None:
    keys, go_on = KeyRing(), Event()
    attempts = [Attempt(0, number, 1) for number in range(CONNECTIONS_MAX)]
    for attempt in attempts:
        keys.give(attempt, 5, KEY)

    def serve(_header: Header, _body: bytes) -> tuple[Status, bytes]:
        go_on.wait()
        return Status.OK, b""

    listener = PlanListener("127.0.0.1", 0, keys, serve, lambda *_: True)
    open_: list[socket.socket] = []
    try:
        for attempt in attempts:
            source = (f"127.0.0.{2 + len(open_) // BY_ADDRESS_MAX}", 0)
            connected = socket.create_connection(("127.0.0.1", listener.port), timeout=30, source_address=source)
            said = read(connected, CHALLENGE.size)
            connected.sendall(request(KEY, said, Kind.PLAN, attempt, 5, b"", NONCE))
            open_.append(connected)
        with closing(socket.create_connection(("127.0.0.1", listener.port), timeout=30)) as more:
            assert heard(more, b"") == b""
        go_on.set()
        assert all(read(connected, ANSWER.size)[:4] == b"TRDA" for connected in open_)
    finally:
        go_on.set()
        for connected in open_:
            connected.close()
        listener.close()


def test_a_port_that_is_taken_is_named(served: Served) -> None:
    with pytest.raises(UserError, match=rf"listener: 127.0.0.2 port {served.listener.port}"):
        PlanListener("127.0.0.2", served.listener.port, served.keys, served.plans.serve, served.allows)


def test_the_key_before_a_roll_over_is_good_and_the_one_before_that_is_not(served: Served) -> None:
    served.keys.give(ONE, 6, OTHER_KEY)
    assert served.ask(Kind.PLAN, DAG) is not None
    assert served.ask(Kind.PLAN, DAG, key=OTHER_KEY, number=6) is not None
    served.keys.give(ONE, 7, bytes(32))
    assert served.ask(Kind.PLAN, DAG) is None
    served.keys.forget(ONE)
    assert served.ask(Kind.PLAN, DAG, key=bytes(32), number=7) is None


def test_keys_are_bounded() -> None:
    keys = KeyRing()
    for number in range(ATTEMPTS_MAX + 1):
        keys.give(Attempt(0, number, 1), 1, KEY)
    assert len(keys) == ATTEMPTS_MAX
    assert keys.find(Attempt(0, 0, 1), 1) is None


# What is kept of plans and reports, who makes room, and whose turn it is: bounds by attempt, by user and in all.


def test_whoever_has_most_makes_room() -> None:
    kept: QuotaCache[int, str] = QuotaCache(Bounds(5_000, 10_000, 12_000))
    assert kept.put(0, "ann", "a", 2_000)
    assert not kept.put(1, "mallory", "too large", 5_001)
    assert [kept.put(at, "mallory", "m", 4_000) for at in range(2, 9)] == [True] * 7
    assert (kept.get(0), len(kept), kept._bytes.get("mallory", 0)) == ("a", 3, 8_000)
    assert kept.put(9, "bob", "b", 4_000)
    assert (kept.get(0), kept.get(9), kept._bytes.get("mallory", 0)) == ("a", "b", 4_000)
    assert kept.bytes <= 12_000


def test_small_things_are_bounded_in_number() -> None:
    kept: QuotaCache[int, None] = QuotaCache(Bounds(10_000, 10 * THING_BYTES, 100 * THING_BYTES, things=15))
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
    turns = FairScheduler(lambda: now_s)
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
        while threads[-1].is_alive() and len(turns._waiting) < min(len(threads) - 1, WAITING_MAX) + (user == "ann"):
            pass
    assert list(turns._waiting.values()).count("mallory") == WAITING_MAX, "the others were turned away at once"
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert order == ["ann"] + ["mallory"] * WAITING_MAX
    assert turns.recent_s("mallory") == 5.0
    now_s += 60.0
    assert turns.recent_s("mallory") == 2.5


def test_who_waits_too_long_for_the_planner_is_answered_busy() -> None:
    turns = FairScheduler()
    with turns.turn("mallory", 0) as mine, turns.turn("ann", 0.01) as other:
        assert (mine, other) == (True, False)
    with turns.turn("ann", 0.01) as mine:
        assert mine


def asked(registry: PlanRegistry, attempt: Attempt, kind: Kind, body: bytes) -> Status:
    return registry.serve(Header(kind, len(body), attempt, 1, b""), body)[0]


def mallory_s(schedules: int = 0) -> tuple[PlanRegistry, Attempt]:
    """Return a registry and an attempt of Mallory's that it has met."""
    registry, attempt = PlanRegistry(Plans(schedules=schedules), History()), Attempt(0, 1, 1)
    registry.register_attempt(attempt, recurrence_key("mallory", "q", "TEZ", ""))
    return registry, attempt


def test_reports_of_one_dag_grow_up_to_a_bound() -> None:
    registry, attempt = mallory_s()
    asked(registry, attempt, Kind.PLAN, dag(*(vertex(at, 1) for at in range(900))))
    answers = set()
    for turn in range(400):
        rows = b"".join(
            struct.pack(">iiiBqqqq", at, 0, 0, 0, 1 << 41, int(1.03 ** (turn + 1)), -1, -1) for at in range(900)
        )
        answers.add(asked(registry, attempt, Kind.REPORT, struct.pack(">iBBii", 1, 0, 1, 0, 900) + rows))
    assert answers == {Status.OK, Status.BUSY}
    record = present(registry._records.get(attempt))
    assert record.size_bytes <= registries.RECORDS_BYTES.each


def test_dags_of_one_user_do_not_push_out_those_of_others() -> None:
    registry = PlanRegistry(Plans(), History())
    ann = Attempt(0, 1, 1)
    registry.register_attempt(ann, recurrence_key("ann", "q", "TEZ", ""))
    asked(registry, ann, Kind.PLAN, dag(vertex(0, 1)))
    large = dag(*(vertex(at, 1) for at in range(1_000)))
    for number in range(2, 60):
        attempt = Attempt(0, number, 1)
        registry.register_attempt(attempt, recurrence_key("mallory", "q", "TEZ", ""))
        asked(registry, attempt, Kind.PLAN, large)
    assert registry._records.get(ann) is not None
    assert registry._records._bytes.get("mallory", 0) <= registries.RECORDS_BYTES.user
    assert asked(registry, ann, Kind.REPORT, ended_rows(0)) is Status.OK


def test_a_dag_of_too_many_tasks_is_not_planned() -> None:
    registry, attempt = mallory_s(schedules=1)
    half = registries.PLAN_TASKS_MAX // 2
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
    assert history._profiles._bytes.get("mallory", 0) <= registries.PROFILES_BYTES.user


def test_a_dag_that_succeeds_is_added_to_what_the_store_knows_of_it() -> None:
    key = recurrence_key("ann", "q", "TEZ", "daily")

    def run(name: str, duration_ms: int) -> JobRun:
        return JobRun(key, name, 0, duration_ms, (StageRun("v", 1, DurationSketch([duration_ms]), {}, ()),))

    of_store = with_run(None, run("dag_ann_1", 100))
    history = History(find=lambda _: of_store)
    history.put(run("dag_ann_2", 200))
    found = history.find(key)
    assert found is not None
    assert {name for _, name, _ in found.recent} == {"dag_ann_1", "dag_ann_2"}


def test_plans_of_large_dags_are_made_on_fewer_machines_and_kept_by_user(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    class Source(PlanSource):
        def plan(self, dag: Dag) -> Plan | None:
            counts.append(self.machines.count)
            return super().plan(dag)

    monkeypatch.setattr(registries, "PlanSource", Source)
    sources = PlanSources(schedules=1, remembered=3)
    machines = Machines({"cpu": 4.0}, 10_000)
    chain = Dag("d", tuple(Stage(at, 1, 10, {"cpu": 1.0}, (at - 1,) if at else ()) for at in range(100)))
    for _ in range(2):
        assert sources.plan("ann", machines, chain) is not None
    assert counts == [MACHINE_STAGES_MAX // 100], "the second is remembered"
    for at in range(5):
        sources.plan("mallory", machines, Dag("m", (Stage(0, at + 1, 10, {"cpu": 1.0}),)))
    assert len(sources) == 3


def test_names_of_a_dag_begin_no_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    registry, attempt = mallory_s(schedules=1)
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


# The bytes that the plug-in in Java and the listener agree on.

GOLDEN = Path(__file__).parent.parent / "golden" / "plan-request.bin"
GOLDEN_ATTEMPT = Attempt(1_700_000_000_000, 7, 2)
GOLDEN_KEY = hmac.digest(bytes(20), b"treadle-plans-1", "sha256")


def golden_vertex(number: int, name: str, tasks: int, parents: dict[int, bool]) -> PlannedVertex:
    return PlannedVertex(number, name, tasks, {"memory-mb": 1024 * (number + 1), "vcores": 1}, parents)


def test_the_golden_request_says_what_the_dag_is() -> None:
    content = GOLDEN.read_bytes()
    header, body = read_header(content[: REQUEST.size]), content[REQUEST.size + MAC_BYTES :]
    check_body(header, body)
    assert (header.kind, header.attempt, header.key_number, header.length) == (Kind.PLAN, GOLDEN_ATTEMPT, 5, len(body))
    assert read_plan_request(body) == PlanRequest(
        3,
        "daily report",
        (
            golden_vertex(0, "small", 4, {}),
            golden_vertex(1, "large", 2, {}),
            golden_vertex(2, "middle", 2, {1: True}),
            golden_vertex(3, "last", 1, {0: False, 2: False}),
        ),
    )
    assert request(GOLDEN_KEY, bytes(CHALLENGE.size), Kind.PLAN, GOLDEN_ATTEMPT, 5, body, bytes(NONCE_BYTES)) == content


@pytest.mark.parametrize("sealed", [False, True])
def test_the_golden_exchange(sealed: bool) -> None:
    """What the plug-ins' tests read too: a challenge, a request with three bytes, an answer with two."""
    if sealed:
        pytest.importorskip("cryptography")
    content = GOLDEN.with_name("plan-exchange-sealed.bin" if sealed else "plan-exchange.bin").read_bytes()
    said = challenge(bytes(range(32)), sealed=sealed)
    asked = request(GOLDEN_KEY, said, Kind.REPORT, GOLDEN_ATTEMPT, 5, b"\1\2\3", bytes(range(32, 64)), sealed=sealed)
    assert content == said + asked + answer(GOLDEN_KEY, said, asked[: REQUEST.size], Status.UNKNOWN, b"\4\5")


def test_a_report_as_the_plug_in_writes_it() -> None:
    head, table = "00000003 01 01", "00000001 00000002 0000001e 00000004"
    ended = "00000001 00000002 00000009 00000000 00 00000000000004e2 00000000000000fa ffffffffffffffff 0000000000000007"
    found = read_report(bytes.fromhex(head + table + ended))
    assert (found.dag, found.state, found.planned) == (3, 1, True)
    assert found.vertices == (VertexProgress(2, 30, 4),)
    assert found.ended == (Ended(2, 9, 0, Outcome.SUCCEEDED, 1_250, 250, -1, 7),)
