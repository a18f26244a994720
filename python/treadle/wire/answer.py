"""Proposal frames: the engine's answers and their status text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from treadle.events import NOTHING_HELD, WIRE_VERSION, Held, Proposals
from treadle.wire.frames import ProposalFlag, VersionError, WireError

_TEXT_MAX: Final = 400
_TEXT_MIN: Final = 100
"""Maximum length of a text in characters: normally, and if the texts do not fit."""
_WARNINGS_MAX: Final = 8
_APPS_MAX: Final = 16
"""Maximum number of applications with texts in a status; fewer if their texts are long."""
_APP_TEXT_MAX: Final = 200
_CUT: Final = "the status is too long: applications, warnings or ends of texts are left out of it"


@dataclass
class Status:
    """The engine's status in an answer, which the ResourceManager shows next to its metrics."""

    policy: str
    overrides_guarantees: bool = False
    """Whether the policy ignores queue capacities. The preemption monitor must then be off."""
    overrides_order: bool = False
    """Whether the policy ignores the queues' ordering policies. Preemption inside queues must then be off."""
    configuration: int = 0
    config_error: str = ""
    policy_error: str = ""
    engine_error: str = ""
    frame_error: str = ""
    """Why frames are rejected; empty again after a valid one."""
    warnings: tuple[str, ...] = ()
    learned: str = ""
    """A short summary of learned values for the running jobs."""
    waits_for: str = ""
    """Why requests that could be served are deliberately held back."""
    keys_for: tuple[str, ...] = ()
    """Application types whose attempt keys the frames should contain."""
    diagnostics: tuple[tuple[int, str], ...] = ()
    """Diagnostics for applications: (index, text)."""
    engines: Mapping[str, Any] = field(default_factory=dict)
    """State of several engines, which the ResourceManager passes through; empty for one engine."""
    _sent: str = ""

    BYTES_MAX: ClassVar[int] = 65_536
    """Maximum size of a status; each character of its texts takes at most 12 bytes."""
    ENGINES_BYTES_MAX: ClassVar[int] = 8192
    """The state of several engines is omitted above this size."""

    def changed(self) -> str:
        """Return the JSON text if it differs from the last one returned, else an empty text."""
        text = self._text()
        if text == self._sent:
            return ""
        self._sent = text
        return text

    def forget_sent(self) -> None:
        """Send the status again: a new connection may not have it."""
        self._sent = ""

    def _text(self) -> str:
        """Return the JSON text; if it is too long, diagnostics are cut first, and a warning says so."""
        fits = len(json.dumps(self.engines)) <= self.ENGINES_BYTES_MAX
        text = self._json(_APPS_MAX, _TEXT_MAX, self.warnings if fits else (_CUT, *self.warnings), fits)
        for most, text_max in ((4, _TEXT_MAX), (0, _TEXT_MAX), (0, _TEXT_MIN)):
            if len(text) > self.BYTES_MAX:
                text = self._json(most, text_max, (_CUT, *self.warnings), fits)
        return text

    def _json(self, most: int, text_max: int, warnings: tuple[str, ...], engines: bool) -> str:
        error = "; ".join(filter(None, (self.frame_error, self.config_error, self.policy_error, self.engine_error)))
        return json.dumps(
            {
                "policy": self.policy[:text_max],
                "overrides_guarantees": self.overrides_guarantees,
                "overrides_order": self.overrides_order,
                "configuration": self.configuration,
                "error": error[:text_max] or None,
                "learned": self.learned[:text_max],
                "waits_for": self.waits_for[:text_max],
                "keys_for": list(self.keys_for),
                "diagnostics": [[application, text[:_APP_TEXT_MAX]] for application, text in self.diagnostics[:most]],
                "warnings": [warning[:text_max] for warning in warnings[:_WARNINGS_MAX]],
            }
            | ({"engines": self.engines} if engines and self.engines else {})
        )


PROPOSAL_MAGIC: Final = b"TRDP"
PROPOSAL_HEADER: Final = Struct("<4sHHqqqii")

PROPOSAL_ROW_BYTES: Final = 12
"""Size of a proposal without a transaction."""
TRANSACTION_BYTES: Final = 4
"""Additional size of its transaction."""
HELD_BYTES_MAX: Final = 1 << 16
"""Maximum size of a column of held indices; indices beyond 524,287 are not listed."""
_HELD_SIZES: Final = Struct("<ii")
_I32: Final = np.dtype("<i4")
_ALL_FLAGS: Final = sum(ProposalFlag)


def rows_within(reply_max_bytes: int, *, transactions: bool) -> int:
    """Return how many proposals fit in an answer next to the longest other parts; negative if those do not fit."""
    row = PROPOSAL_ROW_BYTES + (TRANSACTION_BYTES if transactions else 0)
    others = PROPOSAL_HEADER.size + _HELD_SIZES.size + 2 * HELD_BYTES_MAX + Status.BYTES_MAX
    return (reply_max_bytes - others) // row


