"""`treadle replay --policy`: what would have happened, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from treadle.cli._console import say
from treadle.errors import UserError
from treadle.record.folder import segments
from treadle.replay.histories import Histories, cluster_of, reduce_histories
from treadle.replay.model import Reduced, reduce
from treadle.replay.seen import look
from treadle.replay.what_if import Outcome, as_recorded, error, outcomes_of, recorded_settings
from treadle.simulate.batch import Policy
from treadle.wire.schema import WireError

_FIRST: Final = {
    "recording": "the recorded policy, which is",
    "histories": "the first policy. If that is the one under which the jobs ran, the model is",
}

_FAR_OFF: Final = {
    "recording": "The model is far off of what was recorded: do not go by it.",
    "histories": "The model of the first policy is far off of what there was: do not go by it. If the jobs ran under "
    "another policy, name that one first; if not, the scenario's cluster or AMs are not those of the jobs.",
}

OFF: Final = 0.1
"""A model that is off by more than this part of what there was is of little use."""


def what_if(place: Path, policies: Sequence[str], seeds: int, *, trust_code: bool) -> dict[str, Any]:
    """Return what there was, and what the model makes of the recorded policy and of others.

    Raises:
        UserError: the recording has no jobs, or a policy fails.
    """
    try:
        seen = look(segments(place))
    except WireError as found:
        raise UserError(f"{place}: a frame cannot be read: {found}") from found
    reduced = reduce(seen)
    if not reduced.compared:
        raise UserError(f"{place}: no job came and ended within the recording: there is nothing to compare with")
    own: Policy = recorded_settings(seen.settings, seen.engine, trust_code=trust_code)
    return _found(reduced, [own, *policies], seeds, of="recording")


def what_if_of_histories(paths: Sequence[Path], cluster: Path, policies: Sequence[str], seeds: int) -> dict[str, Any]:
    """Return what there was by histories, and what the model of a scenario's cluster makes of policies.

    Raises:
        UserError: there is no job in the histories, or they, the scenario and a policy do not go together.
    """
    scenario, histories = cluster_of(cluster), Histories()
    histories.read(paths)
    found = _found(reduce_histories(histories, scenario), policies, seeds, of="histories")
    return found | {"broken": len(histories.broken)}


def _found(reduced: Reduced, policies: Sequence[Policy], seeds: int, *, of: str) -> dict[str, Any]:
    """Return what there was beside the model; of a recording the first policy is the recorded one."""
    outcomes = outcomes_of(reduced, policies, seeds)
    recorded = as_recorded(reduced)
    makespan, completion = error(next(iter(outcomes.values())), recorded)
    return {
        "of": of,
        "compared": len(reduced.compared),
        "recorded": asdict(recorded),
        "policies": [_policy(name, found) for name, found in outcomes.items()],
        "error": {"makespan": makespan, "completion_mean": completion},
        "fits": abs(makespan) <= OFF and abs(completion) <= OFF,  # not if nothing ends in the model: NaN
        "notes": reduced.notes,
    }


def _policy(name: str, outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Return the outcomes of a policy, a value a seed."""
    groups: dict[tuple[str, str], list[float]] = {}
    for outcome in outcomes:
        for each in outcome.groups:
            groups.setdefault((each.by, each.group), []).append(each.mean_s)
    return {
        "policy": name,
        "makespan_s": [outcome.makespan_s for outcome in outcomes],
        "unfinished": max(outcome.unfinished for outcome in outcomes),
        "utilisation": {key: mean(each.utilisation[key] for each in outcomes) for key in outcomes[0].utilisation},
        "share_error": mean(outcome.share_error for outcome in outcomes),
        "groups": [{"by": by, "group": group, "mean_s": own} for (by, group), own in groups.items()],
        "seeds": [asdict(outcome) for outcome in outcomes],
    }


def show(found: dict[str, Any], console: Console) -> None:
    """Print it."""
    recorded, policies = found["recorded"], found["policies"]
    table = Table(box=None)
    first = "model of it" if found["of"] == "recording" else policies[0]["policy"]
    for at, title in enumerate(("", "jobs", "there was", first, *(each["policy"] for each in policies[1:]))):
        table.add_column(title, justify="right" if at else "left")
    for group in recorded["groups"]:
        key = (group["by"], group["group"])
        own = [_of(policy, key) for policy in policies]
        name = "mean completion, s" if group["by"] == "all" else f"  {group['by']} {group['group']}"
        table.add_row(name, str(group["jobs"]), f"{group['mean_s']:.1f}", *_compared(own))
    spans = _compared([policy["makespan_s"] for policy in policies])
    table.add_row("makespan, s", "", f"{recorded['makespan_s']:.1f}", *spans)
    for resource in policies[0]["utilisation"]:
        table.add_row(f"{resource} used", "", "", *(f"{policy['utilisation'][resource]:.0%}" for policy in policies))
    table.add_row("share error", "", "", *(f"{policy['share_error']:.3f}" for policy in policies))
    console.print(table)
    errors = [found["error"][key] for key in ("makespan", "completion_mean")]
    if any(map(math.isnan, errors)):
        say(console, "In the model none of the jobs ends: it says nothing.", "red")
    else:
        makespan, completion = (f"{error:+.1%}" for error in errors)
        say(
            console,
            f"In brackets: over the model of {_FIRST[found['of']]} off of what there was by {makespan} "
            f"of the makespan and {completion} of the mean completion time. "
            "A difference between policies that is not larger than that, and than ±, says nothing.",
        )
    for note in found["notes"]:
        say(console, note, "yellow")
    if not found["fits"]:
        say(console, _FAR_OFF[found["of"]], "red")
    for policy in policies:
        if policy["unfinished"]:
            text = f"{policy['unfinished']} jobs do not end, or not in time; its means are of the others"
            say(console, f"{policy['policy']}: {text}", "red")


def failed(found: dict[str, Any]) -> bool:
    """Is there something in it that must not be taken for a result?"""
    return not found["fits"] or bool(found.get("broken")) or any(policy["unfinished"] for policy in found["policies"])


def without_nan(value: Any) -> Any:
    """Return a document with null for each number that there is not: JSON has no NaN."""
    if isinstance(value, dict):
        return {key: without_nan(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_nan(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _of(policy: dict[str, Any], key: tuple[str, str]) -> list[float]:
    return next((each["mean_s"] for each in policy["groups"] if (each["by"], each["group"]) == key), [])


def _compared(values: Sequence[Sequence[float]]) -> list[str]:
    """Return the cells of a row: the model of the recorded policy, then others with what they are over it."""
    first, *others = values
    cells = [f"{_range(each)} ({mean(each) / mean(first):.2f})" if each and first else "-" for each in others]
    return [_range(first), *cells]


def _range(values: Sequence[float]) -> str:
    if not values or math.isnan(mean(values)):
        return "-"
    spread = (max(values) - min(values)) / 2
    return f"{mean(values):.1f}" + (f" ± {spread:.1f}" if len(values) > 1 else "")
