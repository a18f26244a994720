"""Treadle recording what it decides, as a mode of `treadle bench cluster`: what that costs, in the same process."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from treadle.lab.bench.sls_load import BenchError, Mode, treadle_under
from treadle.record.folder import segments
from treadle.record.summary import summarise

NAME = "recording"


@dataclass(frozen=True, slots=True)
class RecordingCost:
    """What recording cost in the last run of the mode. CPU times are of the sidecar since its first frame."""

    share: float
    """Of the sidecar's CPU time."""
    beside_s: float
    """On the thread that decides."""
    writing_s: float
    sidecar_s: float
    containers: int
    bytes_per_container: float


def recording_mode(folder: Path) -> Mode:
    """Return Treadle with a recording in a new folder; its treadle.yaml is written beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "treadle.yaml"
    file.write_text(yaml.safe_dump({"record": {"folder": str(place_of(folder))}}), "utf-8")
    return treadle_under(NAME, file)


def place_of(folder: Path) -> Path:
    """Return where the recording is."""
    return folder / "recording"


def cost_of(folder: Path) -> RecordingCost:
    """Return what recording cost.

    Raises:
        BenchError: the recording does not say so: its sidecar was killed.
    """
    found = summarise(segments(place_of(folder)))
    share, per = found.cost.share, found.bytes_per_container
    if share is None or per is None:
        raise BenchError(f"{place_of(folder)}: the sidecar did not end its recording, so that its cost is not known")
    beside_us, writing_us, process_us = found.cost
    return RecordingCost(share, beside_us / 1e6, writing_us / 1e6, process_us / 1e6, found.containers, per)
