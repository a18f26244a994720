"""Profiles as JSON: in a store's rows, in the files of `treadle profiles export`, and in `--json`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from treadle.history.fields import is_number, is_run, list_of, mapping_of, number_of, text_of
from treadle.history.profile import (
    PARENTS_MAX,
    RECENT_MAX,
    RESOURCES_MAX,
    STAGES_MAX,
    JobProfile,
    RecentRun,
    StageProfile,
)
from treadle.history.run import Measured, RecurrenceKey, storable
from treadle.history.run_documents import named, places_of
from treadle.history.sketch import DurationSketch


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
    """Return the stages of `stage_documents`, or of older ones, which named parents.

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
    # documents from before this field have no such edge
    single = list_of(fields, "one_to_one", PARENTS_MAX) if "one_to_one" in fields else []
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
    # documents from before live estimates and attempt counts lack the last fields
    least, most = len(RecentRun._fields) - len(RecentRun._field_defaults), len(RecentRun._fields)
    if not isinstance(row, list) or not least <= len(row) <= most:
        raise ValueError(f"a recent run of a stage is a list of {', '.join(RecentRun._fields)}")
    ended_ms, run, width, mean_ms, input_bytes, hint_ms, retried, speculative = [*row, -1, -1, -1][:most]
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
