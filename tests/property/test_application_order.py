"""Applications put in their places one by one stand as if all had been sorted; those in use are those not ended."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import events
from treadle.engine.invented_cluster import Texts, rows
from treadle.events import ApplicationState
from treadle.model.applications import MOVED_MAX, ApplicationTable
from treadle.model.tables import Names

QUEUES = 4
change = st.fixed_dictionaries(
    {
        "application": st.integers(0, 40),
        "queue": st.integers(0, QUEUES),
        "priority": st.integers(0, 2),
        "id": st.integers(0, 3),
        "attempt": st.integers(1, 2),
        "state": st.integers(0, 2),
    }
)
frames = st.lists(st.lists(change, max_size=MOVED_MAX + 3, unique_by=lambda row: row["application"]), max_size=12)


@given(frames)
@settings(deadline=None)
def test_the_order_is_that_of_sorting_all(told: list[list[dict[str, Any]]]) -> None:
    names = Names()
    names.add(events.Names(("",)))
    table = ApplicationTable(2)
    table.queues_changed(QUEUES)
    table.sort()
    for frame in told:
        table.apply(rows(events.Applications, Texts(), frame), names)
        table.sort()
        listed, first = table.leaf_applications.tolist(), table.leaf_first.tolist()
        assert table.rank[listed].tolist() == list(range(len(listed)))
        table.queues_changed(QUEUES)
        table.sort()
        assert (listed, first) == (table.leaf_applications.tolist(), table.leaf_first.tolist())


@given(frames)
@settings(deadline=None)
def test_in_use_are_those_that_have_not_ended_and_those_that_ended_since_it_was_asked(
    told: list[list[dict[str, Any]]],
) -> None:
    names = Names()
    names.add(events.Names(("",)))
    table = ApplicationTable(2)
    living: list[int] = []
    for frame in told:
        table.apply(rows(events.Applications, Texts(), frame), names)
        assert table.in_use().tolist() == sorted({*living, *(row["application"] for row in frame)})
        table.drop_ended()
        living = [at for at in range(table.size) if table.at["state"][at] != ApplicationState.GONE]
        assert table.in_use().tolist() == living
    del table._in_use  # as in a recording that was made before it was kept
    assert table.in_use().tolist() == living
