"""Which jobs are runs of the same recurring job.

A job that comes back every night has the same user, queue and framework, and a name that differs only in what counts:
a date, a run number, an id. `normalised_name` takes that out, as Graphene does for names such as "LogMiner date [time]"
(OSDI'16, section 7).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

NAME_CHARACTERS_MAX: Final = 1000
"""UTF-16 units of a job's name that count: the shim sends no more, so whoever reads a longer one elsewhere cuts too."""

_TAG = re.compile(r"treadle:[a-z0-9._-]{1,90}")
_WORD = r"(?<![0-9A-Za-z])", r"(?![0-9A-Za-z])"
_TIME = r"\d{2}[:_.-]?\d{2}(?:[:_.-]?\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}:?\d{2})?"
_CHANGING: Final = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}",
        r"(?:application|job)_\d+_\d+",
        rf"(?<!\d)\d{{4}}[-_/.]?\d{{2}}[-_/.]?\d{{2}}(?:[T\s_-]?{_TIME})?(?!\d)",
        r"(?<!\d)\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?!\d)",
        r"(?<!\d)\d{10}(?:\d{3})?(?!\d)",
        rf"{_WORD[0]}(?:0x)?[0-9a-f]{{8,}}{_WORD[1]}",
        r"[-_#(]?\d+\)?\s*\Z",
    )
)
"""What changes from run to run, in the order in which it is taken out: UUIDs, YARN's ids, dates with or without a time,
times, seconds or milliseconds since 1970, long hexadecimal numbers, a number at the end."""

_SEPARATORS = re.compile(r"[\s_\-#./:,;|()\[\]{}\x00-\x1f\x7f]+")


class RecurrenceKey(NamedTuple):
    """What runs of one recurring job have in common."""

    user: str
    queue: str
    """The leaf's own name: job histories often lack the path above it."""
    type: str
    """Upper case, as YARN's application types: MAPREDUCE, TEZ, SPARK."""
    name: str
    """Without what changes from run to run."""

    def digest(self) -> str:
        """Return 32 hexadecimal digits that stand for the key wherever its texts would be too long."""
        content = "\0".join(f"{len(text)}:{text}" for text in self)
        return hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:32]


def user_digest(user: str) -> str:
    """Return 32 hexadecimal digits that stand for a user's name in an index."""
    return RecurrenceKey(user, "", "", "").digest()


def recurrence_key(user: str, queue: str, type_: str, name: str, tags: Sequence[str] = ()) -> RecurrenceKey:
    """Return the key of a job as YARN knows it.

    Args:
        user: who submitted it
        queue: its queue; of a path the last part counts
        type_: the application type
        name: any text of any length
        tags: the application's; one that is ``treadle:KEY`` replaces the name (the first in alphabetical order)
    """
    leaf = storable(queue).rpartition(".")[2]
    for tag in sorted(tags):
        if match := _TAG.fullmatch(tag.lower()):
            return RecurrenceKey(storable(user), leaf, storable(type_).upper(), match[0])
    return RecurrenceKey(storable(user), leaf, storable(type_).upper(), normalised_name(name))


def normalised_name(name: str) -> str:
    """Return a job's name without what changes from run to run, in lower case, words separated by one space each.

    Takes time linear in the name, of which only the first `NAME_CHARACTERS_MAX` count.
    """
    text = unicodedata.normalize("NFC", storable(name))
    for pattern in _CHANGING:
        text = pattern.sub(" ", text)
    return _SEPARATORS.sub(" ", text).strip().lower()


def storable(text: str) -> str:
    """Return a text as every database takes it: well-formed Unicode without NUL, cut at `NAME_CHARACTERS_MAX`."""
    units = text[:NAME_CHARACTERS_MAX].encode("utf-16-le", "surrogatepass")[: 2 * NAME_CHARACTERS_MAX]
    return units.decode("utf-16-le", "replace").replace("\0", " ")
