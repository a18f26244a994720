"""The decision engine, and a synthetic cluster for warm-up and policy checks."""

from treadle.engine.engine import Engine as Engine
