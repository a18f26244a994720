"""However request keys come, move and go, an application's rows lie in the order of priority, id and key."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from treadle import events
from treadle.engine.invented_cluster import Texts, request, rows
from treadle.model.applications import ApplicationTable
from treadle.model.hints import HintTable
from treadle.model.requests import RequestTable
from treadle.model.tables import Names

APPLICATIONS = 3
change = st.fixed_dictionaries(
    {
        "application": st.integers(0, APPLICATIONS - 1),
        "key": st.integers(0, 9),
        "count": st.integers(0, 2),
        "priority": st.integers(-1, 1),
        "allocation_request_id": st.integers(-1, 1),
    }
)
frames = st.lists(st.lists(change, min_size=1, max_size=12), max_size=12)


def listed(apps: ApplicationTable, table: RequestTable, application: int) -> list[tuple[int, ...]]:
    """Return the rows of an application's list; each names the one before it."""
    found, before, row = [], -1, int(apps.at["first_row"][application])
    while row >= 0:
        assert table.at["before"][row] == before
        found.append(tuple(int(table.at[name][row]) for name in ("priority", "allocation_request_id", "key")))
        before, row = row, int(table.at["next"][row])
    return found


@given(frames)
@settings(deadline=None)
def test_the_list_of_rows_is_in_order_whatever_comes_in_a_frame(told: list[list[dict[str, Any]]]) -> None:
    names = Names()
    names.add(events.Names(("",)))
    apps, hints, table = ApplicationTable(1), HintTable(1), RequestTable(1)
    expected: dict[tuple[int, int], tuple[int, int, int]] = {}
    for frame in told:
        given_rows = [request(capability=[1], **row) for row in frame]
        table.apply(rows(events.Requests, Texts(), given_rows), apps, hints, names)
        for row in frame:
            expected.pop((row["application"], row["key"]), None)
            if row["count"]:
                place = row["priority"], row["allocation_request_id"], row["key"]
                expected[row["application"], row["key"]] = place
        table.sweep(apps, hints)
        for application in range(APPLICATIONS):
            mine = sorted(place for at, place in expected.items() if at[0] == application)
            assert listed(apps, table, application) == mine
