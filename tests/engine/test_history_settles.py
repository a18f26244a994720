"""History where pilots need not say it: jobs whose level it settles, and later stages, corrected by pilots."""

from __future__ import annotations

from typing import Any

import pytest
from tests.engine.parts import engine_with, estimates
from tests.engine.test_pilots import FIXED, Bench

from treadle.events import TaskEstimates

LATER = 5
"""The priority of the second vertex of a Tez job, of which the first has 2."""
THOUSAND_S = 1_000_000


def told(*keys: tuple[int, int, int, int, int]) -> TaskEstimates:
    """Return estimates of (application, key, duration_ms, deviation_ms, tasks)."""
    found = estimates(*(key[:3] + key[4:] for key in keys))
    found.deviation_ms[:] = [key[3] for key in keys]
    return found


def settling(**gate: Any) -> Bench:
    """Return a bench where history counts that settles a job's level."""
    return Bench(estimate="combined", settled_part=1.0, **gate)


def levels(bench: Bench) -> list[float]:
    """Return the level of each application in the latest decide."""
    scratch: Any = bench.engine._policy._scratch
    return [float(key) for key in scratch.apps["key"][: len(bench.rm.applications)]]


def test_a_job_of_which_the_level_is_settled_needs_no_pilots() -> None:
    bench = settling()
    sure, unsure, unknown = bench.job(40), bench.job(40), bench.job(40)
    # 40 tasks of 2,500 s are at the bound between the third level and the fourth; of 600 s well within the third.
    bench.tell(told((sure, 0, 600_000, 100_000, -1), (unsure, 0, 2_500_000, 1_000_000, -1)))
    begun = [app for app, _ in bench.begun()]
    assert [begun.count(app) for app in (sure, unsure, unknown)] == [40, 4, 4]
    assert levels(bench) == [2.0, 1.0, 1.0]


def test_history_that_is_sure_of_no_higher_level_than_that_of_pilots_is_enough() -> None:
    bench = settling()
    app = bench.job(40)
    bench.tell(told((app, 0, 25_000, 20_000, -1)))  # 1,000 s, give or take: the first level or the second
    assert len(bench.begun()) == 40


def test_a_history_of_one_run_settles_nothing() -> None:
    bench = settling()
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, -1, -1)))
    assert len(bench.begun()) == 4


def test_without_levels_nothing_is_settled() -> None:
    bench = settling()
    bench.engine = engine_with(gate=("pilots", FIXED | {"settled_part": 1.0}), order="srpt", estimate="combined")
    app = bench.job(40)
    bench.tell(told((app, 0, 600_000, 1, -1)))
    assert len(bench.begun()) == 4


def test_later_stages_count_for_what_history_must_settle() -> None:
    bench = settling(tez=True)
    app = bench.job(40, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 600_000, 100_000, -1), (app, 1, 600_000, 500_000, 120)))
    assert len(bench.begun()) == 4, "with the second stage the size lies in the third level or the fourth"


@pytest.mark.parametrize(
    ("estimate", "level"),
    [
        (("pilots", {"scale_history": True}), 3.0),
        (("pilots", {}), 2.0),
        (("combined", {"scale_history": False}), 2.0),
    ],
)
def test_later_stages_take_as_many_times_longer_as_the_first(estimate: Any, level: float) -> None:
    bench = Bench(tez=True)
    parts = {"gate": ("pilots", FIXED | {"tez": True}), "order": ("mlfq", {"size": "whole"})}
    bench.engine = engine_with(estimate=estimate, **parts)
    app = bench.job(40, kind="TEZ", priority=2)
    # By history 40 tasks of 1 s and 40 of 1,000 s, 40,040 s; pilots say 5 s, so that it is 200,200 s.
    bench.tell(told((app, 0, 1000, 500, -1), (app, 1, THOUSAND_S, THOUSAND_S, 40)))
    assert len(bench.begun()) == 4
    assert levels(bench) == [1.0], "its pilots run"
    bench.now_ms += 5000
    bench.end(4)
    bench.begun(0)
    assert levels(bench) == [level]


def test_the_size_stays_when_later_stages_are_asked_for_run_and_end() -> None:
    bench = Bench(tez=True)
    parts = {"gate": ("pilots", FIXED | {"tez": True}), "order": ("mlfq", {"size": "whole"})}
    bench.engine = engine_with(estimate=("pilots", {"scale_history": True}), **parts)
    app = bench.job(10, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 1000, 500, -1), (app, 1, 1000, 500, 10), (app, 2, 1000, 500, 10)))

    def whole_ms() -> float:
        jobs: Any = bench.engine._policy._parts._jobs
        return float(jobs.whole_ms()[app])

    bench.begun()
    bench.now_ms += 2000
    bench.end(1)
    bench.begun(0)
    assert whole_ms() == pytest.approx(60_000)
    bench.end(9)
    bench.ask(app, 1, 10, LATER)
    bench.tell(told((app, 1, 1000, 500, -1)))
    assert len(bench.begun()) == 10
    assert whole_ms() == pytest.approx(60_000)
    bench.end(4)
    bench.begun()
    assert whole_ms() == pytest.approx(60_000)


def test_a_job_is_not_thin_if_a_later_stage_is_wide() -> None:
    bench = Bench(tez=True)
    narrow, wide = (bench.job(1, kind="TEZ", priority=2) for _ in range(2))
    bench.tell(told((narrow, 1, 1000, 500, 2), (wide, 1, 1000, 500, 3)))
    bench.begun()
    assert levels(bench) == [0.0, 1.0]


def test_srpt_counts_stages_to_come_once_pilots_have_ended() -> None:
    bench = Bench(slots=8)
    gate = ("pilots", FIXED | {"tez": True})
    bench.engine = engine_with(gate=gate, order="srpt", estimate=("pilots", {"scale_history": True}))
    long, short = (bench.job(20, kind="TEZ", priority=2) for _ in range(2))
    bench.tell(told((long, 0, 1000, 1, -1), (long, 1, 1000, 1, 90), (short, 0, 1000, 1, -1)))
    assert len(bench.begun()) == 4
    bench.end(4)
    assert bench.begun()[:8] == [(short, 2)] * 8, "equal but for the stage to come"


def test_what_pilots_and_history_say_together_corrects_later_stages() -> None:
    bench = Bench(tez=True)
    gate = ("pilots", FIXED | {"tez": True})
    bench.engine = engine_with(gate=gate, order=("mlfq", {"size": "whole"}), estimate="combined")
    app = bench.job(40, kind="TEZ", priority=2)
    bench.tell(told((app, 0, 1000, 1, -1), (app, 1, 1000, 1, 40)))
    bench.begun()
    bench.now_ms += 100_000
    bench.end(4)
    bench.begun(0)
    jobs: Any = bench.engine._policy._parts._jobs
    assert float(jobs.whole_ms()[app]) == pytest.approx(80_000, rel=0.05), "history is far more certain than pilots"
