"""What a ResourceManager is asked: its beans, and its REST pages.

One thread asks, one page at a time; each page is bounded in bytes by `treadle.yarn.pages`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import requests

from treadle.dashboard.cluster import Job, Nodes, Queue, jobs_of, nodes_of, queues_of, text, whole
from treadle.errors import UserError
from treadle.yarn.applications import DIAGNOSTICS_MAX, ENDED
from treadle.yarn.pages import address_of, read_beans, read_page, state_of
from treadle.yarn.priorities import FAILED_MAP, MAP, REDUCE
from treadle.yarn.treadle_beans import engines_in, why_not

_T = TypeVar("_T")

ENDED_MAX: Final = 500
"""Ended applications that are asked for at a time."""
ENGINES_MAX: Final = 16
PAGE_BYTES_MAX: Final = 64 << 20
"""Of a REST page: a node takes some 3 kB, and an application as much."""
REASONS_MAX: Final = 64

_TEXTS: Final = (
    "Mode",
    "Policy",
    "Learned",
    "WaitsFor",
    "Refusal",
    "LastError",
    "LastErrorTime",
    "Warnings",
    "IgnoredSettings",
)
_STAGES: Final = {FAILED_MAP: "maps that are run again", MAP: "maps", REDUCE: "reduces"}
"""Of MapReduce by request priority."""
COUNTERS: Final = (
    "Proposals",
    "Committed",
    "Rejected",
    "PlacedNatively",
    "Frames",
    "IdleRounds",
    "LeaseFlips",
    "LinkFailures",
    "SidecarStarts",
    "Escapes",
)
GAUGES: Final = ("Schedules", "LeaseHeld", "Stalled", "DecideP50Us", "DecideP99Us", "SinceMs")


class Decisions(NamedTuple):
    """What Treadle's beans say."""

    why_not: str
    """Why Treadle does not schedule; empty if it does."""
    texts: dict[str, str]
    numbers: dict[str, int]
    """`COUNTERS` and `GAUGES`."""
    rejected: dict[str, int]
    """Proposals turned down, by reason."""
    engines: list[dict[str, Any]]
    """Of several engines the figures of each."""


class OneApplication(NamedTuple):
    """What the ResourceManager says of one application."""

    ended: str
    """How it ended; empty before it has."""
    diagnostics: str
    """YARN's own."""
    asks: list[dict[str, Any]]
    """What it asks for by request priority; a stage of most frameworks has one of its own."""


