"""Profiles as JSON: in a store's rows, in the files of `treadle profiles export`, and in `--json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from treadle.profiles.profile import (
    PARENTS_MAX,
    RECENT_MAX,
    RESOURCES_MAX,
    STAGES_MAX,
    JobProfile,
    RecentRun,
    StageProfile,
)
from treadle.profiles.recurrence import RecurrenceKey, storable
from treadle.profiles.run import NUMBER_MAX, RUN_ID, Measured
from treadle.profiles.sketch import DurationSketch


def profile_json(profile: JobProfile) -> dict[str, Any]:
    """Return the document of a profile."""
    return {
        "key": profile.key._asdict(),
        "runs": profile.runs,
        "first_seen_ms": profile.first_seen_ms,
        "last_seen_ms": profile.last_seen_ms,
        "recent": [list(run) for run in profile.recent],
        "stages": [stage_json(stage) for stage in profile.stages],
    }


def stage_json(stage: StageProfile) -> dict[str, Any]:
    """Return the document of a stage's profile."""
    return {
        "name": stage.name,
        "position": stage.position,
        "measured": stage.measured.value,
        "runs": stage.runs,
        "parents": list(stage.parents),
        "one_to_one": list(stage.one_to_one),
        "demand": dict(stage.demand),
        "durations_ms": stage.durations.to_json(),
        "recent": [list(run) for run in stage.recent],
    }


def profile_from_json(document: object) -> JobProfile:
    """Return the profile of a document.

    Raises:
        ValueError: it is none of `profile_json`'s; the text says what is wrong with it.
    """
    fields = _mapping(document, "a profile")
    texts = _mapping(fields.get("key"), "key")
    key = RecurrenceKey(*(storable(_text(texts, field)) for field in RecurrenceKey._fields))
    stages = _list(fields, "stages", STAGES_MAX)
    return JobProfile(
        key,
        max(1, _number(fields, "runs")),
        _number(fields, "first_seen_ms"),
        _number(fields, "last_seen_ms"),
        tuple(sorted(_job_run(row) for row in _list(fields, "recent", RECENT_MAX))),
        tuple(stage_from_json(stage) for stage in stages),
    )


def stage_from_json(document: object) -> StageProfile:
    """Return the stage's profile of a document. Raises `ValueError` as `profile_from_json`."""
    fields = _mapping(document, "a stage")
    demand = _mapping(fields.get("demand"), "demand")
    if len(demand) > RESOURCES_MAX:
        raise ValueError(f"demand has more than {RESOURCES_MAX} resources")
    parents = _list(fields, "parents", PARENTS_MAX)
    # whoever wrote a document before there was this field knew of no such edge
    single = _list(fields, "one_to_one", PARENTS_MAX) if "one_to_one" in fields else []
    measured = fields.get("measured")
    if measured not in set(Measured):
        raise ValueError(f"measured must be one of {', '.join(Measured)}, not {measured!r}")
    return StageProfile(
        storable(_text(fields, "name")),
        _number(fields, "position"),
        DurationSketch.from_json(fields.get("durations_ms")),
        max(1, _number(fields, "runs")),
        tuple(sorted(_stage_run(row) for row in _list(fields, "recent", RECENT_MAX))),
        {storable(str(resource)): _number(demand, resource) for resource in demand},
        tuple(storable(_is_text(parent, "a parent")) for parent in parents),
        Measured(measured),
        tuple(storable(_is_text(parent, "a parent")) for parent in single),
    )


def compact(document: object) -> str:
    """Return a document as JSON without spaces."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _job_run(row: object) -> tuple[int, str, int]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError("a recent run of a job is a list of its end, id and duration")
    return _is_number(row[0], "the end of a run"), _is_run(row[1]), _is_number(row[2], "the duration of a run")


def _stage_run(row: object) -> RecentRun:
    # those written before estimates were told live, or attempts counted, lack the last ones
    least, most = len(RecentRun._fields) - len(RecentRun._field_defaults), len(RecentRun._fields)
    if not isinstance(row, list) or not least <= len(row) <= most:
        raise ValueError(f"a recent run of a stage is a list of {', '.join(RecentRun._fields)}")
    ended_ms, run, width, mean_ms, input_bytes, told_ms, retried, speculative = [*row, -1, -1, -1][:most]
    return RecentRun(
        _is_number(ended_ms, "the end of a run"),
        _is_run(run),
        _is_number(width, "a width"),
        _is_number(mean_ms, "a mean", -1),
        _is_number(input_bytes, "an input", -1),
        _is_number(told_ms, "what was told", -1),
        _is_number(retried, "attempts that were made again", -1),
        _is_number(speculative, "speculative attempts", -1),
    )


def _mapping(value: object, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a mapping")
    return value


def _list(fields: Mapping[str, Any], field: str, most: int) -> list[Any]:
    value = fields.get(field)
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{field} must be a list of at most {most}")
    return value


def _text(fields: Mapping[str, Any], field: str) -> str:
    return _is_text(fields.get(field), field)


def _is_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, not {value!r}")
    return value


def _is_run(value: object) -> str:
    if not isinstance(value, str) or not RUN_ID.fullmatch(value):
        raise ValueError(f"{value!r} is no run's id")
    return value


def _number(fields: Mapping[str, Any], field: str) -> int:
    return _is_number(fields.get(field), field)


def _is_number(value: object, what: str, least: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= NUMBER_MAX:
        raise ValueError(f"{what} must be a whole number from {least} to {NUMBER_MAX}, not {value!r}")
    return value
