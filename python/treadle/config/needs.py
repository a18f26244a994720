"""What a policy goes by that the rest of a treadle.yaml must provide."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from treadle.config.part_files import FilePart
from treadle.config.parts import DURATIONS, QUESTIONS, Part
from treadle.config.settings import Policy, Settings


def missing(settings: Settings, policy: str = "policy") -> list[str]:
    """Return the settings that a policy's parts still need to work, a line for each part; empty if none is missing.

    Args:
        settings: what is followed
        policy: where the policy stands in the file; each line begins with a field of it
    """
    lines = [
        f"{says}: set {' or '.join(needs)}"
        for says, needs in _going_by_history(settings, policy)
        if not any(_setting(settings, name) for name in needs)
    ]
    gate, estimate = settings.policy.gate, settings.policy.estimate
    if gate.kind.traits.keeper is not None and not estimate.kind.traits.knows_durations:
        lines.append(
            f"{policy}.gate ({gate.label}) samples how long tasks take, and {policy}.estimate ({estimate.label}) knows "
            f"no durations: set {policy}.estimate"
        )
    return lines


def idle_parts(policy: Policy, from_files: Collection[str] = (), at: str = "policy") -> list[str]:
    """Return which parts of a policy do less together than they seem to, a line for each.

    Args:
        policy: the policy
        from_files: its parts that are from a user's file, of which nobody knows what they go by
        at: where it stands in the file; each line begins with a field of it
    """
    gate, estimate = policy.gate, policy.estimate
    goers = [part for part in ("order", "fit") if _goes_by_durations(getattr(policy, part))]
    lines = []
    if "estimate" not in from_files and not estimate.kind.traits.knows_durations:
        lines += [
            f"{at}.{part} ({getattr(policy, part).label}) goes by durations, and {at}.estimate ({estimate.label}) "
            f"knows none: each task counts alike; set {at}.estimate"
            for part in goers
        ]
    elif not (goers or from_files or gate.kind.traits.keeper):
        lines.append(f"{at}.estimate ({estimate.label}) has no effect: no other part goes by durations")
    if estimate.kind.traits.uses_keeper and gate.kind.traits.keeper is None and "gate" not in from_files:
        lines.append(
            f"{at}.estimate ({estimate.label}) goes by pilots, and {at}.gate ({gate.label}) runs none: set {at}.gate"
        )
    return lines


def unheard(settings: Settings) -> list[str]:
    """Return which parts of a policy have nothing to go by where nobody knows of earlier runs, a line for each."""
    return [f"{says}, of which there are none here" for says, _ in _going_by_history(settings)]


def in_simulation(settings: Settings, *, hinted: bool) -> list[str]:
    """Return which parts of a policy do less in a simulation than they seem to, a line for each.

    Args:
        settings: with the policy
        hinted: whether jobs come with hints about their tasks, as a history gives them
    """
    policy = settings.policy
    from_files = [part for part in QUESTIONS if isinstance(getattr(policy, part).parameters, FilePart)]
    return [*([] if hinted else unheard(settings)), *idle_parts(policy, from_files)]


def _goes_by_durations(part: Part) -> bool:
    return DURATIONS in part.kind.traits.estimates and part.parameters.goes_by_estimates()


def _going_by_history(settings: Settings, policy: str = "policy") -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield, for each part that goes by earlier runs, words that say so and the settings of which one must be there."""
    for part in QUESTIONS:
        chosen = getattr(settings.policy, part)
        needs = chosen.parameters.needs()
        if needs:
            yield f"{policy}.{part} ({chosen.label}) goes by what is known of earlier runs", needs


def _setting(settings: Settings, name: str) -> object:
    section, _, key = name.partition(".")
    return getattr(getattr(settings, section), key)
