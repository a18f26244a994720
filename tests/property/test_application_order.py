"""Applications put in their places one by one stand as if all had been sorted; those in use are those not ended."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import events
from treadle.engine.testing import StringTable, request, rows
from treadle.events import ApplicationState
from treadle.model.hints import HintTable
from treadle.model.queues import MOVED_MAX, ApplicationTable
from treadle.model.requests import RequestTable
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
        table.apply(rows(events.Applications, StringTable(), frame), names)
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
        table.apply(rows(events.Applications, StringTable(), frame), names)
        assert table.in_use().tolist() == sorted({*living, *(row["application"] for row in frame)})
        table.drop_ended()
        living = [at for at in range(table.size) if table.at["state"][at] != ApplicationState.GONE]
        assert table.in_use().tolist() == living


# However request keys come, move and go, an application's rows lie in the order of priority, id and key.

APPLICATIONS = 3
request_change = st.fixed_dictionaries(
    {
        "application": st.integers(0, APPLICATIONS - 1),
        "key": st.integers(0, 9),
        "count": st.integers(0, 2),
        "priority": st.integers(-1, 1),
        "allocation_request_id": st.integers(-1, 1),
    }
)
request_frames = st.lists(st.lists(request_change, min_size=1, max_size=12), max_size=12)


def listed(apps: ApplicationTable, table: RequestTable, application: int) -> list[tuple[int, ...]]:
    """Return the rows of an application's list; each names the one before it."""
    found, before, row = [], -1, int(apps.at["first_row"][application])
    while row >= 0:
        assert table.at["before"][row] == before
        found.append(tuple(int(table.at[name][row]) for name in ("priority", "allocation_request_id", "key")))
        before, row = row, int(table.at["next"][row])
    return found


@given(request_frames)
@settings(deadline=None)
def test_the_list_of_rows_is_in_order_whatever_comes_in_a_frame(told: list[list[dict[str, Any]]]) -> None:
    names = Names()
    names.add(events.Names(("",)))
    apps, table = ApplicationTable(1), RequestTable(1, HintTable(1))
    expected: dict[tuple[int, int], tuple[int, int, int]] = {}
    for frame in told:
        given_rows = [request(capability=[1], **row) for row in frame]
        table.apply(rows(events.Requests, StringTable(), given_rows), apps, names)
        for row in frame:
            expected.pop((row["application"], row["key"]), None)
            if row["count"]:
                place = row["priority"], row["allocation_request_id"], row["key"]
                expected[row["application"], row["key"]] = place
        table.sweep(apps)
        for application in range(APPLICATIONS):
            mine = sorted(place for at, place in expected.items() if at[0] == application)
            assert listed(apps, table, application) == mine
