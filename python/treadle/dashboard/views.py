"""The documents that pages show, from what was seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from treadle.dashboard.cluster import HeldNode, Job, Nodes, Queue, plain
from treadle.dashboard.conditions import Condition, Trouble
from treadle.dashboard.estimates import expected_ms
from treadle.dashboard.reading import Decisions

ENDED_SHOWN_MAX: Final = 200
EVENTS_SHOWN_MAX: Final = 100


@dataclass(slots=True)
class View:
    """What was seen last, each part with when; times are seconds since 1970, 0: never."""

    rm: str
    state: str = ""
    """``ACTIVE`` or ``STANDBY``; empty: there was no answer."""
    active: str = ""
    """Of one on standby the address of the active one, if it is known."""
    heard_s: float = 0.0
    decisions: Decisions | None = None
    decisions_s: float = 0.0
    counted_since_s: float = 0.0
    """When Treadle's counters began at 0; they begin again with each start of the ResourceManager."""
    rates: dict[str, float] = field(default_factory=dict)
    """How much counters rise a second."""
    nodes: Nodes = field(default_factory=Nodes)
    queues: list[Queue] = field(default_factory=list)
    queues_left_out: int = 0
    cluster_s: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    held: list[HeldNode] = field(default_factory=list)
    held_error: str = ""
    """Why it is not known which nodes are reserved; empty if it is."""
    jobs_left_out: int = 0
    jobs_s: float = 0.0
    ended: list[dict[str, Any]] = field(default_factory=list)
    placements: dict[str, tuple[int, int]] = field(default_factory=dict)
    page_troubles: dict[str, Trouble] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    events: list[tuple[float, str]] = field(default_factory=list)
    series_left_out: int = 0


def documents(view: View) -> dict[str, dict[str, Any]]:
    """Return the documents, by part."""
    return {
        "overview": overview(view),
        "queues": _queues(view),
        "nodes": _nodes(view),
        "jobs": _jobs(view),
        "decisions": _decisions(view),
    }


def overview(view: View) -> dict[str, Any]:
    """Return the document of what is wrong, and of the cluster as a whole."""
    decisions, totals = view.decisions, view.nodes.totals()
    return {
        "rm": view.rm,
        "state": view.state,
        "active": view.active,
        "heard_s": view.heard_s,
        "schedules": decisions is not None and not decisions.why_not and view.state == "ACTIVE",
        "mode": decisions.texts["Mode"] if decisions else "",
        "policy": decisions.texts["Policy"] if decisions else "",
        "conditions": [condition._asdict() for condition in view.conditions],
        "events": [{"at_s": at_s, "text": text} for at_s, text in view.events],
        "totals": totals,
        "totals_s": view.cluster_s,
        "jobs_running": sum(job.state == "RUNNING" for job in view.jobs),
        "jobs": len(view.jobs) + view.jobs_left_out,
        "series_left_out": view.series_left_out,
    }


def _queues(view: View) -> dict[str, Any]:
    return {
        "at_s": view.cluster_s,
        "left_out": view.queues_left_out,
        "queues": [{**plain(queue), "owed": queue.owed} for queue in view.queues],
    }


def _nodes(view: View) -> dict[str, Any]:
    held = {each.node: each.application for each in view.held}
    # the scheduler's name of a node is its host, with or without its port
    kept = [held.get(name) or held.get(name.rpartition(":")[0], "") for name in view.nodes.name]
    return {"at_s": view.cluster_s, **plain(view.nodes), "held_for": kept, "held_error": view.held_error}


def _jobs(view: View) -> dict[str, Any]:
    return {
        "at_s": view.jobs_s,
        "left_out": view.jobs_left_out,
        "counted_since_s": view.counted_since_s,
        "running": [_job(job, place, view) for job, place in zip(view.jobs, _places(view.jobs), strict=True)],
        "ended": view.ended[:ENDED_SHOWN_MAX],
    }


def _job(job: Job, place: int, view: View) -> dict[str, Any]:
    ours, others = view.placements.get(job.id, (None, None))
    return {
        **plain(job),
        "place": place,
        "expected_ms": expected_ms(job),
        "placed": ours,
        "placed_natively": others,
    }


def _places(jobs: list[Job]) -> list[int]:
    """Return for each job how many of its queue came before it, and one."""
    seen: dict[str, int] = {}
    places = []
    for job in jobs:
        seen[job.queue] = seen.get(job.queue, 0) + 1
        places.append(seen[job.queue])
    return places


def _decisions(view: View) -> dict[str, Any]:
    decisions = view.decisions
    if decisions is None:
        return {"at_s": view.decisions_s, "there": False}
    return {
        "at_s": view.decisions_s,
        "there": True,
        "counted_since_s": view.counted_since_s,
        "why_not": decisions.why_not,
        "texts": decisions.texts,
        "numbers": {name: number for name, number in decisions.numbers.items() if name != "SinceMs"},
        "rejected": decisions.rejected,
        "rates": view.rates,
        "engines": decisions.engines,
    }
