"""What a liar gains, simulated: nothing where claims are floored, much where they are believed."""

from __future__ import annotations

from treadle.config.reader import parse_settings
from treadle.lab.bench.liars import run_liars
from treadle.lab.bench.lies import Lie

TOLD = "policy: {share: {kind: none}, order: {kind: srpt}, fit: {kind: packing}, estimate: {kind: hints}}\n"


def test_floors_leave_a_liar_nothing_to_gain() -> None:
    policies = {"told": parse_settings("x.yaml", TOLD)}
    floored = run_liars(policies, [1], lambda _: None, lies=[Lie.TASKS])
    believed = run_liars(policies, [1], lambda _: None, lies=[Lie.TASKS], believed=True)
    assert [(one.policy, one.queues) for one in floored] == [("told", 1), ("told", 2)]
    assert all(one.gain <= 1.0 for one in floored)
    assert all(one.gain > 2.0 for one in believed), "the simulation would show it"


def test_a_name_is_worth_much_where_history_is_believed_alone() -> None:
    policies = {"told": parse_settings("x.yaml", TOLD)}
    named = run_liars(policies, [1], lambda _: None, lies=[Lie.NAMES])
    assert [(one.lie, one.queues) for one in named] == [(Lie.NAMES, 1), (Lie.NAMES, 2)]
    assert all(one.gain > 2.0 for one in named), "as docs say"