class Reader:
    """Asks one ResourceManager. Methods raise `UserError` if it does not answer, or something else does."""

    def __init__(self, rm: str, ca: Path | None = None) -> None:
        self.rm = rm
        self.ca = ca

    def beans(self) -> tuple[str, Decisions | None]:
        """Return whether the ResourceManager is ``ACTIVE`` or on ``STANDBY``, and what Treadle's beans say, if any."""
        active = text(state_of(self.rm, self.ca))
        if not active:
            raise UserError(f"{address_of(self.rm)}/jmx has no bean RMInfo, so it is no ResourceManager's; check --rm")
        found = read_beans(self.rm, "Treadle", self.ca)
        return active, _decisions(found[0]) if found else None

    def placements(self) -> dict[str, tuple[int, int]]:
        """Return for the latest applications the containers that Treadle placed, and that anyone else did."""
        found = read_beans(self.rm, "TreadlePlacements", self.ca)
        try:
            counts = json.loads(found[0]["Placements"]) if found else {}
            return {text(app): (whole(row["treadle"]), whole(row["native"])) for app, row in counts.items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(f"{self.rm}: the bean TreadlePlacements holds something else") from error

    def cluster(self) -> tuple[Nodes, list[Queue], int]:
        """Return the nodes, the queues, and how many queues were left out."""
        nodes = self._taken(nodes_of, "/ws/v1/cluster/nodes", {})
        totals = nodes.totals()
        page = "/ws/v1/cluster/scheduler"
        queues, left_out = self._taken(
            lambda content: queues_of(content, totals["memory_mb"], totals["vcores"]), page, {}
        )
        return nodes, queues, left_out

    def jobs(self) -> tuple[list[Job], int]:
        """Return the applications that have not ended, and how many were left out."""
        states = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
        return self._taken(jobs_of, "/ws/v1/cluster/apps", {"states": states, "deSelects": "resourceRequests"})

    def ended(self, since_ms: int) -> list[Job]:
        """Return applications that ended since a time, milliseconds since 1970; at most `ENDED_MAX`."""
        query = {
            "states": ",".join(ENDED),
            "finishedTimeBegin": str(since_ms),
            "limit": str(ENDED_MAX),
            "deSelects": "resourceRequests",
        }
        jobs: list[Job] = self._taken(jobs_of, "/ws/v1/cluster/apps", query)[0]
        return [job for job in jobs if job.ended_ms]

    def application(self, application: str) -> OneApplication:
        """Return what the ResourceManager says of an application."""
        try:
            return self._taken(_application, f"/ws/v1/cluster/apps/{application}", {})
        except UserError as error:
            response = getattr(error.__cause__, "response", None)
            if response is None or response.status_code != requests.codes.not_found:
                raise
            raise UserError(
                f"the ResourceManager knows no {application}: it never came, or ended so long ago that it is forgotten "
                "(yarn.resourcemanager.max-completed-applications)"
            ) from error

    def _taken(self, take: Callable[[Any], _T], path: str, query: Mapping[str, str]) -> _T:
        content = read_page(self.rm, path, query, self.ca, PAGE_BYTES_MAX).content
        try:
            return take(content)
        except ValueError as error:
            raise UserError(f"{self.rm}{path}: {error}") from error


def _decisions(bean: Mapping[str, Any]) -> Decisions:
    try:
        engines = engines_in(bean)[:ENGINES_MAX]
    except UserError:
        engines = []
    shown = [{key: text(value) if isinstance(value, str) else value for key, value in each.items()} for each in engines]
    rejected = {key.removeprefix("Rejected"): whole(value) for key, value in bean.items() if _is_reason(key)}
    return Decisions(
        why_not=why_not(bean),
        texts={name: _shown(bean.get(name)) for name in _TEXTS},
        numbers={name: whole(bean[name]) for name in (*COUNTERS, *GAUGES) if name in bean},
        rejected=dict(sorted(rejected.items())[:REASONS_MAX]),
        engines=shown,
    )


def _is_reason(key: str) -> bool:
    return key.startswith("Rejected") and key != "Rejected" and key.removeprefix("Rejected").isidentifier()


def _shown(value: Any) -> str:
    return "" if value is None else str(value)[:2000]


def _application(content: Any) -> OneApplication:
    asks = _asks(content)  # which checks the form
    app = content["app"]
    state, final = text(app.get("state")), text(app.get("finalStatus"))
    diagnostics = str(app.get("diagnostics") or "").strip()[:DIAGNOSTICS_MAX]
    return OneApplication(f"{state}, final status {final}" if state in ENDED else "", diagnostics, asks)


def _asks(content: Any) -> list[dict[str, Any]]:
    """Return the open asks of an application's page, those for any node; a row a priority and capability."""
    try:
        listed = content["app"].get("resourceRequests") or []
        stages = _STAGES if content["app"].get("applicationType") == "MAPREDUCE" else {}
        asks: dict[tuple[int, int, int, str, str], int] = {}
        for request in listed:
            if request.get("resourceName") != "*":
                continue
            priority, amount = request.get("priority"), request.get("capability") or {}
            key = (
                whole(priority.get("priority") if isinstance(priority, dict) else priority),
                whole(amount.get("memory")),
                whole(amount.get("vCores")),
                _others(amount),
                text(request.get("nodeLabelExpression")),
            )
            asks[key] = asks.get(key, 0) + whole(request.get("numContainers"))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("the page has another form than an application's") from error
    return [
        {
            "priority": priority,
            "stage": stages.get(priority, ""),
            "memory_mb": memory,
            "vcores": vcores,
            "others": others,
            "label": label,
            "count": count,
        }
        for (priority, memory, vcores, others, label), count in sorted(asks.items())[:REASONS_MAX]
        if count
    ]


def _others(amount: Mapping[str, Any]) -> str:
    """Return the amounts of resources other than memory and cores, such as GPUs."""
    listed = (amount.get("resourceInformations") or {}).get("resourceInformation") or []
    found = [(text(each.get("name")), whole(each.get("value"))) for each in listed[:REASONS_MAX]]
    return text(", ".join(f"{value} {name}" for name, value in found if value and name not in ("memory-mb", "vcores")))
