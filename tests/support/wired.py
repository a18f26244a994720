"""A simulated cluster behind the wire: its engine is a session of the live sidecar, with a recorder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from treadle.config.errors import ConfigError, Problem
from treadle.config.reader import parse_settings
from treadle.config.settings import Record, Settings
from treadle.engine import Engine
from treadle.events import Event, PolicySwitch, ResourceTypes, Samples, Snapshot
from treadle.live.recorder import LiveRecorder
from treadle.live.session import Session
from treadle.policy.user_parts import unwatched
from treadle.proposals import Proposals
from treadle.record.ticks import BESIDE
from treadle.simulator.cursor import Cursor
from treadle.simulator.jobs import jobs_of
from treadle.simulator.scenario import read_scenario
from treadle.simulator.simulation import Simulation
from treadle.wire.answer import decode_answer
from treadle.wire.frames import Frame, FrameEncoder, FrameHeader
from treadle.wire.schema import FrameFlag

REPLY_MAX_BYTES: Final = 1 << 20


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class WiredEngine:
    """Stands in for a simulation's engine: a session, told through frames."""

    def __init__(self, settings: Settings, recorder: LiveRecorder, watch: Any = unwatched) -> None:
        self.next_settings = settings
        self.refuse = self.wants = False
        self.configuration = 0
        self.recorder = recorder
        self.simulation: Simulation | None = None
        self.answers: list[bytes] = []
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
            observer=self,
            event_source=self,
            recorder=recorder,
        )

    def _read(self) -> Settings:
        if self.refuse:
            raise ConfigError("t.yaml", [Problem(0, "", "refused by the test")])
        return self.next_settings

    def _clock_ns(self) -> int:
        self._micros += 7
        return self._micros * 1000

    def apply(self, told: Sequence[Event]) -> None:
        self._given += [each for each in told if type(each).__name__ not in BESIDE]
        self._beside += [each for each in told if type(each).__name__ in BESIDE]

    def decide(self, now_ms: int, limit: int, *, sequence: int) -> Proposals:
        given, self._given = self._given, []
        begins = any(isinstance(each, Snapshot) for each in given)
        for each in given:
            if isinstance(each, ResourceTypes):
                self._resources = len(each.names)
        flags = int(FrameFlag.SNAPSHOT) if begins else 0
        header = FrameHeader(flags, 1, sequence, now_ms, self.configuration, limit, self._resources)
        answer = decode_answer(self.say(self._encoder.encode(header, given)), limit)
        if answer.resend and self.simulation is not None:
            self.simulation.rm._feeds[0]._cursor = Cursor()
        return answer.proposals

    def say(self, frame: bytes) -> bytes:
        self.answers.append(self.session.decide(frame))
        while self.recorder._queue:
            self.recorder._next_item()
        return self.answers[-1]

    @property
    def failure(self) -> None:
        return None

    def warnings(self) -> Sequence[str]:
        return ()

    def switches(self) -> Sequence[PolicySwitch]:
        return ()

    # As `treadle.live.roles.FrameObserver`.

    def take(self, frame: bytes) -> None:
        """Keep nothing."""

    def follow(self, settings: Settings) -> None:
        """Follow nothing."""

    def wants_snapshot(self) -> bool:
        wants, self.wants = self.wants, False
        return wants

    # As `treadle.live.roles.EventSource`.

    def collect(self, frame: Frame) -> Sequence[Event]:
        beside, self._beside = self._beside, []
        return beside

    def learn(self, samples: Samples) -> None:
        self.learned = samples

    def forget(self) -> None:
        """Forget nothing."""

    def summary(self) -> str:
        return "known beside frames"

    def keys_for(self) -> Sequence[str]:
        return ("TEZ",)


def wired(
    scenario: Path, policy: str, recorder: LiveRecorder, folder: Path, watch: Any = unwatched
) -> tuple[Simulation, WiredEngine]:
    """Return a simulation of a scenario whose engine is a session that follows a treadle.yaml, and is recorded.

    The folder is in no recording: in the repository's it would be a path of whoever made them.
    """
    read = read_scenario(scenario)
    settings = parse_settings("treadle.yaml", policy)
    simulation = Simulation(read, jobs_of(read, scenario.parent, 1), settings, 1, check=False)
    recorder.follow(replace(settings, record=Record(folder=str(folder), segment_minutes=1)))
    engine = WiredEngine(settings, recorder, watch)
    engine.simulation = simulation
    rm = simulation.rm
    for text in (*simulation.built.resources, "Mi", *(each for pair in rm._settings.items() for each in pair)):
        rm._feeds[0]._text(text)  # the simulator tells these without an index
    replaced: Any = engine
    simulation.engine = replaced
    return simulation, engine
