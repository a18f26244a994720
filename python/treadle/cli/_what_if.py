"""`treadle replay --policy`: results of other policies on a recorded cluster, as tables and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import mean
from typing import Any, Final, NamedTuple

from rich.console import Console

from treadle.cli._console import note, say
from treadle.errors import UserError, percent
from treadle.record.files import segments
from treadle.replay.model import Histories, cluster_of, reduce_histories
from treadle.replay.verify import Report
from treadle.replay.what_if import OBSERVED, Outcome, as_recorded, error, open_recording, outcomes_of, replayed
from treadle.tables import empty_table
from treadle.wire.frames import WireError

OFF: Final = 0.1
"""A model is of little use if its relative error exceeds this."""

_FAR_OFF: Final = {
    "recording": "The simulation differs too much from the recording: do not rely on it.",
    "histories": "The simulated first policy differs too much from the histories: do not rely on it. If the "
    "jobs ran under another policy, name that one first; otherwise the scenario differs from their cluster.",
}


class _Column(NamedTuple):
    """A column of the table."""

    title: str
    policy: dict[str, Any]
    base: dict[str, Any] | None
    """The figures that its own are compared with; None: no comparison."""


def what_if(place: Path, policies: Sequence[str], seeds: int, *, trust_code: bool, report: Report) -> dict[str, Any]:
    """Return the recorded figures, and the simulated ones of other policies.

    Raises:
        UserError: the recording has no jobs, or a policy fails.
    """
    try:
        recording = open_recording(segments(place), trust_code=trust_code, report=report)
        results = replayed(recording, policies, seeds, report)
    except WireError as error_:
        raise UserError(f"{place}: a frame cannot be read: {error_}") from error_
    recorded = as_recorded(recording.reduced)
    errors = [_error(each.of_recorded, recorded) for each in results]
    return {
        "of": "recording",
        "compared": len(recording.reduced.compared),
        "recorded": asdict(recorded),
        "policies": [
            _policy(each.policy, each.outcomes)
            | {
                "switch": None if each.switch is None else asdict(each.switch),
                "of_recorded": _policy("recorded", each.of_recorded),
                "error": own,
            }
            for each, own in zip(results, errors, strict=True)
        ],
        "error": max(errors, key=lambda each: max(map(_size, each.values()))),
        "fits": all(map(_fits, errors)),
        "missing": recording.cluster.missing,
        "notes": recording.reduced.notes,
    }


def what_if_of_histories(
    paths: Sequence[Path], cluster: Path, policies: Sequence[str], seeds: int, *, trust_code: bool, report: Report
) -> dict[str, Any]:
    """Return the recorded figures of histories, and the simulated ones of policies on a scenario's cluster.

    Raises:
        UserError: the histories contain no job, or they, the scenario and a policy are incompatible.
    """
    scenario, histories = cluster_of(cluster, trust_code=trust_code), Histories()
    histories.read(paths)
    reduced = reduce_histories(histories, scenario)
    outcomes, recorded = outcomes_of(reduced, policies, seeds, report), as_recorded(reduced)
    own = _error(next(iter(outcomes.values())), recorded)
    return {
        "of": "histories",
        "compared": len(reduced.compared),
        "recorded": asdict(recorded),
        "policies": [_policy(name, found) for name, found in outcomes.items()],
        "error": own,
        "fits": _fits(own),
        "notes": reduced.notes,
        "broken": len(histories.broken),
    }


def _error(modelled: Sequence[Outcome], real: Outcome) -> dict[str, float]:
    makespan, completion = error(modelled, real)
    return {"makespan": makespan, "completion_mean": completion}


def _fits(off: dict[str, float]) -> bool:
    return all(_size(each) <= OFF for each in off.values())


def _size(off: float) -> float:
    """Return how large an error is; of a model in which nothing ends it is infinite."""
    return math.inf if math.isnan(off) else abs(off)


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
        "share_deviation": mean(outcome.share_deviation for outcome in outcomes),
        "groups": [{"by": by, "group": group, "mean_s": own} for (by, group), own in groups.items()],
        "seeds": [asdict(outcome) for outcome in outcomes],
    }


def show(document: dict[str, Any], console: Console) -> None:
    """Print it."""
    recorded, columns = document["recorded"], list(_columns(document))
    table = empty_table("", ("",), ("jobs", "recorded", *(each.title for each in columns)))
    for group in recorded["groups"]:
        key = (group["by"], group["group"])
        name = "mean completion, s" if group["by"] == "all" else f"  {group['by']} {group['group']}"
        cells = [_cell(_of(each.policy, key), None if each.base is None else _of(each.base, key)) for each in columns]
        table.add_row(name, str(group["jobs"]), f"{group['mean_s']:.1f}", *cells)
    spans = [
        _cell(each.policy["makespan_s"], None if each.base is None else each.base["makespan_s"]) for each in columns
    ]
    table.add_row("makespan, s", "", f"{recorded['makespan_s']:.1f}", *spans)
    resources = dict.fromkeys(resource for each in columns for resource in each.policy["utilisation"])
    for resource in resources:
        used = [each.policy["utilisation"].get(resource) for each in columns]
        table.add_row(f"{resource} used", "", "", *("-" if each is None else percent(each) for each in used))
    shares = [each.policy["share_deviation"] for each in columns]
    table.add_row("share deviation", "", "", *("-" if math.isnan(each) else f"{each:.3f}" for each in shares))
    console.print(table)
    for line in _sentences(document):
        say(console, line)
    for text in document["notes"]:
        note(text, "yellow")
    if document.get("missing"):
        note("Part of the recording is missing, see above: the figures are of what there is.", "red")
    if not document["fits"]:
        note(_FAR_OFF[document["of"]], "red")
    for policy in document["policies"]:
        if policy["unfinished"]:
            text = f"{policy['unfinished']} jobs do not end, or not in time; its means are of the others"
            note(f"{policy['policy']}: {text}", "red")


def _columns(document: dict[str, Any]) -> Iterator[_Column]:
    """Yield the columns: of a recording, before the policies, the recorded one from each instant of a switch on."""
    policies = document["policies"]
    if document["of"] == "histories":
        for at, policy in enumerate(policies):
            yield _Column(policy["policy"], policy, policies[0] if at else None)
        return
    models = {each["switch"]["ticks"]: each for each in policies if each["switch"] is not None}
    for _, each in sorted(models.items()):
        yield _Column(f"simulated from {each['switch']['after_s']:.1f} s", each["of_recorded"], None)
    for policy in policies:
        yield _Column(policy["policy"], policy, policy["of_recorded"])


def _sentences(document: dict[str, Any]) -> Iterator[str]:
    """Yield sentences about the start of the simulation, its error, and the conclusion."""
    if document["of"] == "histories":
        yield (
            "Ratios are relative to the simulated first policy. If the jobs ran under it, the simulation error is: "
            f"{_off(document['error'])}. {_INSIGNIFICANT}"
        )
        return
    for policy in document["policies"]:
        name, switch = policy["policy"], policy["switch"]
        if switch is None:
            until = "where there are frames" if document["missing"] else "to the end"
            yield f"{name} makes the recorded decisions {until}: its result is the recording itself."
            continue
        begin = (
            f"makes the recorded decisions for {switch['after_s']:.1f} s ({switch['ticks'] - 1} frames), then diverges"
        )
        if switch["why"] == OBSERVED:
            begin = "cannot begin with the recorded decisions, which were not followed"
        off = _off(policy["error"])
        yield f"{name} {begin}; the rest is simulated. Simulation error for the recorded policy: {off}."
    if any(policy["switch"] is not None for policy in document["policies"]):
        yield f"Ratios are relative to the simulated recorded policy from the same instant on. {_INSIGNIFICANT}"


_INSIGNIFICANT: Final = "Differences below the simulation error or the ± range are not significant."


def _off(error_: dict[str, float]) -> str:
    if any(map(math.isnan, error_.values())):
        return "unknown, no job ends in the simulation"
    makespan, completion = (percent(error_[key], "+.1f") for key in ("makespan", "completion_mean"))
    return f"makespan {makespan}, mean completion time {completion}"


def failed(document: dict[str, Any]) -> bool:
    """Has it a part that must not be taken for a result?"""
    partial = bool(document.get("broken")) or bool(document.get("missing"))
    return not document["fits"] or partial or any(policy["unfinished"] for policy in document["policies"])


def _of(policy: dict[str, Any], key: tuple[str, str]) -> list[float]:
    return next((each["mean_s"] for each in policy["groups"] if (each["by"], each["group"]) == key), [])


def _cell(values: Sequence[float], base: Sequence[float] | None) -> str:
    """Return a cell: a figure, with its ratio to another one in brackets."""
    if base is None:
        return _range(values)
    return f"{_range(values)} ({mean(values) / mean(base):.2f})" if values and base else "-"


def _range(values: Sequence[float]) -> str:
    if not values or math.isnan(mean(values)):
        return "-"
    spread = (max(values) - min(values)) / 2
    return f"{mean(values):.1f}" + (f" ± {spread:.1f}" if len(values) > 1 else "")
