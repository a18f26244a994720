"""The bytes of tests/golden, made from their descriptions: ``python -m tests.support.golden`` writes them anew.

The shim's `GoldenFilesTest` makes the same bytes, from the same descriptions, by its own code.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np

from treadle import events
from treadle.events import Held, Proposals
from treadle.wire.answer import Answer, encode_answer
from treadle.wire.frames import SECTIONS, FrameEncoder, FrameHeader

GOLDEN: Final = Path(__file__).parent.parent / "golden"
ROWS: Final = {"FATES": events.FateRuns}
"""Sections that are written in a shorter form than the events that they bring."""


def description(name: str) -> Any:
    """Return the description of a golden file."""
    return json.loads((GOLDEN / f"{name}.json").read_text("utf-8"))


def described_events(described: Any) -> list[events.Event]:
    """Return the events of a described frame, but for those of `ROWS`."""
    sections = described["sections"]
    texts = sections["STRINGS"]["texts"]
    types = sections["RESOURCE_TYPES"]
    settings = sections["SETTINGS"]
    found: list[events.Event] = [
        events.Snapshot(described["header"]["epoch"]),
        events.Names(tuple(texts)),
        events.ResourceTypes(
            names=tuple(texts[index] for index in types["name"]),
            units=tuple(texts[index] for index in types["units"]),
            counted=np.array(types["counted"], np.uint8),
            minimum=np.array(types["minimum"], np.int64),
            maximum=np.array(types["maximum"], np.int64),
        ),
        events.Settings(
            {texts[key]: texts[value] for key, value in zip(settings["key"], settings["value"], strict=True)}
        ),
    ]
    for section in list(SECTIONS.values())[3:]:
        if section.name in ROWS:
            continue
        # A column of type R*i64 is written as a list for each resource type.
        described_columns = sections[section.name]
        event: Any = section.event
        found.append(event(**{each.field: np.array(described_columns[each.name]).T for each in section.columns}))
    return found


def golden_frame() -> bytes:
    """Return the frame that frame-snapshot.json describes."""
    described = description("frame-snapshot")
    found = described_events(described)
    for name, event in ROWS.items():
        columns = described["sections"][name]
        found.append(events.filled(event, len(next(iter(columns.values()))), **columns))
    return FrameEncoder().encode(FrameHeader(**described["header"]), found)


def golden_answer() -> bytes:
    """Return the answer that proposals.json describes."""
    described = description("proposals")
    columns = [np.array(described[name], np.int32) for name in ("application", "key", "node", "transaction")]
    named = {name: described[name] for name in ("epoch", "sequence", "decide_us", "status")}
    held = Held(*(np.array(described[f"held_{name}"], np.int32) for name in Held._fields))
    return encode_answer(Answer(**named, resend=True, proposals=Proposals(*columns), unserved=True, held=held))


if __name__ == "__main__":
    (GOLDEN / "frame-snapshot.bin").write_bytes(golden_frame())
    (GOLDEN / "proposals.bin").write_bytes(golden_answer())
