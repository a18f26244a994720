"""What the simulated RM tells: all of a node at first and when it changes, then only what is free."""

from __future__ import annotations

from pathlib import Path

from treadle import events
from treadle.events import NodeState
from treadle.simulate import Scenario
from treadle.simulator.build import build
from treadle.simulator.cluster.state import State, renew
from treadle.simulator.feed import Feed
from treadle.simulator.jobs import jobs_of

SCENARIO = Path(__file__).resolve().parents[2] / "baseline" / "scenarios" / "instant.yaml"


def mark(state: State, *nodes: int) -> None:
    for node in nodes:
        renew.py_func(state, node)  # type: ignore[attr-defined]


def test_a_node_on_which_only_what_is_free_changed_has_a_narrow_row() -> None:
    scenario = Scenario.read(SCENARIO).model
    built = build(scenario, jobs_of(scenario, SCENARIO.parent, scenario.seed), scenario.seed)
    feed = Feed(built, {}, False, None, None)
    state = built.state

    def told() -> dict[str, list[int]]:
        frame = feed.frame(state, None)
        return {
            type(event).__name__: event.node.tolist()
            for event in frame
            if isinstance(event, events.Nodes | events.NodesFree)
        }

    assert told() == {"Nodes": list(range(len(state.nodes)))}
    state.node_free[1] -= 1
    mark(state, 1)
    assert told() == {"NodesFree": [1]}
    state.node_free[1] -= 1
    state.nodes["state"][0] = int(NodeState.UNUSABLE)
    mark(state, 1, 0)
    assert told() == {"Nodes": [0], "NodesFree": [1]}
    state.node_total[1] += 1
    mark(state, 0, 1)
    assert told() == {"Nodes": [1], "NodesFree": [0]}
    assert told() == {}
