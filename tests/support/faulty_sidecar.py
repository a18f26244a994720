"""A sidecar that misbehaves on demand: the real one with faults put between its session and its socket.

usage: faulty_sidecar.py FAULT_FILE sidecar run --managed [--config FILE]

The fault file names the fault to show from the next frame on (`Fault`); an empty or missing file is a healthy sidecar.
It is read at every frame, so that a test can switch faults on and off in a running cluster.
"""

from __future__ import annotations

import random
import struct
import sys
import time
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from treadle.events import Proposals
from treadle.live import server
from treadle.wire.answer import decode_answer, encode_answer
from treadle.wire.frames import read_frame_header

SLOW_S = 8.0
"""Longer than the lease that tests set."""

LATE_S = 1.0
"""Well within the lease; long enough for an application to change under a decision."""

HUGE_BYTES = 100 * 1024 * 1024
EPOCH_OFFSET = 8
SEQUENCE_OFFSET = 16
APPLICATIONS, KEYS, NODES = 20, 4, 4
"""A test's few things have indices below these."""


class Fault(StrEnum):
    """What the sidecar does wrong."""

    NONE = ""
    SLOW = "slow"
    GARBAGE = "garbage"
    HALF = "half a frame"
    HUGE = "100 MB"
    WRONG_EPOCH = "wrong epoch"
    WRONG_SEQUENCE = "wrong sequence"
    CLOSES = "closes the connection"
    HOSTILE = "hostile proposals"
    LATE = "hostile proposals, late"

    @property
    def interrupts(self) -> bool:
        """Must the sidecar lose the lease by it?"""
        return self not in (Fault.NONE, Fault.HOSTILE, Fault.LATE)


def faulty(decide: Callable[[bytes], bytes], fault_file: Path) -> Callable[[bytes], bytes]:
    """Return `decide` with the fault that the file names."""

    def answer(frame: bytes) -> bytes:
        fault = Fault(fault_file.read_text().strip()) if fault_file.exists() else Fault.NONE
        reply = decide(frame)
        match fault:
            case Fault.NONE:
                return reply
            case Fault.SLOW:
                time.sleep(SLOW_S)
                return reply
            case Fault.GARBAGE:
                return bytes(255 - byte for byte in reply)
            case Fault.HALF:
                return reply[: len(reply) // 2]
            case Fault.HUGE:
                return reply.ljust(HUGE_BYTES, b"\0")
            case Fault.WRONG_EPOCH:
                return _with_i64(reply, EPOCH_OFFSET, 1)
            case Fault.WRONG_SEQUENCE:
                return _with_i64(reply, SEQUENCE_OFFSET, -1)
            case Fault.CLOSES:
                raise server.RefusedError("a fault on demand")
            case Fault.HOSTILE:
                return hostile(frame, reply)
            case Fault.LATE:
                time.sleep(LATE_S)
                return hostile(frame, reply)

    return answer


def hostile(frame: bytes, reply: bytes) -> bytes:
    """Return the answer with as many made-up proposals as the frame allows, each of them twice.

    Most name things that exist: early indices, which tests' few applications, keys and nodes have.
    """
    answer = decode_answer(reply, rows_max=1 << 20)
    limit = read_frame_header(frame)[0].limit
    numbers = random.Random(answer.sequence)

    def column(known: int) -> list[int]:
        wrong = (-1, -(1 << 31), 77, 1 << 20, (1 << 31) - 1)
        return [numbers.choice(wrong) if numbers.random() < 0.1 else numbers.randrange(known) for _ in range(limit)]

    columns = np.array([column(APPLICATIONS), column(KEYS), column(NODES)], np.int32)
    twice = limit - limit % 2
    columns[:, 1:twice:2] = columns[:, 0:twice:2]
    return encode_answer(answer._replace(proposals=Proposals(*columns)))


def _with_i64(reply: bytes, offset: int, difference: int) -> bytes:
    (value,) = struct.unpack_from("<q", reply, offset)
    return reply[:offset] + struct.pack("<q", value + difference) + reply[offset + 8 :]


def main() -> None:
    """Put the faults in and run the real sidecar."""
    fault_file = Path(sys.argv[1])
    original = server.LoopbackServer.decide

    def decide(self: server.LoopbackServer, frame: bytes, reply_max_bytes: int) -> bytes:
        return faulty(lambda wanted: original(self, wanted, reply_max_bytes), fault_file)(frame)

    patched: Any = server.LoopbackServer
    patched.decide = decide
    from treadle.cli.main import main as treadle

    sys.argv = ["treadle", *sys.argv[2:]]
    treadle()


if __name__ == "__main__":
    main()
