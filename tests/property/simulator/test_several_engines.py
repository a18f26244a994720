"""Several engines on the simulated RM, whatever the roster, the jobs and what dies: the invariants hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.property.simulator.test_rm_machine import a_scenario
from tests.support.examples import few

from treadle.config.settings import default_settings
from treadle.simulator.cluster.tables import AppState
from treadle.simulator.engines_simulation import EnginesSimulation, with_engines
from treadle.simulator.scenario import ScenarioModel, jobs_of

SECONDS = st.sampled_from([0.0, 0.05, 0.4, 3.0])


@st.composite
def an_entry(draw: Any) -> dict[str, Any]:
    outages = [{"at_s": at, "for_s": draw(st.sampled_from([1, 9]))} for at in draw(st.sampled_from([[], [2], [3, 25]]))]
    return {
        "decision": {
            "t_job_s": draw(SECONDS),
            "t_task_s": draw(st.sampled_from([0, 0.1])),
            "jobs_max": draw(st.integers(0, 2)),
        },
        "outages": outages,
        "conflicts": draw(st.sampled_from(["fine", "coarse"])),
        "transactions": draw(st.sampled_from(["incremental", "gang"])),
        "decision_max_s": draw(st.sampled_from([2.0, 30.0])),
        "retry": {"backoff_ms": 100, "backoff_max_ms": 1000, "attempts_max": draw(st.sampled_from([2, 50]))},
        "claim": draw(st.sampled_from([0.5, 1.0])),
        "precedence": draw(st.integers(-1, 1)),
        "policy": {"fit": {"kind": draw(st.sampled_from(["first_fit", "packing", "random_fit"]))}},
    }


@st.composite
def a_roster(draw: Any) -> dict[str, Any]:
    # none matches all that another one does: an entry below it would be refused
    selects = st.permutations(
        [{"queues": ["root.a.x"]}, {"types": ["tez"]}, {"tasks_min": 4}, {"tags": ["treadle:gang=3"]}]
    )
    one, two, *_ = draw(selects)
    entries = {"one": draw(an_entry()) | {"select": one}, "two": draw(an_entry()) | {"select": two}}
    entries["rest"] = draw(an_entry()) | {"copies": draw(st.integers(1, 3))}
    return entries


@given(a_scenario(), a_roster(), st.sampled_from([1, 100]), st.lists(st.booleans(), min_size=5, max_size=5))
@settings(max_examples=few(6), deadline=None, suppress_health_check=list(HealthCheck))
def test_invariants_hold_and_every_active_application_has_one_living_owner(
    drawn: ScenarioModel, engines: dict[str, Any], tick_ms: int, gangs: list[bool]
) -> None:
    document = drawn.model_dump(exclude={"engines"})
    for job, gang in zip(document["workload"]["jobs"], gangs, strict=False):
        job["tags"] = ("treadle:gang=3",) if gang else ()
    document |= {"engines": engines, "duration_limit_s": 120.0}
    document["decision"]["tick_ms"] = tick_ms
    given_scenario = ScenarioModel.model_validate(document)
    followed = with_engines(given_scenario, default_settings())
    made = EnginesSimulation(given_scenario, jobs_of(given_scenario, Path(), 1), followed, 1)

    def look() -> None:
        states = made.rm.state.apps["state"]
        for app in range(len(states)):
            owner = made.roster.owner(app)
            if states[app] not in (AppState.STARTING, AppState.RUNNING):
                assert owner is None
            elif any(made.roster.lives(name) for name in made.runners):
                assert owner is not None
                assert made.roster.lives(owner)

    found = made.run(after_step=look)
    placed = sum(each.placed for each in found.engines)
    assert placed == found.fates.get("COMMITTED", 0) == found.counts["containers"]
    assert sum(each.useful_s + each.wasted_s + each.empty_s for each in found.engines) <= 5 * 121.0
    again = EnginesSimulation(given_scenario, jobs_of(given_scenario, Path(), 1), followed, 1).run()
    assert (again.fates, again.engines) == (found.fates, found.engines)
