"""What recording costs: a simulated cluster behind the session of the sidecar, and the CPU time of each part."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from treadle.config.settings import Record, Settings
from treadle.engine import Engine
from treadle.events import Event
from treadle.lab.harness.wired import wired
from treadle.live.recorder import LiveRecorder
from treadle.record.folder import segments
from treadle.record.summary import summarise
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import Scenario

TICK_MS: Final = 100
"""Between two decisions, of simulated time."""


@dataclass(frozen=True, slots=True)
class RecordFigures:
    """CPU time in seconds. What the sidecar does beside the session, as Py4J's base64, would make the share smaller."""

    policy: str
    nodes: int
    frames: int
    containers: int
    deciding_s: float
    """All of the session, the recorder's part included."""
    beside_s: float
    """Of it, the recorder's part: the thread that decides waits for it."""
    writing_s: float
    """On the writer's thread."""
    frame_bytes: int
    bytes: int

    @property
    def share(self) -> float:
        """What part of the CPU time of session and writer recording is."""
        return (self.beside_s + self.writing_s) / (self.deciding_s + self.writing_s)

    @property
    def bytes_per_container(self) -> float:
        """Bytes of the recording for each container that began."""
        return self.bytes / max(self.containers, 1)


class _Timed(LiveRecorder):
    """A recorder that adds up what it costs the thread that decides."""

    spent_s = 0.0
    frames = 0
    frame_bytes = 0

    def begin(self, frame: bytes, reply_max_bytes: int | None) -> bool:
        began = time.thread_time()
        asks = super().begin(frame, reply_max_bytes)
        self.spent_s += time.thread_time() - began
        self.frames += 1
        self.frame_bytes += len(frame)
        return asks

    def reading(self, reading: Future[Settings]) -> None:
        began = time.thread_time()
        super().reading(reading)
        self.spent_s += time.thread_time() - began

    def beside(self, events: Sequence[Event]) -> None:
        began = time.thread_time()
        super().beside(events)
        self.spent_s += time.thread_time() - began

    def end(self, answer: bytes, decide_us: int, known: str, warnings: Sequence[str], engine: Engine) -> None:
        began = time.thread_time()
        super().end(answer, decide_us, known, warnings, engine)
        self.spent_s += time.thread_time() - began


def scenario_of(nodes: int, rounds: int) -> Scenario:
    """Return a cluster of nodes with 10 slots, and jobs that fill it this many times."""
    demand = {"memory-mb": 1024, "vcores": 1}
    job = {"count": 20, "stages": [{"tasks": max(nodes * 10 * rounds // 20, 1), "duration_s": 10, "demand": demand}]}
    document: dict[str, Any] = {
        "cluster": {"nodes": [{"count": nodes, "resources": {"memory-mb": 10_240, "vcores": 10}, "racks": 40}]},
        "workload": {"jobs": [job]},
        "decision": {"tick_ms": TICK_MS, "limit": 4096},
    }
    return Scenario.model_validate(document)


def measure(policy: str, settings: Settings, nodes: int, rounds: int) -> RecordFigures:
    """Simulate and record; what the simulator itself takes is not in the figures."""
    scenario = scenario_of(nodes, rounds)
    with tempfile.TemporaryDirectory(prefix="treadle-bench-") as place:
        folder = Path(place) / "recording"
        recorder = _Timed()
        recorder.follow(replace(settings, record=Record(folder=str(folder))))
        simulation, engine = wired(scenario, jobs_of(scenario, Path(), 1), settings, recorder)
        simulation.run()
        recorder.finish("the run is over")
        found = summarise(segments(folder))
    return RecordFigures(
        policy=policy,
        nodes=nodes,
        frames=recorder.frames,
        containers=found.containers,
        deciding_s=engine.cpu_s,
        beside_s=recorder.spent_s,
        writing_s=engine.written_cpu_s,
        frame_bytes=recorder.frame_bytes,
        bytes=found.bytes,
    )
