"""The state of a policy in a file, so that it outlives a sidecar.

The file is written every few seconds, outside the cycle. The next sidecar gives its content to its engine with the
first frame, as an event, so that a recording has it too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from pydantic import ValidationError

from treadle.config.trust import read_own
from treadle.engine import Engine
from treadle.events import Event, LearnedState
from treadle.files import write_whole
from treadle.live.session import Session
from treadle.policy.fair_finish import Kept
from treadle.sidecar.conversation import Listener
from treadle.wire.frames import Frame

_log = logging.getLogger(__name__)

FILE: Final = "learned.json"
BYTES_MAX: Final = 64 << 20
SAVE_EVERY_S: Final = 5.0
"""A killed sidecar loses the changes since the last write."""
AGE_MAX_MS: Final = 600_000
"""An older state is not used: most running jobs have changed since."""


class LearnedFile(Listener):
    """The file, and its content at the start of the process."""

    def __init__(self, path: Path) -> None:
        """Read the file, if there is one."""
        self._path = path
        self._lost = self._unsaved = ""
        self._found: tuple[bytes, int] | None = None
        """The content, and the ResourceManager's time of it."""
        try:
            content = read_own(path, BYTES_MAX)
            self._found = content, Kept.model_validate_json(content).now_ms
        except FileNotFoundError:
            pass
        except OSError as error:
            self._lose(str(error.strerror))
        except ValidationError as error:
            self._lose(f"damaged: {error.errors()[0]['msg']}")

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return the content with the first whole frame, unless it is old."""
        if self._found is None or frame.header.more:
            return ()
        (content, then_ms), self._found = self._found, None
        if not 0 <= frame.header.rm_time_ms - then_ms <= AGE_MAX_MS:
            _log.info("%s is not used: it is old", self._path)
            return ()
        return (LearnedState(np.frombuffer(content, np.uint8)),)

    def warnings(self) -> Sequence[str]:
        """Return why the earlier state is lost, and why the file cannot be written."""
        return tuple(filter(None, (self._lost, self._unsaved)))

    def keep(self, session: Session) -> None:
        """Save the state of the session's policy every few seconds, if it has one."""
        while True:
            time.sleep(SAVE_EVERY_S)
            try:
                state = session.with_engine(Engine.learned)
            except Exception as error:  # the next state may have no such fault
                _log.debug("a fault of the policy's state", exc_info=True)
                self._cannot_save(f"{type(error).__name__}: {error}")
                continue
            if state is not None:
                self.save(state)

    def save(self, state: LearnedState) -> None:
        """Write the file."""
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(self._path, state.content.tobytes())
            self._unsaved = ""
        except OSError as error:
            self._cannot_save(f"{self._path}: {error.strerror}")

    def _cannot_save(self, why: str) -> None:
        text = f"the policy's state will not outlive the sidecar: {why}"
        if text != self._unsaved:
            _log.warning("%s", text)
        self._unsaved = text

    def _lose(self, why: str) -> None:
        self._lost = f"the policy's earlier state is lost: {self._path}: {why}"
        _log.warning("%s", self._lost)
