"""The tags of applications that Treadle reads besides requirements, and what is wrong with those that it cannot read.

A tag ``treadle:NAME`` without ``=`` names a recurring job (docs/slearn.md), and may be any name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from treadle.constraints.choices import PREFER, REQUIRE
from treadle.words import counted, nearest

GANG: Final = "treadle:gang="
"""A tag that begins so says how many containers of an application are placed together or not at all."""

GANG_BOUND: Final = 513
"""One more than one transaction may have: so many can never be had together."""

WORKERS: Final = "treadle:workers="
"""A tag that begins so says how many tasks of a MapReduce job run at a time."""

_KNOWN: Final = (GANG, PREFER, REQUIRE, WORKERS)
_BEGIN: Final = "treadle:"
_RECURRING: Final = re.compile(r"treadle:[a-z0-9._-]{1,90}")
_VALUE_SHOWN_MAX: Final = 40
_NAMED_MAX: Final = 8
"""Different tags that are warned of, at most."""


def gang_of(tags: Collection[str]) -> int:
    """Return how many containers a tag wants together, the most of several; 0 without one, and for what is no number.

    What is more than `GANG_BOUND` is returned as that.
    """
    wanted = [tag.removeprefix(GANG) for tag in tags if tag.startswith(GANG)]
    return max((min(int(each), GANG_BOUND) for each in wanted if each.isascii() and each.isdigit()), default=0)


def miscounted(tags: Iterable[str]) -> str:
    """Return what is wrong with the tags that should have a number; empty if nothing is."""
    for tag in sorted(tags):
        name, _, value = tag.partition("=")
        if f"{name}=" in (GANG, WORKERS) and not (value.isascii() and value.isdigit()):
            shown = value[:_VALUE_SHOWN_MAX]
            return f"{name}: {shown!r} is no whole number; write one, as {name}=4, or take the tag out"
    return ""


def misread(tags: Collection[str]) -> str:
    """Return what is wrong with one application's tags that begin as Treadle's do; empty if nothing is."""
    unread = sorted(tag for tag in tags if not _is_read(tag))
    return miscounted(tags) or (f"tag {unread[0][:100]!r}: {_not_read(unread[0])}" if unread else "")


def unread_tags(jobs: Iterable[Collection[str]]) -> list[str]:
    """Return a line for each tag of jobs that looks like one of Treadle's and is none."""
    found = Counter(tag for tags in jobs for tag in set(tags) if tag.lower().startswith(_BEGIN))
    unread = {tag: count for tag, count in sorted(found.items()) if not _is_read(tag)}
    lines = [_line(tag, count) for tag, count in list(unread.items())[:_NAMED_MAX]]
    more = len(unread) - len(lines)
    return [*lines, f"{counted(more, 'more tag')} that Treadle does not read"] if more else lines


def _is_read(tag: str) -> bool:
    name = tag[: tag.find("=") + 1]
    return name in (GANG, WORKERS) or name.lower() in (PREFER, REQUIRE) or bool(_RECURRING.fullmatch(tag.lower()))


def _line(tag: str, count: int) -> str:
    return f"tag {tag[:100]!r} of {counted(count, 'job')}: {_not_read(tag)}"


def _not_read(tag: str) -> str:
    name = f"{tag.partition('=')[0]}="
    says = f"Treadle reads no {name[:100]}"
    known = [each.removeprefix(_BEGIN).removesuffix("=") for each in _KNOWN]
    return says + (nearest(name[len(_BEGIN) : -1].lower(), known) or f"; it reads {', '.join(_KNOWN)}")
