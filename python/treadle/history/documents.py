"""Profiles as JSON: in a store's rows, in the files of `treadle history export`, and in `-o json`.

Runs as JSON: the result of the process that reads histories.

Documents contain the fields of `treadle.history.profile`. Parents are positions in the list of stages: names would take
quadratic space.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from treadle.history.profile import JobProfile, JobRun, RecurrenceKey, StageProfile, storable

T = TypeVar("T")

_RUN: Final = TypeAdapter(JobRun)
_PROFILE: Final = TypeAdapter(JobProfile)
_STAGES: Final = TypeAdapter(tuple[StageProfile, ...])
_EDGES: Final = ("parents", "one_to_one")


def _checked(adapter: TypeAdapter[T], document: object) -> T:
    """Return a validated document; raises `ValueError` with the first error, in one line."""
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc'])) or 'it'}: {first['msg']}") from None


def _places_of(names: Sequence[str]) -> dict[str, int]:
    """Return the position of each name; for equal names the first."""
    return {name: place for place, name in reversed([*enumerate(names)])}


def _with_names(stages: object) -> Any:
    """Return documents of stages with parents' names instead of positions.

    Raises:
        ValueError: a position does not exist.
    """
    if not isinstance(stages, list) or not all(isinstance(stage, dict) for stage in stages):
        return stages  # which reports the error
    names = [stage.get("name") for stage in stages]
    return [
        stage | {at: [_name(one, names) for one in stage[at]] for at in _EDGES if isinstance(stage.get(at), list)}
        for stage in stages
    ]


def _name(parent: object, names: Sequence[object]) -> object:
    if not isinstance(parent, int):
        return parent
    if not 0 <= parent < len(names):
        raise ValueError(f"there is no stage {parent}, which should be a parent")
    return names[parent]


def run_json(run: JobRun) -> dict[str, Any]:
    """Return the document of a run."""
    document: dict[str, Any] = _RUN.dump_python(run, mode="json")
    places = _places_of([stage.name for stage in run.stages])
    for stage in document["stages"]:
        stage |= {field: [places.get(parent, parent) for parent in stage[field]] for field in _EDGES}
    return document | {"key": run.key._asdict()}


def run_from_json(document: object) -> JobRun:
    """Return the run in a document.

    Raises:
        ValueError: it is not from `run_json`.
    """
    if isinstance(document, dict):
        document = document | {"stages": _with_names(document.get("stages"))}
    return _checked(_RUN, document)


def profile_json(profile: JobProfile) -> dict[str, Any]:
    """Return the document of a profile."""
    document: dict[str, Any] = _PROFILE.dump_python(profile, mode="json", by_alias=True)
    return document | {"key": profile.key._asdict(), "stages": stage_documents(profile)}


def stage_documents(profile: JobProfile) -> list[dict[str, Any]]:
    """Return the documents of the stages of a profile; unknown parents are omitted."""
    places = _places_of([stage.name for stage in profile.stages])
    documents: list[dict[str, Any]] = _STAGES.dump_python(profile.stages, mode="json", by_alias=True)
    for stage in documents:
        stage |= {field: [places[parent] for parent in stage[field] if parent in places] for field in _EDGES}
    return documents


def profile_from_json(document: object) -> JobProfile:
    """Return the profile in a document.

    Raises:
        ValueError: it is not from `profile_json`; the text names the error.
    """
    if isinstance(document, dict):
        document = document | {"stages": _with_names(document.get("stages"))}
    found = _checked(_PROFILE, document)
    return replace(
        found,
        key=RecurrenceKey(*map(storable, found.key)),
        runs=max(1, found.runs),
        recent=tuple(sorted(found.recent)),
        stages=tuple(map(_arranged, found.stages)),
    )


def stages_from_json(documents: Sequence[object]) -> tuple[StageProfile, ...]:
    """Return the stages in the result of `stage_documents`.

    Raises:
        ValueError: see `profile_from_json`.
    """
    stages = _checked(_STAGES, _with_names(list(documents)))
    return tuple(map(_arranged, stages))


def _arranged(stage: StageProfile) -> StageProfile:
    return replace(stage, runs=max(1, stage.runs), recent=tuple(sorted(stage.recent)))


def compact(document: object) -> str:
    """Return a document as JSON without spaces."""
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
