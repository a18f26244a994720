"""Whether a policy goes with a scenario's queues: what its trees of shares name, beside the leaves that there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from treadle.config.engines import lost_queues
from treadle.config.errors import lines_of
from treadle.config.settings import Settings
from treadle.config.yaml_nodes import YamlDocument
from treadle.errors import UserError
from treadle.policy.shares.tree import TreeNode, TreeParameters
from treadle.simulator.jobs import leaves_of
from treadle.simulator.scenario import Scenario
from treadle.words import nearest

SHOWN_MAX = 20


def check_trees(settings: Settings, scenario: Scenario, file: str) -> None:
    """See that each tree that a policy shares by names at least one leaf of the scenario.

    Raises:
        UserError: one names none: it would share nothing, and all queues would get what is left.
    """
    leaves = leaf_paths(scenario)
    for where, names in named_queues(settings):
        if names and not set(names) & set(leaves):
            raise UserError(
                f"{where}: the tree names no leaf queue of {file}, which are {_shown(leaves)}; "
                f"it names {_shown(names)}; write the leaves' paths"
            )


def queue_problems(settings: Settings, scenario: Scenario) -> tuple[list[str], list[str]]:
    """Return what is wrong with what a policy says of a scenario's queues, and of what else to warn."""
    leaves = leaf_paths(scenario)
    wrong, warnings = [], []
    for where, names in named_queues(settings):
        for name in names:
            if name not in leaves:
                hint = nearest(name, leaves) or f"; they are {_shown(leaves)}"
                wrong.append(f"{where}: {name} is no leaf queue of the scenario{hint}")
        if names:
            warnings += [
                f"{where}: the tree does not name {leaf}, which gets only what the others leave"
                for leaf in leaves
                if leaf not in names
            ]
    return [*wrong, *_lost(settings, scenario, leaves)], warnings


def _lost(settings: Settings, scenario: Scenario, leaves: list[str]) -> list[str]:
    """Return which queues of engines' selectors are none of the scenario's."""
    known = {leaf[: at + 1].removesuffix(".") for leaf in leaves for at in range(len(leaf)) if leaf[at] == "."}
    found = list(lost_queues(settings.engines, {*leaves, *known}))
    if settings.source is None or scenario.engines:
        return [f"{'.'.join(path)}: {text}" for path, text in found]
    document = YamlDocument(settings.source.file, settings.source.text)
    return lines_of(document.file, [document.problem(path, text) for path, text in found])


def leaf_paths(scenario: Scenario) -> list[str]:
    """Return the paths of a scenario's leaves, from ``root`` on."""
    return [f"root.{leaf}" for leaf in leaves_of(scenario)]


def named_queues(settings: Settings) -> Iterator[tuple[str, list[str]]]:
    """Yield, for each tree of a policy or of its engines' policies, where it stands and the leaves that it names."""
    file = f"{settings.source.file}: " if settings.source else ""
    entries: Mapping[str, Settings] = settings.entries or {"": settings}
    for name, each in entries.items():
        parameters = each.policy.share.parameters
        if isinstance(parameters, TreeParameters):
            at = f"engines.{name}.policy.share.tree" if name else "policy.share.tree"
            yield f"{file}{at}", list(_leaves(parameters.tree))


def _leaves(tree: Mapping[str, TreeNode]) -> Iterator[str]:
    for name, node in tree.items():
        if node.children:
            yield from _leaves(node.children)
        else:
            yield node.queue or name


def _shown(names: list[str]) -> str:
    more = ", ..." if len(names) > SHOWN_MAX else ""
    return ", ".join(names[:SHOWN_MAX]) + more
