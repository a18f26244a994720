"""What can keep a benchmark from giving figures."""

from __future__ import annotations

from treadle.errors import UserError


class BenchError(UserError):
    """The benchmark cannot run or a run gave no result; the text says why and what to do."""
