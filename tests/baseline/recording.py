"""Events that an engine was given, as JSON lines, and what an engine proposes when it is given them again.

A line is a decide: the events of the frames before it, the time and the limit. Events are written by the names of
their classes and fields, so a recording outlives versions of the wire.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.config.reader import read_settings
from treadle.engine import Engine
from treadle.events import Proposals
from treadle.explain import Explainer
from treadle.simulate import Scenario
from treadle.simulator.scenario import jobs_of
from treadle.simulator.simulation import Simulation

RENAMED: Final[dict[str, str]] = {}
"""Events (``Event``) and fields (``Event.field``) of earlier recordings that have another name now, and that name."""

DECIDES_MAX: Final = 600
EXPLAINED_EVERY: Final = 40
"""Decides from one explanation to the next."""


class _Recorder:
    """Stands in for a simulation's engine and writes down what it is given."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._given: list[events.Event] = []
        self.lines: list[str] = []

    def apply(self, frame: Sequence[events.Event]) -> None:
        self._given += frame
        self._engine.apply(frame)

    def decide(self, now_ms: int, limit: int, *, sequence: int) -> Proposals:
        if len(self.lines) < DECIDES_MAX:
            line = {"now_ms": now_ms, "limit": limit, "sequence": sequence, "events": list(map(_written, self._given))}
            self.lines.append(json.dumps(line))
        self._given = []
        return self._engine.decide(now_ms, limit, sequence=sequence)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)


def record(scenario: Path, policy: Path) -> str:
    """Simulate a scenario under a policy; return what its engine is given in the first `DECIDES_MAX` decides."""
    read = Scenario.read(scenario).model
    simulation = Simulation(read, jobs_of(read, scenario.parent, read.seed), read_settings(policy), read.seed)
    recorder: Any = _Recorder(simulation.engine)
    simulation.engine = recorder
    simulation.run()
    return "\n".join(recorder.lines) + "\n"


def proposals(recording: str, policy: Path) -> str:
    """Return what an engine proposes on recorded events, a line a decide, with what it says of samples and warnings."""
    engine = Engine(read_settings(policy))
    return "\n".join(_decides(engine, recording)) + "\n"


def _decides(engine: Engine, recording: str) -> Iterator[str]:
    for text in recording.splitlines():
        line = json.loads(text)
        engine.apply([_read(written) for written in line["events"]])
        made = engine.decide(line["now_ms"], line["limit"], sequence=line["sequence"])
        samples = engine.samples()
        yield json.dumps(
            {
                "sequence": line["sequence"],
                "proposals": np.stack((made.application, made.key, made.node), 1).tolist(),
                "samples": None if samples is None else _written(samples),
                "warnings": list(engine.warnings()),
                "waits_for": engine.waits_for(),
            }
        )


def explanations(recording: str, policy: Path) -> str:
    """Return why each application waits after some recorded decides, a line each."""
    return "\n".join(_explained(Engine(read_settings(policy)), recording)) + "\n"


def _explained(engine: Engine, recording: str) -> Iterator[str]:
    for number, _ in enumerate(_decides(engine, recording), 1):
        inside = engine.inside()
        if number % EXPLAINED_EVERY == 0 and inside is not None:
            explainer = Explainer(engine)
            for application in np.flatnonzero(inside[0].apps.at["state"] != 0).tolist():
                yield json.dumps({"decide": number, **explainer.explain(application).plain()})


def _written(event: events.Event) -> dict[str, Any]:
    """Return an event as JSON takes it; a column is its type, its shape and its values in one row."""
    found: dict[str, Any] = {"is": type(event).__name__}
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, np.ndarray):
            value = {"type": value.dtype.str, "shape": list(value.shape), "values": value.ravel().tolist()}
        found[field.name] = value
    return found


def _read(written: dict[str, Any]) -> events.Event:
    columns = dict(written)
    event = columns.pop("is")
    values = {RENAMED.get(f"{event}.{name}", name): _value(value) for name, value in columns.items()}
    made: events.Event = getattr(events, RENAMED.get(event, event))(**values)
    return made


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict) and value.keys() == {"type", "shape", "values"}:
        column = np.array(value["values"], value["type"]).reshape(value["shape"])
        column.flags.writeable = False
        return column
    return value
