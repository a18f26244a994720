"""The decision engine, and the invented cluster on which it warms up and tries policies."""

from treadle.engine.engine import Engine

__all__ = ["Engine"]
