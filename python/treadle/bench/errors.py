"""What can keep a benchmark from giving figures."""

from __future__ import annotations


class BenchError(Exception):
    """The benchmark cannot run or a run gave no result; the text says why and what to do."""
