"""What a policy goes by that the rest of a treadle.yaml must provide."""

from __future__ import annotations

from treadle.config.parts import QUESTIONS
from treadle.config.settings import Settings


def missing(settings: Settings) -> list[str]:
    """Return what is to be set before a policy can do what it promises, a line for each part; empty if all is there."""
    lines = []
    for part in QUESTIONS:
        chosen = getattr(settings.policy, part)
        needs = chosen.parameters.needs()
        if needs and not any(_setting(settings, name) for name in needs):
            lines.append(
                f"policy.{part} ({chosen.label}) goes by what is known of earlier runs: set {' or '.join(needs)}"
            )
    return lines


def _setting(settings: Settings, name: str) -> object:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)
