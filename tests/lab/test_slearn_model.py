"""The plain model of SLearn's scheduler: small cases by hand, and the same figures as the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from treadle.dag import Dag, Stage
from treadle.workload.generate import CONTAINER
from treadle.workload.job import Framework, Job, arranged
from treadle_lab.papers.slearn.experiment import run_model, run_scheme
from treadle_lab.papers.slearn.schemes import DAG_SCHEMES, SCHEMES, Scheme, combined, slearn
from treadle_lab.papers.slearn.trace import JobHints, Trace

UNLIKE = ("3sigma-tl", "drawn", "3sigma-paper", "point-paper")
"""Schemes whose parts others have too, or that the two need not agree on."""
BY_NAME = {scheme.name: scheme for scheme in SCHEMES}


Chain = tuple[int, Sequence[Sequence[int]]]
"""Arrival and durations by stage, both in seconds."""


def trace_of_dags(dags: Sequence[Chain], hint_ms: Sequence[int], framework: Framework = Framework.TEZ) -> Trace:
    """Return chains of stages; history says ``hint_ms`` by stage."""
    made = []
    for number, (arrival_s, stages_s) in enumerate(dags):
        each = [1000 * np.array(stage, np.int64) for stage in stages_s]
        stages = tuple(
            Stage(at, len(ms), round(float(ms.mean())), dict(CONTAINER), (at - 1,) if at else (), durations_ms=ms)
            for at, ms in enumerate(each)
        )
        made.append(Job(str(number), 1000 * arrival_s, Dag(str(number), stages), framework))
    mean = np.array(hint_ms, np.int64)
    widths = np.array([sum(len(stage) for stage in stages) for _, stages in dags], np.int64)
    true_ms = np.array([1000.0 * np.mean(np.concatenate(stages)) for _, stages in dags])
    names = ("3sigma", "point", "3sigma-paper", "point-paper", "oracle", "drawn", "stored", "history")
    known = dict.fromkeys(names, JobHints(mean, mean // 2))
    return Trace(1, arranged(made), widths, true_ms, {"oracle": true_ms}, known)


def trace_of(
    jobs: Sequence[tuple[int, Sequence[int]]], hint_ms: Sequence[int] = (), certain: Sequence[bool] = ()
) -> Trace:
    """Return MapReduce jobs of (arrival, durations), both in seconds.

    History's estimate of a task is ``hint_ms``, else the true duration; it is nearly certain of those in ``certain``.
    """
    mean = np.array(hint_ms or [round(1000.0 * float(np.mean(durations))) for _, durations in jobs], np.int64)
    trace = trace_of_dags([(at, [durations]) for at, durations in jobs], mean.tolist(), Framework.MAPREDUCE)
    settled = np.array(certain or [False] * len(jobs))
    known = dict.fromkeys(trace.hints, JobHints(mean, mean))
    return replace(trace, hints=known | {"history": JobHints(mean, np.where(settled, mean // 10, 6 * mean))})


def completions_s(trace: Trace, scheme: Scheme, nodes: int) -> list[float]:
    return [float(each) / 1000 for each in run_model(trace, scheme, nodes).completion_ms]


def test_first_come_first_served() -> None:
    trace = trace_of([(0, [10, 10, 10]), (1, [1]), (2, [5])])
    assert completions_s(trace, BY_NAME["fifo"], 1) == [30.0, 30.0, 34.0]
    assert completions_s(trace, BY_NAME["fifo"], 3) == [10.0, 10.0, 13.0]


def test_a_wide_job_waits_for_its_pilot_unless_machines_are_idle() -> None:
    large = (0, [1000] * 4)
    assert completions_s(trace_of([large]), slearn(), 4) == [1000.0]  # nobody else wants the machines
    # The pilot and one more task at 0; at 1000 one of each job, then the thin job's second and the large one's last.
    assert completions_s(trace_of([large, (1, [100, 100])]), slearn(), 2) == [2200.0, 1199.0]


def test_small_jobs_overtake_large_ones_once_pilots_have_said_so() -> None:
    large, small = (0, [1000] * 40), (1, [10] * 40)
    pilots = completions_s(trace_of([large, small]), slearn(), 2)
    assert pilots[1] == 1399.0  # its pilot from 1000 to 1010, the others one after another on the same machine
    assert pilots[0] > 20_000.0
    assert completions_s(trace_of([large, small]), BY_NAME["fifo"], 2)[1] > 20_000.0


def test_the_level_is_that_of_the_hint() -> None:
    jobs = [(0, [1000] * 4), (1, [600] * 4), (2, [600] * 4)]
    # Sizes of level 1; with its wrong hint the last is of level 0 and comes first of those that wait.
    right = completions_s(trace_of(jobs), BY_NAME["3sigma"], 2)
    wrong = completions_s(trace_of(jobs, hint_ms=(1_000_000, 600_000, 1)), BY_NAME["3sigma"], 2)
    assert right[1] < right[2]
    assert wrong[2] < right[2]


def test_las_goes_by_what_jobs_have_had() -> None:
    jobs = [(0, [2000] * 4), (1, [100])]
    assert completions_s(trace_of(jobs), BY_NAME["las"], 1)[1] == 2099.0
    jobs.append((2001, [100]))
    assert completions_s(trace_of(jobs), BY_NAME["las"], 1)[2] == 199.0


def ours(**gate: float) -> Scheme:
    """Return ours with other settings of its gate."""
    scheme = combined()
    kind, settings = scheme.parts["gate"]
    return replace(scheme, parts=scheme.parts | {"gate": (kind, settings | gate)})


def test_history_lets_tasks_run_beside_the_pilot() -> None:
    # The large job has all four machines until 1000. Then the small one, of the first level, has its pilot and what
    # history lets it have beside it; one machine goes to the large one's level, whose turn it is after the pilot.
    known = trace_of([(0, [1000] * 40), (1, [100] * 4)], certain=[True] * 2)
    small_s = {part: completions_s(known, ours(history_fraction=part), 4)[1] for part in (0.0, 0.25, 0.5, 1.0)}
    assert small_s == {0.0: 1399.0, 0.25: 1399.0, 0.5: 1199.0, 1.0: 1199.0}


def test_a_history_that_is_not_sure_gives_a_level_as_low_as_the_job_may_be() -> None:
    # At 100 four machines are free. The first job, of 4,000 s, may be of any size and waits for its pilot at the last
    # level: the second one, whose 3,600 s are known, comes before its other tasks.
    jobs = [(0, [100] * 2), (0, [100] * 2), (1, [1000] * 4), (2, [300] * 12)]
    sure, unsure = ([True, True, first, True] for first in (True, False))
    by_sure, by_unsure = (
        completions_s(trace_of(jobs, certain=each), ours(history_fraction=1.0), 4) for each in (sure, unsure)
    )
    assert by_unsure[2] > by_sure[2]
    assert by_unsure[3] < by_sure[3]


@pytest.mark.parametrize("scheme", [scheme for scheme in SCHEMES if scheme.name not in UNLIKE], ids=lambda it: it.name)
def test_engine_and_model_agree(scheme: Scheme) -> None:
    generator = np.random.default_rng(3)
    jobs: list[tuple[int, list[int]]] = []
    for number in range(40):
        width = int(generator.choice([1, 2, 6, 30], p=[0.3, 0.2, 0.3, 0.2]))
        jobs.append((60 * number, generator.integers(1, 10 ** int(generator.integers(1, 4)), width).tolist()))
    trace = trace_of(jobs)
    by_engine, by_model = run_scheme(trace, scheme, 5).completion_ms, run_model(trace, scheme, 5).completion_ms
    assert by_model.mean() == pytest.approx(by_engine.mean(), rel=0.02)
    assert np.median(np.abs(by_model / by_engine - 1.0)) < 0.01


def test_engine_and_model_agree_on_what_history_lets_run_beside_pilots() -> None:
    generator = np.random.default_rng(4)
    jobs: list[tuple[int, list[int]]] = []
    hint_ms: list[int] = []
    for number in range(60):
        width = int(generator.choice([2, 6, 30]))
        jobs.append((60 * number, generator.integers(1, 10 ** int(generator.integers(1, 5)), width).tolist()))
        hint_ms.append(int(1000 * np.mean(jobs[-1][1]) * 10.0 ** generator.uniform(-1.0, 1.0)))
    trace = trace_of(jobs, hint_ms, certain=(generator.random(60) < 0.8).tolist())
    done = {}
    for part in (0.0, 0.2, 0.5):
        scheme = ours(history_fraction=part)
        by_engine, done[part] = run_scheme(trace, scheme, 10).completion_ms, run_model(trace, scheme, 10).completion_ms
        assert done[part].mean() == pytest.approx(by_engine.mean(), rel=0.02)
        assert np.median(np.abs(done[part] / by_engine - 1.0)) < 0.01
    assert not np.allclose(done[0.2], done[0.0], rtol=0.01)
    assert not np.allclose(done[0.5], done[0.2], rtol=0.01)


def test_what_pilots_correct_puts_a_dag_where_it_belongs() -> None:
    # By history 4 + 400 tasks of 1 s, the first level; pilots say 100 s, which makes 40,400 s: the third.
    large, small = (0, [[100] * 4, [100] * 400]), (5, [[100] * 3, [100] * 3])
    trace = trace_of_dags([large, small], [1000, 1000, 100_000, 100_000])
    done = {scheme.name: completions_s(trace, scheme, 2) for scheme in DAG_SCHEMES}
    assert done["slearn"][1] < 1000
    assert done["3sigma"][1] > 20_000, "behind the large one"


def test_a_stage_begins_when_the_one_before_has_ended() -> None:
    trace = trace_of_dags([(0, [[10, 20, 30], [5], [7, 7]])], [1000] * 3)
    for scheme in DAG_SCHEMES:
        assert completions_s(trace, scheme, 3) == [42.0], scheme.name


@pytest.mark.parametrize("scheme", [each for each in DAG_SCHEMES if each.name not in UNLIKE], ids=lambda it: it.name)
def test_engine_and_model_agree_on_dags(scheme: Scheme) -> None:
    generator = np.random.default_rng(5)
    dags: list[tuple[int, list[list[int]]]] = []
    hint_ms: list[int] = []
    for number in range(25):
        seconds = 10 ** int(generator.integers(1, 4))
        stages = [
            generator.integers(1, seconds, int(generator.choice([1, 2, 6, 30]))).tolist()
            for _ in range(int(generator.integers(2, 6)))
        ]
        dags.append((200 * number, stages))
        hint_ms += [int(1000 * np.mean(stage) * generator.uniform(0.2, 5.0)) for stage in stages]
    trace = trace_of_dags(dags, hint_ms)
    by_engine, by_model = run_scheme(trace, scheme, 5).completion_ms, run_model(trace, scheme, 5).completion_ms
    assert by_model.mean() == pytest.approx(by_engine.mean(), rel=0.02)
    assert np.median(np.abs(by_model / by_engine - 1.0)) < 0.01
