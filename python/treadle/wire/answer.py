"""Proposal frames: what the engine answers."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

import numpy as np

from treadle.proposals import Proposals
from treadle.wire.errors import WireError
from treadle.wire.schema import PROPOSAL_MAGIC, VERSION, ProposalFlag

PROPOSAL_HEADER: Final = Struct("<4sHHqqqii")

PROPOSAL_ROW_BYTES: Final = 12
_I32: Final = np.dtype("<i4")


class Answer(NamedTuple):
    """A decoded proposal frame."""

    epoch: int
    sequence: int
    """Of the frame that is answered."""
    decide_us: int
    """Time spent in the engine."""
    resend: bool
    """The engine lost track and wants a snapshot."""
    proposals: Proposals
    status: str
    """A JSON object, or empty if nothing changed."""


def encode_answer(answer: Answer) -> bytes:
    """Return the proposal frame of an answer."""
    proposals = answer.proposals
    status = answer.status.encode("utf-8")
    header = PROPOSAL_HEADER.pack(
        PROPOSAL_MAGIC,
        VERSION,
        int(ProposalFlag.RESEND) if answer.resend else 0,
        answer.epoch,
        answer.sequence,
        answer.decide_us,
        len(proposals),
        len(status),
    )
    columns = (proposals.application, proposals.key, proposals.node)
    return b"".join([header, *(np.asarray(column, _I32).tobytes() for column in columns), status])


def decode_answer(frame: bytes, rows_max: int) -> Answer:
    """Return what a proposal frame says.

    Raises:
        WireError: it is malformed or has more than ``rows_max`` proposals; it names the field.
    """
    if len(frame) < PROPOSAL_HEADER.size:
        raise WireError("header", f"{len(frame)} bytes, a header has {PROPOSAL_HEADER.size}")
    magic, version, flags, epoch, sequence, decide_us, rows, status_bytes = PROPOSAL_HEADER.unpack_from(frame)
    if magic != PROPOSAL_MAGIC:
        raise WireError("magic", f"{magic!r} instead of {PROPOSAL_MAGIC!r}")
    if version != VERSION:
        raise WireError("version", f"{version} instead of {VERSION}")
    if flags & ~int(ProposalFlag.RESEND):
        raise WireError("flags", f"{flags:#x} has bits of no meaning")
    if not 0 <= rows <= rows_max:
        raise WireError("rows", f"{rows} is not in 0 to {rows_max}")
    end = PROPOSAL_HEADER.size + rows * PROPOSAL_ROW_BYTES
    if status_bytes < 0 or end + status_bytes != len(frame):
        raise WireError("status_bytes", f"{status_bytes} with {rows} rows does not make {len(frame)} bytes")
    columns = [np.frombuffer(frame, _I32, rows, PROPOSAL_HEADER.size + column * rows * 4) for column in range(3)]
    try:
        status = frame[end:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("status", "not UTF-8") from error
    return Answer(epoch, sequence, decide_us, bool(flags), Proposals(*columns), status)
