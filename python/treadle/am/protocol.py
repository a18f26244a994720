"""The messages between application masters and the plan listener, as bytes (docs/plan-listener.md).

Everything is big-endian, as Java's DataOutputStream writes it. All input is untrusted: an invalid message raises
`MessageError`. Bodies may be encrypted with AES-256-GCM under keys of a single connection: the key of a direction is
derived from the attempt's key, the listener's challenge and the request's nonce. It seals one body, so GCM's own nonce
may be constant. This needs the package `cryptography` (the extra `encrypt`).
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from enum import Enum, IntEnum
from importlib.util import find_spec
from struct import Struct, error
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar

from treadle.errors import UserError, install_extra

T = TypeVar("T")

_INT: Final = Struct(">i")
_SHORT: Final = Struct(">H")


class MessageError(Exception):
    """Bytes that are not a valid message."""


class Reader:
    """Reads values one after another; raises `struct.error` or `ValueError` at the end."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.at = 0

    def take(self, struct: Struct) -> tuple[Any, ...]:
        """Return the values of a structure."""
        values = struct.unpack_from(self.body, self.at)
        self.at += struct.size
        return values

    def number(self) -> int:
        """Return an i32."""
        (number,) = self.take(_INT)
        return int(number)

    def count(self, most: int) -> int:
        """Return an i32 that is a number of items.

        Raises:
            MessageError: negative or too large.
        """
        count = self.number()
        if not 0 <= count <= most:
            raise MessageError(f"{count} of something of which at most {most} are taken")
        return count

    def text(self) -> str:
        """Return a text."""
        (length,) = self.take(_SHORT)
        content = self.body[self.at : self.at + length]
        if len(content) < length:
            raise MessageError("a text that is cut off")
        self.at += length
        return content.decode("utf-8")


def read_whole(body: bytes, read: Callable[[Reader], T]) -> T:
    """Return the result of ``read`` for a complete body.

    Raises:
        MessageError: it is damaged, or longer than the values read.
    """
    reader = Reader(body)
    try:
        found = read(reader)
    except (error, UnicodeDecodeError, ValueError) as problem:
        raise MessageError(f"a damaged body: {problem}") from problem
    if reader.at != len(body):
        raise MessageError(f"{len(body) - reader.at} bytes too many")
    return found


TAG_BYTES: Final = 16
"""Additional length of a sealed body."""

_GCM_NONCE: Final = bytes(12)


class Direction(Enum):
    """The sender of a body."""

    REQUEST = b"treadle-plans-2 request"
    ANSWER = b"treadle-plans-2 answer"


def can_seal() -> bool:
    """Return whether the package for sealing is installed."""
    return find_spec("cryptography") is not None


def check_sealing() -> None:
    """Check that bodies can be sealed here.

    Raises:
        UserError: the package for it is missing.
    """
    try:
        import cryptography  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"listener.encrypt: 'cryptography' is missing; {install_extra('encrypt')}, or set encrypt: false"
        ) from error


def seal(key: bytes, direction: Direction, challenge_sent: bytes, nonce: bytes, body: bytes) -> bytes:
    """Return a body encrypted, for the request with ``nonce`` that follows the challenge ``challenge_sent``."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    sealed: bytes = AESGCM(_key(key, direction, challenge_sent, nonce)).encrypt(_GCM_NONCE, body, None)
    return sealed


def unseal(key: bytes, direction: Direction, challenge_sent: bytes, nonce: bytes, sealed: bytes) -> bytes:
    """Return the content of a sealed body.

    Raises:
        MessageError: it was sealed with another key, or changed.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        body: bytes = AESGCM(_key(key, direction, challenge_sent, nonce)).decrypt(_GCM_NONCE, sealed, None)
    except InvalidTag as error:
        raise MessageError("a sealed body that cannot be opened") from error
    return body


def _key(key: bytes, direction: Direction, challenge_sent: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, direction.value + challenge_sent + nonce, "sha256")


NUMBERS_MAX: Final = 2
"""Keys stored per attempt: after a rollover of the ResourceManager's master key, the previous one remains in use."""

