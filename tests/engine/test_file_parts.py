"""Parts from a user's file take part in every role, and one that fails is replaced within the same decide."""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.engine.fake_rm import assumed

from treadle.config.part_files import PartStoppedError
from treadle.config.reader import parse_settings
from treadle.config.settings import Settings
from treadle.engine import Engine
from treadle.engine.testing import small_cluster
from treadle.events import PolicySwitch
from treadle.policy.user_parts import PartFailure

DEFAULT = "gate=all share=capacity order=queue fit=packing estimate=none"

Read = Callable[..., Settings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Return a function that makes settings with classes ``Mine`` of these methods, one for each part."""

    def settings(more: str = "", **bodies: str) -> Settings:
        methods = {"gate": "allows", "fit": "scores", "estimate": "durations_ms"}
        lines = []
        for part, body in bodies.items():
            method = methods.get(part, "keys")
            source = (
                f"import numpy as np\n\nclass Mine:\n    calls = 0\n    def {method}(self, view):\n        {body}\n"
            )
            (tmp_path / f"{part}.py").write_text(source)
            lines.append(f"  {part}: {{kind: file, path: {part}.py, class: Mine{more}}}")
        return parse_settings(str(tmp_path / "t.yaml"), "policy:\n" + "\n".join(lines), trust_code=True)

    return settings


def test_a_share_picks_the_queue(read: Read) -> None:
    engine = Engine(read(share="return [path != 'root.q1' for path in view.queue_paths] * np.array(1.0)"))
    engine.apply(small_cluster(nodes=2))
    assert set(engine.decide(1000, 8, sequence=1).application.tolist()) == {1}


def test_keys_are_computed_again_after_so_many_containers(read: Read) -> None:
    fair = "return view.queue_used[:, 0]"
    counts = []
    for after in (1, 4, 100):
        engine = Engine(read(share=fair, more=f", recompute_after: {after}"))
        engine.apply(small_cluster(nodes=2, applications=2))
        counts.append(np.bincount(engine.decide(1000, 6, sequence=1).application, minlength=2).tolist())
    assert counts == [[3, 3], [4, 2], [6, 0]]


@pytest.mark.parametrize(
    ("bodies", "served"),
    [
        pytest.param({"order": "return -view.applications['id']"}, [3] * 8 + [2] * 2, id="an order"),
        pytest.param(
            {
                "estimate": "return 1000.0 / (1.0 + view.requests['application'])",
                "order": "return np.bincount(view.requests['application'], view.durations_ms * view.request_count)",
            },
            [3] * 8 + [2] * 8 + [1],
            id="an order that knows what the estimate says",
        ),
        pytest.param(
            {"order": "return -view.jobs['remaining'] * (1 + view.applications['id'])"},
            [3] * 8 + [2],
            id="an order by the work left",
        ),
        pytest.param({"gate": "return view.requests['application'] == 2"}, [2] * 8, id="a gate"),
    ],
)
def test_a_part_picks_the_applications(read: Read, bodies: dict[str, str], served: list[int]) -> None:
    engine = Engine(read(**bodies))
    engine.apply(small_cluster(leaves=1))
    limit = 100 if "gate" in bodies else len(served)
    assert engine.decide(1000, limit, sequence=1).application.tolist() == served


def test_a_compiled_order_follows_the_estimate(read: Read) -> None:
    srpt = "policy:\n  order: {kind: srpt}\n"
    settings = read(estimate="return 1000.0 / (1.0 + view.requests['application'])")
    assert settings.source is not None
    text = settings.source.text.replace("policy:\n", srpt)
    engine = Engine(parse_settings(settings.source.file, text, trust_code=True))
    engine.apply(small_cluster(leaves=1))
    assert engine.decide(1000, 17, sequence=1).application.tolist() == [3] * 8 + [2] * 8 + [1]


@pytest.mark.parametrize(("estimate", "known"), [("return np.full(len(view.requests), 500.0)", 1), ("", 0)])
def test_what_a_part_sees_of_jobs_is_in_one_unit(read: Read, estimate: str, known: int) -> None:
    said = f"""
        jobs = view.jobs[view.applications['state'] == 1]
        assert (jobs['confidence'] == {known}).all() and (jobs['attained'] == 0).all()
        assert (jobs['size'] == jobs['remaining']).all() and (jobs['remaining'] == {8 * (500 if known else 1000)}).all()
        return np.zeros(len(view.applications))"""
    engine = Engine(read(order=said, **({"estimate": estimate} if estimate else {})))
    engine.apply(small_cluster(leaves=1))
    engine.decide(1000, 9, sequence=1)
    assert engine.failure is None


def test_a_fit_picks_the_node_for_all_or_for_each_request(read: Read) -> None:
    engine = Engine(read(fit="return -abs(np.arange(len(view.nodes)) - 5)"))
    engine.apply(small_cluster())
    assert engine.decide(1000, 9, sequence=1).node.tolist() == [5] * 8 + [4]
    each = "return -abs(np.arange(len(view.nodes)) - 2 * view.requests['application'][:, None])"
    engine = Engine(read(fit=each))
    engine.apply(small_cluster(applications=4))
    found = engine.decide(1000, 8, sequence=1)
    assert (found.node == 2 * found.application).all()
    assert len(set(found.application.tolist())) == 2


def test_parts_draw_at_random_by_the_seed(read: Read) -> None:
    def nodes() -> list[int]:
        engine = Engine(read(fit="return view.random.random(len(view.nodes))", more=", recompute_after: 1"))
        engine.apply(small_cluster())
        found: list[int] = engine.decide(1000, 20, sequence=1).node.tolist()
        return found

    first = nodes()
    assert first == nodes()
    assert len(set(first)) > 3


@pytest.mark.parametrize("part", ["gate", "share", "order", "fit", "estimate"])
@pytest.mark.parametrize(
    "body", ["raise KeyError('no')", "raise BaseException('no')", "return [float('nan')]", "return [1.0] * 1000"]
)
def test_a_part_that_fails_is_replaced_within_the_same_decide(read: Read, part: str, body: str) -> None:
    engine = Engine(read(**{part: body}))
    engine.apply(small_cluster(nodes=2, applications=2))
    assert len(engine.decide(1000, 100, sequence=7)) == 16
    assert engine.running.policy.name() == DEFAULT
    assert engine.failure is not None
    assert f"policy.{part} ({part}.py:Mine): " in str(engine.failure)
    (switch,) = engine.switches()
    assert (switch.sequence, switch.call, switch.policy) == (7, 1, DEFAULT)


def test_what_a_part_placed_before_it_failed_stays(read: Read) -> None:
    body = "self.calls += 1; return view.applications['id'] / (3 - self.calls)"
    engine = Engine(read(order=body, more=", recompute_after: 4"))
    engine.apply(small_cluster(leaves=1))
    engine_alone = Engine(read())
    engine_alone.apply(small_cluster(leaves=1))
    with np.errstate(all="ignore"):
        found = engine.decide(1000, 32, sequence=1)
    assert len(found) == len(engine_alone.decide(1000, 32, sequence=1)) == 32
    assert [switch.call for switch in engine.switches()] == [3]
    assert assumed(engine) == 32


def test_the_last_good_policy_takes_over_then_the_default(read: Read) -> None:
    engine = Engine(read())
    engine.configure(read(order="return -view.applications['id'] if len(view.queues) else 1 // 0"))
    reverse = engine.running.policy.name()
    engine.configure(read(share="return view.queue_used[:, 0] / (1 if view.now_ms < 2000 else None)"))
    engine.apply(small_cluster(leaves=1))
    engine.decide(1000, 2, sequence=1)
    assert engine.failure is None
    assert engine.decide(2000, 9, sequence=2).application.tolist() == [3] * 8 + [2]
    assert engine.running.policy.name() == reverse
    engine.apply(small_cluster(leaves=1))
    assert engine.running.policy.name() == reverse, "a snapshot does not bring the failed policy back"


def test_a_policy_whose_part_cannot_be_made_is_refused(read: Read) -> None:
    engine = Engine(read())
    bad = read(gate="pass")
    made = type(bad.policy.gate.parameters.make())  # type: ignore[attr-defined]
    made.__init__ = lambda self: 1 // 0
    with pytest.raises(PartFailure, match="integer division"):
        engine.configure(bad)
    assert engine.running.policy.name() == DEFAULT
    assert Engine(bad).running.policy.name() == DEFAULT


def test_a_part_that_is_stopped_can_be_repeated(read: Read) -> None:
    settings = read(order="self.calls += 1; return view.applications['id'] * -1.0", more=", recompute_after: 3")
    calls = 0

    def stopping(function):  # type: ignore[no-untyped-def]
        nonlocal calls
        calls += 1
        if calls == 4:  # the first is the constructor
            raise PartStoppedError
        return function()

    live = Engine(settings, None, stopping)
    cluster = small_cluster(leaves=1)
    live.apply(cluster[:3])
    calls = 1
    live.apply(cluster[3:])
    proposed = live.decide(1000, 20, sequence=5)
    (switch,) = live.switches()
    assert (switch.sequence, switch.call) == (5, 3)
    assert "took too long" in switch.reason

    again = Engine(settings)
    again.apply(cluster)
    again.apply([PolicySwitch(5, switch.call, "", "")])
    repeated = again.decide(1000, 20, sequence=5)
    for column in ("application", "key", "node"):
        assert getattr(proposed, column).tolist() == getattr(repeated, column).tolist()
    assert again.running.policy.name() == DEFAULT


@pytest.mark.parametrize("failing", ["raise ValueError(len(kept))", "return np.zeros((2, 2))"])
def test_what_a_part_held_when_it_failed_is_let_go(read: Read, failing: str) -> None:
    held = "kept = self.kept = [type('KeptByAPart', (), {})() for _ in range(3)]"
    engine = Engine(read(order=f"{held}; {failing}"))
    engine.apply(small_cluster(nodes=2))
    assert len(engine.decide(1000, 8, sequence=1)) == 8
    assert engine.failure is not None
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each).__name__ == "KeptByAPart"]
    assert traceback.format_exception(engine.failure), "where it failed can still be shown"
