"""A leaf of CPUs beside a leaf of GPUs, under one parent: docs/examples/simulate/starving-*.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from treadle.config.settings import Settings, default_settings, with_parts
from treadle.policy.catalogue import register_parts
from treadle.simulate import Run, Scenario, simulate

EXAMPLES = Path(__file__).parents[3] / "docs" / "examples" / "simulate"
SCENARIOS = ("maximum", "satisfied", "saturated", "single-gpus")
WINDOW_S = 5
LONGEST_TASK_S = 30
"""Of the leaves that run when research.nlp begins to ask."""


def hdrf(**parameters: Any) -> Settings:
    register_parts()
    return with_parts(default_settings(), {"share": ("hdrf", parameters), "order": "queue", "fit": "packing"})


def simulated(name: str, settings: Settings) -> tuple[Run, float]:
    """Return the run, and for how long ``research.nlp`` was below 80 % of its guarantee while its job ran, seconds."""
    content = yaml.safe_load((EXAMPLES / f"starving-{name}.yaml").read_text("utf-8"))
    content["report"] = {"window_s": WINDOW_S}
    run = simulate(Scenario.of(content), settings, 1)
    tokenize = run.jobs[3]
    begin, end = int(tokenize["arrival_ms"]) // 1000, int(tokenize["end_ms"]) // 1000
    running = run.summary.leaf_shares["research.nlp"][begin // WINDOW_S : (end - 25) // WINDOW_S]
    low = longest = 0
    for share in running:
        low = low + WINDOW_S if share < 0.8 * 0.15 else 0
        longest = max(longest, low)
    return run, longest


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_leaf_does_not_starve_beside_a_sibling_of_another_resource(name: str) -> None:
    run, low_s = simulated(name, hdrf())
    assert run.completion_s[3] <= 180
    assert low_s <= LONGEST_TASK_S


@pytest.mark.parametrize(("name", "at_least_s"), [("maximum", 600), ("satisfied", 400)])
def test_it_starves_under_the_algorithm_of_the_paper(name: str, at_least_s: float) -> None:
    run, low_s = simulated(name, hdrf(**{"as": "paper"}))
    assert run.completion_s[3] >= at_least_s
    assert low_s >= 240
