"""Phoenix's parts: contended classes first, preferences given up where that pays, nodes spared that others need."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from tests.engine.constrained_rm import LEAF, ConstrainedRM, cluster
from tests.engine.parts import engine_with, estimates, settings_with

from treadle.engine import Engine
from treadle.model.cluster import Cluster
from treadle.model.nodes import UNMET_NAMED_MAX, Classes, Unmet
from treadle.policy.phoenix import Contention, arranged, pollaczek_khinchine


def decided(rm: ConstrainedRM, engine: Engine, now_ms: int, limit: int = 1_000) -> list[tuple[int, int]]:
    """Return application and node of each proposal, in order; all are committed."""
    made = rm.turn(engine, now_ms, limit)
    return list(zip(made.application.tolist(), made.node.tolist(), strict=True))


def contention(engine: Engine) -> Contention:
    return cast(Contention, engine._policy._keepers[Contention])


def test_the_wait_is_pollaczek_khinchine_s() -> None:
    # M/M/1 at half load: W = rho / (1 - rho) x E[S] = 1; twice as fast with two servers at the same work.
    found = pollaczek_khinchine(
        np.array([0.5, 1.0, 1.0, 1.5]), np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2, 1, 1])
    )
    assert found.tolist() == [1.0, 0.5, np.inf, np.inf]


def order(work: list[float], contended: list[float], spent: list[bool], factor: float) -> list[int]:
    found: list[int] = arranged(np.array(work, float), np.array(contended, float), np.array(spent), factor).tolist()
    return found


def test_the_most_contended_class_comes_first_within_its_band_of_work() -> None:
    none = [False] * 4
    assert order([1, 2, 3, 4], [0, 0, 0, 0], none, np.inf) == [0, 1, 2, 3]
    assert order([1, 2, 3, 4], [0, 0, 5, 9], none, np.inf) == [3, 2, 0, 1]
    assert order([1, 2, 3, 100], [0, 0, 5, 9], none, 4.0) == [2, 0, 1, 3]
    assert order([1, 2, 3, 4], [0, 9, 0, 9], none, np.inf) == [1, 3, 0, 2], "the least work among equals"


def test_who_was_passed_enough_is_passed_no_more() -> None:
    assert order([1, 2, 3, 4], [0, 0, 5, 9], [False, True, False, False], np.inf) == [0, 1, 3, 2]
    assert order([1, 2, 3, 4], [0, 5, 5, 9], [True, False, True, False], np.inf) == [0, 1, 2, 3]


def rival(rm: ConstrainedRM, engine_parts: dict[str, Any], special: int = 30) -> tuple[Engine, list[tuple[int, int]]]:
    """Let a job with less work and one that needs the GPU want what two nodes have left."""
    short, long = rm.application(LEAF), rm.application(LEAF)
    rm.ask(short, 0, 20, (1, 1))
    rm.ask(long, 0, special, (1, 1))
    rm.require(long, "gpu=yes")
    engine = engine_with(estimate="hints", **engine_parts)
    made = rm.turn(engine, 1_000, 4, [estimates((short, 0, 10_000, 20), (long, 0, 10_000, special))])
    return engine, list(zip(made.application.tolist(), made.node.tolist(), strict=True))


def test_a_class_that_waits_too_long_comes_before_shorter_jobs() -> None:
    assert [app for app, _ in rival(cluster(10), {"order": "srpt"})[1]] == [0] * 4
    assert [app for app, _ in rival(cluster(10), {"order": "phoenix"})[1]] == [1] * 4
    patient = {"wait_threshold_ms": 1_000_000}
    assert [app for app, _ in rival(cluster(10), {"order": ("phoenix", patient)})[1]] == [0] * 4


def test_bounded_it_does_not_pass_much_shorter_jobs() -> None:
    assert [app for app, _ in rival(cluster(10), {"order": "phoenix"}, special=300)[1]] == [0] * 4
    literal = {"reorder": "paper"}
    assert [app for app, _ in rival(cluster(10), {"order": ("phoenix", literal)}, special=300)[1]] == [1] * 4


def test_nobody_is_passed_for_longer_than_his_slack() -> None:
    rm = cluster(10, (40, 40))
    engine, first = rival(rm, {"order": ("phoenix", {"reorder": "paper"})}, special=300)
    assert [app for app, _ in first] == [1] * 4
    # 4 of 10 s have passed him; his slack is 5 x 10 s
    served = [decided(rm, engine, 1_000 + at, 4)[0][0] for at in range(1, 5)]
    assert served[:2] == [1, 0], "the next four make it 80 s"


def test_nobody_is_passed_once_he_has_waited_too_long() -> None:
    rm = cluster(10, (40, 40))
    patient = {"reorder": "paper", "slack_factor": 1e6, "max_wait_ms": 3_000}
    engine, _ = rival(rm, {"order": ("phoenix", patient)}, special=300)
    assert {app for app, _ in decided(rm, engine, 2_000, 4)} == {1}
    assert {app for app, _ in decided(rm, engine, 4_500, 4)} == {0}


def preferring(rm: ConstrainedRM, count: int, *, require: str = "zone=z0|z1") -> Engine:
    app = rm.job(count)
    rm.require(app, require, prefer=("gpu=yes",))
    engine = engine_with(gate="phoenix", order="phoenix", estimate="hints")
    engine.apply(rm.frame())
    engine.apply([estimates((app, 0, 10_000, count))])
    return engine


def waited_for_preferred() -> tuple[ConstrainedRM, Engine]:
    """Return twelve nodes and an engine that has decided eight times on more asks than the preferred ones can hold."""
    rm = cluster(12)
    engine = preferring(rm, 30)
    for at in range(8):
        rm.commit(engine.decide(1_000 + 2_000 * at, 100, sequence=rm.sequence))
        engine.apply(rm.frame())
    return rm, engine


def test_asks_stay_at_what_they_prefer_while_that_does_not_wait_long() -> None:
    rm = cluster(12)
    engine = preferring(rm, 4)
    rm.commit(engine.decide(1_000, 100, sequence=rm.sequence))
    assert {node for _, node, *_ in rm.containers} <= {0, 5}
    assert contention(engine).relaxed == []


def test_a_preference_is_given_up_where_it_waits_too_long_and_never_what_is_required() -> None:
    rm, _ = waited_for_preferred()
    used = {node for _, node, *_ in rm.containers}
    assert used == {0, 1, 4, 5, 8, 9}, "all of zones z0 and z1, no other"
    assert len(rm.containers) == 24


def test_a_sidecar_that_starts_anew_while_a_preference_is_given_up_keeps_to_what_is_required() -> None:
    rm, engine = waited_for_preferred()
    assert contention(engine).relaxed, "it takes other nodes than it prefers"
    for _ in range(6):
        rm.complete(next(at for at, held in enumerate(rm.containers) if held[1] in (1, 4, 8, 9)))
    rm.snapshot_next()
    engine = engine_with(gate="phoenix", order="phoenix", estimate="hints")
    for at in range(8, 20):
        decided(rm, engine, 1_000 + 2_000 * at, 100)
    used = {node for _, node, *_ in rm.containers}
    assert used == {0, 1, 4, 5, 8, 9}, "all of what it requires, no other"
    assert len(rm.containers) == 24, "and it has given up what it prefers once more"


def test_a_preference_comes_back_when_it_waits_no_longer() -> None:
    rm = cluster(12)
    engine = preferring(rm, 30)
    for at in range(6):
        rm.commit(engine.decide(1_000 + 2_000 * at, 100, sequence=rm.sequence))
        engine.apply(rm.frame())
    while rm.containers:
        rm.complete(0)
    rm.ask(0, 0, 2, (1, 1))
    placed = decided(rm, engine, 10_000_000, 100)
    for at in range(1, 3):
        placed += decided(rm, engine, 10_000_000 + 2_000 * at, 100)
    assert {node for _, node in placed} <= {0, 5}


@pytest.mark.parametrize("fit", ["first_fit", "packing"])
def test_nodes_that_contended_classes_need_are_spared(fit: str) -> None:
    for scarcity in (False, True):
        rm = cluster(10)
        special, other = rm.application(LEAF), rm.application(LEAF)
        rm.ask(special, 0, 1, (1, 1))
        rm.require(special, "gpu=yes")
        engine = engine_with(fit=(fit, {"scarcity": scarcity}))
        assert [node for _, node in decided(rm, engine, 1_000)] == [0]
        rm.ask(other, 0, 32, (1, 1))
        nodes = [node for _, node in decided(rm, engine, 2_000)]
        assert len(nodes) == 32
        assert ({0, 5}.isdisjoint(nodes)) is scarcity
        rm.ask(other, 1, 7, (1, 1))
        assert len(decided(rm, engine, 3_000)) == 7, "they are spared, not forbidden"


def test_what_no_node_can_serve_is_said() -> None:
    rm = cluster(4)
    for text in ("zone=z9", "zone=z1", "zone"):
        app = rm.job(1, name=text)
        rm.require(app, text)
    engine = engine_with(gate="phoenix", order="phoenix")
    decided(rm, engine, 1_000)
    told = dict(engine.diagnostics())
    assert sorted(told) == [0, 2]
    assert told[0] == "no usable node meets zone=z9; change the requirement, or give nodes what it names"
    assert told[2].startswith("treadle:require: 'zone', character 5: expected one of")
    assert any("zone=z9" in warning and "1 more" in warning for warning in engine.warnings())
    rm.special(2, zone="z9")
    decided(rm, engine, 2_000)
    assert sorted(dict(engine.diagnostics())) == [2]


def test_a_tag_without_its_number_is_said_and_changes_nothing() -> None:
    rm = cluster(4)
    for tags in (
        ["treadle:gang=abc"],
        ["treadle:workers=2x", "treadle:gang=3"],
        ["treadle:gang=2", "treadle:etl"],
        ["treadle:requires=zone=z9", "treadle:etl"],
    ):
        app = rm.job(2)
        rm.tags[app] = tags
        rm.change(app)
    rm.require(rm.application(LEAF), "zone")
    engine = engine_with()
    assert len(decided(rm, engine, 1_000)) == 8
    told = dict(engine.diagnostics())
    assert sorted(told) == [0, 1, 3, 4]
    assert told[3] == "tag 'treadle:requires=zone=z9': Treadle reads no treadle:requires=; did you mean require?"
    assert told[0] == "treadle:gang: 'abc' is not a whole number; write one, as treadle:gang=4, or take the tag out"
    assert told[1].startswith("treadle:workers: '2x' is not a whole number")
    assert not any("whole number" in warning for warning in engine.warnings()), "nobody waits for it"


def test_of_many_that_no_node_can_serve_some_are_told_and_all_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    rm = cluster(4)
    for number in range(2 * UNMET_NAMED_MAX):
        app = rm.job(1)
        rm.require(app, "zone" if number % 2 else "zone=z9")  # half of the requirements cannot be read
    looked: list[int] = []
    unmet = Classes.unmet

    def counted(classes: Classes, model: Cluster) -> Unmet:
        looked.append(1)
        return unmet(classes, model)

    monkeypatch.setattr(Classes, "unmet", counted)
    engine = engine_with()
    decided(rm, engine, 1_000)
    assert [app for app, _ in engine.diagnostics()] == list(range(UNMET_NAMED_MAX))
    (warning,) = (text for text in engine.warnings() if f"and {2 * UNMET_NAMED_MAX - 1} more applications" in text)
    assert warning.startswith("application_")
    assert len(looked) == 1, "once for both"
    rm.special(2, zone="z9")
    decided(rm, engine, 2_000)
    left = list(range(1, 2 * UNMET_NAMED_MAX, 2))
    assert [app for app, _ in engine.diagnostics()] == left, "what was found has changed"


def test_the_vector_and_the_waits_are_said_in_a_few_words() -> None:
    rm = cluster(10)
    for text in ("zone=z1;vcores>=2", "gpu=yes"):
        app = rm.job(40)
        rm.require(app, text)
    engine = engine_with(order="phoenix", gate="phoenix")
    engine.apply(rm.frame())
    engine.decide(1_000, 0, sequence=1)
    said = engine.contention()
    assert said.startswith("contention other 5.00, cpu 1.00; waits gpu=yes ")
    assert engine_with().contention() == ""


def test_another_gate_has_dropped_no_preferences() -> None:
    rm = cluster(10)
    rm.job(40)
    engine = engine_with(order="phoenix", gate="phoenix")
    engine.apply(rm.frame())
    engine.decide(1_000, 0, sequence=1)
    contention(engine).relaxed = ["zone=z1: now any node"]
    engine.configure(settings_with(order="phoenix"))
    assert contention(engine).relaxed == []
