"""Where another policy first decides otherwise than the recorded one, on the recorded frames themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.proposals import Proposals
from treadle.record.reader import open_all
from treadle.replay.again import SessionAgain
from treadle.replay.seen import Seen
from treadle.wire.answer import decode_answer
from treadle.wire.frames import read_frame_header
from treadle.wire.schema import WireError

_ROWS_MAX: Final = 1 << 30

OBSERVED: Final = "the recorded answers were observed, not followed"
"""Why the model takes over with the first decision of a recording in mode observe_only."""


@dataclass(frozen=True, slots=True)
class Switch:
    """The first different decision."""

    at_ms: int
    """By the ResourceManager's clock."""
    after_s: float
    """Since the recording's begin."""
    ticks: int
    """Frames up to it, this one counted."""
    segment: str
    why: str


def is_own(settings: Settings, own: Settings, seen: Seen) -> bool:
    """Say whether settings are those of the recording, as far as decisions go by them."""
    if seen.settings_changed:
        return False
    plain = [
        replace(each, source=None, record=own.record, profiles=own.profiles, kernels=own.kernels)
        for each in (settings, own)
    ]
    return plain[0] == plain[1]


def first_difference(
    files: Sequence[Path], seen: Seen, settings: Settings | None, name: str, *, trust_code: bool
) -> Switch | None:
    """Return where a policy first decides otherwise; None if it decides as was recorded, to the end.

    It is given the recorded frames, and what came beside them, as long as its proposals are the recorded ones. It
    begins with the first snapshot alone: a recording has nothing of what an engine had learned before.

    Args:
        files: the segments
        seen: what is in them
        settings: the policy; None: that of the recording
        name: of the policy, for errors
        trust_code: whether parts of the recorded policy from files may be run

    Raises:
        UserError: a part of the policy failed.
        RecordingError: the recording cannot be replayed.
    """
    ticks = 0
    again: SessionAgain | None = None
    for recorded in open_all(files, []):
        if again is None or not recorded.follows:
            again = SessionAgain(recorded, trust_code=trust_code, other=settings)
        for tick in recorded.ticks:
            ticks += 1
            header = read_frame_header(tick.frame)[0]
            answer = again.take(tick)
            if settings is not None and again.part_failure:
                raise UserError(f"{name}: {again.part_failure}")
            why = OBSERVED if header.observe else _difference(tick.answer, answer)
            if why:
                after_s = (header.rm_time_ms - seen.begin_ms) / 1000
                return Switch(header.rm_time_ms, after_s, ticks, recorded.path.name, why)
    return None


def _difference(was: bytes, now: bytes) -> str:
    """Return in which way two answers decide differently; empty if they do not."""
    try:
        one, other = (decode_answer(each, _ROWS_MAX).proposals for each in (was, now))
    except WireError:
        return "" if was == now else "no answer"
    if len(one) != len(other):
        return f"{len(other)} proposals in place of {len(one)}"
    same = all(_equal(one, other, name) for name in ("application", "key", "node", "transaction"))
    return "" if same else "other proposals"


def _equal(one: Proposals, other: Proposals, name: str) -> bool:
    a, b = getattr(one, name), getattr(other, name)
    return (a is None) == (b is None) and (a is None or np.array_equal(a, b))
