"""The simulated ResourceManager of a scenario, which talks in frames like the shim."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from treadle.events import Fate
from treadle.simulator.build import build
from treadle.simulator.feed import Feed
from treadle.simulator.resource_manager import SimulatedRM
from treadle.simulator.scenario import ScenarioModel, jobs_of
from treadle.simulator.simulation import rm_settings
from treadle.wire.answer import Answer
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

ANSWER_BYTES: Final = 1 << 20
ANSWER_ROWS: Final = 1 << 20
"""The most that an answer to a frame may have."""
LIMIT: Final = 512
"""Proposals that an answer may begin with."""


def begin_again(rm: SimulatedRM) -> None:
    """Let the next frame be a snapshot; it brings the texts of resources and settings too, which frames refer to."""
    rm._feed = Feed(rm._built, rm._settings, False, None)
    for text in (*rm._built.resources, "Mi", *(text for pair in rm._settings.items() for text in pair)):
        rm._feed._text(text)


class FramedRM:
    """A ResourceManager that has begun; its frames come in order, the first one is a snapshot."""

    def __init__(self, scenario: ScenarioModel, folder: Path, settings: dict[str, str]) -> None:
        """Build the cluster; ``folder`` is where the scenario's files lie, ``settings`` are added to its own."""
        self.rm = SimulatedRM(build(scenario, jobs_of(scenario, folder, 1), 1), rm_settings(scenario) | settings)
        begin_again(self.rm)
        self.sequence = 0
        self._encoder = FrameEncoder()

    def frame(self) -> bytes:
        """Return what is new since the frame before."""
        self.sequence += 1
        flags = FrameFlag.SNAPSHOT if self.sequence == 1 else 0
        header = FrameHeader(flags, 1, self.sequence, self.rm.start_ms + self.rm.now_ms, 1, LIMIT, 2)
        return self._encoder.encode(header, self.rm.frame())

    def commit(self, answer: Answer) -> int:
        """Commit an answer's proposals; return how many there is a container for."""
        fates = self.rm.commit(answer.proposals, answer.sequence)
        return int(np.count_nonzero(fates.fate == Fate.COMMITTED))
