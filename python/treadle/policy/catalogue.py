"""All built-in parts of policies.

A program that reads a treadle.yaml calls `register_parts` and then knows all of them, whatever else it has imported.
"""

from __future__ import annotations

from typing import Final

from treadle.config.parts import PARTS, PartRegistry
from treadle.policy import fair_finish, mapreduce, node_search, orders, parts, phoenix, user_parts  # noqa: F401
from treadle.policy.shares import rules  # noqa: F401 (it imports the shares)
from treadle.policy.slearn import estimates, gate  # noqa: F401

BUILTIN_PARTS: Final = tuple(parts.BUILTIN_PARTS)


def register_parts(registry: PartRegistry = PARTS) -> None:
    """Register the built-in parts that the registry does not contain yet."""
    for own in BUILTIN_PARTS:
        if not registry.has(own.part, own.kind):
            registry.register(own.part, own.kind, own.parameters, own.traits)(own.make)
