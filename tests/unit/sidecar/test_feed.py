"""What one engine of several receives beside rows."""

from __future__ import annotations

from treadle.events import Names, Snapshot
from treadle.sidecar.mirror import Feed, Mirror


def test_a_text_with_an_index_of_before_is_read_once_by_each() -> None:
    mirror = Mirror()
    first, second = Feed(mirror), Feed(mirror)
    mirror.take([Snapshot(1), Names(("", "a", "b"))])
    assert first.read()[:2] == [Snapshot(1), Names(("", "a", "b"))]
    mirror.take([Names(("c", "d"), (1, 3))])
    assert first.read() == [Names(("c", "d"), (1, 3))]
    mirror.take([Names(("e",), (1,))])
    assert first.read() == [Names(("e",), (1,))]
    assert first.read() == []
    assert second.read()[:2] == [Snapshot(1), Names(("", "e", "b", "d"))]
    assert second.read() == []
