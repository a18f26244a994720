"""Profiles as JSON: in a store's rows, in the files of `treadle profiles export`, and in `--json`.

Runs as JSON: what the process that reads histories returns to the one that asked it.

Fields of documents, checked: each function raises `ValueError` with what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from treadle.history.profile import (
    NUMBER_MAX,
    PARENTS_MAX,
    RECENT_MAX,
    RESOURCES_MAX,
    RUN_ID,
    STAGES_MAX,
    DurationSketch,
    JobProfile,
    JobRun,
    Measured,
    RecentRun,
    RecurrenceKey,
    StageProfile,
    StageRun,
    storable,
)


def mapping_of(value: object, what: str) -> Mapping[str, Any]:
    """Return a mapping."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} must be a mapping")
    return value


def list_of(fields: Mapping[str, Any], field: str, most: int) -> list[Any]:
    """Return a field that is a list of at most ``most``."""
    value = fields.get(field)
    if not isinstance(value, list) or len(value) > most:
        raise ValueError(f"{field} must be a list of at most {most}")
    return value


def text_of(fields: Mapping[str, Any], field: str) -> str:
    """Return a field that is a text."""
    return is_text(fields.get(field), field)


def is_text(value: object, what: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ValueError(f"{what} must be a text, not {value!r:.100}")
    return value


def is_run(value: object) -> str:
    """Return the id of a run."""
    if not isinstance(value, str) or not RUN_ID.fullmatch(value):
        raise ValueError(f"{value!r:.100} is not a run's id")
    return value


def number_of(fields: Mapping[str, Any], field: str) -> int:
    """Return a field that is a whole number from 0."""
    return is_number(fields.get(field), field)


def is_number(value: object, what: str, least: int = 0, most: int = NUMBER_MAX) -> int:
    """Return a whole number from ``least`` to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{what} must be a whole number from {least} to {most}, not {value!r:.100}")
    return value


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
        "stages": [_run_stage_json(stage, places) for stage in run.stages],
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
        tuple(_run_stage(stage, names) for stage in stages),
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


def _run_stage_json(stage: StageRun, places: dict[str, int]) -> dict[str, Any]:
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


def _run_stage(fields: Any, names: Sequence[str]) -> StageRun:
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


def profile_json(profile: JobProfile) -> dict[str, Any]:
    """Return the document of a profile."""
    return {
        "key": profile.key._asdict(),
        "runs": profile.runs,
        "first_seen_ms": profile.first_seen_ms,
        "last_seen_ms": profile.last_seen_ms,
        "recent": [list(run) for run in profile.recent],
        "stages": stage_documents(profile),
    }


def stage_documents(profile: JobProfile) -> list[dict[str, Any]]:
    """Return the documents of the stages of a profile, in which parents are places in this list.

    Names of parents would take the square of the space. A parent that is none of the stages is left out.
    """
    places = places_of([stage.name for stage in profile.stages])
    return [_stage_json(stage, places) for stage in profile.stages]


def _stage_json(stage: StageProfile, places: Mapping[str, int]) -> dict[str, Any]:
    return {
        "name": stage.name,
        "position": stage.position,
        "measured": stage.measured.value,
        "runs": stage.runs,
        "parents": [places[parent] for parent in stage.parents if parent in places],
        "one_to_one": [places[parent] for parent in stage.one_to_one if parent in places],
        "demand": dict(stage.demand),
        "durations_ms": stage.durations.to_json(),
        "recent": [list(run) for run in stage.recent],
    }


def profile_from_json(document: object) -> JobProfile:
    """Return the profile of a document.

    Raises:
        ValueError: it is none of `profile_json`'s; the text says what is wrong with it.
    """
    fields = mapping_of(document, "a profile")
    texts = mapping_of(fields.get("key"), "key")
    key = RecurrenceKey(*(storable(text_of(texts, field)) for field in RecurrenceKey._fields))
    stages = list_of(fields, "stages", STAGES_MAX)
    return JobProfile(
        key,
        max(1, number_of(fields, "runs")),
        number_of(fields, "first_seen_ms"),
        number_of(fields, "last_seen_ms"),
        tuple(sorted(_job_run(row) for row in list_of(fields, "recent", RECENT_MAX))),
        stages_from_json(stages),
    )


def stages_from_json(documents: Sequence[object]) -> tuple[StageProfile, ...]:
    """Return the stages of `stage_documents`.

    Raises:
        ValueError: as `profile_from_json`.
    """
    found = [mapping_of(document, "a stage") for document in documents]
    names = [storable(text_of(fields, "name")) for fields in found]
    return tuple(_stage(fields, name, names) for fields, name in zip(found, names, strict=True))


def _stage(fields: Mapping[str, Any], name: str, names: Sequence[str]) -> StageProfile:
    demand = mapping_of(fields.get("demand"), "demand")
    if len(demand) > RESOURCES_MAX:
        raise ValueError(f"demand has more than {RESOURCES_MAX} resources")
    parents = list_of(fields, "parents", PARENTS_MAX)
    single = list_of(fields, "one_to_one", PARENTS_MAX)
    measured = fields.get("measured")
    if measured not in set(Measured):
        raise ValueError(f"measured must be one of {', '.join(Measured)}, not {measured!r}")
    return StageProfile(
        name,
        number_of(fields, "position"),
        DurationSketch.from_json(fields.get("durations_ms")),
        max(1, number_of(fields, "runs")),
        tuple(sorted(_stage_run(row) for row in list_of(fields, "recent", RECENT_MAX))),
        {storable(str(resource)): number_of(demand, resource) for resource in demand},
        tuple(storable(named(parent, names)) for parent in parents),
        Measured(measured),
        tuple(storable(named(parent, names)) for parent in single),
    )


def compact(document: object) -> str:
    """Return a document as JSON without spaces."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _job_run(row: object) -> tuple[int, str, int]:
    if not isinstance(row, list) or len(row) != 3:
        raise ValueError("a recent run of a job is a list of its end, id and duration")
    return is_number(row[0], "the end of a run"), is_run(row[1]), is_number(row[2], "the duration of a run")


def _stage_run(row: object) -> RecentRun:
    if not isinstance(row, list) or len(row) != len(RecentRun._fields):
        raise ValueError(f"a recent run of a stage is a list of {', '.join(RecentRun._fields)}")
    ended_ms, run, width, mean_ms, input_bytes, hint_ms, retried, speculative = row
    return RecentRun(
        is_number(ended_ms, "the end of a run"),
        is_run(run),
        is_number(width, "a width"),
        is_number(mean_ms, "a mean", -1),
        is_number(input_bytes, "an input", -1),
        is_number(hint_ms, "the hint", -1),
        is_number(retried, "attempts that were made again", -1),
        is_number(speculative, "speculative attempts", -1),
    )
