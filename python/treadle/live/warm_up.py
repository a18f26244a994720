"""Compiles the engine's kernels before the first real frame, with a small invented cluster in a session of its own.

numba compiles a kernel for each combination of types that it meets, among them whether an array may be written to and
whether it is aligned; columns of decoded events are neither. So the way through the wire is the one that compiles
what will be used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.live.session import Session
from treadle.wire.answer import decode_answer
from treadle.wire.frames import FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag

_REPLY_MAX_BYTES: Final = 1 << 20
_TEXTS: Final = (
    "",
    "memory-mb",
    "vcores",
    "root",
    "root.default",
    "node-0",
    "node-1",
    "/rack",
    "user",
    "YARN",
    "fifo",
    "node-locality-delay",
    "2",
    "Mi",
)


def warm_up(settings: Settings, progress: Callable[[str], None]) -> int:
    """Compile everything that a decision needs; returns how many containers were placed on the invented cluster.

    Raises:
        RuntimeError: the engine failed on it.
    """
    progress("compiling kernels")
    try:
        Engine(settings).warm_up()
    except Exception as error:
        raise RuntimeError(f"the engine cannot warm up: {type(error).__name__}: {error}") from error
    session = Session(Engine, lambda: settings, reply_max_bytes=_REPLY_MAX_BYTES, clock_ns=lambda: 0)
    encoder = FrameEncoder()
    placed = 0
    for sequence, found in enumerate((_cluster(), _asks(), _outcome()), 1):
        flags = int(FrameFlag.SNAPSHOT) if sequence == 1 else 0
        header = FrameHeader(flags, 1, sequence, 1_000 * sequence, 0, 16, 2)
        answer = decode_answer(session.decide(encoder.encode(header, found)), 16)
        if answer.resend:
            raise RuntimeError(
                f"the engine failed on frame {sequence} of the cluster that it warms up on: {answer.status}"
            )
        placed += len(answer.proposals)
    return placed


def _i32(*values: int) -> events.I32:
    return np.array(values, np.int32)


def _u8(*values: int) -> events.U8:
    return np.array(values, np.uint8)


def _i64(*values: int) -> events.I64:
    return np.array(values, np.int64)


def _amounts(rows: int, memory_mb: int, vcores: int) -> events.I64:
    return np.array([[memory_mb, vcores]] * rows, np.int64)


def _name(text: str) -> int:
    return _TEXTS.index(text)


def _cluster() -> list[events.Event]:
    """Return two nodes, a queue of one leaf and an application whose master runs."""
    default, user = _name("root.default"), _name("user")
    whole, none = _amounts(2, 8192, 8), _amounts(2, 0, 0)
    return [
        events.Snapshot(1),
        events.Names(_TEXTS),
        events.ResourceTypes(("memory-mb", "vcores"), ("Mi", ""), _u8(1, 1), _i64(1, 1), _i64(8192, 8)),
        events.Settings({"node-locality-delay": "2"}),
        events.Queues(
            _i32(0, 1),
            _i32(-1, 0),
            _i32(_name("root"), default),
            _u8(1, 1),
            _u8(0, 1),
            _i32(0, _name("fifo")),
            _u8(0, 0),
            _i32(0, 0),
        ),
        events.QueueLimits(_i32(0, 1), _i32(0, 0), 2 * whole, 2 * whole, none, none, whole, none),
        events.Users(_i32(1), _i32(user), _i32(0), 2 * whole[:1], none[:1]),
        events.Nodes(
            _i32(0, 1),
            _i32(_name("node-0"), _name("node-1")),
            _i32(_name("/rack"), _name("/rack")),
            _i32(0, 0),
            _u8(1, 1),
            whole,
            whole,
        ),
        events.Applications(
            *(
                _i32(0),
                _i64(1),
                _i32(1),
                _i32(1),
                _i32(_name("YARN")),
                _i32(_name("YARN")),
                _i32(user),
                _i32(1),
                _i32(0),
            ),
            *(_i32(0), _i64(1), _i64(1), _u8(1), _u8(0), _u8(7)),
        ),
        events.ApplicationUsage(_i32(0), _i32(0), none[:1], whole[:1]),
    ]


def _asks() -> list[events.Event]:
    """Return asks for anywhere and for a node and its rack."""
    node, rack, capability = _name("node-0"), _name("/rack"), _amounts(2, 1024, 1)
    return [
        events.Tags(_i32(0), _i32(_name("YARN"))),
        events.Blacklist(_i32(0), _i32(_name("node-1"))),
        events.Requests(
            _i32(0, 0), _i32(0, 1), _i32(1, 2), _i64(0, 0), _i32(2, 2), _u8(1, 1), _u8(0, 0), _i32(0, 0), capability
        ),
        events.Localities(_i32(0, 0), _i32(1, 1), _i32(node, rack), _i32(2, 2), _u8(1, 1)),
    ]


def _outcome() -> list[events.Event]:
    """Return what becomes of two proposals."""
    rest, used = _amounts(1, 7168, 7), _amounts(1, 1024, 1)
    return [
        events.Nodes(_i32(0), _i32(_name("node-0")), _i32(_name("/rack")), _i32(0), _u8(1), _amounts(1, 8192, 8), rest),
        events.ApplicationUsage(_i32(0), _i32(1), used, rest),
        events.Containers(
            _i64(1), _i32(0), _i32(1), _i32(0), _u8(1), _i64(2500), _i64(2500), _i32(0), _u8(1), _u8(0), used
        ),
        events.Fates(_i64(2, 2), _i32(0, 1), _u8(0, int(events.Fate.NODE_FULL)), _i64(1, 0)),
    ]
