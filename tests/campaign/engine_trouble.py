"""No engine's trouble reaches another.

A hub with four engines, each an ordinary one in a process of its own, under frames of a simulated ResourceManager in
real time. In turns all is well, and one engine is killed each second, is stopped, or thinks. Another one, its fallback,
serves its applications meanwhile; the other two must not notice: the hub asks for no snapshot, each of their proposals
has its fate, and none of their processes ends or begins again.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Condition
from typing import Any, Final
from unittest.mock import patch

from tests.campaign.ledger import ROOT
from tests.support.framed_rm import ANSWER_BYTES, ANSWER_ROWS, FramedRM

from treadle.config.reader import read_roster
from treadle.config.settings import RosterEngine
from treadle.events import Fate, Fates
from treadle.live import engine_child
from treadle.sidecar import child, roster
from treadle.sidecar.child import ChildProcess, Work
from treadle.sidecar.hub import Hub
from treadle.simulator.scenario import ScenarioModel
from treadle.wire.answer import Answer, decode_answer
from treadle.wire.frames import FrameDecoder

VICTIM, FALLBACK, OTHERS = "victim", "fallback", ("other", "rest")
TREADLE_YAML: Final = """
engines:
  victim: {select: {queues: [root.victim]}, fallback: fallback, decision_max_s: 600}
  fallback: {select: {queues: [root.fallback]}, fallback: victim}
  other: {select: {queues: [root.other]}}
  rest: {}
"""
TROUBLES: Final = ("killed", "stopped", "thinking")
STRETCH_S: Final = 30.0
LEASE_MS: Final = 5000
FRAME_S: Final = 0.02
START_S: Final = 300.0
"""So long may a stretch wait for what it is about."""

_RUN: Final = (
    f"import runpy, sys; sys.path.insert(0, {str(ROOT)!r}); "
    "runpy.run_module('tests.campaign.engine_trouble', run_name='__main__')"
)
COMMAND: Final = (sys.executable, "-c", _RUN)


class Watched(ChildProcess):
    """An engine's process, of which everything is noted that it proposes and hears."""

    def __init__(self, name: str, command: Sequence[str], changed: Condition) -> None:
        self.proposed: dict[tuple[int, int], int] = {}
        """By answer and position: a proposal's fate, -1 until it is heard."""
        self.snapshots = 0
        self.wrong: Counter[str] = Counter()
        self._decoder = FrameDecoder()
        super().__init__(name, command, changed)

    @property
    def pid(self) -> int | None:
        """Of the process that there is, ready or not."""
        process = self._process
        return None if process is None else process.pid

    def begin(self, work: Work) -> None:
        """Take a frame."""
        frame = self._decoder.decode(work.frame)
        self.snapshots += frame.header.snapshot
        for event in frame.events:
            if isinstance(event, Fates):
                columns = (event.sequence, event.position, event.fate)
                for sequence, position, fate in zip(*(column.tolist() for column in columns), strict=True):
                    if self.proposed.get((sequence, position)) != -1:
                        self.wrong["fates of what has one, or was never proposed"] += 1
                    self.proposed[sequence, position] = fate
        super().begin(work)

    def take(self) -> bytes | None:
        """Return its answer once."""
        content = super().take()
        if content is not None:
            answer = decode_answer(content, ANSWER_ROWS)
            self.proposed |= dict.fromkeys(((answer.sequence, at) for at in range(len(answer.proposals))), -1)
        return content


def scenario(seconds: float) -> ScenarioModel:
    """Return a cluster with a steady load in each of four queues: three quarters of what these may use."""
    stage = {"tasks": 40, "duration_s": 3, "demand": {"memory-mb": 1024, "vcores": 1}}
    engines = (VICTIM, FALLBACK, *OTHERS)
    jobs = [
        {"stages": [stage], "queue": name, "count": round(seconds) + 60, "gap_s": 1, "arrival_s": at / len(engines)}
        for at, name in enumerate(engines)
    ]
    return ScenarioModel.model_validate(
        {
            "cluster": {"nodes": [{"count": 200, "resources": {"memory-mb": 4096, "vcores": 4}}]},
            "queues": {name: {"capacity": 20, "maximum_capacity": 20} for name in engines},
            "workload": {"jobs": jobs},
        }
    )


