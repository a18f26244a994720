from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from treadle_lab.fairness.algorithms import ALGORITHMS, MAX_SERVERS, ServerClass, allocate_whole, total_capacity
from treadle_lab.fairness.fluid import Group, Leaf, Tree, TreeError


def leaf(name: str, tasks: int | None = None, **demand: float) -> Leaf:
    return Leaf(name, {resource: Fraction(amount) for resource, amount in demand.items()}, tasks=tasks)


def servers(count: int, **capacity: float) -> ServerClass:
    return ServerClass(count, {resource: Fraction(amount) for resource, amount in capacity.items()})


def run(
    classes: list[ServerClass], *leaves: Leaf, algorithm: str = "hdrf", headroom: bool = False
) -> Mapping[str, Fraction]:
    tree = Tree(total_capacity(classes), Group("root", leaves))
    return allocate_whole(tree, classes, algorithm, headroom=headroom).tasks


def test_tasks_are_whole_and_stay_on_one_server() -> None:
    assert run([servers(3, cpu=5)], leaf("a", cpu=3), leaf("b", cpu=3)) == {"a": 2, "b": 1}


def test_a_task_larger_than_every_server_never_runs_and_holds_nobody_back() -> None:
    assert run([servers(3, cpu=5)], leaf("a", cpu=6), leaf("b", cpu=1)) == {"a": 0, "b": 15}


def test_a_child_that_fits_nowhere_does_not_make_its_group_look_poor() -> None:
    """Its share stays 0; were it not blocked, it would rescale its siblings to nothing."""
    classes = [servers(1, cpu=10)]
    group = Group("n1", (leaf("n1.1", cpu=11), leaf("n1.2", cpu=1)))
    tree = Tree(total_capacity(classes), Group("root", (group, leaf("n2", cpu=1))))
    assert allocate_whole(tree, classes, "hdrf").tasks == {"n1.1": 0, "n1.2": 5, "n2": 5}


def test_classes_of_servers_differ() -> None:
    classes = [servers(2, cpu=4, gpu=0), servers(1, cpu=4, gpu=4)]
    assert run(classes, leaf("a", cpu=1), leaf("b", cpu=1, gpu=1)) == {"a": 9, "b": 3}


def test_headroom_keeps_the_room_of_the_largest_task() -> None:
    """Memory by 1.5 GB: without headroom the small tasks' last gigabyte ends where a large one would have fitted."""
    classes = [servers(4, memory=6)]
    small, large = leaf("small", memory=1), leaf("large", memory=1.5)
    free = run(classes, small, large)
    kept = run(classes, small, large, headroom=True)
    assert free == {"small": 12, "large": 8}
    assert kept == {"small": 11, "large": 8}


def test_headroom_ignores_tasks_that_fit_no_server_and_leaves_without_tasks() -> None:
    classes = [servers(2, cpu=4)]
    assert run(classes, leaf("a", cpu=1), leaf("huge", cpu=5), headroom=True) == {"a": 8, "huge": 0}
    assert run(classes, leaf("a", cpu=1), leaf("done", tasks=1, cpu=3), headroom=True) == {"a": 5, "done": 1}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_places_whole_tasks(algorithm: str) -> None:
    tasks = run([servers(2, cpu=4, gpu=4)], leaf("a", cpu=1), leaf("b", gpu=1, tasks=3), algorithm=algorithm)
    assert tasks == {"a": 8, "b": 3}


def test_tasks_that_need_nothing_all_run() -> None:
    assert run([servers(1, cpu=2)], leaf("idle", tasks=10**9, cpu=0), leaf("b", cpu=1)) == {"idle": 10**9, "b": 2}


def test_too_many_servers_are_refused() -> None:
    with pytest.raises(TreeError, match="write them as one pool"):
        run([servers(MAX_SERVERS + 1, cpu=1)], leaf("a", cpu=1))
