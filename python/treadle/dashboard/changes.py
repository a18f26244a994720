"""What changed in the ResourceManager between two looks: its policy, its mode, that it restarted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from treadle.dashboard.reading import Decisions
from treadle.errors import printable

TEXT_MAX: Final = 200
RESTART_S: Final = 60.0
"""Counters that begin so much later than before are those of another start: both times are by the dashboard's clock."""

_COUNTED_SINCE: Final = "counted since"


class Changes:
    """Compares a look with what was seen before, by an earlier process too."""

    def __init__(self, seen: Mapping[str, str]) -> None:
        """Begin with what was seen last."""
        self.seen = dict(seen)
        self._counted_ms = -1

    def see(self, at_s: float, decisions: Decisions) -> list[str]:
        """Return a line for each change.

        Args:
            at_s: the time of the look, seconds since 1970
            decisions: what Treadle's beans say
        """
        return [*self._restarted(at_s, decisions), *self._renamed(decisions)]

    @property
    def counted_since_s(self) -> float:
        """When Treadle's counters began at 0, seconds since 1970; 0 if that is not known."""
        return float(self.seen.get(_COUNTED_SINCE, 0.0))

    def _restarted(self, at_s: float, decisions: Decisions) -> list[str]:
        counted_ms = decisions.numbers.get("SinceMs", 0)
        if not counted_ms:
            return []
        since_s, known_s = at_s - counted_ms / 1000, self.counted_since_s
        again = bool(known_s) and (counted_ms < self._counted_ms or since_s > known_s + RESTART_S)
        self._counted_ms = counted_ms
        if known_s and not again:
            return []
        self.seen[_COUNTED_SINCE] = f"{since_s:.0f}"
        started = datetime.fromtimestamp(since_s, UTC).isoformat(timespec="seconds")
        return [f"the ResourceManager started, or became active again, at {started}: counters began at 0"] * again

    def _renamed(self, decisions: Decisions) -> list[str]:
        now = {"mode": decisions.texts["Mode"], "policy": decisions.texts["Policy"]}
        now |= {f"policy of engine {each['engine']}": str(each["policy"]) for each in decisions.engines}
        lines = []
        for name, text in now.items():
            before = self.seen.get(name, "")
            if text and before and text != before:
                lines.append(f"{name} changed from {printable(before[:TEXT_MAX])} to {printable(text[:TEXT_MAX])}")
            if text:
                self.seen[name] = text
        return lines
