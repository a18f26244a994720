"""The files that a frame crosses are those that docs/engine.md names, in their order."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Final

import treadle
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster, small_events
from treadle.live.policies import ON_THE_WIRE
from treadle.live.session import Session
from treadle.policy.catalogue import register_parts
from treadle.wire.frames import FrameEncoder, FrameFlag, FrameHeader

PACKAGE: Final = Path(treadle.__file__).parent
PAGE: Final = Path(__file__).parents[2] / "docs" / "engine.md"


def named() -> list[str]:
    """Return the files of the page's first column, in order."""
    section = PAGE.read_text("utf-8").partition("## A frame, file by file")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\S+\.py)`", cell)]


def crossed() -> list[str]:
    """Return the files of the product whose functions run while a session answers its second frame, in order."""
    register_parts()
    session = Session(Engine, default_settings, reply_max_bytes=1 << 20, clock_ns=lambda: 0)
    encoder, files = FrameEncoder(), dict[str, None]()

    def note(frame: FrameType, event: str, _: object) -> None:
        place = Path(frame.f_code.co_filename)
        if event == "call" and place.is_relative_to(PACKAGE):
            files[place.relative_to(PACKAGE).as_posix()] = None

    for sequence, batch in enumerate([small_cluster(), small_events()[0]], 1):
        flags = int(FrameFlag.SNAPSHOT) if sequence == 1 else 0
        header = FrameHeader(flags, 1, sequence, 1_000 * sequence, 0, 16, 2)
        raw = encoder.encode(header, [event for event in batch if isinstance(event, ON_THE_WIRE)])
        if sequence == 2:
            sys.setprofile(note)
        try:
            session.decide(raw)
        finally:
            sys.setprofile(None)
    return list(files)


def test_the_page_names_the_files_that_a_frame_crosses() -> None:
    crossed()  # whatever is compiled or read once
    assert ["live/server.py", *crossed()] == named()
