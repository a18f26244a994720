"""The fixed first bytes of a frame and of a proposal frame."""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from treadle.wire.errors import WireError
from treadle.wire.schema import FRAME_MAGIC, VERSION, FrameFlag

FRAME_HEADER: Final = Struct("<4sHHqqqiiHHI")
SECTION_HEADER: Final = Struct("<HHII")

RESOURCES_MAX: Final = 64
"""More resource types than any cluster has: a header that says more is malformed."""

_ALL_FLAGS: Final = int(FrameFlag.SNAPSHOT | FrameFlag.MORE | FrameFlag.OBSERVE)


class FrameHeader(NamedTuple):
    """What a frame says of itself; magic, version, section count and length are left to encoder and decoder."""

    flags: int
    """Bits of `FrameFlag`."""
    epoch: int
    sequence: int
    rm_time_ms: int
    """The RM's clock, milliseconds since 1970."""
    configuration: int
    limit: int
    """The most proposals that the answer may hold."""
    resources: int
    """R, the number of resource types."""

    @property
    def snapshot(self) -> bool:
        """Does the frame start a snapshot?"""
        return bool(self.flags & FrameFlag.SNAPSHOT)

    @property
    def more(self) -> bool:
        """Does another part follow, so that no proposals are wanted yet?"""
        return bool(self.flags & FrameFlag.MORE)

    @property
    def observe(self) -> bool:
        """Will nothing that is proposed be committed?"""
        return bool(self.flags & FrameFlag.OBSERVE)


def read_frame_header(frame: bytes) -> tuple[FrameHeader, int]:
    """Return the header of a frame and the number of its sections.

    Raises:
        WireError: the bytes cannot be a frame; it names the field.
    """
    if len(frame) < FRAME_HEADER.size:
        raise WireError("header", f"{len(frame)} bytes, a header has {FRAME_HEADER.size}")
    magic, version, flags, epoch, sequence, time_ms, configuration, limit, resources, sections, length = (
        FRAME_HEADER.unpack_from(frame)
    )
    if magic != FRAME_MAGIC:
        raise WireError("magic", f"{magic!r} instead of {FRAME_MAGIC!r}")
    if version != VERSION:
        raise WireError("version", f"{version}, this engine speaks {VERSION}: use the jar and the wheel of one release")
    if flags & ~_ALL_FLAGS:
        raise WireError("flags", f"{flags:#x} has bits of no meaning")
    if length != len(frame):
        raise WireError("length", f"{length} in the header, {len(frame)} bytes in the frame")
    if sequence < 1:
        raise WireError("sequence", f"{sequence} is below 1")
    if limit < 0:
        raise WireError("limit", f"{limit} is below 0")
    if not 1 <= resources <= RESOURCES_MAX:
        raise WireError("resources", f"{resources} is not in 1 to {RESOURCES_MAX}")
    return FrameHeader(flags, epoch, sequence, time_ms, configuration, limit, resources), sections


def write_frame_header(header: FrameHeader, sections: int, length: int) -> bytes:
    """Return the bytes of a header; ``length`` counts the whole frame, header included."""
    return FRAME_HEADER.pack(
        FRAME_MAGIC,
        VERSION,
        header.flags,
        header.epoch,
        header.sequence,
        header.rm_time_ms,
        header.configuration,
        header.limit,
        header.resources,
        sections,
        length,
    )
