"""A simulated cluster behind the wire: its engine is a session of the live sidecar, with a recorder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tests.support.framed_rm import begin_again

from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.errors import ConfigError, Problem
from treadle.events import Event, Proposals, ResourceTypes, Snapshot
from treadle.live.recorder import LiveRecorder
from treadle.live.session import Session
from treadle.policy.user_parts import Watch, unwatched
from treadle.record.files import BESIDE
from treadle.sidecar.conversation import Listener
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import ScenarioModel
from treadle.simulator.simulation import Simulation
from treadle.wire.answer import decode_answer
from treadle.wire.frames import Frame, FrameEncoder, FrameFlag, FrameHeader
from treadle.workload.job import Workload

REPLY_MAX_BYTES: Final = 1 << 20


class Clock:
    """Seconds, as somebody says."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class WiredEngine(Listener):
    """Stands in for a simulation's engine: a session that gets frames.

    As a listener it provides what no frame has.
    """

    def __init__(self, settings: Settings, recorder: LiveRecorder, watch: Watch = unwatched) -> None:
        """Begin with an engine that has learned nothing.

        Args:
            settings: what it follows
            recorder: takes what enters and comes out
            watch: runs the code of parts from files
        """
        self.next_settings = settings
        """What is read when the configuration has changed."""
        self.refuse = False
        """Are they refused?"""
        self.wants = False
        """Is a snapshot wanted?"""
        self.configuration = 0
        self.recorder = recorder
        self.rm: SimulatedRM | None = None
        self._encoder = FrameEncoder()
        self._given: list[Event] = []
        self._beside: list[Event] = []
        self._resources = 0
        self._micros = 0
        self.session = Session(
            lambda settings: Engine(settings, watch=watch, tries_again=True),
            self._read,
            reply_max_bytes=REPLY_MAX_BYTES,
            clock_ns=self._clock_ns,
            listeners=(self, recorder),
        )

    def _read(self) -> Settings:
        if self.refuse:
            raise ConfigError("t.yaml", [Problem(0, "", "refused by the test")])
        return self.next_settings

    def _clock_ns(self) -> int:
        self._micros += 7
        return self._micros * 1000

    def apply(self, found: Sequence[Event]) -> None:
        """Take what the next frame brings, and what comes beside it."""
        self._given += [each for each in found if type(each).__name__ not in BESIDE]
        self._beside += [each for each in found if type(each).__name__ in BESIDE]

    def decide(self, now_ms: int, limit: int, *, sequence: int) -> Proposals:
        """Send the frame, return what is proposed; after an answer that asks for it the next frame is a snapshot."""
        given, self._given = self._given, []
        begins = any(isinstance(each, Snapshot) for each in given)
        for each in given:
            if isinstance(each, ResourceTypes):
                self._resources = len(each.names)
        flags = int(FrameFlag.SNAPSHOT) if begins else 0
        header = FrameHeader(flags, 1, sequence, now_ms, self.configuration, limit, self._resources)
        frame = self._encoder.encode(header, given)
        said = self.session.decide(frame)
        self.recorder.work_off()
        answer = decode_answer(said, limit)
        if answer.resend and self.rm is not None:
            begin_again(self.rm)
        return answer.proposals

    @property
    def failure(self) -> None:
        """Nothing: what fails is in the status."""
        return

    def wants_snapshot(self) -> bool:
        """Say, once, that a snapshot is wanted."""
        wants, self.wants = self.wants, False
        return wants

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return what comes beside the frame."""
        beside, self._beside = self._beside, []
        return beside

    def summary(self) -> str:
        """Return something."""
        return "known beside frames"

    def keys_for(self) -> Sequence[str]:
        """Return a type, though no keys come."""
        return ("TEZ",)


def wired(
    scenario: ScenarioModel, workload: Workload, settings: Settings, recorder: LiveRecorder, watch: Watch = unwatched
) -> tuple[Simulation, WiredEngine]:
    """Return a simulation whose engine is a session; the recorder must follow settings of its own."""
    simulation = Simulation(scenario, workload, settings, 1, check=False)
    engine = WiredEngine(settings, recorder, watch)
    engine.rm = simulation.rm
    begin_again(simulation.rm)
    replaced: Any = engine
    simulation.engine = replaced
    return simulation, engine
