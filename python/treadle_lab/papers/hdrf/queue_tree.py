"""The paper's trees as queues of YARN's capacity scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from treadle_lab.minicluster.site import CS, Entries

__all__ = ["queue_tree"]


def queue_tree(groups: Mapping[str, Iterable[str]], weights: Mapping[str, int] = MappingProxyType({})) -> Entries:
    """Return what capacity-scheduler.xml has of queues: each may use whatever the others leave.

    Args:
        groups: the leaves of each group
        weights: of groups that weigh more than 1; leaves weigh 1
    """
    entries = {f"{CS}root.queues": ",".join(groups)}
    _set_capacities(entries, {f"root.{group}": weights.get(group, 1) for group in groups})
    for group, leaves in groups.items():
        below = list(leaves)
        entries[f"{CS}root.{group}.queues"] = ",".join(below)
        _set_capacities(entries, {f"root.{group}.{leaf}": 1 for leaf in below})
        for leaf in below:
            entries[f"{CS}root.{group}.{leaf}.user-limit-factor"] = "100"
    return entries


def _set_capacities(entries: Entries, weights: Mapping[str, int]) -> None:
    """Set the capacities of siblings, which add up to 100 percent."""
    each = {path: round(100 * weight / sum(weights.values()), 2) for path, weight in weights.items()}
    first = next(iter(each))
    each[first] += 100 - sum(each.values())
    for path, capacity in each.items():
        entries[f"{CS}{path}.capacity"] = f"{capacity:g}"
        entries[f"{CS}{path}.maximum-capacity"] = "100"