ATTEMPTS_MAX: Final = 100_000
"""Maximum number of attempts with keys; the oldest is dropped first."""


class Attempt(NamedTuple):
    """An application attempt, by YARN's numbers."""

    cluster_timestamp: int
    application: int
    attempt: int


class KeyRing:
    """Keys by attempt and number. Thread-safe. Never displayed or written."""

    def __init__(self) -> None:
        self._keys: dict[Attempt, dict[int, bytes]] = {}
        self._lock = Lock()

    def give(self, attempt: Attempt, number: int, key: bytes) -> None:
        """Store a key of 32 bytes."""
        with self._lock:
            keys = self._keys.setdefault(attempt, {})
            keys.pop(number, None)
            keys[number] = key
            while len(keys) > NUMBERS_MAX:
                del keys[next(iter(keys))]
            while len(self._keys) > ATTEMPTS_MAX:
                del self._keys[next(iter(self._keys))]

    def forget(self, attempt: Attempt) -> None:
        """Remove the keys of an attempt that has ended."""
        with self._lock:
            self._keys.pop(attempt, None)

    def find(self, attempt: Attempt, number: int) -> bytes | None:
        """Return a key; None if it is unknown."""
        with self._lock:
            return self._keys.get(attempt, {}).get(number)

    def __len__(self) -> int:
        return len(self._keys)


VERSION: Final = 2
BODY_MAX: Final = 256 << 10
"""Maximum length of a body; that of a report is shorter (`REPORT_MAX`). A sealed body is `TAG_BYTES` longer."""

REPORT_MAX: Final = 64 << 10

MAC_BYTES: Final = 32

VERTICES_MAX: Final = 1_000
"""Maximum number of vertices of a planned DAG."""

VERTEX_BYTES_MIN: Final = 18
EDGES_MAX: Final = 10_000
ENDED_MAX: Final = 1_000
"""Maximum number of ended tasks in one report."""

RESOURCES_MAX: Final = 64
TASKS_MAX: Final = 10_000_000

NONCE_BYTES: Final = 32
SEALED: Final = 1
"""Flag of a challenge: bodies must be sealed; of request and answer: its body is."""

CHALLENGE: Final = Struct(">4sBB2x32s")
_BEGIN: Final = Struct(">4sB")
REQUEST: Final = Struct(">4sBBHiqiii32s32s")
ANSWER: Final = Struct(">4sBBHi32s")


class TooLargeError(Exception):
    """A valid DAG that is too large to be planned."""


class Kind(IntEnum):
    """The purpose of a request."""

    PLAN = 1
    REPORT = 2
    STAGES = 3
    """A report by a Spark application; see `treadle.am.registries`."""


class Status(IntEnum):
    """The result of a request."""

    OK = 0
    BUSY = 1
    NO_PLAN = 2
    UNKNOWN = 3
    """A report refers to something unknown or forgotten."""
    REFUSED = 4


class Outcome(IntEnum):
    """How a task attempt ended."""

    SUCCEEDED = 0
    FAILED = 1
    OTHER = 2


class VersionError(MessageError):
    """The peer uses another version of the protocol."""


class Header(NamedTuple):
    """Header of a request, with the length and the digest of its body."""

    kind: Kind
    length: int
    attempt: Attempt
    key_number: int
    digest: bytes
    sealed: bool = False
    nonce: bytes = b""
    """Chosen by the client for this request."""


class PlannedVertex(NamedTuple):
    """A vertex of a DAG to plan."""

    id: int
    name: str
    tasks: int
    """Number of tasks; -1 if unknown."""
    demand: dict[str, int]
    parents: dict[int, bool]
    """By the parent's ID: whether task i waits only for that parent's task i."""


class PlanRequest(NamedTuple):
    """A DAG to plan."""

    dag: int
    """Its number within the application."""
    name: str
    vertices: tuple[PlannedVertex, ...]


class VertexProgress(NamedTuple):
    """Priorities and width of a vertex."""

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
    """Duration in ms; -1 if unknown, as in the next two."""
    input_bytes: int
    cpu_ms: int


