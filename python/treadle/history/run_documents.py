"""Runs as JSON: what the process that reads histories returns to the one that asked it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from treadle.history.fields import is_number, is_text, list_of, mapping_of, text_of
from treadle.history.run import JobRun, Measured, RecurrenceKey, StageRun
from treadle.history.sketch import DurationSketch

_MOST: Final = 1 << 62
"""A history may say anything; a store takes less (`storable_run`)."""
_LENGTH_MAX: Final = 1 << 24


def run_json(run: JobRun) -> dict[str, Any]:
    """Return the document of a run; parents are places in the list of stages."""
    places = places_of([stage.name for stage in run.stages])
    return {
        "key": run.key._asdict(),
        "id": run.id,
        "started_ms": run.started_ms,
        "ended_ms": run.ended_ms,
        "stages": [_stage_json(stage, places) for stage in run.stages],
    }


def run_from_json(document: object) -> JobRun:
    """Return the run of a document.

    Raises:
        ValueError: it is none of `run_json`'s.
    """
    fields = mapping_of(document, "a run")
    texts = mapping_of(fields.get("key"), "key")
    key = RecurrenceKey(*(text_of(texts, field) for field in RecurrenceKey._fields))
    stages = [mapping_of(stage, "a stage") for stage in list_of(fields, "stages", _LENGTH_MAX)]
    names = [text_of(stage, "name") for stage in stages]
    return JobRun(
        key,
        text_of(fields, "id"),
        is_number(fields.get("started_ms"), "started_ms", -_MOST, _MOST),
        is_number(fields.get("ended_ms"), "ended_ms", -_MOST, _MOST),
        tuple(_stage(stage, names) for stage in stages),
    )


def places_of(names: Sequence[str]) -> dict[str, int]:
    """Return the place of each name; of several that are equal the first."""
    places: dict[str, int] = {}
    for place, name in enumerate(names):
        places.setdefault(name, place)
    return places


def named(parent: object, names: Sequence[str]) -> str:
    """Return the name of a parent, which is given by its place or, where it has none, by its name.

    Raises:
        ValueError: there is no such place.
    """
    if isinstance(parent, int):
        return names[is_number(parent, "a parent", 0, len(names) - 1)]
    return is_text(parent, "a parent")


def _stage_json(stage: StageRun, places: dict[str, int]) -> dict[str, Any]:
    return {
        "name": stage.name,
        "width": stage.width,
        "durations_ms": stage.durations.to_json(),
        "demand": dict(stage.demand),
        "parents": [places.get(parent, parent) for parent in stage.parents],
        "input_bytes": stage.input_bytes,
        "measured": stage.measured.value,
        "one_to_one": [places.get(parent, parent) for parent in stage.one_to_one],
        "retried": stage.retried,
        "speculative": stage.speculative,
        "alone": None if stage.alone is None else stage.alone.to_json(),
    }


def _stage(fields: Any, names: Sequence[str]) -> StageRun:
    demand = mapping_of(fields.get("demand"), "demand")
    return StageRun(
        text_of(fields, "name"),
        is_number(fields.get("width"), "width", -_MOST, _MOST),
        DurationSketch.from_json(fields.get("durations_ms")),
        {is_text(name, "a resource"): is_number(demand[name], "an amount", -_MOST, _MOST) for name in demand},
        tuple(named(parent, names) for parent in list_of(fields, "parents", _LENGTH_MAX)),
        _known(fields, "input_bytes"),
        Measured(text_of(fields, "measured")),
        tuple(named(parent, names) for parent in list_of(fields, "one_to_one", _LENGTH_MAX)),
        retried=_known(fields, "retried"),
        speculative=_known(fields, "speculative"),
        alone=None if fields.get("alone") is None else DurationSketch.from_json(fields["alone"]),
    )


def _known(fields: Any, field: str) -> int | None:
    value = fields.get(field)
    return None if value is None else is_number(value, field, -_MOST, _MOST)
