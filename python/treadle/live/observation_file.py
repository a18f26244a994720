"""Figures of `observe_only` in a file, so that they outlive a sidecar.

The file is written as a whole, outside the cycle, and validated when it is read. The figures record a loss.
"""

from __future__ import annotations

import logging
from pathlib import Path
from threading import Event, Thread
from typing import Final

from pydantic import ValidationError

from treadle.config.trust import read_own
from treadle.files import write_whole
from treadle.live.question_socket import Close
from treadle.sidecar.observation import Figures, Observation

_log = logging.getLogger(__name__)

FILE: Final = "observation.json"
BYTES_MAX: Final = 8 << 20
"""More than the longest names of all queues and types take."""
SAVE_EVERY_S: Final = 10.0
"""A killed sidecar loses the counts since the last write, which is reported as an interruption."""


def open_observation(folder: Path, closing: list[Close]) -> Observation:
    """Return the observation stored in a sidecar's state folder, and store it there until the process ends.

    Args:
        folder: the folder of the file
        closing: gets functions to call before the process ends
    """
    keeper = ObservationFile(folder / FILE)
    closing.append(keeper.close)
    Thread(target=keeper.keep, name="observation", daemon=True).start()
    return keeper.observation


class ObservationFile:
    """An observation, and the file that keeps its figures."""

    def __init__(self, path: Path) -> None:
        """Read the file, if it exists."""
        self._path = path
        self.observation = Observation(_read(path))
        self._saved = ""
        self._closed = Event()

    def keep(self) -> None:
        """Save the figures every now and then, until `close`."""
        while not self._closed.wait(SAVE_EVERY_S):
            self.save()

    def close(self, why: str) -> None:
        """Save the figures for the last time."""
        self._closed.set()
        self.save()

    def save(self) -> None:
        """Write the figures, if they have changed."""
        content = self.observation.document()
        if content == self._saved:
            return
        try:
            self._path.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(self._path, content)
            self._saved, self.observation.unsaved = content, ""
        except OSError as error:
            text = f"what observe_only finds will not outlive the sidecar: {self._path}: {error.strerror}"
            if text != self.observation.unsaved:
                _log.warning("%s", text)
            self.observation.unsaved = text


def _read(path: Path) -> Figures:
    """Return the figures in a file; new ones if it does not exist, or is unusable, which they then report."""
    try:
        return Figures.model_validate_json(read_own(path, BYTES_MAX))
    except FileNotFoundError:
        return Figures()
    except OSError as error:
        return _lost(path, str(error.strerror))
    except ValidationError as error:
        return _lost(path, f"damaged: {error.errors()[0]['msg']}")


def _lost(path: Path, why: str) -> Figures:
    text = f"earlier figures are lost: {path}: {why}"
    _log.warning("%s", text)
    return Figures(lost=text[:1000])
