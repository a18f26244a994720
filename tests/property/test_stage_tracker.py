"""Whatever a ResourceManager shows, in any order: the tracker counts each container once and stays within bounds."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.history.shown import FAILED_MAP, MAP, REDUCE, Shown

from treadle.history.stages import LINGER_MS, RECENT_MAX, Outcome

PRIORITIES = (MAP, REDUCE, FAILED_MAP, 19)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.sampled_from(PRIORITIES), st.integers(0, 20)),
        st.tuples(st.just("allocate"), st.sampled_from(PRIORITIES), st.integers(1, 5)),
        st.tuples(st.just("end"), st.integers(0, 30), st.sampled_from([0, 0, 0, 1, -100, -102, -105, 143])),
        st.tuples(st.just("frame"), st.integers(-5_000, 20_000), st.just(0)),
        st.tuples(st.just("snapshot"), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@given(STEPS, st.sampled_from(["MAPREDUCE", "TEZ", "SPARK", "whatever"]))
@settings(deadline=None)
def test_every_container_is_counted_once(steps: list[tuple[str, int, int]], type_: str) -> None:
    shown = Shown()
    shown.application(type_=type_)
    running: list[int] = []
    seen = 0
    for what, first, second in steps:
        if what == "ask":
            shown.ask(first, second)
        elif what == "allocate":
            new = range(seen, seen + second)
            shown.allocate(*new, priority=first)
            running += new
            seen += second
        elif what == "end" and running:
            shown.end(running.pop(first % len(running)), exit_status=second)
        elif what == "snapshot":
            shown.frame()
            shown.snapshot()
        elif what == "frame":
            shown.frame(first)
    stages = shown.frame()
    counted = [stage.outcomes for stage in stages]
    assert sum(outcomes.get(Outcome.RUNNING, 0) for outcomes in counted) == len(running)
    assert sum(sum(outcomes.values()) for outcomes in counted) == seen
    for stage in stages:
        well = sum(stage.outcomes.get(outcome, 0) for outcome in (Outcome.SUCCEEDED, Outcome.RELEASED))
        assert stage.durations.count <= well
        assert stage.width >= stage.durations.count
        assert stage.pending >= 0
        assert len(stage.attempts) <= len(running) + RECENT_MAX
    shown.gone()
    shown.frame(LINGER_MS)
    shown.frame()
    assert shown.tracker.jobs == 0
    for run in shown.tracker.finished():
        assert all(stage.durations.count <= seen for stage in run.stages)
