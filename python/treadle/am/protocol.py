"""What an application master and the plan listener say to each other, as bytes (docs/plan-listener.md).

Everything is big-endian, as Java's DataOutputStream writes it. Nothing here trusts a byte: what is not a message raises
`MessageError`.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

from treadle.am.bodies import MessageError, Reader, read_whole
from treadle.am.keys import Attempt
from treadle.am.sealing import TAG_BYTES, Direction, seal

VERSION: Final = 2
BODY_MAX: Final = 256 << 10
"""No body is longer; that of a report is shorter still (`REPORT_MAX`). Sealed it is `TAG_BYTES` longer."""

REPORT_MAX: Final = 64 << 10

CHALLENGE_BYTES: Final = 40
MAC_BYTES: Final = 32

VERTICES_MAX: Final = 1_000
"""A DAG with more vertices has no plan."""

VERTEX_BYTES_MIN: Final = 18
EDGES_MAX: Final = 10_000
ENDED_MAX: Final = 1_000
"""Ended tasks in one report."""

RESOURCES_MAX: Final = 64
TASKS_MAX: Final = 10_000_000

NONCE_BYTES: Final = 32
SEALED: Final = 1
"""Flag of a challenge: bodies must be sealed here (`treadle.am.sealing`); of request and answer: its body is."""

CHALLENGE: Final = Struct(">4sBB2x32s")
_BEGIN: Final = Struct(">4sB")
REQUEST: Final = Struct(">4sBBHiqiii32s32s")
ANSWER: Final = Struct(">4sBBHi32s")


class TooLargeError(Exception):
    """A DAG that is no mistake, and too large to be planned."""


class Kind(IntEnum):
    """What a request is for."""

    PLAN = 1
    REPORT = 2
    STAGES = 3
    """Of a Spark application; see `treadle.am.stage_registry`."""


class Status(IntEnum):
    """The outcome of a request."""

    OK = 0
    BUSY = 1
    NO_PLAN = 2
    UNKNOWN = 3
    """A report goes on with something that is not known (any more)."""
    REFUSED = 4


class Outcome(IntEnum):
    """How a task attempt ended."""

    SUCCEEDED = 0
    FAILED = 1
    OTHER = 2


class VersionError(MessageError):
    """The other end speaks another version of the protocol."""


class Header(NamedTuple):
    """Who wants what, and what its body must be."""

    kind: Kind
    length: int
    attempt: Attempt
    key_number: int
    digest: bytes
    sealed: bool = False
    nonce: bytes = b""
    """Chosen by the client, for this request alone."""


class VertexAsk(NamedTuple):
    """A vertex of a DAG to plan."""

    id: int
    name: str
    tasks: int
    """-1 as long as nobody knows."""
    demand: dict[str, int]
    parents: dict[int, bool]
    """By the parent's id: whether task i waits for that parent's task i alone."""


class PlanRequest(NamedTuple):
    """A DAG to plan."""

    dag: int
    """Its number within the application."""
    name: str
    vertices: tuple[VertexAsk, ...]


class VertexNow(NamedTuple):
    """What a vertex's priorities and width are."""

    id: int
    low: int
    """The largest of its three priorities."""
    tasks: int


class Ended(NamedTuple):
    """A task attempt that has ended."""

    vertex: int
    task: int
    attempt: int
    outcome: Outcome
    ended_ms: int
    took_ms: int
    """-1 if not known; so are the next two."""
    input_bytes: int
    cpu_ms: int


class Report(NamedTuple):
    """The progress of a DAG since the last report."""

    dag: int
    state: int
    """0 running, 1 succeeded, 2 ended otherwise."""
    planned: bool
    """Does it follow its plan?"""
    vertices: tuple[VertexNow, ...]
    """All of them; none if nothing has changed."""
    ended: tuple[Ended, ...]


def challenge(random: bytes, *, sealed: bool = False) -> bytes:
    """Return what the listener says first, with 32 random bytes; ``sealed``: bodies must be."""
    return CHALLENGE.pack(b"TRDC", VERSION, SEALED if sealed else 0, random)


def code(key: bytes, *parts: bytes) -> bytes:
    """Return the message authentication code of some bytes."""
    return hmac.digest(key, b"".join(parts), "sha256")


def read_header(content: bytes) -> Header:
    """Return what the header of a request says.

    Raises:
        VersionError: it is of another version.
        MessageError: it is none, or its body would be too long.
    """
    magic, version = _BEGIN.unpack_from(content)
    if magic != b"TRDQ":
        raise MessageError("no request")
    if version != VERSION:
        raise VersionError(
            f"a plug-in speaks version {version} of the plan protocol, this listener version {VERSION}: "
            "give it the jar of this release (treadle jar --tez, treadle jar --spark)"
        )
    _, _, kind, flags, length, timestamp, application, attempt, number, digest, nonce = REQUEST.unpack(content)
    if flags not in (0, SEALED) or kind not in set(Kind):
        raise MessageError("a request of no known kind")
    if not 0 <= length <= BODY_MAX + (TAG_BYTES if flags else 0):
        raise MessageError(f"a body of {length} bytes; at most {BODY_MAX} are taken")
    who = Attempt(timestamp, application, attempt)
    return Header(Kind(kind), length, who, number, digest, flags == SEALED, nonce)


