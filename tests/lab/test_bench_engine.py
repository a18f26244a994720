"""`treadle lab bench engine`: the load counts what it uses, the figures add up, options are checked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.engine.fake_rm import assumed
from typer.testing import CliRunner

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.events import ContainerEvent
from treadle_lab.bench.engine import Load, SteadyState, measure
from treadle_lab.cli.lab.bench.engine import app

SMALL = Load(nodes=6, rows=40, leaves=12, batch=60, arrivals=50)


def test_the_load_tells_what_it_commits() -> None:
    """What nodes, queues and applications use agrees with the lives of containers, tick by tick."""
    state, engine = SteadyState(SMALL), Engine(default_settings())
    snapshot = state.snapshot()
    engine.apply(snapshot)
    alive = {int(number) for event in snapshot if isinstance(event, events.Containers) for number in event.container}
    for _ in range(30):
        frame = state.tick()
        for event in frame:
            if isinstance(event, events.Containers) and len(event.container):
                ended = event.event[0] == ContainerEvent.COMPLETED
                numbers = set(event.container.tolist())
                assert (numbers <= alive) if ended else not (numbers & alive)
                alive = alive - numbers if ended else alive | numbers
        engine.apply(frame)
        made = engine.decide(state.now_ms, SMALL.batch, sequence=state.sequence)
        assert len(made) > 0
        state.commit(made)
    engine.apply(state.tick())
    assert assumed(engine) == 0
    view = engine._cluster.view()  # type: ignore[union-attr]
    used = view.node_amounts[:6, 2].sum(axis=0) - view.node_amounts[:6, 1].sum(axis=0)
    assert view.limit_amounts[0, 0, 1].tolist() == used.tolist()
    assert int(view.groups["running"].sum()) <= int(np.sum(view.apps["containers"]))


def test_figures_count_what_was_placed() -> None:
    found = measure("default", default_settings(), SMALL, 0.01)
    assert found["placed"] == pytest.approx(found["ticks"] * found["placed_per_decide"], rel=0.01)
    assert found["placements_per_s"] == pytest.approx(found["placed"] / found["seconds"], rel=0.05)
    assert 0 < found["decide_p50_ms"] <= found["decide_p99_ms"]


def test_the_command_writes_table_and_json(tmp_path: Path) -> None:
    policy, out = tmp_path / "mine.yaml", tmp_path / "out.json"
    policy.write_text("policy: {order: {kind: srpt}}\n")
    sizes = ["--nodes", "4", "--nodes", "8", "--rows", "20", "--leaves", "2"]
    more = ["--batch", "40", "--seconds", "0.01", "--out", str(out)]
    result = CliRunner().invoke(app, ["--policy", str(policy), *sizes, *more])
    assert result.exit_code == 0, result.output
    assert "mine" in result.output
    written = json.loads(out.read_text())
    assert [(row["nodes"], row["batch"]) for row in written["results"]] == [(4, 40), (8, 40)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["--batch", "0"], "must be above 0"), (["--policies", "nowhere"], "there are no policies")],
)
def test_a_users_mistake_is_a_clear_error(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, [*arguments])
    assert text in str(result.exception)
