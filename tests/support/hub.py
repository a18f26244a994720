"""A hub whose engines are plain objects, and a ResourceManager that sends it events."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from threading import Condition
from typing import Any, cast

import numpy as np

from treadle.config.settings import Entry, RosterEngine, engines_of
from treadle.engine.testing import small_cluster
from treadle.events import NOTHING_HELD, Fates, Proposals, Settings
from treadle.sidecar.child import ChildProcess, Work
from treadle.sidecar.conversation import Listener
from treadle.sidecar.hub import Hub
from treadle.wire.answer import Answer, decode_answer, encode_answer
from treadle.wire.frames import Frame, FrameDecoder, FrameEncoder, FrameFlag, FrameHeader

REPLY_MAX_BYTES = 1 << 20
Row = tuple[int, ...]
"""Application, key and node of a proposal, and its transaction if there are any."""


def proposals(rows: Sequence[Row]) -> Proposals:
    """Return rows as proposals."""
    columns = [np.array(column, np.int32) for column in zip(*rows, strict=True)]
    return Proposals(*columns) if rows else Proposals.none()


class PlainChild:
    """An engine that proposes what it is told to, at once or when it is let to."""

    def __init__(self) -> None:
        self.starts, self.problem, self.alive, self.thinks, self.messages = 1, "", True, False, 1
        self.frames: list[Frame] = []
        self.beside: list[tuple[Any, ...]] = []
        self.plan: list[Sequence[Row]] = []
        """What to propose with each of the next answers."""
        self.status: Mapping[str, Any] = {"policy": "of its own", "configuration": 1}
        self.resend = self.closed = False
        self.held = NOTHING_HELD
        self._decoder = FrameDecoder()
        self._answer: bytes | None = None
        self._working = False

    def check_alive(self, lease_ms: int, decision_max_ms: int) -> bool:
        """Return what the test says."""
        return self.alive

    @property
    def idle(self) -> bool:
        """Has it no work?"""
        return self.alive and not self._working

    @property
    def busy(self) -> bool:
        """Has it work?"""
        return self.alive and self._working

    def begin(self, work: Work) -> None:
        """Take a frame, and answer it unless it is to think."""
        assert self.idle
        self._working = True
        self.frames.append(self._decoder.decode(work.frame))
        self.beside.append(work.events)
        if not self.thinks:
            self.answer()

    def answer(self) -> None:
        """Answer the frame that it has."""
        rows = self.plan.pop(0) if self.plan else ()
        header = self.frames[-1].header
        said = Answer(header.epoch, header.sequence, 1000, self.resend, proposals(rows), json.dumps(self.status))
        said = said._replace(held=self.held)
        self._answer, self._working, self.resend = encode_answer(said), False, False
        self.messages += 1

    def take(self) -> bytes | None:
        """Return its answer once."""
        answer, self._answer = self._answer, None
        return answer

    def begin_anew(self) -> None:
        """Be another process."""
        self.starts += 1
        self._decoder, self._answer, self._working = FrameDecoder(), None, False

    def retry(self) -> None:
        """Ignore it."""

    def fail(self, why: str) -> None:
        """Be dead."""
        self.alive, self.problem = False, why

    def close(self) -> None:
        """Note it."""
        self.closed = True

    def events(self, kind: type[Any], last: int = 1) -> list[Any]:
        """Return the events of a kind in its last frames."""
        return [each for frame in self.frames[-last:] for each in frame.events if isinstance(each, kind)]

    def fates(self) -> list[tuple[int, int, int]]:
        """Return all fates that it was sent: sequence, position, fate."""
        found = self.events(Fates, len(self.frames))
        columns = [(each.sequence.tolist(), each.position.tolist(), each.fate.tolist()) for each in found]
        return [row for each in columns for row in zip(*each, strict=True)]


def roster(entries: Mapping[str, Mapping[str, Any]]) -> tuple[RosterEngine, ...]:
    """Return the engines of entries."""
    return engines_of({name: Entry.model_validate(dict(entry)) for name, entry in entries.items()})


class Manager:
    """A ResourceManager, and the hub that it asks."""

    def __init__(self, entries: Mapping[str, Mapping[str, Any]], *listeners: Listener) -> None:
        self.now_ms = 1_000_000
        self.children: dict[str, PlainChild] = {}
        self.rosters: list[tuple[RosterEngine, ...]] = []
        self.hub = Hub(
            roster(entries),
            self._make,
            clock_ns=lambda: self.now_ms * 1_000_000,
            read_roster=self._read,
            listeners=listeners,
        )
        self._encoder = FrameEncoder()
        self.sequence, self.configuration, self.limit, self.batch = 0, 1, 512, 4
        self.status: Mapping[str, Any] = {}

    def _make(self, row: RosterEngine, _: Condition) -> ChildProcess:
        self.children[row.name] = PlainChild()
        return cast(ChildProcess, self.children[row.name])

    def _read(self) -> Future[Sequence[RosterEngine]]:
        future: Future[Sequence[RosterEngine]] = Future()
        future.set_result(self.rosters.pop(0))
        return future

    def snapshot(self, cluster: Iterable[Any] | None = None) -> Answer:
        """Send a small cluster."""
        found = list(small_cluster(applications=6) if cluster is None else cluster)
        mine = {"batch-size": str(self.batch), "tick-ms": "1", "lease-ms": "2000"}
        at = next(at for at, each in enumerate(found) if isinstance(each, Settings))
        old = dict(found[at].values)
        texts = [*("memory-mb", "vcores"), *(text for pair in (old | mine).items() for text in pair)]
        found[1] = type(found[1])((*found[1].texts, *texts))
        found[at] = Settings(old | mine)
        return self.send(*found, flags=FrameFlag.SNAPSHOT)

    def send(self, *events: Any, flags: int = 0) -> Answer:
        """Send a frame with these events; return the answer."""
        self.sequence += 1
        header = FrameHeader(flags, 1, self.sequence, self.now_ms, self.configuration, self.limit, 2)
        return self.ask(self._encoder.encode(header, events))

    def ask(self, frame: bytes, decode: Callable[[bytes, int], Answer] = decode_answer) -> Answer:
        """Send bytes; return the answer."""
        answer = decode(self.hub.decide(frame, REPLY_MAX_BYTES), 1 << 20)
        if answer.status:
            self.status = json.loads(answer.status)
        return answer

    def fates(self, answer: Answer, *fates: int) -> Fates:
        """Return the fates of the first proposals of an answer."""
        count = len(fates)
        return Fates(
            np.full(count, answer.sequence),
            np.arange(count, dtype=np.int32),
            np.array(fates, np.uint8),
            np.zeros(count, np.int64),
        )


def rows_of(answer: Answer) -> list[tuple[int, int, int]]:
    """Return an answer's proposals: application, key, node."""
    made = answer.proposals
    return list(zip(made.application.tolist(), made.key.tolist(), made.node.tolist(), strict=True))