class Trouble:
    """The simulated ResourceManager, its hub, and what is done to an engine."""

    def __init__(self, folder: Path, seconds: float) -> None:
        """Start the engines; their files are in ``folder``, and their jobs last for a little more than ``seconds``."""
        self.config, self.thinks = folder / "treadle.yaml", folder / "thinks"
        self.config.write_text(TREADLE_YAML, encoding="utf-8")
        self.children: dict[str, Watched] = {}
        chosen = scenario(seconds)
        settings = {"lease-ms": str(LEASE_MS), "tick-ms": "10", "batch-size": "48"}
        self.manager = FramedRM(chosen, folder, settings)
        self.begin_s: float | None = None
        self.kind = ""
        self.done: Counter[str] = Counter()
        self.wrong: Counter[str] = Counter()
        self.hub = Hub(read_roster(self.config), self._make, clock_ns=time.monotonic_ns, read_roster=Future[Any])

    def _make(self, row: RosterEngine, changed: Condition) -> ChildProcess:
        thinks = self.thinks if row.name == VICTIM else self.thinks.with_name("never")
        command = (*COMMAND, str(thinks), str(self.config), row.name, "alone")
        self.children[row.name] = Watched(row.name, command, changed)
        return self.children[row.name]

    def close(self) -> None:
        """End the engines."""
        for each in self.children.values():
            each.close()
        for each in self.children.values():
            each.join(60)

    # The ResourceManager

    def frame(self) -> Answer:
        """Let time go on, send a frame, and commit the answer."""
        begun_s = time.monotonic()
        if self.begin_s is not None:
            self.manager.rm.advance(round(1000 * (begun_s - self.begin_s)))
        answer = decode_answer(self.hub.decide(self.manager.frame(), ANSWER_BYTES), ANSWER_ROWS)
        if answer.resend:
            raise AssertionError(f"{self.kind}: the hub asks for a snapshot")
        self.done["committed"] += self.manager.commit(answer)
        time.sleep(max(0.0, begun_s + FRAME_S - time.monotonic()))
        return answer

    def served_by(self, engine: str) -> str:
        """Return who serves an engine's applications."""
        return str(self.hub.roster_json()["engines"][engine]["served_by"])

    # What is done to the engine

    def run(self, seconds: float) -> None:
        """Let stretches of trouble and between them of peace last for so long, together."""
        engines = (VICTIM, FALLBACK, *OTHERS)
        self._until(lambda: all(self.served_by(name) == name for name in engines), "all engines")
        self.begin_s = time.monotonic()
        stretch_s = min(STRETCH_S, seconds / (2 * len(TROUBLES)))
        for at in range(max(2 * len(TROUBLES), round(seconds / stretch_s))):
            if at % 2 == 0:
                self._until(lambda: self.served_by(VICTIM) == VICTIM, "the victim to serve its own")
                self._stretch("well", stretch_s)
            else:
                self._stretch(TROUBLES[at // 2 % len(TROUBLES)], stretch_s)
                self._help()
        self.kind = ""
        self._until(lambda: all(-1 not in self.children[name].proposed.values() for name in OTHERS), "", 60)

    def _until(self, true: Any, what: str, timeout_s: float = START_S) -> None:
        """Send frames until something holds; raise if it never does, and something is to be named."""
        self.kind = ""
        until_s = time.monotonic() + timeout_s
        while not true():
            self.frame()
            if time.monotonic() > until_s:
                if what:
                    raise AssertionError(f"waited for {what} for {timeout_s:g} s")
                return

    def _stretch(self, kind: str, seconds: float) -> None:
        """Let a stretch last for so long, and until what it is about has been seen."""
        self.kind, before = kind, self.done[f"{kind} and seen"]
        begin_s = next_s = renewed_s = time.monotonic()
        while time.monotonic() < begin_s + seconds or self.done[f"{kind} and seen"] == before:
            if time.monotonic() >= next_s:
                next_s += 1
                self._harm(kind)
            answer = self.frame()
            renewed_s = renewed_s if answer.unserved else time.monotonic()
            if time.monotonic() > renewed_s + LEASE_MS / 1000:
                self.wrong[f"{kind}: frames without a lease"] += 1
            if kind == "thinking":
                seen = answer.again and self.children[VICTIM].busy
            else:
                seen = kind == "well" or self.served_by(VICTIM) == FALLBACK
            self.done[f"{kind} and seen"] += seen
            if time.monotonic() > begin_s + seconds + START_S:
                raise AssertionError(f"an engine that is {kind} makes no difference")

    def _harm(self, kind: str) -> None:
        """Do it: of kills every second one waits until the engine is ready."""
        victim = self.children[VICTIM]
        pid, ready = victim.pid, victim.idle or victim.busy
        if kind == "thinking":
            self.thinks.touch()
        elif pid is not None and kind == "killed" and (ready or self.done[f"kills {kind}"] % 2):
            self._signal(pid, signal.SIGKILL)
            self.done[f"kills {kind}"] += 1
        elif pid is not None and kind == "stopped" and ready:
            self._signal(pid, signal.SIGSTOP)
            self.done["stops"] += 1

    def _help(self) -> None:
        """Let the engine go on, and be alone."""
        self.thinks.unlink(missing_ok=True)
        if (pid := self.children[VICTIM].pid) is not None:
            self._signal(pid, signal.SIGCONT)

    @staticmethod
    def _signal(pid: int, number: signal.Signals) -> None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return

    # What is found

    def findings(self) -> list[str]:
        """Return what is wrong with the other engines; nothing if they have not noticed."""
        found = [f"{what}: {count}" for what, count in self.wrong.items()]
        figures = self.hub.roster_json()["engines"]
        for name in OTHERS:
            watched = self.children[name]
            fates = Counter(watched.proposed.values())
            found += [f"{name}: {what}: {count}" for what, count in watched.wrong.items()]
            lost = {what: fates[what] for what in (-1, int(Fate.STALE_STATE), int(Fate.NOT_OWNER)) if fates[what]}
            if lost:
                found.append(f"{name}: proposals without a fate (-1), or lost: {lost}")
            if not fates[int(Fate.COMMITTED)]:
                found.append(f"{name}: nothing was committed")
            if (watched.starts, watched.snapshots) != (1, 1):
                found.append(f"{name}: {watched.starts} starts, {watched.snapshots} snapshots")
            if not figures[name]["alive"]:
                found.append(f"{name}: dead")
        return found


def run(seconds: float) -> Trouble:
    """Return what was found in stretches of so many seconds together; the engines have ended."""
    with (
        TemporaryDirectory(prefix="engine-trouble-") as folder,
        patch.object(child, "PAUSE_S", 0.1),
        patch.object(child, "PAUSE_MAX_S", 0.1),
        patch.object(roster, "STEADY_MS", 1000),
    ):
        trouble = Trouble(Path(folder), seconds)
        try:
            trouble.run(seconds)
        finally:
            trouble.close()
    return trouble


def _serve(thinks: Path, *given: Any) -> None:
    """Serve the hub as an engine does, and think while a file is there."""
    from treadle.live.session import Session

    decide = Session.decide

    def decide_at_last(session: Session, frame: bytes, *most: int) -> bytes:
        while most and thinks.exists():  # there is none while it warms up
            time.sleep(0.05)
        return decide(session, frame, *most)

    with patch.object(Session, "decide", decide_at_last):
        _SERVE(*given)


_SERVE: Final = engine_child._serve


if __name__ == "__main__":
    place = Path(sys.argv.pop(1))
    with patch.object(engine_child, "_serve", lambda *given: _serve(place, *given)):
        engine_child.main()
