"""An engine that proposes nothing."""

from __future__ import annotations

from collections.abc import Sequence

from treadle.config.parts import DEFAULTS, PARTS
from treadle.config.settings import Settings
from treadle.events import Event
from treadle.proposals import Proposals

for _part, _kind in DEFAULTS.items():
    PARTS.register(_part, _kind)(lambda parameters: parameters)


class StubEngine:
    """Takes everything in and proposes nothing."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def apply(self, events: Sequence[Event]) -> None:
        """Do nothing."""

    def decide(self, now_ms: int, limit: int, *, sequence: int, assume: bool) -> Proposals:
        """Return no proposals."""
        return Proposals.none()

    def configure(self, settings: Settings) -> None:
        """Follow other settings."""
        self._settings = settings

    def warnings(self) -> Sequence[str]:
        """Return nothing."""
        return ()
