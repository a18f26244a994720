"""How long a sidecar takes from the first byte of a snapshot to its first answer: decoding, the model, a decision."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from treadle import events
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.events import Event
from treadle.live.session import Session
from treadle.wire.answer import decode_answer
from treadle.wire.frames import FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag
from treadle_lab.bench.engine_load import Load, SteadyState
from treadle_lab.bench.engine_memory import pieces
from treadle_lab.sls.load import BenchError

TIMES: Final = 5
_ANSWER_BYTES_MAX: Final = 1 << 24
_TEXTS: Final = ("memory-mb", "vcores", "Mi", "", "node-locality-delay", "40", "nm-heartbeat-ms", "1000")
"""Of the load's resource types and settings, which go by their texts until there is a wire."""


@dataclass(frozen=True, slots=True)
class FirstAnswer:
    """Medians over `TIMES` sessions with an engine of their own, milliseconds of the wall and of the thread's CPU."""

    policy: str
    nodes: int
    rows: int
    leaves: int
    megabytes: float
    """Of all parts of the snapshot."""
    parts: int
    proposals: int
    ms: float
    ms_cpu: float

    def __str__(self) -> str:
        """Return it in words."""
        took = (
            f"{self.policy}: {self.ms:,.0f} ms ({self.ms_cpu:,.0f} of CPU) from a snapshot of {self.megabytes:,.0f} MB"
        )
        return f"{took}, {self.nodes:,} nodes and {self.rows:,} rows, to its answer of {self.proposals:,} proposals"

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def measure_first_answer(name: str, settings: Settings, load: Load) -> FirstAnswer:
    """Send a snapshot to one session after the other. What the ResourceManager does to write it is not in it.

    Raises:
        BenchError: it is not answered with proposals.
    """
    Engine(settings).warm_up()
    parts = list(_parts(load))
    wall, cpu, proposals = [], [], 0
    for _ in range(TIMES):
        session = Session(Engine, lambda: settings, reply_max_bytes=_ANSWER_BYTES_MAX, clock_ns=lambda: 0)
        began, began_cpu = time.perf_counter(), time.thread_time()
        answers = [session.decide(part) for part in parts]
        cpu.append(1000 * (time.thread_time() - began_cpu))
        wall.append(1000 * (time.perf_counter() - began))
        answer = decode_answer(answers[-1], 1 << 30)
        proposals = len(answer.proposals)
        if answer.resend:
            raise BenchError(f"{name}: the snapshot was refused: {answer.status}")
    return FirstAnswer(
        name,
        load.nodes,
        load.rows,
        load.leaves,
        megabytes=round(sum(map(len, parts)) / 1e6, 1),
        parts=len(parts),
        proposals=proposals,
        ms=round(statistics.median(wall), 1),
        ms_cpu=round(statistics.median(cpu), 1),
    )


def _parts(load: Load) -> Iterator[bytes]:
    """Yield the frames of a full cluster's snapshot: as many as its longest event has pieces, and a few more."""
    state, encoder = SteadyState(load), FrameEncoder()
    parts: list[list[Event]] = [[]]
    for event in pieces(state.snapshot()):
        if any(type(event) is type(other) for other in parts[-1]):
            parts.append([])
        parts[-1].append(_with_texts(event))
    for number, part in enumerate(parts, 1):
        more = FrameFlag.MORE if number < len(parts) else FrameFlag(0)
        flags = more | (FrameFlag.SNAPSHOT if number == 1 else FrameFlag(0))
        yield encoder.encode(FrameHeader(int(flags), 1, number, state.now_ms, 0, load.batch, 2), part)


def _with_texts(event: Event) -> Event:
    return events.Names((*event.texts, *_TEXTS)) if isinstance(event, events.Names) else event
