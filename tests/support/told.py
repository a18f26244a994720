"""Events that an engine got beside its frames, as bytes: with the frames enough to repeat a run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np

from treadle.events import Event, PlanRanks, Samples, StageInputs, TaskClaims, TaskEstimates, TaskInputs
from treadle.sidecar.conversation import Listener
from treadle.wire.frames import Frame

_KINDS: Final = (TaskEstimates, TaskClaims, PlanRanks, StageInputs, TaskInputs, Samples)
_TYPES: Final[dict[str, Any]] = {kind.__name__: kind for kind in _KINDS}


@dataclass(frozen=True, slots=True)
class Told:
    """Events sent after those of a frame and before the decide that answered it."""

    epoch: int
    sequence: int
    """Of the frame."""
    events: tuple[Event, ...]

    def to_bytes(self) -> bytes:
        """Return a line of JSON, of which `from_bytes` makes an equal one: integers and floats are exact."""
        told = [
            [type(event).__name__, {field.name: getattr(event, field.name).tolist() for field in fields(event)}]
            for event in self.events
        ]
        return json.dumps([self.epoch, self.sequence, told], separators=(",", ":")).encode() + b"\n"


class Remembering(Listener):
    """An event source, and the events that it sent."""

    def __init__(self, source: Listener) -> None:
        self._source = source
        self.told: list[Told] = []

    def collect(self, frame: Frame) -> Sequence[Event]:
        """Return what the event source tells."""
        events = tuple(self._source.collect(frame))
        if events:
            self.told.append(Told(frame.header.epoch, frame.header.sequence, events))
        return events

    def learn(self, samples: Samples) -> None:
        """Let the event source learn."""
        self._source.learn(samples)

    def forget(self) -> None:
        """Let the event source forget."""
        self._source.forget()

    def summary(self) -> str:
        """Return what the event source says of itself."""
        return self._source.summary()

    def warnings(self) -> Sequence[str]:
        """Return what the event source warns of."""
        return self._source.warnings()

    def keys_for(self) -> Sequence[str]:
        """Return what the event source wants keys for."""
        return self._source.keys_for()


def told_from_bytes(line: bytes) -> Told:
    """Return the events of a line of `Told.to_bytes`.

    Raises:
        ValueError: it is no such line.
    """
    try:
        epoch, sequence, told = json.loads(line)
        return Told(int(epoch), int(sequence), tuple(_event(name, columns) for name, columns in told))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not what an engine was told: {error}") from error


def _event(name: str, columns: dict[str, Sequence[float]]) -> Event:
    kind = _TYPES[name]
    types = {"I32": np.int32, "I64": np.int64, "F64": np.float64}
    made: Event = kind(**{field.name: np.array(columns[field.name], types[str(field.type)]) for field in fields(kind)})
    return made