def check_body(header: Header, body: bytes) -> None:
    """Check that a body is the one that the header was made for.

    Raises:
        MessageError: it is not, or it is a report and too long.
    """
    if header.kind is not Kind.PLAN and len(body) > REPORT_MAX + (TAG_BYTES if header.sealed else 0):
        raise MessageError(f"a report of {len(body)} bytes; at most {REPORT_MAX} are taken")
    if not hmac.compare_digest(hashlib.sha256(body).digest(), header.digest):
        raise MessageError("a body that is not what its header says")


def request(
    key: bytes,
    said: bytes,
    kind: Kind,
    attempt: Attempt,
    number: int,
    body: bytes,
    nonce: bytes,
    *,
    sealed: bool = False,
) -> bytes:
    """Return a request, as an application master makes it.

    Args:
        key: of the attempt
        said: the challenge that it follows
        kind: what it is for
        attempt: whose it is
        number: of the key
        body: what is asked or reported
        nonce: `NONCE_BYTES` random bytes, for this request alone
        sealed: whether the body is encrypted
    """
    if sealed:
        body = seal(key, Direction.REQUEST, said, nonce, body)
    digest, flags = hashlib.sha256(body).digest(), SEALED if sealed else 0
    header = REQUEST.pack(b"TRDQ", VERSION, kind, flags, len(body), *attempt, number, digest, nonce)
    return header + code(key, said, header) + body


def answer(key: bytes, said: bytes, asked: bytes, status: Status, body: bytes = b"") -> bytes:
    """Return an answer to the request whose header is ``asked`` and that followed the challenge ``said``.

    Its code is over both and its own header, so that it answers no other request. It is sealed if the request was.
    """
    flags, nonce = REQUEST.unpack(asked)[3], REQUEST.unpack(asked)[-1]
    if flags & SEALED:
        body = seal(key, Direction.ANSWER, said, nonce, body)
    header = ANSWER.pack(b"TRDA", VERSION, status, flags, len(body), hashlib.sha256(body).digest())
    return header + code(key, said, asked, header) + body


def read_plan_request(body: bytes) -> PlanRequest:
    """Return what the body of a request for a plan says.

    Raises:
        MessageError: it is none.
        TooLargeError: of a DAG that is too large.
    """
    return read_whole(body, _plan_request)


def read_report(body: bytes) -> Report:
    """Return what the body of a report says.

    Raises:
        MessageError: it is none.
    """
    return read_whole(body, _report)


def plan_body(order: Sequence[int]) -> bytes:
    """Return the body of an answer with a plan: the ids of all vertices, the one to be served first in front."""
    return Struct(f">i{len(order)}i").pack(len(order), *order)


_AMOUNT: Final = Struct(">q")
_PARENT: Final = Struct(">iB")
_REPORT: Final = Struct(">iBB")
_NOW: Final = Struct(">iii")
_ENDED: Final = Struct(">iiiBqqqq")


def _plan_request(reader: Reader) -> PlanRequest:
    dag = reader.number()
    name = reader.text()
    count, edges, vertices = reader.number(), 0, []
    if count > VERTICES_MAX and count <= len(reader.body) // VERTEX_BYTES_MIN:
        raise TooLargeError(f"a DAG of {count} vertices; those of at most {VERTICES_MAX} are planned")
    if not 0 <= count <= VERTICES_MAX:
        raise MessageError(f"a DAG of {count} vertices")
    for _ in range(count):
        number = reader.number()
        vertex_name = reader.text()
        tasks = reader.number()
        if not -1 <= tasks <= TASKS_MAX:
            raise MessageError(f"a vertex of {tasks} tasks")
        demand = {}
        for _ in range(reader.count(RESOURCES_MAX)):
            resource = reader.text()
            (demand[resource],) = reader.take(_AMOUNT)
            if demand[resource] < 0:
                raise MessageError("an amount below 0")
        parents = {}
        for _ in range(reader.count(EDGES_MAX)):
            parent, single = reader.take(_PARENT)
            parents[parent] = bool(single)
        edges += len(parents)
        if edges > EDGES_MAX:
            raise TooLargeError(f"more than {EDGES_MAX} edges; larger DAGs are not planned")
        vertices.append(VertexAsk(number, vertex_name, tasks, demand, parents))
    return PlanRequest(dag, name, tuple(vertices))


def _report(reader: Reader) -> Report:
    dag, state, planned = reader.take(_REPORT)
    vertices = tuple(VertexNow(*reader.take(_NOW)) for _ in range(reader.count(VERTICES_MAX)))
    ended = []
    for _ in range(reader.count(ENDED_MAX)):
        vertex, task, attempt, outcome, *numbers = reader.take(_ENDED)
        ended.append(Ended(vertex, task, attempt, Outcome(outcome), *numbers))
    return Report(dag, state, bool(planned), vertices, tuple(ended))
