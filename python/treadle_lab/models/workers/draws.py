"""Random workers: of a group of eligible ones, and of its part in a partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from treadle_lab.models.kernels import inner
from treadle_lab.models.workers.state import Total

if TYPE_CHECKING:
    from treadle_lab.models.workers.state import Workers


@inner
def below(run: Workers, bound: int) -> int:
    """Return a random number from 0 to below a bound, at most 2^31: xorshift64*."""
    value = run.totals[Total.RANDOM]
    value ^= (value >> 12) & 0xFFFFFFFFFFFFF
    value ^= value << 25
    value ^= (value >> 27) & 0x1FFFFFFFFF
    run.totals[Total.RANDOM] = value
    high = ((value * 2685821657736338717) >> 33) & 0x7FFFFFFF
    return (high * bound) >> 31


@inner
def size(run: Workers, group: int) -> int:
    """Return how many workers a group has."""
    return run.member_start[group + 1] - run.member_start[group]


@inner
def long_part(run: Workers, group: int) -> int:
    """Return where a group's members of the long partition begin; all are taken if there is none."""
    short_only = run.short_only[group]
    return run.member_start[group] + (0 if short_only == size(run, group) else short_only)


@inner
def draw_of_first(run: Workers, group: int, count: int) -> int:
    """Return a random worker of some at the front of a group."""
    return run.members[run.member_start[group] + below(run, count)]


@inner
def draw(run: Workers, group: int) -> int:
    """Return a random worker of a group."""
    return draw_of_first(run, group, size(run, group))


@inner
def draw_long_part(run: Workers, group: int) -> int:
    """Return a random worker of a group in the long partition, or of all of the group if it has none there."""
    start = long_part(run, group)
    return run.members[start + below(run, run.member_start[group + 1] - start)]


@inner
def short_part(run: Workers, group: int) -> int:
    """Return how many workers a group has in front of the long partition; all of them if it has none there."""
    short_only = run.short_only[group]
    return short_only if short_only > 0 else size(run, group)


@inner
def is_marked(run: Workers, at: int, worker: int) -> bool:
    """Whether a map says that a worker has long work."""
    return (run.long_maps[at, worker >> 3] >> (worker & 7)) & 1 != 0


@inner
def draw_unmarked(run: Workers, group: int, at: int) -> int:
    """Return a random worker of a group that has no long work as far as a map says; -1 if there is none.

    Those in front of the long partition never have any, but a group without one in it has long work there too.
    """
    for _ in range(64):
        worker = draw(run, group)
        if not is_marked(run, at, worker):
            return worker
    start, end = run.member_start[group], run.member_start[group + 1]
    found = 0
    for place in range(start, end):
        found += 0 if is_marked(run, at, run.members[place]) else 1
    if found == 0:
        return -1
    wanted = below(run, found)
    for place in range(start, end):
        if not is_marked(run, at, run.members[place]):
            if wanted == 0:
                return run.members[place]
            wanted -= 1
    return -1