class Report(NamedTuple):
    """Progress of a DAG since the last report."""

    dag: int
    state: int
    """0 running, 1 succeeded, 2 ended otherwise."""
    planned: bool
    """Whether it follows its plan."""
    vertices: tuple[VertexProgress, ...]
    """All vertices; empty without changes."""
    ended: tuple[Ended, ...]


def challenge(random: bytes, *, sealed: bool = False) -> bytes:
    """Return the listener's first message, with 32 random bytes; ``sealed``: bodies must be sealed."""
    return CHALLENGE.pack(b"TRDC", VERSION, SEALED if sealed else 0, random)


def code(key: bytes, *parts: bytes) -> bytes:
    """Return the message authentication code of some bytes."""
    return hmac.digest(key, b"".join(parts), "sha256")


def read_header(content: bytes) -> Header:
    """Return the header of a request.

    Raises:
        VersionError: it has another version.
        MessageError: it is invalid, or its body would be too long.
    """
    magic, version = _BEGIN.unpack_from(content)
    if magic != b"TRDQ":
        raise MessageError("no request")
    if version != VERSION:
        raise VersionError(
            f"a plug-in speaks version {version} of the plan protocol, this listener version {VERSION}: "
            "give it the jar of this release (treadle paths tez, treadle paths spark)"
        )
    _, _, kind, flags, length, timestamp, application, attempt, number, digest, nonce = REQUEST.unpack(content)
    if flags not in (0, SEALED) or kind not in set(Kind):
        raise MessageError("a request of no known kind")
    if not 0 <= length <= BODY_MAX + (TAG_BYTES if flags else 0):
        raise MessageError(f"a body of {length} bytes; at most {BODY_MAX} are taken")
    who = Attempt(timestamp, application, attempt)
    return Header(Kind(kind), length, who, number, digest, flags == SEALED, nonce)


def check_body(header: Header, body: bytes) -> None:
    """Check that a body matches its header.

    Raises:
        MessageError: it does not, or is a report and too long.
    """
    if header.kind is not Kind.PLAN and len(body) > REPORT_MAX + (TAG_BYTES if header.sealed else 0):
        raise MessageError(f"a report of {len(body)} bytes; at most {REPORT_MAX} are taken")
    if not hmac.compare_digest(hashlib.sha256(body).digest(), header.digest):
        raise MessageError("a body that is not what its header says")


def answer(key: bytes, challenge_sent: bytes, request: bytes, status: Status, body: bytes = b"") -> bytes:
    """Return an answer to the request with the header ``request`` that followed the challenge ``challenge_sent``.

    Its code covers both and its own header, so that it answers no other request. It is sealed if the request was.
    """
    flags, nonce = REQUEST.unpack(request)[3], REQUEST.unpack(request)[-1]
    if flags & SEALED:
        body = seal(key, Direction.ANSWER, challenge_sent, nonce, body)
    header = ANSWER.pack(b"TRDA", VERSION, status, flags, len(body), hashlib.sha256(body).digest())
    return header + code(key, challenge_sent, request, header) + body


def read_plan_request(body: bytes) -> PlanRequest:
    """Return the request for a plan in a body.

    Raises:
        MessageError: the body is invalid.
        TooLargeError: the DAG is too large.
    """
    return read_whole(body, _plan_request)


def read_report(body: bytes) -> Report:
    """Return the report in a body.

    Raises:
        MessageError: the body is invalid.
    """
    return read_whole(body, _report)


def plan_body(order: Sequence[int]) -> bytes:
    """Return the body of an answer with a plan: the IDs of all vertices, the first to serve in front."""
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
        vertices.append(PlannedVertex(number, vertex_name, tasks, demand, parents))
    return PlanRequest(dag, name, tuple(vertices))


def _report(reader: Reader) -> Report:
    dag, state, planned = reader.take(_REPORT)
    vertices = tuple(VertexProgress(*reader.take(_NOW)) for _ in range(reader.count(VERTICES_MAX)))
    ended = []
    for _ in range(reader.count(ENDED_MAX)):
        vertex, task, attempt, outcome, *numbers = reader.take(_ENDED)
        ended.append(Ended(vertex, task, attempt, Outcome(outcome), *numbers))
    return Report(dag, state, bool(planned), vertices, tuple(ended))
