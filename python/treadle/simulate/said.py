"""Warnings of runs, each as often as it is news."""

from __future__ import annotations

from collections.abc import Iterable


def by_whom(said: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return who is warned of what, each once; what all of several policies are warned of is the scenario's: of nobody.

    Args:
        said: of each run its policy and a warning, an empty one if there is none
    """
    policies: dict[str, None] = {}
    found: dict[str, dict[str, None]] = {}
    for policy, text in said:
        policies[policy] = None
        if text:
            found.setdefault(text, {})[policy] = None
    every = len(policies) if len(policies) > 1 else -1
    return [(policy, text) for text, whose in found.items() for policy in ([""] if len(whose) == every else whose)]
