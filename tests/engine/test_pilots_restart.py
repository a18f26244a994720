"""Pilot measurements outlive the engine: sent to the next one after its snapshot, so that nothing is sampled again."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from tests.engine.parts import containers, engine_with, job_row, pilot_table
from tests.engine.test_pilots import FIXED, MAP, STARTED, Bench

from treadle.events import Samples
from treadle.model.tables import ModelError
from treadle.policy.slearn.table import Sampling


class Sidecar:
    """A bench whose engine may be started anew, and what was remembered of it."""

    def __init__(self, **gate: Any) -> None:
        self.bench = Bench(**gate)
        self.gate = gate
        self.kept: dict[int, Samples] = {}

    def begun(self, after_ms: int = 1000) -> list[tuple[int, int]]:
        found = self.bench.begun(after_ms)
        said = self.bench.engine.samples()
        if said is not None:
            for at, app in enumerate(said.application.tolist()):
                self.kept[app] = row(said, at)
        return found

    def restart(self, tell: bool = True) -> None:
        bench = self.bench
        parameters = {name: value for name, value in (FIXED | self.gate).items() if name not in {"nodes", "slots"}}
        bench.engine = engine_with(gate=("pilots", parameters), order=("mlfq", {"size": "whole"}), estimate="pilots")
        bench.rm.snapshot_next()
        bench._more = [containers(STARTED, *((*life, life[3]) for life in bench.running))] if bench.running else []
        if tell:
            bench.tell(*self.kept.values())

    def application(self, app: int) -> np.void:
        return job_row(self.bench.engine, app)


def row(samples: Samples, at: int) -> Samples:
    return Samples(**{field.name: getattr(samples, field.name)[at : at + 1] for field in fields(Samples)})


def test_pilots_that_have_ended_count_on() -> None:
    sidecar = Sidecar()
    sidecar.bench.job(40)
    assert len(sidecar.begun()) == 4
    sidecar.bench.end(3)
    assert sidecar.begun() == []
    sidecar.restart()
    assert sidecar.begun() == [], "three have ended and one runs: none is wanted"
    sidecar.bench.end(1)
    assert len(sidecar.begun()) == 36


def test_without_samples_pilots_run_again() -> None:
    sidecar = Sidecar()
    sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.end(3)
    sidecar.begun()
    sidecar.restart(tell=False)
    assert len(sidecar.begun()) == 2, "a tenth of the 37 maps that the snapshot tells of, less one that runs"


def test_a_gate_that_has_opened_stays_open_with_what_the_pilots_said() -> None:
    sidecar = Sidecar(slots=8)
    app = sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.now_ms += 9000
    sidecar.bench.end(4)
    sidecar.begun()
    before = sidecar.application(app).copy()
    sidecar.bench.end(8)
    sidecar.restart()
    assert len(sidecar.begun()) == 8
    after = sidecar.application(app)
    assert after["sampling"] == Sampling.OPEN
    for name in ("pilot_mean_ms", "pilot_error", "width", "pilot_percent"):
        assert after[name] == before[name]
    tasks = sidecar.bench.engine._cluster.tasks  # type: ignore[union-attr]
    group = tasks.index.find(app, MAP)
    assert tasks.at["ended"][group] == 12, "so that its size stays what it was"
    assert tasks.at["ended_ms"][group] == pytest.approx(12 * before["pilot_mean_ms"], abs=12)


def test_those_that_began_first_are_taken_for_the_pilots_that_run() -> None:
    sidecar = Sidecar(slots=21, work_conserving=True)
    sidecar.bench.job(40)
    sidecar.begun()
    sidecar.bench.end(1)
    sidecar.bench.begun()
    sidecar.restart()
    sidecar.begun()
    tasks = sidecar.bench.engine._cluster.tasks.tasks.at  # type: ignore[union-attr]
    is_pilot = pilot_table(sidecar.bench.engine).pilot[: len(tasks)] == 1
    pilots = tasks[is_pilot]
    assert len(pilots) == 4, "that the fourth ended was not sent before the restart"
    others = tasks[~is_pilot & (tasks["created_ms"] > 0)]
    assert len(others) == 17
    assert pilots["created_ms"].max() <= others["created_ms"].min()


def test_thin_jobs_stay_thin() -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(2)
    sidecar.begun()
    sidecar.restart()
    sidecar.begun()
    assert sidecar.application(app)["sampling"] == Sampling.THIN


def test_samples_of_a_job_that_is_gone_are_left_out() -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(40)
    sidecar.begun()
    told = row(sidecar.kept[app], 0)
    sidecar.restart(tell=False)
    sidecar.bench.tell(replace(told, application=np.full(1, 7, np.int32)))
    sidecar.begun()
    assert sidecar.application(7)["sampling"] == Sampling.UNKNOWN


@pytest.mark.parametrize("name", ["sampling", "width", "ended", "total_ms", "percent"])
def test_impossible_samples_are_refused(name: str) -> None:
    sidecar = Sidecar()
    app = sidecar.bench.job(40)
    sidecar.begun()
    told = sidecar.kept[app]
    wrong = replace(told, **{name: np.full(1, -3, getattr(told, name).dtype)})
    with pytest.raises(ModelError, match="not possible"):
        sidecar.bench.engine.apply([wrong])
    with pytest.raises(ModelError, match="not possible"):
        sidecar.bench.engine.apply([replace(told, error=np.full(1, np.nan))])


def test_samples_are_sent_once_and_again_when_they_change() -> None:
    bench = Bench()
    first = bench.job(40)
    bench.begun()
    said = bench.engine.samples()
    assert said is not None
    assert (said.application.tolist(), said.pilots.tolist(), said.width.tolist()) == ([first], [4], [40])
    assert bench.engine.samples() is None
    second = bench.job(20)
    bench.begun()
    said = bench.engine.samples()
    assert said is not None
    assert said.application.tolist() == [second]
    bench.end(1, app=first)
    bench.begun()
    said = bench.engine.samples()
    assert said is not None
    assert (said.application.tolist(), said.ended.tolist()) == ([first], [1])


def test_nothing_is_sent_without_a_gate_that_samples() -> None:
    bench = Bench()
    bench.engine = engine_with(order="srpt")
    bench.job(40)
    bench.begun()
    assert bench.engine.samples() is None
