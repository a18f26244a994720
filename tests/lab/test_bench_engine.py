"""`treadle bench engine`: the load counts what it uses, the figures add up, growth is fitted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.engine.fake_rm import assumed
from tests.support.optional import present
from typer.testing import CliRunner

from treadle import events
from treadle.config.settings import default_settings
from treadle.engine import Engine
from treadle.events import ContainerEvent
from treadle_lab.bench.engine import (
    PIECE,
    Figures,
    growth,
    measure,
    measure_memory,
    pieces,
)
from treadle_lab.bench.engine_load import Load, SteadyState
from treadle_lab.cli.bench.engine import app
from treadle_lab.rows import slope_of

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
    assert found.placed == pytest.approx(found.ticks * found.placed_per_decide, rel=0.01)
    assert found.placements_per_s == pytest.approx(found.placed / found.seconds, rel=0.05)
    assert 0 < found.decide_p50_ms <= found.decide_p99_ms


def test_memory_is_that_of_a_process_with_an_engine() -> None:
    assert 50 < measure_memory(default_settings(), SMALL) < 2000


def test_events_are_sent_in_pieces_that_say_the_same() -> None:
    rows = np.arange(2 * PIECE + 3, dtype=np.int32)
    amounts = np.zeros((len(rows), 2), np.int64)
    told = list(pieces([events.ApplicationUsage(application=rows, containers=rows, used=amounts, headroom=amounts)]))
    assert [len(event.application) for event in told] == [PIECE, PIECE, 3]  # type: ignore[union-attr]
    assert np.concatenate([event.application for event in told]).tolist() == rows.tolist()  # type: ignore[union-attr]


def test_growth_is_the_slope_in_logarithms() -> None:
    base = measure("p", default_settings(), SMALL, 0.001)
    results: list[Figures] = []
    for nodes in (100, 1000, 10_000):
        for rows in (10, 100):
            rate = 1e6 * nodes**-0.5 * rows**-0.25
            results.append(replace(base, nodes=nodes, rows=rows, leaves=1, placements_per_s_cpu=rate))
    found = growth(results)["p"]
    assert found["nodes"] is not None and found["rows"] is not None
    assert found["nodes"] == pytest.approx((0.5, 0.5, 0.5))
    assert found["rows"] == pytest.approx((0.25, 0.25, 0.25))
    assert found["leaves"] is None


def test_a_slope_has_the_interval_of_its_fit() -> None:
    # two lines of slope 1 at levels of their own; the middle points of both are off by 0.3
    lines = [[(0.0, 0.0), (1.0, 1.3), (2.0, 2.0)], [(0.0, 5.0), (1.0, 6.3), (2.0, 7.0)]]
    found = present(slope_of(lines))
    # squares left: 2 x (0.1, 0.2, 0.1); 6 points less 2 levels and a slope; Student's t of 3 degrees is 3.182
    half = 3.182446 * (2 * 0.06 / 3 / 4) ** 0.5
    assert found == pytest.approx((1.0, 1.0 - half, 1.0 + half))
    assert slope_of([[(0.0, 0.0), (2.0, 1.0)]]) == (0.5, 0.5, 0.5)
    assert slope_of([[(1.0, 0.0)], [(1.0, 3.0)]]) is None


def test_the_command_writes_table_and_json(tmp_path: Path) -> None:
    policy, out = tmp_path / "mine.yaml", tmp_path / "out.json"
    policy.write_text("policy: {order: {kind: srpt}}\n")
    sizes = ["--nodes", "4", "--nodes", "8", "--rows", "20", "--leaves", "2"]
    more = ["--batch", "40", "--seconds", "0.01", "--json", str(out)]
    result = CliRunner().invoke(app, ["--policy", str(policy), *sizes, *more])
    assert result.exit_code == 0, result.output
    assert "mine" in result.output
    written = json.loads(out.read_text())
    assert [(row["nodes"], row["batch"]) for row in written["results"]] == [(4, 40), (8, 40)]
    assert set(written["growth"]["mine"]) == {"nodes", "rows", "leaves"}
    assert set(written["growth"]["mine"]["nodes"]) == {"mean", "low", "high"}
    assert written["growth"]["mine"]["rows"] is None


@pytest.mark.parametrize(
    ("arguments", "text"),
    [(["--batch", "0"], "must be above 0"), (["--policies", "nowhere"], "there are no policies")],
)
def test_a_users_mistake_is_a_clear_error(arguments: list[str], text: str) -> None:
    result = CliRunner().invoke(app, [*arguments])
    assert text in str(result.exception)
