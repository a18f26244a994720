"""The whole state of an engine is kept and restored, and nothing else can be in it."""

from __future__ import annotations

import itertools
import json
from collections import deque
from typing import Any

import numpy as np
import pytest

from treadle.config.settings import Choice, default_settings, with_parts
from treadle.engine import Engine
from treadle.engine.invented_cluster import small_cluster, small_events
from treadle.record.chunks import Record, RecordingError
from treadle.record.names import Named, name_of
from treadle.record.state import State, StateError, keep, restore
from treadle.record.ticks import read_state, state_record
from treadle.replay.verify import first_difference

POLICIES: list[dict[str, Choice]] = [
    {},
    {"share": "hdrf", "fit": "tetris", "order": "srpt", "estimate": "observed"},
    {"share": "deficit", "gate": "pilots", "order": ("mlfq", {"size": "whole"}), "estimate": "combined"},
    {"gate": "phoenix", "order": "phoenix", "fit": "random_fit"},
]


def written(state: State) -> State:
    """Return a state that went through a file."""
    head, body = state_record(state)
    return read_state(Record(json.loads(json.dumps(head)), b"".join(body)))


@pytest.mark.parametrize("parts", POLICIES, ids=str)
def test_an_engine_goes_on_from_its_state_as_if_nothing_had_been(parts: dict[str, Choice]) -> None:
    engine = Engine(with_parts(default_settings(), parts))
    engine.apply(small_cluster())
    for sequence, told in enumerate(small_events(), 1):
        engine.decide(1_000 * sequence, 5, sequence=sequence)
        engine.apply(told)
    state = keep(engine, name_of)
    for one, other in itertools.combinations(state.arrays, 2):
        assert not np.shares_memory(one, other)
    again = restore(written(state), Named(trust_code=False))
    assert isinstance(again, Engine)
    for sequence in range(10, 14):
        made = [each.decide(1_000 * sequence, 3, sequence=sequence) for each in (engine, again)]
        assert np.array_equal(made[0].node, made[1].node)
        assert np.array_equal(made[0].application, made[1].application)
    assert first_difference(written(keep(engine, name_of)), keep(again, name_of)) is None


def test_bytes_between_the_fields_of_records_are_not_written() -> None:
    memory = np.full(64, 0xAB, np.uint8)
    record = np.dtype([("one", "u1"), ("eight", "i8")], align=True)
    table = memory.view(record)
    table["one"], table["eight"] = 1, 2
    _, (_, content) = state_record(State([], [table]))
    assert b"\xab" not in bytes(content)


@pytest.mark.parametrize("parts", POLICIES, ids=str)
def test_no_array_of_an_engine_is_a_view_of_another(parts: dict[str, Choice]) -> None:
    engine = Engine(with_parts(default_settings(), parts))
    engine.apply(small_cluster())
    engine.decide(1_000, 5, sequence=1)
    seen: list[Any] = []

    def note(value: Any, attribute: str) -> Any:
        if isinstance(value, np.ndarray) and value.nbytes:
            assert all(value is each or not np.shares_memory(value, each) for each in seen), attribute
            seen.append(value)
        return name_of(value, attribute)

    keep(engine, note)
    assert len(seen) > 50


def test_collections_and_shared_objects_come_back() -> None:
    shared = {"a": [1, 2.5, None, "x"], 3: {4, 5}}
    before = [shared, shared, deque([(1, 2)], maxlen=7), frozenset({1}), np.float32(2.5), np.array([[1, 2]], "i4")]
    after = restore(written(keep(before, name_of)), Named(trust_code=False))
    assert after[0] is after[1]
    assert after[0] == shared
    assert after[2] == before[2]
    assert after[2].maxlen == 7
    assert after[3] == before[3]
    assert type(after[4]) is np.float32
    assert after[5].tolist() == [[1, 2]]


@pytest.mark.parametrize("value", [object(), open, lambda: 1, np.array([object()]), Record({}, b"")])
def test_what_is_no_state_cannot_be_kept(value: Any) -> None:
    with pytest.raises(StateError, match="cannot be kept"):
        keep([value], name_of)


@pytest.mark.parametrize(
    "tree",
    [
        {"object": ["os:system", {}]},
        {"object": ["subprocess:Popen", {}]},
        {"object": ["treadle.record.state:keep", {}]},
        {"object": ["treadle.model.cluster:np", {}]},
        {"object": ["treadle.policy.user_parts:Callable", {}]},
        {"method": [{"list": []}, "append"]},
        {"method": [{"object": ["treadle.model.cluster:Cluster", {}]}, "__class__"]},
        {"given": ["module", "os"]},
        {"restore": 1},
        {"list": {}, "dict": {}},
        {"at": 5},
        {"array": [0, 1]},
        {"enum": ["treadle.model.cluster:Cluster", "x"]},
        {"parameters": ["treadle.model.cluster:Cluster", "{}"]},
        {"error": ["treadle.model.cluster:Cluster", "", {}]},
        [1],
    ],
    ids=str,
)
def test_a_state_runs_no_code_and_makes_no_other_objects(tree: Any) -> None:
    with pytest.raises(StateError):
        restore(State(tree), Named(trust_code=False))


def test_code_is_run_only_if_it_is_trusted() -> None:
    part = ["file", "treadle.config.part_files:FilePart", json.dumps({"path": "/x.py", "class": "X"}), ""]
    with pytest.raises(StateError, match="Python code"):
        restore(State({"given": part}), Named(trust_code=False))


@pytest.mark.parametrize("head", [{}, {"tree": 2}, {"tree": 2, "arrays": [["|O", [1], False]]}])
def test_a_record_that_is_no_state_is_refused(head: dict[str, Any]) -> None:
    with pytest.raises(RecordingError):
        read_state(Record(head, b"{}" + bytes(64)))
