"""Messages between the sidecar and its plan listener, a process of its own.

To the listener, which trusts the sidecar: a line of JSON each, a list whose first element is the kind. From the
listener, which parses messages of any host on the network and so is not trusted: frames of bounded length.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import IntEnum
from struct import Struct
from typing import Annotated, Any, BinaryIO, Final

from pydantic import Field, TypeAdapter, ValidationError

from treadle.am.protocol import Attempt
from treadle.history.documents import compact, run_from_json, run_json
from treadle.history.profile import JobRun, storable_run

CONTENT_MAX: Final = 1 << 20
"""No frame's content is longer."""

EDGES_MAX: Final = 20_000
_STAGES: Final = TypeAdapter(tuple[str, Annotated[list[str], Field(max_length=1_000)]])

_HEADER: Final = Struct(">4sBxxxIqii")
NO_ATTEMPT: Final = Attempt(0, 0, 0)


class MessageKind(IntEnum):
    """The kind of a frame from the listener."""

    READY = 1
    """The port, as JSON."""
    PROBLEM = 2
    """Why it cannot listen, as text."""
    CLAIMS = 3
    """The attempt's rows for the engine (`treadle.am.registries`), all of them; none: it runs no DAG."""
    RUN = 4
    """A DAG that has succeeded (`run_to_bytes`)."""
    STAGES = 5
    """An application's reports of its stages: the answer to ``take`` (`stages_to_bytes`)."""
    REFUSED = 6
    """How many requests were beyond a bound so far, as JSON."""


def line(*words: Any) -> bytes:
    """Return a line for the listener."""
    return json.dumps(words, separators=(",", ":")).encode() + b"\n"


def frame(kind: MessageKind, content: bytes, attempt: Attempt = NO_ATTEMPT) -> bytes:
    """Return a frame for the sidecar."""
    return _HEADER.pack(b"TRDP", kind, len(content), *attempt) + content


def read_frame(stream: BinaryIO) -> tuple[MessageKind, Attempt, bytes] | None:
    """Return the next frame; None at the end.

    Raises:
        ValueError: it is none.
    """
    head = stream.read(_HEADER.size)
    if not head:
        return None
    if len(head) < _HEADER.size:
        raise ValueError("a frame that is cut off")
    magic, kind, length, *attempt = _HEADER.unpack(head)
    if magic != b"TRDP" or length > CONTENT_MAX:
        raise ValueError("no frame")
    content = stream.read(length)
    if len(content) < length:
        raise ValueError("a frame that is cut off")
    return MessageKind(kind), Attempt(*attempt), content


def stages_to_bytes(application: str, stages: Sequence[bytes]) -> bytes:
    """Return the encoded id of an application and its reports of stages."""
    return compact([application, [stage.hex() for stage in stages]]).encode()


def stages_from_bytes(content: bytes) -> tuple[str, list[bytes]]:
    """Return the arguments of `stages_to_bytes`.

    Raises:
        ValueError: the bytes are not an output of it.
    """
    try:
        application, stages = _STAGES.validate_json(content)
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from None  # one sentence, however long the list
    return application, [bytes.fromhex(stage) for stage in stages]


def run_to_bytes(run: JobRun) -> bytes:
    """Return a run, with numbers and texts within bounds."""
    return compact(run_json(storable_run(run, run.ended_ms))).encode()


def run_from_bytes(content: bytes) -> JobRun:
    """Return the argument of `run_to_bytes`.

    Raises:
        ValueError: the bytes are not an output of it.
    """
    try:
        run = run_from_json(json.loads(content))
    except RecursionError as error:
        raise ValueError("no run: nested too deeply") from error
    if sum(len(stage.parents) + len(stage.one_to_one) for stage in run.stages) > EDGES_MAX:
        raise ValueError("a run that is too large")
    return run
