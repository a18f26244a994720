"""Settings that have another name now: the old one goes on working, with a warning that gives the new one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from treadle.config.errors import Problem
from treadle.config.parts import DEFAULTS
from treadle.config.yaml_nodes import Path, YamlDocument

KINDS: Final[Mapping[tuple[str, str], str]] = MappingProxyType({("estimate", "told"): "hints"})
"""Kinds of parts: the part and the old name of its kind, the new name."""

PARAMETERS: Final[Mapping[tuple[str, str, str], str]] = MappingProxyType(
    {("estimate", "combined", "told_error"): "hint_error"}
)
"""Parameters of parts: the part, its kind and the parameter's old name, its new name."""


def kind_now(part: str, name: str) -> str:
    """Return what a kind of a part is called now."""
    return KINDS.get((part, name), name)


def parameters_now(part: str, kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part's parameters by the names that they have now; ``kind`` is named as now.

    An old name that stands beside its new one is left as it is: it is refused as unknown.
    """
    now = {name: PARAMETERS.get((part, kind, name), name) for name in given}
    return {name if new != name and new in given else new: given[name] for name, new in now.items()}


def old_names(document: YamlDocument) -> Iterator[Problem]:
    """Return where a treadle.yaml uses an old name, and what to write."""
    for place, policy in policies(document.value):
        yield from _old_in(document, place, policy)


def policies(root: Any) -> Iterator[tuple[Path, Any]]:
    """Yield what each `policy:` in a treadle.yaml says, checked by nobody, with the path to where it stands."""
    if not isinstance(root, dict):
        return
    yield (), root.get("policy")
    entries = root.get("engines")
    for name, entry in entries.items() if isinstance(entries, dict) else ():
        if isinstance(entry, dict):
            yield ("engines", str(name)), entry.get("policy")


def _old_in(document: YamlDocument, place: Path, policy: Any) -> Iterator[Problem]:
    for part, chosen in policy.items() if isinstance(policy, dict) else ():
        if not isinstance(part, str) or not isinstance(chosen, dict):
            continue
        name = str(chosen.get("kind", DEFAULTS.get(part, "")))
        kind = kind_now(part, name)
        path = (*place, "policy", part)
        if kind != name:
            yield document.problem((*path, "kind"), f"{name!r} is called {kind!r} now; write that")
        for key in chosen:
            new = PARAMETERS.get((part, kind, str(key)))
            if new is not None and new not in chosen:
                yield document.problem((*path, str(key)), f"is called `{new}` now; write that")
