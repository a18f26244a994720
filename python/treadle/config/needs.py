"""What a policy goes by that the rest of a treadle.yaml must provide."""

from __future__ import annotations

from collections.abc import Iterator

from treadle.config.parts import QUESTIONS
from treadle.config.settings import Settings


def missing(settings: Settings) -> list[str]:
    """Return what is to be set before a policy can do what it promises, a line for each part; empty if all is there."""
    return [
        f"{says}: set {' or '.join(needs)}"
        for says, needs in _going_by_history(settings)
        if not any(_setting(settings, name) for name in needs)
    ]


def unheard(settings: Settings) -> list[str]:
    """Return which parts of a policy have nothing to go by where nobody knows of earlier runs, a line for each."""
    return [f"{says}, of which there are none here" for says, _ in _going_by_history(settings)]


def _going_by_history(settings: Settings) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield, for each part that goes by earlier runs, words that say so and the settings of which one must be there."""
    for part in QUESTIONS:
        chosen = getattr(settings.policy, part)
        needs = chosen.parameters.needs()
        if needs:
            yield f"policy.{part} ({chosen.label}) goes by what is known of earlier runs", needs


def _setting(settings: Settings, name: str) -> object:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)
