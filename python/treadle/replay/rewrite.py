"""Decides recordings again and writes down the results: expected answers are renewed, names are replaced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path

from treadle.errors import UserError
from treadle.files import write_whole
from treadle.record.chunks import ChunkWriter, RecordingError
from treadle.record.hashes import engine_hash, schema_hash, versions
from treadle.record.reader import NOT_FROM_START, RecordedSegment, open_all
from treadle.record.ticks import (
    Reading,
    SettingsText,
    Tick,
    segment_record,
    settings_record,
    tick_record,
)
from treadle.replay.again import SessionAgain
from treadle.wire.page import document


@dataclass(frozen=True, slots=True)
class Names:
    """How names are replaced: in frames, in texts of settings."""

    frame: Callable[[bytes], bytes]
    settings: Callable[[SettingsText], SettingsText]


@dataclass(slots=True)
class Rewritten:
    """What was decided again."""

    segments: int = 0
    ticks: int = 0
    different: int = 0
    """Answers that are not as they were."""
    missing: bool = False
    """Is a segment missing, or can nothing of it be read?"""
    notes: list[str] = field(default_factory=list)


def renew(files: Sequence[Path], *, trust_code: bool = False) -> Rewritten:
    """Replace the expected answers of segments, in place, by those of this engine.

    Raises:
        RecordingError: one is no recording, is not whole or does not lead back to the start of its sidecar, and nothing
            is written; or it cannot be replayed or written, and is left as it is.
    """
    refused, notes = set(files), list[str]()
    for recorded in open_all(files, notes):
        refused.discard(recorded.path)
        for _ in recorded.ticks:
            pass
        _refuse_damaged(recorded)
        if not recorded.from_start:
            notes.append(f"{recorded.path.name}: {NOT_FROM_START}")
            refused.add(recorded.path)
    if refused:
        raise RecordingError(f"nothing is renewed: {'; '.join(notes)}. Copy the others, and renew the copies")
    done, again = Rewritten(), None
    for recorded in open_all(files, done.notes):
        again = _session(recorded, again, trust_code=trust_code)
        content = _written(recorded, again, done, None)
        _refuse_damaged(recorded)
        try:
            write_whole(recorded.path, content)
        except OSError as error:
            reason = f"{error.strerror}; it is as it was. Let its folder be written, or renew a copy"
            raise RecordingError(f"{recorded.path}: cannot be written: {reason}") from error
    return done


def _session(recorded: RecordedSegment, before: SessionAgain | None, *, trust_code: bool) -> SessionAgain:
    """Return the session that takes a segment: that of the one which it follows, or a new one."""
    if before is not None and recorded.follows:
        return before
    return SessionAgain(recorded, trust_code=trust_code)


def _refuse_damaged(recorded: RecordedSegment) -> None:
    """Refuse to replace a segment by the part of it that can be read, or one that is still being written."""
    if not recorded.whole:
        remedy = (
            "`treadle record show` says which segments are whole: copy these to another folder, and renew them there"
        )
        raise RecordingError(f"{recorded.path} is not renewed: {'; '.join(recorded.notes)}. {remedy}")


def rename(files: Sequence[Path], folder: Path, names: Names, *, trust_code: bool = False) -> Rewritten:
    """Write segments with other names into a folder, decided again under these names.

    The first begins with an engine that has learned nothing, and so does each that does not follow the one before: the
    answers become those of such an engine.

    Raises:
        RecordingError: one is no recording, or cannot be replayed.
        UserError: the folder is not empty, or cannot be written.
    """
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        if any(folder.iterdir()):
            raise UserError(f"{folder} is not empty; name another folder")
        done, before, missing = Rewritten(), None, list[str]()
        for recorded in open_all(files, missing):
            recorded.settings = names.settings(recorded.settings)
            before = _session(recorded, before, trust_code=trust_code)
            content = _written(recorded, before, done, names)
            write_whole(folder / recorded.path.name, content)
        done.missing = bool(missing)
        done.notes[:0] = missing
    except OSError as error:
        raise UserError(f"{error.filename or folder}: {error.strerror}") from error
    return done


def _written(recorded: RecordedSegment, again: SessionAgain, done: Rewritten, names: Names | None) -> bytes:
    """Return the content of a segment that is decided again; it says that it is whole if what was read is."""
    segment = replace(
        recorded.segment,
        engine_hash=engine_hash(),
        schema_hash=schema_hash(),
        schema=document(),
        versions=versions(),
        fresh=not recorded.follows,
        anonymised=recorded.segment.anonymised or names is not None,
    )
    stream = BytesIO()
    writer = ChunkWriter(stream)
    writer.write(segment_record(segment))
    head, body = settings_record(recorded.settings)
    writer.write(head, *body)
    for tick in recorded.ticks:
        mine = tick if names is None else _renamed(tick, names)
        answer = again.take(mine)
        done.ticks += 1
        done.different += answer != tick.answer
        head, body = tick_record(replace(mine, answer=answer))
        writer.write(head, *body)
        if writer.waiting > 1 << 20:
            writer.flush()
    if recorded.whole:
        writer.write({"kind": "end", "why": "written again"})
    writer.flush()
    done.segments += 1
    done.notes += [f"{recorded.path.name}: {note}" for note in recorded.notes]
    return stream.getvalue()


def _renamed(tick: Tick, names: Names) -> Tick:
    """Return a tick with other names; what is only said to people is left out."""
    reading = tick.reading
    if reading is not None:
        source = names.settings(SettingsText(reading.source, "")).source
        reading = Reading(source, "refused" if reading.refusal else "", reading.name)
    known = None if tick.known is None else ""
    warnings = None if tick.warnings is None else ()
    return replace(tick, frame=names.frame(tick.frame), reading=reading, known=known, warnings=warnings)
