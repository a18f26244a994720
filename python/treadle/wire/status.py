"""The status text of an answer (docs/wire-format.md): sent when it changed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import ClassVar, Final

_TEXT_MAX: Final = 400
_WARNINGS_MAX: Final = 8


@dataclass
class Status:
    """What the ResourceManager shows of the engine, next to its metrics."""

    policy: str
    overrides_guarantees: bool = False
    """Does it share otherwise than the capacities of queues say? The preemption monitor must then be off."""
    overrides_order: bool = False
    """Does it order the applications of a queue otherwise than the queue says? Preemption inside queues must be off."""
    configuration: int = 0
    config_error: str = ""
    policy_error: str = ""
    engine_error: str = ""
    frame_error: str = ""
    """Why no frame is taken; empty as soon as one is."""
    warnings: tuple[str, ...] = ()
    learned: str = ""
    """What is known of the jobs that run, in a few words."""
    waits_for: str = ""
    """For what asks that could be served are held back on purpose."""
    keys_for: tuple[str, ...] = ()
    """Types of the applications whose keys the frames should bring."""
    _sent: str = ""

    BYTES_MAX: ClassVar[int] = 65_536
    """No status is longer: each character of its texts takes at most 12 bytes."""

    def changed(self) -> str:
        """Return the JSON text if it differs from the last one returned, else an empty text."""
        text = self._text()
        if text == self._sent:
            return ""
        self._sent = text
        return text

    def forget_sent(self) -> None:
        """Send it again: whoever listens now may not have heard it."""
        self._sent = ""

    def _text(self) -> str:
        error = "; ".join(filter(None, (self.frame_error, self.config_error, self.policy_error, self.engine_error)))
        return json.dumps(
            {
                "policy": self.policy[:_TEXT_MAX],
                "overrides_guarantees": self.overrides_guarantees,
                "overrides_order": self.overrides_order,
                "configuration": self.configuration,
                "error": error[:_TEXT_MAX] or None,
                "learned": self.learned[:_TEXT_MAX],
                "waits_for": self.waits_for[:_TEXT_MAX],
                "keys_for": list(self.keys_for),
                "warnings": [warning[:_TEXT_MAX] for warning in self.warnings[:_WARNINGS_MAX]],
            }
        )
