"""Recordings as scenarios of a sweep: the cluster and the jobs of one, as `treadle replay --policy` reduces it."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from treadle.errors import UserError
from treadle.record.files import segments
from treadle.replay.model import reduce
from treadle.replay.seen import look
from treadle.sweep.inputs import Inputs
from treadle.wire.schema import WireError
from treadle.workload.traces.own import write_own


def scenario_of(place: Path, inputs: Inputs) -> tuple[dict[str, Any], list[str]]:
    """Return a scenario that reads the jobs of a recording from a copy, and what the recording has and it has not.

    Args:
        place: a segment, or a folder of segments
        inputs: takes the jobs in

    Raises:
        UserError: it is no recording, or nothing in it ran.
    """
    try:
        reduced = reduce(look(segments(place)))
    except WireError as error:
        raise UserError(f"{place}: a frame cannot be read: {error}") from error
    text = io.StringIO()
    write_own(reduced.workload(1), text)
    document: dict[str, Any] = json.loads(reduced.scenario.text or "{}")
    document["workload"] = {"file": inputs.content("jobs.jsonl", text.getvalue().encode()), "deal": True}
    return document, reduced.notes
