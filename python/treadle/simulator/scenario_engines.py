"""`engines:` of a scenario as settings, and the simulation that runs them."""

from __future__ import annotations

import json

from treadle.config.reader import parse_engines
from treadle.config.settings import Settings
from treadle.errors import UserError
from treadle.simulator.engines_simulation import EnginesSimulation
from treadle.simulator.scenario import Scenario, ScenarioEngine
from treadle.simulator.simulation import Simulation, warm_up
from treadle.workload.job import Workload

BESIDES = tuple(ScenarioEngine.model_fields)
"""What an entry has in a scenario alone."""


def with_engines(
    scenario: Scenario, settings: Settings, file: str = "", text: str | None = None, *, trust_code: bool = False
) -> Settings:
    """Return settings with a scenario's engines, if it has any.

    Args:
        scenario: the scenario
        settings: what its engines follow where their entries say nothing else
        file: what errors call the scenario
        text: what is in the file, for the lines of mistakes; without it the scenario's values are all there is
        trust_code: whether Python files may be run that its engines' policies name

    Raises:
        ConfigError: an entry is wrong.
        UserError: the settings have engines of their own.
    """
    if not scenario.engines:
        return settings
    if settings.engines:
        raise UserError("engines: are in the scenario and in the policy's file; take them out of one")
    if text is None:
        text = json.dumps({"engines": {name: entry.model_extra for name, entry in scenario.engines.items()}})
    return parse_engines(file, text, settings, BESIDES, trust_code=trust_code)


def simulation_of(
    scenario: Scenario, workload: Workload, settings: Settings, seed: int, *, check: bool = True
) -> Simulation | EnginesSimulation:
    """Return a simulation of one engine, or of several if the settings have them; arguments as of `Simulation`."""
    kind = EnginesSimulation if settings.engines else Simulation
    return kind(scenario, workload, settings, seed, check=check)


def warm_up_all(settings: Settings) -> None:
    """Compile what a simulation with these settings needs, or read it from the cache.

    Raises:
        PolicyFailedError: a part of a policy failed on a small cluster.
    """
    for each in settings.entries.values() or (settings,):
        warm_up(each)