class Answer(NamedTuple):
    """A decoded proposal frame."""

    epoch: int
    sequence: int
    """Sequence number of the answered frame."""
    decide_us: int
    """Time spent in the engine."""
    resend: bool
    """The engine lost its state and requests a snapshot."""
    proposals: Proposals
    status: str
    """A JSON object, or empty if nothing changed."""
    again: bool = False
    """More proposals are ready: the ResourceManager should ask again after a tick."""
    unserved: bool = False
    """An application with requests has no responsive engine: this answer does not renew the lease."""
    held: Held = NOTHING_HELD


def encode_answer(answer: Answer) -> bytes:
    """Return the proposal frame of an answer."""
    proposals = answer.proposals
    status = answer.status.encode("utf-8")
    flags = ProposalFlag.RESEND * answer.resend
    flags |= ProposalFlag.AGAIN * answer.again
    flags |= ProposalFlag.UNSERVED * answer.unserved
    columns = [proposals.application, proposals.key, proposals.node]
    if proposals.transaction is not None:
        flags |= ProposalFlag.TRANSACTIONS
        columns.append(proposals.transaction)
    held = b""
    if any(map(len, answer.held)):
        flags |= ProposalFlag.HELD
        bits = [_bits(indices) for indices in answer.held]
        held = _HELD_SIZES.pack(*map(len, bits)) + b"".join(bits)
    header = PROPOSAL_HEADER.pack(
        PROPOSAL_MAGIC,
        WIRE_VERSION,
        flags,
        answer.epoch,
        answer.sequence,
        answer.decide_us,
        len(proposals),
        len(status),
    )
    return b"".join([header, *(np.asarray(column, _I32).tobytes() for column in columns), held, status])


def _bits(indices: npt.NDArray[np.int32]) -> bytes:
    """Return a bit for each index up to the largest one, least significant bit first."""
    inside = indices[indices < 8 * HELD_BYTES_MAX]
    bits = np.zeros(int(inside.max(initial=-1)) + 1, np.uint8)
    bits[inside] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def _held(frame: bytes, at: int) -> tuple[Held, int]:
    """Return the held applications from an offset of a frame, and the end offset."""
    if at + _HELD_SIZES.size > len(frame):
        raise WireError("held", "the answer ends before it")
    sizes = _HELD_SIZES.unpack_from(frame, at)
    at += _HELD_SIZES.size
    if min(sizes) < 0 or max(sizes) > HELD_BYTES_MAX or at + sum(sizes) > len(frame):
        raise WireError("held", f"columns of {sizes[0]} and {sizes[1]} bytes")
    indices = []
    for size in sizes:
        bits = np.unpackbits(np.frombuffer(frame, np.uint8, size, at), bitorder="little")
        indices.append(np.flatnonzero(bits).astype(np.int32))
        at += size
    return Held(*indices), at


def decode_answer(frame: bytes, rows_max: int) -> Answer:
    """Return the content of a proposal frame.

    Raises:
        WireError: it is malformed or has more than ``rows_max`` proposals; the error names the field.
    """
    if len(frame) < PROPOSAL_HEADER.size:
        raise WireError("header", f"{len(frame)} bytes, a header has {PROPOSAL_HEADER.size}")
    magic, version, bits, epoch, sequence, decide_us, rows, status_bytes = PROPOSAL_HEADER.unpack_from(frame)
    if magic != PROPOSAL_MAGIC:
        raise WireError("magic", f"{magic!r} instead of {PROPOSAL_MAGIC!r}")
    if version != WIRE_VERSION:
        raise VersionError("version", f"{version} instead of {WIRE_VERSION}")
    if bits & ~_ALL_FLAGS:
        raise WireError("flags", f"{bits:#x} has bits of no meaning")
    flags = ProposalFlag(bits)
    if not 0 <= rows <= rows_max:
        raise WireError("rows", f"{rows} is not in 0 to {rows_max}")
    count = 4 if flags & ProposalFlag.TRANSACTIONS else 3
    end = PROPOSAL_HEADER.size + rows * count * 4
    held, end = _held(frame, end) if flags & ProposalFlag.HELD else (NOTHING_HELD, end)
    if status_bytes < 0 or end + status_bytes != len(frame):
        raise WireError("status_bytes", f"{status_bytes} with {rows} rows does not make {len(frame)} bytes")
    columns = [np.frombuffer(frame, _I32, rows, PROPOSAL_HEADER.size + column * rows * 4) for column in range(count)]
    if count == 4 and rows and (int(columns[3][0]) < 0 or bool((np.diff(columns[3].astype(np.int64)) < 0).any())):
        raise WireError("transaction", "numbers must be 0 or more, and the rows of a transaction next to each other")
    try:
        status = frame[end:].decode("utf-8")
    except UnicodeDecodeError as error:
        raise WireError("status", "not UTF-8") from error
    proposals = Proposals(*columns)
    resend, again, unserved = (
        bool(flags & flag) for flag in (ProposalFlag.RESEND, ProposalFlag.AGAIN, ProposalFlag.UNSERVED)
    )
    return Answer(epoch, sequence, decide_us, resend, proposals, status, again, unserved, held)
