"""What queues and users may have, and what stands in an ask's way of it; as `treadle.policy.asks` decides it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from treadle.compiled.array_types import I64
from treadle.explain.causes import Cause, Why
from treadle.explain.nodes import in_words
from treadle.explain.situation import Situation
from treadle.model.tables import ASSUMED, BESIDE, GUARANTEED, HEADROOM, LIMIT, MAXIMUM, TOTAL, USED


def queues_up(situation: Situation, leaf: int) -> Iterator[int]:
    """Yield a leaf and the queues above it, up to the root."""
    queue = leaf
    while queue >= 0:
        yield queue
        queue = int(situation.view.queues["parent"][queue])


def queue_causes(situation: Situation, row: int, *, has_nodes: bool) -> Iterator[Cause]:
    """Yield what queues from the leaf to the root have against an ask: no access, too small, or used up.

    Args:
        situation: the model
        row: of the ask
        has_nodes: whether there is a node in its partition, or in one that is lent to it
    """
    view, counted = situation.view, situation.view.counted == 1
    ask, partition = view.capability[row], int(view.rows["partition"][row])
    leaf = int(view.apps["queue"][view.rows["application"][row]])
    upwards = list(queues_up(situation, leaf))
    for child, queue in zip([-1, *upwards], upwards, strict=False):
        amounts = view.limit_amounts[queue, partition]
        # no queue may have anything where there is no node, whatever its settings say
        if not view.limit_known[queue, partition] or not (has_nodes or amounts[MAXIMUM][counted].any()):
            continue
        maximum, path = amounts[MAXIMUM], situation.queue_path(queue)
        left = maximum - amounts[USED] - amounts[ASSUMED]
        needed = situation.amounts(ask)
        if partition and not maximum[counted].any():
            label = situation.partition_name(partition)
            text = f"queue {path} has no access to label {label}: give it a capacity there, or ask without the label"
            yield Cause(Why.LABEL_WITHOUT_ACCESS, text, of=path)
        elif (ask > maximum)[counted].any():
            text = f"the ask is larger than queue {path} may ever be: {in_words(situation.counted_amounts(maximum))}"
            yield Cause(Why.LARGER_THAN_QUEUE, text, needed, situation.amounts(maximum), path)
        elif (ask > left)[counted].any():
            used, most = (situation.counted_amounts(each) for each in (maximum - left, maximum))
            text = f"queue {path} uses {in_words(used)} of its maximum of {in_words(most)}"
            yield Cause(Why.QUEUE_MAXIMUM, text, needed, situation.amounts(np.maximum(left, 0)), path)
        elif (ask > _beside_others(situation, left, child, partition))[counted].any():
            text = f"what is left of queue {path} is guaranteed to queues beside {situation.queue_path(child)}"
            yield Cause(Why.GUARANTEED_TO_OTHERS, f"{text}, which other engines serve", needed, of=path)


def _beside_others(situation: Situation, left: I64, child: int, partition: int) -> I64:
    """Return how much of what is left of a queue a child may take, as `treadle.policy.asks.headroom_under_maxima`."""
    if child < 0:
        return left
    amounts = situation.view.limit_amounts[child, partition]
    own = amounts[GUARANTEED] - amounts[USED] - amounts[ASSUMED]
    return np.where(amounts[BESIDE] > 0, np.minimum(left, np.maximum(left - amounts[BESIDE], own)), left)


def queues_of_all(situation: Situation, row: int) -> set[str]:
    """Return the paths of the queues of an ask that may have as much of its partition as the root has."""
    view, counted = situation.view, situation.view.counted == 1
    partition = int(view.rows["partition"][row])
    queues = list(queues_up(situation, int(view.apps["queue"][view.rows["application"][row]])))
    most = view.limit_amounts[queues[-1], partition, MAXIMUM]
    found = [queue for queue in queues if (view.limit_amounts[queue, partition, MAXIMUM] >= most)[counted].all()]
    return {situation.queue_path(queue) for queue in found}


def user_causes(situation: Situation, row: int) -> Iterator[Cause]:
    """Yield what the user's limit in the leaf has against an ask."""
    view = situation.view
    application, partition = int(view.rows["application"][row]), int(view.rows["partition"][row])
    leaf, name = int(view.apps["queue"][application]), int(view.apps["user"][application])
    user = situation.user(leaf, partition, name)
    whose = situation.texts[name]
    if user < 0:
        yield from _headroom_cause(situation, row, application, whose)
        return
    used = view.user_amounts[user, USED] + view.user_amounts[user, ASSUMED]
    limit = view.user_amounts[user, LIMIT]
    if _grows(situation, user, leaf, partition):
        limit = limit + view.limit_amounts[leaf, partition, ASSUMED]
    counted = situation.view.counted == 1
    if (used > limit)[counted].any() and _dominant(situation, used) >= _dominant(situation, limit):
        text = (
            f"user {whose} has {in_words(situation.counted_amounts(used))} in queue {situation.queue_path(leaf)}, "
            f"whose limit for a user is {in_words(situation.counted_amounts(limit))}"
        )
        left = np.maximum(limit - used, 0)
        yield Cause(Why.USER_LIMIT, text, situation.amounts(view.capability[row]), situation.amounts(left))


def share_of(situation: Situation, leaf: int, partition: int) -> dict[str, float]:
    """Return the dominant shares of a partition that a leaf uses, and that it is guaranteed."""
    view = situation.view
    mine = view.nodes["partition"] == partition
    totals = view.node_amounts[mine & (view.nodes["state"] != 0), TOTAL].sum(axis=0)
    amounts = view.limit_amounts[leaf, partition]
    return {
        "used_share": _share(situation, amounts[USED] + amounts[ASSUMED], totals),
        "guaranteed_share": _share(situation, amounts[GUARANTEED], totals),
    }


def _headroom_cause(situation: Situation, row: int, application: int, whose: str) -> Iterator[Cause]:
    view, counted = situation.view, situation.view.counted == 1
    if not view.apps["has_headroom"][application]:
        return
    left = view.app_amounts[application, HEADROOM] - view.app_amounts[application, ASSUMED]
    if (view.capability[row] > left)[counted].any():
        text = (
            f"the ResourceManager grants user {whose} {in_words(situation.counted_amounts(np.maximum(left, 0)))} more"
        )
        needed = situation.amounts(view.capability[row])
        yield Cause(Why.USER_LIMIT, text, needed, situation.amounts(np.maximum(left, 0)))


def _grows(situation: Situation, user: int, leaf: int, partition: int) -> bool:
    """As `treadle.policy.asks.grows_with_leaf`."""
    view, counted = situation.view, situation.view.counted == 1
    used = view.limit_amounts[leaf, partition, USED][counted]
    if (view.user_amounts[user, LIMIT][counted] < used).any():
        return False
    return bool((used >= view.limit_amounts[leaf, partition, GUARANTEED][counted]).any())


def _dominant(situation: Situation, amounts: I64) -> float:
    view = situation.view
    totals = view.node_amounts[view.nodes["state"] != 0, TOTAL].sum(axis=0)
    return _share(situation, amounts, totals)


def _share(situation: Situation, amounts: I64, totals: I64) -> float:
    counts = (situation.view.counted == 1) & (totals > 0)
    return float((amounts[counts] / totals[counts]).max()) if counts.any() else 0.0
